//! Packets and energy of quiet hours, beside the least that keep-alives need.

use std::time::Duration;

use mpbond_radio::{Account, Packet, Phase, Placement, ProfileError, Profiles, Radio};
use mpbond_units::Timestamp;
use serde::Serialize;

use super::schedule::{PHONE_LTE, PHONE_PIPE, WATCH_LTE, WATCH_PIPE, WIFI};
use crate::ideal::Direction;
use crate::world::Passed;

/// Quiet begins this long after the last byte that an application waited for: acknowledgements and
/// retransmissions belong to it.
const SETTLES: Duration = Duration::from_secs(10);

/// Octets of a keep-alive probe, and of its answer.
const PROBE_BYTES: u32 = 52;

/// Radio of each link, at the helper or the laptop.
const RADIOS: [(usize, &str); 5] = [
    (WIFI, "wifi-s4"),
    (PHONE_PIPE, "wifi-s4"),
    (PHONE_LTE, "lte-2020-tmobile"),
    (WATCH_PIPE, "watch-bt"),
    (WATCH_LTE, "lte-2020-tmobile"),
];

/// Quiet hours on one link.
#[derive(Debug, Clone, Serialize)]
pub struct QuietLink {
    /// Name of the link.
    pub link: String,
    /// Packets in quiet hours.
    pub packets: u64,
    /// The least number for the same connections: a probe and its answer each keep-alive interval.
    pub least_packets: u64,
    /// Energy of these packets with their promotions and tails, in J.
    pub joules: f64,
    /// Energy of the least number of packets, those of all connections at once, in J.
    pub least_joules: f64,
    /// Energy of all packets of the day, in J.
    pub day_joules: f64,
}

/// One radio with its sums.
#[derive(Debug)]
struct Meter {
    radio: Radio,
    sums: Account,
}

impl Meter {
    fn packet(&mut self, at: Timestamp, packet: Packet) {
        self.radio.packet(at, packet, &mut self.sums);
    }

    /// Energy but that of idle states.
    fn joules(mut self, end: Timestamp) -> f64 {
        self.radio.finish(end, &mut self.sums);
        let phases = self.sums.summary().phases;
        let busy = phases.iter().filter(|p| p.phase != Phase::Idle);
        busy.map(|p| p.joules).sum()
    }
}

#[derive(Debug)]
struct LinkAccount {
    all: Meter,
    quiet: Meter,
    least: Meter,
    packets: u64,
    least_packets: u64,
}

/// Accounts of all links.
#[derive(Debug)]
pub(super) struct Accounts {
    keepalive: Duration,
    links: Vec<LinkAccount>,
    /// Since when no application has waited for anything.
    quiet_since: Option<Timestamp>,
    /// Beginning of the present keep-alive interval.
    interval: Timestamp,
    quiet: Duration,
}

impl Accounts {
    pub(super) fn new(keepalive: Duration) -> Result<Self, ProfileError> {
        let profiles = Profiles::shipped()?;
        let mut links = Vec::new();
        for (_, name) in RADIOS {
            let profile = profiles.radio(name)?;
            let meter = || Meter {
                radio: Radio::new(profile, Placement::Recorded),
                sums: Account::default(),
            };
            links.push(LinkAccount {
                all: meter(),
                quiet: meter(),
                least: meter(),
                packets: 0,
                least_packets: 0,
            });
        }
        Ok(Self {
            keepalive,
            links,
            quiet_since: None,
            interval: Timestamp::ZERO,
            quiet: Duration::ZERO,
        })
    }

    /// A step of the world, which is followed by the one at `next`. `connections` counts them by
    /// link.
    pub(super) fn step(
        &mut self,
        now: Timestamp,
        next: Timestamp,
        is_quiet: bool,
        passed: &[Passed],
        connections: impl Fn() -> Vec<u64>,
    ) {
        let since = self.quiet_since;
        let settled = since.is_some_and(|since| now >= since + SETTLES);
        for p in passed {
            let Some(link) = self.links.get_mut(p.link) else {
                continue;
            };
            let packet = packet(p);
            link.all.packet(p.arrived, packet);
            if settled && is_quiet {
                link.packets += 1;
                link.quiet.packet(p.arrived, packet);
            }
        }
        if !is_quiet {
            self.quiet_since = None;
            return;
        }
        let begin = *self.quiet_since.get_or_insert(now) + SETTLES;
        if next <= begin {
            self.interval = begin;
            return;
        }
        self.quiet += next.since(now.max(begin));
        while next.since(self.interval) >= self.keepalive {
            self.interval += self.keepalive;
            let at = self.interval;
            for (link, connections) in self.links.iter_mut().zip(connections()) {
                link.least_packets += 2 * connections;
                for _ in 0..connections {
                    link.least.packet(at, Packet::up(PROBE_BYTES));
                    link.least.packet(at, Packet::down(PROBE_BYTES));
                }
            }
        }
    }

    /// Length of all quiet hours, and the results of each link.
    pub(super) fn finish(self, end: Timestamp, names: &[String]) -> (Duration, Vec<QuietLink>) {
        let links = self.links.into_iter().zip(names);
        let links = links.map(|(link, name)| QuietLink {
            link: name.clone(),
            packets: link.packets,
            least_packets: link.least_packets,
            joules: link.quiet.joules(end),
            least_joules: link.least.joules(end),
            day_joules: link.all.joules(end),
        });
        (self.quiet, links.collect())
    }
}

/// A packet as the link's radio sees it: a helper receives over its pipe what goes away from the
/// primary.
fn packet(p: &Passed) -> Packet {
    let away = p.direction == Direction::Up;
    let is_pipe = p.link == PHONE_PIPE || p.link == WATCH_PIPE;
    match away != is_pipe {
        true => Packet::up(p.bytes),
        false => Packet::down(p.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    #[test]
    fn an_hour_of_quiet_needs_a_probe_and_an_answer_each_four_minutes() {
        let mut accounts = Accounts::new(Duration::from_secs(240)).unwrap();
        let probe = |at| Passed {
            link: PHONE_LTE,
            direction: Direction::Up,
            bytes: 52,
            departed: at,
            arrived: at,
        };
        // Ten seconds belong to what was before.
        accounts.step(ms(0), ms(10_000), true, &[probe(ms(0))], || vec![1; 5]);
        accounts.step(ms(10_000), ms(1_810_000), true, &[], || vec![0, 0, 1, 0, 0]);
        let late = probe(ms(1_810_000));
        accounts.step(ms(1_810_000), ms(3_610_000), true, &[late], || {
            vec![0, 0, 1, 0, 0]
        });
        accounts.step(ms(3_610_000), ms(3_620_000), false, &[late], || vec![1; 5]);
        let names: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        let (quiet, links) = accounts.finish(ms(3_700_000), &names);
        assert_eq!(quiet, Duration::from_secs(3_600));
        let lte = &links[PHONE_LTE];
        assert_eq!((lte.packets, lte.least_packets), (1, 30));
        // Fifteen wake-ups cost fifteen times as much as one.
        assert!(lte.least_joules > 14.0 * lte.joules, "{lte:?}");
        assert_eq!(links[WIFI].least_packets, 0);
    }
}
