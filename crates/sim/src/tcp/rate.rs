//! Delivery rate of the path (draft-cheng-iccrg-delivery-rate-estimation, as in Linux).

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// State at the sending of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    app_limited: bool,
}

/// The estimate of one sender.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    delivered: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    /// Samples are limited by the application until more than this is delivered.
    app_limited_until: Option<u64>,
    rate: Option<BitRate>,
    rate_app_limited: bool,
    /// The segment sent last, of those covered by one acknowledgement.
    newest: Option<(Timestamp, Stamp)>,
}

impl DeliveryRate {
    pub(super) fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.rate_app_limited
    }

    /// A segment is sent; `idle` when nothing else is in flight.
    pub(super) fn on_send(&mut self, now: Timestamp, idle: bool) -> Stamp {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// The sender has nothing to send although the window has room.
    pub(super) fn on_app_limited(&mut self, in_flight_bytes: u64) {
        self.app_limited_until = Some(self.delivered + in_flight_bytes);
    }

    /// A segment is acknowledged or selectively acknowledged.
    pub(super) fn on_delivered(
        &mut self,
        now: Timestamp,
        bytes: u64,
        sent_at: Timestamp,
        stamp: Stamp,
    ) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.app_limited_until
            .take_if(|until| *until < self.delivered);
        if self.newest.is_none_or(|(newest, _)| sent_at >= newest) {
            self.newest = Some((sent_at, stamp));
        }
    }

    /// Ends one acknowledgement.
    pub(super) fn on_ack_done(&mut self, now: Timestamp, min_rtt: Option<Duration>) {
        let Some((sent_at, stamp)) = self.newest.take() else {
            return;
        };
        self.first_sent_at = sent_at;
        let sending = sent_at.since(stamp.first_sent_at);
        let acking = now.since(stamp.delivered_at);
        let span = sending.max(acking);
        // Shorter than any round trip: acknowledgements came bunched.
        if span.is_zero() || min_rtt.is_some_and(|min| span < min) {
            return;
        }
        let rate = BitRate::over(self.delivered - stamp.delivered, span);
        if !stamp.app_limited || self.rate.is_none_or(|known| rate >= known) {
            self.rate = Some(rate);
            self.rate_app_limited = stamp.app_limited;
        }
    }
}
