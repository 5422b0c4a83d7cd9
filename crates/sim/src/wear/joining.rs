//! Time that a watch needs to join a network over WiFi once that is switched on (P3 of the Wear OS
//! paper, section 6.3), by standards and by Linux.
//!
//! Not modelled: loading of the driver and its firmware, authentication, association and the
//! handshake of keys, whose eight frames take some milliseconds.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use crate::link::draw;

/// Channels of 2.4 GHz that are scanned by probes: 1 to 11.
const PROBED_CHANNELS: u32 = 11;
/// Channels of 2.4 GHz on which devices only listen for beacons: 12 and 13.
const HEARD_CHANNELS: u32 = 2;
/// Time on a channel that is probed (Linux, net/mac80211/scan.c: HZ / 33 before the probe and after
/// it).
const PROBED: Duration = Duration::from_millis(60);
/// Time on a channel that is listened to (the same, HZ / 9: an interval between beacons and more).
const HEARD: Duration = Duration::from_millis(111);

/// First delay before a message of DHCP is repeated (RFC 2131, section 4.1).
const FIRST_REPEAT: Duration = Duration::from_secs(4);
/// Longest one.
const LAST_REPEAT: Duration = Duration::from_secs(64);
/// Each is earlier or later by at most this.
const REPEAT_SPREAD: Duration = Duration::from_secs(1);
/// Repetitions of a message that are counted, so that the time has an end: where 90 % of the
/// messages are lost, one in 20,000 needs more.
const MAX_REPEATS: u32 = 1_000;

/// Longest wait before the first probe for a conflict of addresses (RFC 5227, section 1.1).
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Number of probes.
const PROBES: u32 = 3;
/// Least time between probes.
const PROBE_MIN: Duration = Duration::from_secs(1);
/// Largest time between probes.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// Time after the last one in which no conflict is heard of.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);

/// Time to join WiFi.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Joining {
    /// As given.
    After(Duration),
    /// A scan of all channels; an address by DHCP; probes for a conflict of addresses, which
    /// clients should send before they use one (RFC 2131, section 4.4.1; RFC 5227, section 2.1.1).
    ByStandards {
        /// Share of messages of DHCP that are lost.
        dhcp_loss: f64,
    },
}

impl Joining {
    /// The time, to a network with this round trip.
    pub(super) fn draw(self, rng: &mut ChaCha8Rng, rtt: Duration) -> Duration {
        match self {
            Self::After(time) => time,
            Self::ByStandards { dhcp_loss } => {
                // DISCOVER and OFFER, REQUEST and ACK.
                let lease = exchange(rng, rtt, dhcp_loss) + exchange(rng, rtt, dhcp_loss);
                scan() + lease + probes(rng)
            }
        }
    }
}

fn scan() -> Duration {
    PROBED * PROBED_CHANNELS + HEARD * HEARD_CHANNELS
}

/// A message of DHCP and its answer; it is repeated until both arrive.
fn exchange(rng: &mut ChaCha8Rng, rtt: Duration, loss: f64) -> Duration {
    let mut waited = Duration::ZERO;
    let mut delay = FIRST_REPEAT;
    for _ in 0..MAX_REPEATS {
        if draw(rng) >= loss && draw(rng) >= loss {
            break;
        }
        let spread = REPEAT_SPREAD.mul_f64(2.0 * draw(rng));
        waited += delay + spread - REPEAT_SPREAD;
        delay = (delay * 2).min(LAST_REPEAT);
    }
    waited + rtt
}

fn probes(rng: &mut ChaCha8Rng) -> Duration {
    let mut time = PROBE_WAIT.mul_f64(draw(rng));
    for _ in 1..PROBES {
        time += PROBE_MIN + (PROBE_MAX - PROBE_MIN).mul_f64(draw(rng));
    }
    time + ANNOUNCE_WAIT
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    fn times(joining: Joining) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let all = (0..2_000).map(|_| joining.draw(&mut rng, RTT).as_secs_f64());
        all.collect()
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn without_losses_probes_for_a_conflict_take_most_of_six_seconds() {
        let all = times(Joining::ByStandards { dhcp_loss: 0.0 });
        // A scan of 0.882 s, two round trips; 0.5, twice 1.5 and 2 s in the mean, 4 to 7 s.
        assert!(all.iter().all(|s| (4.902..=7.902).contains(s)), "{all:?}");
        assert!((mean(&all) - 6.40).abs() < 0.05, "{}", mean(&all));
        let given = Joining::After(Duration::from_secs(8));
        assert!((times(given)[0] - 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_lost_message_of_dhcp_costs_three_to_five_seconds_and_the_next_one_twice_as_much() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut seconds = || exchange(&mut rng, RTT, 0.5).as_secs_f64() - RTT.as_secs_f64();
        let all: Vec<f64> = (0..2_000).map(|_| seconds()).collect();
        let share = |from: f64, to: f64| {
            let some = all.iter().filter(|s| (from..=to).contains(*s));
            some.count() as f64 / all.len() as f64
        };
        // Of four exchanges one succeeds.
        for (from, to, part) in [(0.0, 0.001, 0.25), (2.9, 5.1, 0.1875), (9.9, 14.1, 0.14)] {
            let got = share(from, to);
            assert!((got - part).abs() < 0.04, "{from} to {to} s: {got}");
        }
        assert!(share(0.002, 2.8) < 1e-9, "nothing between");
    }
}
