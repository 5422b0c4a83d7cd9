//! Instants at which a stream looks for frames: each arrival, or intervals while many come.
//!
//! Each wake-up costs several system calls, however few frames it finds (ADR 0042, for relays).

use std::time::Duration;

use mpbond_units::Timestamp;

/// Interval while many frames come: the resolution of the runtime's timer, which rounds up.
const INTERVAL: Duration = Duration::from_millis(1);
/// Number of looks in a row that are closer together than an interval, after which intervals begin.
const CLOSE_LOOKS: u32 = 4;
/// The same after an interval in which the window was not large enough for one.
const CLOSE_LOOKS_LATER: u32 = 256;
/// An interval with fewer frames saved no wake-up, and is the last one.
const FEW_FRAMES: u64 = 2;
/// An interval with more than this part of the window is the last one: the peer might have to stop
/// before the next look. As an acknowledgement, which is due then.
const WINDOW_PARTS: u64 = 4;
/// Octets of a frame, about.
const FRAME_BYTES: u64 = 1500;

/// State of one stream. Without intervals at first.
#[derive(Debug)]
pub(super) struct Looks {
    /// Maximum number of frames in an interval.
    most: u64,
    /// The last look that found frames.
    found_at: Option<Timestamp>,
    /// Number of close looks that are still needed.
    needed: u32,
    /// The next look, while there are intervals.
    due: Option<Timestamp>,
    /// Frames since the last look that was due.
    frames: u64,
}

impl Looks {
    /// Looks of an end with this window.
    pub(super) fn new(window_bytes: u32) -> Self {
        Self {
            most: (u64::from(window_bytes) / WINDOW_PARTS / FRAME_BYTES).max(FEW_FRAMES),
            found_at: None,
            needed: CLOSE_LOOKS,
            due: None,
            frames: 0,
        }
    }

    /// After a look that found this many frames: the instant of the next one, or `None` where every
    /// arrival is an event. An end that waits for acknowledgements or room (`sends`) has no
    /// intervals: its rate would be a window for each.
    pub(super) fn after(&mut self, now: Timestamp, frames: u64, sends: bool) -> Option<Timestamp> {
        match self.due {
            _ if sends => {
                self.due = None;
                self.needed = self.needed.max(CLOSE_LOOKS);
            }
            Some(due) => {
                self.frames += frames;
                // Earlier looks are calls of the application.
                if now >= due {
                    self.end_interval(now);
                }
            }
            None if frames > 0 => {
                let is_close = self.found_at.is_some_and(|at| now.since(at) < INTERVAL);
                self.found_at = Some(now);
                self.needed = match is_close {
                    true => self.needed.saturating_sub(1),
                    false => CLOSE_LOOKS,
                };
                if self.needed == 0 {
                    self.begin_interval(now);
                }
            }
            None => {}
        }
        self.due
    }

    fn begin_interval(&mut self, now: Timestamp) {
        self.due = Some(now + INTERVAL);
        self.frames = 0;
    }

    fn end_interval(&mut self, now: Timestamp) {
        if (FEW_FRAMES..=self.most).contains(&self.frames) {
            return self.begin_interval(now);
        }
        self.due = None;
        self.found_at = Some(now);
        self.needed = match self.frames < FEW_FRAMES {
            true => CLOSE_LOOKS,
            false => CLOSE_LOOKS_LATER,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    /// In an interval that begins at 400 us.
    fn busy() -> Looks {
        let mut looks = Looks::new(104 << 10);
        for n in 0..4 {
            assert_eq!(looks.after(us(n * 100), 1, false), None, "{n}");
        }
        assert_eq!(looks.after(us(400), 1, false), Some(us(1_400)));
        looks
    }

    #[test]
    fn intervals_begin_with_close_looks_and_end_with_a_quiet_one() {
        let mut looks = busy();
        // A call of the application in between moves nothing.
        assert_eq!(looks.after(us(900), 5, false), Some(us(1_400)));
        assert_eq!(looks.after(us(1_400), 0, false), Some(us(2_400)));
        assert_eq!(looks.after(us(2_450), 1, false), None);
        for n in 0..3 {
            assert_eq!(looks.after(us(2_500 + n), 1, false), None, "{n}");
        }
        assert_eq!(looks.after(us(2_600), 1, false), Some(us(3_600)));
    }

    #[test]
    fn an_exchange_of_messages_has_no_intervals() {
        let mut looks = Looks::new(104 << 10);
        for n in 0..100 {
            // Three frames of an answer, looks without frames, and a pause.
            for at in [0, 50, 100, 150, 160] {
                let frames = u64::from(at < 150);
                assert_eq!(looks.after(us(n * 1_200 + at), frames, false), None, "{n}");
            }
        }
    }

    #[test]
    fn a_window_that_is_too_small_for_the_rate_has_no_intervals_for_a_while() {
        let mut looks = busy();
        assert_eq!(
            looks.after(us(1_400), 17, false),
            Some(us(2_400)),
            "a quarter"
        );
        assert_eq!(looks.after(us(2_400), 18, false), None);
        for n in 1..256 {
            assert_eq!(looks.after(us(2_400 + n), 1, false), None, "{n}");
        }
        assert!(looks.after(us(2_700), 1, false).is_some());
    }

    #[test]
    fn an_end_that_sends_has_no_intervals() {
        let mut looks = Looks::new(104 << 10);
        for n in 0..100 {
            assert_eq!(looks.after(us(n * 100), 1, true), None, "{n}");
        }
        // One that begins to send amid an interval, and ends.
        let mut looks = busy();
        assert_eq!(looks.after(us(900), 0, true), None);
        for n in 0..3 {
            assert_eq!(looks.after(us(950 + n), 1, false), None, "{n}");
        }
        assert_eq!(looks.after(us(960), 1, false), Some(us(1_960)));
    }
}
