//! A small packet before a watch's timer ends keeps its link to the phone in Active mode while data
//! arrive (Wear OS paper, section 3.3).
//!
//! Only what the watch sends restarts its timer. The link is left alone when nothing has arrived
//! since the watch last sent.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Time before the end of the timer at which the packet is sent, for its way through the stack.
const AHEAD: Duration = Duration::from_millis(500);
/// Longest time since the last arrival at which data still count as arriving.
const RECEIVING_FOR: Duration = Duration::from_secs(1);

/// Decision when the packet is due.
#[derive(Debug, Clone)]
pub struct SniffKeeper {
    timer: Duration,
    /// When the watch sent last.
    sent: Timestamp,
    /// When data arrived last, if any has since `sent`.
    received: Option<Timestamp>,
}

impl SniffKeeper {
    /// A keeper for a watch whose Active mode ends this long after it has sent (5 s or 2 s), on a
    /// link that became active at `now`.
    pub fn new(timer: Duration, now: Timestamp) -> Self {
        Self {
            timer,
            sent: now,
            received: None,
        }
    }

    /// The watch has sent data.
    pub fn handle_sent(&mut self, now: Timestamp) {
        self.sent = self.sent.max(now);
        self.received = None;
    }

    /// Data have arrived at the watch.
    pub fn handle_received(&mut self, now: Timestamp) {
        // After Sniff the timer runs anew from the end of Sniff, which is this arrival at the
        // latest.
        if now.since(self.sent) >= self.timer {
            self.sent = now;
        }
        self.received = Some(now);
    }

    /// Time of the next call of [`Self::is_due`]; `None` while nothing arrives.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.received.map(|_| self.due())
    }

    /// Whether a packet is to be sent now. The caller then sends one, and calls
    /// [`Self::handle_sent`].
    pub fn is_due(&mut self, now: Timestamp) -> bool {
        let Some(received) = self.received.filter(|_| now >= self.due()) else {
            return false;
        };
        if now.since(received) <= RECEIVING_FOR {
            return true;
        }
        // Nothing arrives any more: the link may sleep.
        self.received = None;
        false
    }

    fn due(&self) -> Timestamp {
        self.sent + self.timer.saturating_sub(AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_packet_is_sent_before_the_timer_ends_while_data_arrive() {
        for (timer, due) in [(5_000, 4_500), (2_000, 1_500)] {
            let mut k = SniffKeeper::new(Duration::from_millis(timer), at(0));
            assert_eq!(k.poll_timeout(), None);
            k.handle_received(at(100));
            k.handle_received(at(due - 50));
            assert_eq!(k.poll_timeout(), Some(at(due)));
            assert!(!k.is_due(at(due - 1)));
            assert!(k.is_due(at(due)));
            k.handle_sent(at(due));
            assert_eq!(k.poll_timeout(), None, "once for each timer");
            k.handle_received(at(due + 1));
            assert_eq!(k.poll_timeout(), Some(at(2 * due)));
        }
    }

    #[test]
    fn an_idle_link_is_left_alone() {
        let mut k = SniffKeeper::new(Duration::from_secs(5), at(0));
        k.handle_received(at(100));
        assert!(!k.is_due(at(4_500)), "nothing arrived for 4.4 s");
        assert_eq!(k.poll_timeout(), None);
        // The next data find Sniff; the timer begins with them.
        k.handle_received(at(60_000));
        assert_eq!(k.poll_timeout(), Some(at(64_500)));
    }

    #[test]
    fn what_the_watch_sends_anyway_counts() {
        let mut k = SniffKeeper::new(Duration::from_secs(5), at(0));
        for n in 1..100 {
            k.handle_received(at(n * 1_000 - 500));
            k.handle_sent(at(n * 1_000));
            assert!(!k.is_due(at(n * 1_000)));
        }
    }
}
