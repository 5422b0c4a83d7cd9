//! What lies between two sessions here: reliable channels of records, which lose nothing, deliver
//! when they are told to, and break.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mpbond_session::{HelperId, PathInfo, SubflowId};
use mpbond_units::BitRate;

/// Records under way in one direction, each with the octets at its end.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) under_way: VecDeque<(Bytes, u64)>,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// Nothing arrives for now.
    pub(super) silent: bool,
}

impl Channel {
    pub(super) fn send(&mut self, record: Bytes, octets_end: u64) {
        self.sent = octets_end;
        self.under_way.push_back((record, octets_end));
    }

    pub(super) fn deliver(&mut self) -> Option<(Bytes, u64)> {
        if self.silent {
            return None;
        }
        let (record, end) = self.under_way.pop_front()?;
        self.arrived = end;
        Some((record, end))
    }

    /// The kernel's view of the path.
    pub(super) fn info(&self, rtt: Duration) -> PathInfo {
        PathInfo {
            cwnd_bytes: WINDOW_BYTES,
            srtt: rtt,
            min_rtt: rtt,
            bytes_arrived: self.arrived,
            delivery_rate: BitRate::from_mbps(8.0),
            app_limited: false,
            slow_start: false,
            bytes_acked: self.arrived,
            all_acked: self.arrived == self.sent,
        }
    }

    pub(super) fn room(&self) -> u64 {
        (self.arrived + WINDOW_BYTES).saturating_sub(self.sent)
    }
}

/// What may be under way on a channel.
const WINDOW_BYTES: u64 = 64 << 10;

/// A subflow between the two ends.
pub(super) struct Link {
    /// Number of its path.
    pub(super) path: u8,
    pub(super) id: SubflowId,
    pub(super) helper: Option<HelperId>,
    pub(super) exporter: [u8; 32],
    pub(super) up: Channel,
    pub(super) down: Channel,
    /// The server has accepted it.
    pub(super) accepted: bool,
    /// One end has noticed its loss, the other one has not.
    pub(super) gone: bool,
    pub(super) rtt: Duration,
}
