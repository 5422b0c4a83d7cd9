//! A radio's energy in a few numbers, for estimates ahead of a transfer.

use std::time::Duration;

use mpbond_price::RadioCost;
use mpbond_units::Timestamp;

use crate::account::{Account, Summary};
use crate::event::{Direction, Packet, Placement};
use crate::profile::RadioProfile;
use crate::radio::Radio;
use crate::timeline::{Phase, Span, Timeline};

/// Packets of the transfer whose mean power counts: many averaging windows of any model.
const TRANSFER_PACKETS: u32 = 5_000;

/// Interval of its packets: shorter than the gap that ends the activity of any model.
const EVERY: Duration = Duration::from_millis(1);

/// Bytes of a packet: 12 Mbit/s at that interval.
const PACKET: u32 = 1_500;

/// Figures of a radio that carries data in one direction, taken from its state machine: of a
/// lone packet, and of a transfer at 12 Mbit/s.
pub fn radio_cost(profile: &RadioProfile, direction: Direction) -> RadioCost {
    let (mut lone, mut transfer) = (Account::default(), Account::default());
    let mut spans = Vec::new();
    run(profile, direction, 1, (&mut lone, &mut spans));
    run(profile, direction, TRANSFER_PACKETS, &mut transfer);
    let (lone, transfer) = (lone.summary(), transfer.summary());
    let active = phase(&transfer, Phase::Transfer);
    let bits = (transfer.up_bytes + transfer.down_bytes) as f64 * 8.0;
    let promotion = phase(&lone, Phase::Promotion);
    let tail = phase(&lone, Phase::Tail);
    RadioCost {
        promotion: Duration::from_secs_f64(promotion.0),
        promotion_joules: promotion.1,
        active_watts: (active.1 - transfer.bits_joules) / active.0.max(f64::MIN_POSITIVE),
        joules_per_bit: transfer.bits_joules / bits,
        tail: even_tail(&spans),
        tail_joules: tail.1,
    }
}

/// So many packets from sleep to sleep.
fn run(profile: &RadioProfile, direction: Direction, packets: u32, mut to: impl Timeline) {
    let mut radio = Radio::new(profile, Placement::Live);
    let packet = Packet {
        direction,
        bytes: PACKET,
    };
    let first = radio.packet(Timestamp::ZERO, packet, &mut to);
    let mut last = first;
    for n in 1..packets {
        last = radio.packet(first + EVERY * n, packet, &mut to);
    }
    radio.finish(last, &mut to);
}

/// Length of a tail of even power with the energy of the one in these spans, and its mean time.
fn even_tail(spans: &[Span]) -> Duration {
    let in_tail = || spans.iter().filter(|span| span.phase == Phase::Tail);
    let Some(start) = in_tail().map(|span| span.start).next() else {
        return Duration::ZERO;
    };
    let middle = |span: &Span| span.start.since(start).as_secs_f64() + span.seconds() / 2.0;
    let energy: f64 = in_tail().map(Span::energy_mj).sum();
    let moment: f64 = in_tail().map(|span| span.energy_mj() * middle(span)).sum();
    Duration::from_secs_f64(2.0 * moment / energy.max(f64::MIN_POSITIVE))
}

/// Seconds and joules of a phase.
fn phase(of: &Summary, phase: Phase) -> (f64, f64) {
    let sum = of.phases[phase.index()];
    (sum.seconds, sum.joules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profiles;

    fn cost(profile: &str, direction: Direction) -> RadioCost {
        let profiles = Profiles::shipped().unwrap();
        radio_cost(profiles.radio(profile).unwrap(), direction)
    }

    fn near(value: f64, expected: f64) {
        let error = (value - expected).abs() / expected;
        assert!(error < 0.01, "{value} is not {expected}");
    }

    #[test]
    fn figures_are_those_of_the_profile() {
        let lte = cost("lte-2012", Direction::Down);
        assert_eq!(lte.promotion, Duration::from_micros(260_100));
        near(lte.promotion_joules, 0.2601 * 1.2107);
        near(lte.active_watts, 1.28804);
        near(lte.joules_per_bit, 51.97e-9);
        near(lte.tail.as_secs_f64(), 11.576);
        near(lte.promotion_joules + lte.tail_joules, 12.765);
        near(cost("lte-2012", Direction::Up).joules_per_bit, 438.39e-9);
        let wifi = cost("wifi-s4", Direction::Down);
        near(wifi.active_watts, 0.451);
        near(wifi.tail_joules, 0.21 * 0.289);
        near(cost("wifi-s4", Direction::Up).active_watts, 0.654);
    }

    /// The formula against the state machine: a second packet at any time after the first. It
    /// leaves out the activity of a lone packet, up to 0.08 J. A tail in stages counts as an even
    /// one, and leaving `RRC_INACTIVE` as a promotion.
    #[test]
    fn one_more_activity_costs_what_the_state_machine_says() {
        let profiles = Profiles::shipped().unwrap();
        for name in ["lte-2012", "lte-2020-tmobile", "5g-lb-2020", "5g-sa-2020"] {
            let profile = profiles.radio(name).unwrap();
            let cost = radio_cost(profile, Direction::Down);
            for quiet_s in [1, 3, 5, 9, 12, 30] {
                let quiet = Duration::from_secs(quiet_s);
                let joules = |second: bool| {
                    let mut radio = Radio::new(profile, Placement::Live);
                    let mut sums = Account::default();
                    let first = radio.packet(Timestamp::ZERO, Packet::down(0), &mut sums);
                    let end = match second {
                        true => radio.packet(first + quiet, Packet::down(0), &mut sums),
                        false => first,
                    };
                    radio.finish(end, &mut sums);
                    let summary = sums.summary();
                    let idle = summary.phases[Phase::Idle.index()].joules;
                    summary.joules - idle
                };
                let extra = joules(true) - joules(false);
                let error = (cost.wake_joules(quiet) - extra).abs();
                assert!(
                    error < 0.04 * extra + 0.08,
                    "{name} {quiet:?}: {extra} {error}"
                );
            }
        }
    }
}
