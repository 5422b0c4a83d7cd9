//! Rests of a busy player.
//!
//! Waking up for each packet costs twice as much as handling it. So after a turn with work that
//! follows another one closely, the player rests for a moment, during which arrivals do not wake
//! it. A turn without work ends this, and occasional packets are handled at once.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Duration of a rest. A packet may be delayed by it on its way in and again on its way out:
/// together less than half of the tolerance of 0.5 ms.
pub(super) const REST: Duration = Duration::from_micros(100);
/// Maximum distance of the starts of two turns of a busy player: a rest, a late timer, and the
/// work.
const CLOSE: Duration = Duration::from_micros(250);

/// Start of the last turn.
#[derive(Debug, Default)]
pub(super) struct Rests {
    last: Option<Timestamp>,
}

impl Rests {
    /// Whether a turn that began at `now` and handled `packets` is followed by a [`REST`];
    /// otherwise the player sleeps until the next event.
    pub fn after(&mut self, now: Timestamp, packets: usize) -> bool {
        let last = self.last.replace(now);
        packets > 0 && last.is_some_and(|last| now - last <= CLOSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn a_packet_now_and_then_is_served_at_once() {
        let mut rests = Rests::default();
        // Full packets at 10 Mbit/s.
        for n in 0..10 {
            assert!(!rests.after(at(1200 * n), 1));
        }
    }

    #[test]
    fn a_stream_of_packets_is_taken_in_portions() {
        // One packet every 15 us, in virtual time; a turn takes no time.
        let mut rests = Rests::default();
        let (mut now_us, mut seen, mut turns) = (0, 0, 0);
        while now_us < 100_000 {
            let come = now_us / 15 + 1;
            let rest = rests.after(at(now_us), (come - seen) as usize);
            seen = come;
            turns += 1;
            now_us = match rest {
                true => now_us + REST.as_micros() as u64,
                false => come * 15, // woken by the next
            };
        }
        assert!((1000..1010).contains(&turns), "{turns}");
    }

    #[test]
    fn nothing_to_do_ends_the_rests() {
        let mut rests = Rests::default();
        assert!(!rests.after(at(0), 5));
        assert!(rests.after(at(20), 5));
        assert!(rests.after(at(150), 1));
        assert!(!rests.after(at(280), 0));
    }
}
