//! Both ends of a Bluetooth link and the requests between them ("Understanding the Networking
//! Performance of Wear OS", section 3.2, Figures 2 and 3).

use mpbond_units::Timestamp;
use serde::Serialize;

use super::bluetooth::{BluetoothEnd, BluetoothParameters, Mode};
use crate::event::{Packet, Placement};
use crate::timeline::Timeline;

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The first end given to [`BluetoothLink::new`].
    Wearable,
    /// The second end.
    Phone,
}

/// Request of the link manager protocol; the peer always accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LmpRequest {
    /// Time at which the host requested it.
    pub at: Timestamp,
    /// Requesting end.
    pub from: End,
    /// Requested mode: `LMP_SNIFF_REQ` or `LMP_UNSNIFF_REQ`.
    pub mode: Mode,
}

/// Link between a wearable and a phone.
#[derive(Debug, Clone)]
pub struct BluetoothLink {
    wearable: BluetoothEnd,
    phone: BluetoothEnd,
    requests: u64,
}

impl BluetoothLink {
    /// A link in Sniff mode.
    pub fn new(wearable: &BluetoothParameters, phone: &BluetoothParameters) -> Self {
        Self {
            wearable: BluetoothEnd::new(wearable, Placement::Live),
            phone: BluetoothEnd::new(phone, Placement::Live),
            requests: 0,
        }
    }

    /// Current mode of the link.
    pub fn mode(&self) -> Mode {
        self.wearable.mode()
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Next expiry of a timer without further events.
    pub fn next_event(&self) -> Option<Timestamp> {
        match (self.wearable.timer_ends(), self.phone.timer_ends()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Begins both timelines at `now`, before any packet.
    pub fn begin<W: Timeline, P: Timeline>(
        &mut self,
        now: Timestamp,
        wearable: &mut W,
        phone: &mut P,
    ) {
        self.wearable.advance(now, wearable);
        self.phone.advance(now, phone);
    }

    /// Advances to `now`. A timer that expires sends both ends to Sniff; its request is returned.
    pub fn advance<W: Timeline, P: Timeline>(
        &mut self,
        now: Timestamp,
        wearable: &mut W,
        phone: &mut P,
    ) -> Option<LmpRequest> {
        let ends = self.next_event().filter(|ends| *ends <= now)?;
        let from = if self.wearable.timer_ends() == Some(ends) {
            End::Wearable
        } else {
            End::Phone
        };
        self.wearable.enter_sniff(ends, wearable);
        self.phone.enter_sniff(ends, phone);
        self.requests += 1;
        Some(LmpRequest {
            at: ends,
            from,
            mode: Mode::Sniff,
        })
    }

    /// Sends a packet of `bytes` from `from`; returns the time at which it may pass, and the
    /// request that this took, if any. Call [`Self::advance`] first: a timer that expired before
    /// `now` is applied here too, but not returned.
    pub fn transmit<W: Timeline, P: Timeline>(
        &mut self,
        now: Timestamp,
        from: End,
        bytes: u32,
        wearable: &mut W,
        phone: &mut P,
    ) -> (Timestamp, Option<LmpRequest>) {
        self.advance(now, wearable, phone);
        self.wearable.advance(now, wearable);
        self.phone.advance(now, phone);
        // A transmission ends Sniff on both machines, so the sender makes the request and the
        // receiver follows.
        let asleep = self.mode() == Mode::Sniff && self.wearable.timer_ends().is_none();
        let pass = self
            .wearable
            .leave_sniff(now)
            .max(self.phone.leave_sniff(now));
        let (up, down) = (Packet::up(bytes), Packet::down(bytes));
        match from {
            End::Wearable => {
                self.wearable.data(pass, up, wearable);
                self.phone.data(pass, down, phone);
            }
            End::Phone => {
                self.wearable.data(pass, down, wearable);
                self.phone.data(pass, up, phone);
            }
        }
        let request = asleep.then_some(LmpRequest {
            at: now,
            from,
            mode: Mode::Active,
        });
        self.requests += u64::from(asleep);
        (pass, request)
    }

    /// Ends both timelines.
    pub fn finish<W: Timeline, P: Timeline>(
        &mut self,
        end: Timestamp,
        wearable: &mut W,
        phone: &mut P,
    ) {
        self.advance(end, wearable, phone);
        let end = self.next_event().map_or(end, |ends| ends.max(end));
        self.advance(end, wearable, phone);
        self.wearable.finish(end, wearable);
        self.phone.finish(end, phone);
    }
}
