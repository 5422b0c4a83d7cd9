//! Throughput of a subflow for people: the rate at which octets arrive at the far end, over a
//! second or more in which some were on their way all the time.
//!
//! The kernel's rate samples do not tell it: that of a short burst can be a thousand times the rate
//! of the link, and where a session keeps little in flight, all of them count as limited by the
//! application.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use super::average::Average;

/// Least span of a sample: bursts of a link, and octets behind a lost packet, are a small part.
const SPAN: Duration = Duration::from_secs(1);

/// Time for which a throughput is current.
const LASTS: Duration = Duration::from_secs(10);

/// What a subflow has carried, by the counts in ACKs.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Count at the start of the sample that is taken, with its instant on the far end's clock.
    start: Option<(u64, Timestamp)>,
    average: Option<Average>,
}

impl Carried {
    /// A count arrived that the far end read at `remote` on its clock. `sent`: octets sent by now,
    /// or `count` where no stream bytes are on their way.
    pub(super) fn on_count(&mut self, now: Timestamp, count: u64, sent: u64, remote: Timestamp) {
        if count >= sent {
            self.start = None;
            return;
        }
        let Some((before, since)) = self.start else {
            self.start = Some((count, remote));
            return;
        };
        let span = remote.since(since);
        if count > before && span >= SPAN {
            let rate = (count - before) as f64 / span.as_secs_f64();
            Average::update(&mut self.average, now, rate);
            self.start = Some((count, remote));
        }
    }

    /// The throughput, if one was measured within the last [`LASTS`].
    pub(super) fn throughput(&self, now: Timestamp) -> Option<BitRate> {
        let current = self.average.filter(|a| now.since(a.at) < LASTS)?;
        Some(BitRate::from_bytes_per_sec(current.bytes_per_sec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    #[test]
    fn load_shows_the_throughput_for_ten_seconds() {
        let mut carried = Carried::default();
        // 1 MB/s, of which a window of 20 kB is on its way; the clocks differ by a minute.
        for at in (0..=1_000).step_by(20) {
            assert_eq!(carried.throughput(ms(at)), None);
            let count = at * 1_000;
            carried.on_count(ms(at), count, count + 20_000, ms(at + 60_000));
        }
        let shown = carried.throughput(ms(10_999));
        assert_eq!(shown, Some(BitRate::from_bytes_per_sec(1e6)));
        assert_eq!(carried.throughput(ms(11_000)), None, "long ago");
    }

    #[test]
    fn bursts_are_no_load() {
        let mut carried = Carried::default();
        for n in 1..200 {
            // 10 kB within 1 ms, ten times a second.
            let (at, count) = (n * 100, n * 10_000);
            carried.on_count(ms(at), count - 5_000, count, ms(at));
            carried.on_count(ms(at + 1), count, count, ms(at + 1));
        }
        assert_eq!(carried.throughput(ms(20_000)), None);
    }

    #[test]
    fn what_waits_behind_a_lost_packet_is_no_faster() {
        let mut carried = Carried::default();
        for at in (0..6_000).step_by(20) {
            // Counts stand still for 400 ms of each second.
            let counted = match at % 1_000 {
                of @ 600.. => at - of + 580,
                _ => at,
            };
            carried.on_count(ms(at), counted * 1_000, at * 1_000 + 20_000, ms(at));
            if let Some(shown) = carried.throughput(ms(at)) {
                assert!(shown.bytes_per_sec() < 1.03e6, "{shown:?} at {at}");
            }
        }
        assert!(carried.throughput(ms(6_000)).is_some());
    }
}
