//! Links: rates, queues, losses, changes.

use std::sync::Arc;
use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::trace::{MahimahiTrace, ProfileForm, RateProfile, RateUnit};

fn mbps(rate: f64) -> Rate {
    Rate::Constant(BitRate::from_mbps(rate))
}

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn trace(text: &str) -> Rate {
    Rate::Mahimahi {
        trace: Arc::new(MahimahiTrace::parse("test", text).unwrap()),
        offset: Duration::ZERO,
    }
}

/// Mbit/s at seconds, from `offset` on.
fn profile(text: &str, offset: Duration) -> Rate {
    let form = ProfileForm::new(RateUnit::MegabitPerSecond);
    Rate::Profile {
        profile: Arc::new(RateProfile::parse("test", text, &form).unwrap()),
        offset,
    }
}

fn roomy(rate: Rate) -> LinkConfig {
    LinkConfig::new(rate).with_queue(Queue::Bytes(u64::MAX))
}

/// Everything that comes out, driven by `next_event` alone.
fn drain<P>(link: &mut Link<P>) -> Vec<Delivered<P>> {
    let mut out = Vec::new();
    while let Some(at) = link.next_event() {
        while let Some(packet) = link.poll(at) {
            out.push(packet);
        }
    }
    out
}

fn departures<P>(link: &mut Link<P>) -> Vec<Timestamp> {
    drain(link).iter().map(|d| d.departed).collect()
}

#[test]
fn sends_back_to_back_without_drift() {
    // 1500 bytes at 7 Mbit/s take 1,714,285.71... ns: nothing divides evenly.
    let mut link = Link::new(roomy(mbps(7.0)).with_delay(Duration::from_millis(25)), 0);
    for i in 0..7_000_u64 {
        link.enqueue(Timestamp::ZERO, 1500, i).unwrap();
    }
    let out = drain(&mut link);
    for (i, packet) in out.iter().enumerate() {
        let exact = (i as u128 + 1) * 12_000 * 1_000_000_000;
        assert_eq!(
            u128::from(packet.departed.as_nanos()),
            exact.div_ceil(7_000_000)
        );
        assert_eq!(packet.arrived - packet.departed, Duration::from_millis(25));
        assert_eq!(packet.packet, i as u64);
    }
    assert_eq!(out[6_999].departed, ms(12_000));
}

#[test]
fn an_idle_link_starts_afresh() {
    let mut link = Link::new(roomy(mbps(12.0)), 0);
    link.enqueue(ms(0), 1500, 0).unwrap();
    link.enqueue(ms(10), 1500, 1).unwrap();
    link.enqueue(ms(10), 750, 2).unwrap();
    assert_eq!(
        departures(&mut link),
        [ms(1), ms(11), Timestamp::from_micros(11_500)]
    );
}

#[test]
fn a_queue_in_time_holds_what_drains_in_it() {
    // 100 ms at 8 Mbit/s are 100,000 bytes: 66 packets of 1500.
    let mut link = Link::new(LinkConfig::new(mbps(8.0)), 0);
    let taken = (0..100)
        .filter(|i| link.enqueue(ms(0), 1500, *i).is_ok())
        .count();
    assert_eq!(taken, 66);
    assert_eq!(link.queue_bytes(), 99_000);
    assert_eq!(link.stats().dropped_queue_full, 34);
    // After 1.5 ms the first has left, and there is room for one again.
    assert!(
        link.enqueue(Timestamp::from_nanos(1_499_999), 1500, 100)
            .is_err()
    );
    assert!(
        link.enqueue(Timestamp::from_micros(1_500), 1500, 101)
            .is_ok()
    );
    assert!(
        link.enqueue(Timestamp::from_micros(1_500), 1500, 102)
            .is_err()
    );
    assert_eq!(drain(&mut link).last().unwrap().packet, 101);
    assert_eq!(link.stats().max_queue_bytes, 99_000);
}

#[test]
fn a_slow_queue_holds_two_packets() {
    let mut link = Link::new(LinkConfig::new(mbps(0.01)), 0);
    let taken: Vec<bool> = (0..3)
        .map(|i| link.enqueue(ms(0), 1500, i).is_ok())
        .collect();
    assert_eq!(taken, [true, true, false]);
    let mut tiny = Link::new(LinkConfig::new(mbps(1.0)).with_queue(Queue::Bytes(100)), 0);
    assert!(
        tiny.enqueue(ms(0), 1500, 0).is_ok(),
        "an empty queue takes any packet"
    );
    assert!(tiny.enqueue(ms(0), 1, 1).is_err());
}

#[test]
fn a_change_applies_to_what_waits() {
    let mut link = Link::new(roomy(mbps(12.0)).with_delay(Duration::from_millis(5)), 0);
    for i in 0..3 {
        link.enqueue(ms(0), 1500, i).unwrap();
    }
    // One has left; the second is half sent, and its other half takes 6 ms at 1 Mbit/s.
    let change = LinkChange {
        delay: Some(Duration::from_millis(50)),
        ..LinkChange::rate(mbps(1.0))
    };
    link.apply(Timestamp::from_micros(1_500), &change);
    let out = drain(&mut link);
    let us: Vec<(u64, u64)> = out
        .iter()
        .map(|d| (d.departed.as_nanos() / 1_000, d.arrived.as_nanos() / 1_000))
        .collect();
    assert_eq!(us, [(1_000, 6_000), (7_500, 57_500), (19_500, 69_500)]);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut link = Link::new(
        roomy(Rate::Unlimited).with_delay(Duration::from_millis(50)),
        0,
    );
    link.enqueue(ms(0), 100, 0).unwrap();
    let change = LinkChange {
        delay: Some(Duration::from_millis(1)),
        ..LinkChange::default()
    };
    link.apply(ms(10), &change);
    link.enqueue(ms(10), 100, 1).unwrap();
    let arrived: Vec<Timestamp> = drain(&mut link).iter().map(|d| d.arrived).collect();
    assert_eq!(arrived, [ms(50), ms(50)]);
}

#[test]
fn a_schedule_changes_the_rate_in_mid_packet() {
    let steps = vec![
        (Duration::ZERO, BitRate::from_mbps(12.0)),
        (Duration::from_micros(1_500), BitRate::ZERO),
        (Duration::from_millis(10), BitRate::from_mbps(6.0)),
    ];
    let mut link = Link::new(roomy(Rate::Schedule(steps.clone())), 0);
    for i in 0..3 {
        link.enqueue(ms(0), 1500, i).unwrap();
    }
    assert_eq!(departures(&mut link), [ms(1), ms(11), ms(13)]);

    // On a link that starts at 100 ms.
    let mut link = Link::starting_at(roomy(Rate::Schedule(steps)), 0, ms(100));
    link.enqueue(ms(105), 1500, 0).unwrap();
    assert_eq!(departures(&mut link), [ms(112)]);
}

#[test]
fn a_recording_starts_at_its_offset_and_repeats() {
    let text = "0 12\n0.010 0\n0.020 6\n";
    let rate = || profile(text, Duration::from_millis(9));
    let mut link = Link::starting_at(roomy(rate()), 0, ms(100));
    for _ in 0..8 {
        link.enqueue(ms(100), 1500, 0).unwrap();
    }
    // 1 ms at 12 Mbit/s, 10 without, 10 at 6, and again from the beginning.
    let want = [101, 113, 115, 117, 119, 121, 122, 123].map(ms);
    assert_eq!(departures(&mut link), want);
    // Each change that brings it begins at its offset anew.
    link.apply(ms(500), &LinkChange::rate(rate()));
    link.enqueue(ms(500), 1500, 0).unwrap();
    link.enqueue(ms(500), 1500, 0).unwrap();
    assert_eq!(departures(&mut link), [ms(501), ms(513)]);
    // So does one of packet opportunities.
    let trace = MahimahiTrace::parse("test", "1\n9\n20\n").unwrap();
    let rate = Rate::Mahimahi {
        trace: Arc::new(trace),
        offset: Duration::from_millis(5),
    };
    link.apply(ms(600), &LinkChange::rate(rate));
    for _ in 0..4 {
        link.enqueue(ms(600), 1500, 0).unwrap();
    }
    assert_eq!(departures(&mut link), [604, 615, 616, 624].map(ms));
}

#[test]
fn a_slow_recording_is_not_gone_through_period_by_period() {
    // 1 bit/s for a millisecond of every hour: a packet takes 12 million of them.
    let form = ProfileForm::new(RateUnit::BitPerSecond);
    let profile = RateProfile::parse("test", "0 1\n0.001 0\n3600 0\n", &form).unwrap();
    let period = profile.length();
    let rate = Rate::Profile {
        profile: Arc::new(profile),
        offset: Duration::ZERO,
    };
    let mut link = Link::new(roomy(rate), 0);
    link.enqueue(ms(0), 1500, 0).unwrap();
    let periods = Timestamp::ZERO + period * (12_000 * 1_000 - 1);
    // Further than nanoseconds in 64 bits reach: never.
    assert!(periods == Timestamp::FAR_FUTURE || link.next_event().is_some());
    let dead = profile_without_rate();
    link.apply(ms(1), &LinkChange::rate(dead));
    assert_eq!(link.next_event(), None);
    link.apply(ms(2), &LinkChange::rate(mbps(12.0)));
    assert_eq!(departures(&mut link), [ms(3)]);
}

fn profile_without_rate() -> Rate {
    profile("0 0\n1 0\n", Duration::ZERO)
}

#[test]
fn a_link_that_never_sends_has_no_event() {
    for rate in [mbps(0.0), Rate::Schedule(Vec::new())] {
        let mut link = Link::new(roomy(rate), 0);
        link.enqueue(ms(0), 1500, ()).unwrap();
        assert_eq!(link.next_event(), None);
        link.apply(ms(20), &LinkChange::rate(mbps(12.0)));
        assert_eq!(departures(&mut link), [ms(21)]);
    }
}

#[test]
fn going_down_swallows_what_waits_and_what_comes() {
    let mut link = Link::new(roomy(mbps(12.0)).with_delay(Duration::from_millis(25)), 0);
    for i in 0..3 {
        link.enqueue(ms(0), 1500, i).unwrap();
    }
    link.apply(Timestamp::from_micros(1_500), &LinkChange::down());
    assert!(!link.is_up());
    assert_eq!(
        link.enqueue(ms(2), 100, 3).unwrap_err().reason,
        DropReason::Down
    );
    assert_eq!(drain(&mut link).len(), 1, "what had left still arrives");
    assert_eq!(link.stats().dropped_down, 3);
    assert_eq!(link.queue_bytes(), 0);
    link.apply(ms(100), &LinkChange::up());
    link.enqueue(ms(100), 1500, 4).unwrap();
    assert_eq!(departures(&mut link), [ms(101)]);
}

#[test]
fn one_opportunity_carries_small_packets_and_parts() {
    let mut link = Link::new(roomy(trace("1\n2\n2\n5\n10\n")), 0);
    // 500 + 500 + 500 share the first; 1000 and half of the next 1000 the second.
    for bytes in [500, 500, 500, 1000, 1000, 1500] {
        link.enqueue(ms(0), bytes, ()).unwrap();
    }
    assert_eq!(
        departures(&mut link),
        [ms(1), ms(1), ms(1), ms(2), ms(2), ms(5)]
    );
}

#[test]
fn unused_opportunities_are_lost() {
    let mut link = Link::new(roomy(trace("1\n2\n2\n5\n10\n")), 0);
    link.enqueue(ms(0), 40, ()).unwrap();
    // One that comes with the opportunity has missed it, as in mm-link.
    assert!(link.poll(ms(1)).is_some());
    link.enqueue(ms(1), 1400, ()).unwrap();
    assert!(link.poll(ms(2)).is_some());
    link.enqueue(ms(2), 1500, ()).unwrap();
    link.enqueue(ms(2), 1500, ()).unwrap();
    link.enqueue(ms(2), 1500, ()).unwrap();
    // The period is 10 ms: the next round begins with an opportunity at 11.
    assert_eq!(departures(&mut link), [ms(5), ms(10), ms(11)]);
}

#[test]
fn a_trace_change_keeps_what_is_sent_of_a_packet() {
    let mut link = Link::new(roomy(trace("1\n10\n")), 0);
    link.enqueue(ms(0), 1000, 0).unwrap();
    link.enqueue(ms(0), 1000, 1).unwrap();
    // 500 bytes of the second went with the first; the rest takes 1 ms at 4 Mbit/s.
    link.apply(ms(5), &LinkChange::rate(mbps(4.0)));
    assert_eq!(departures(&mut link), [ms(1), ms(6)]);
}

#[test]
fn a_full_link_keeps_the_rate_of_a_recorded_trace() {
    let Some(path) = mpbond_testing::recording("Verizon-LTE-short.down") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let trace = Arc::new(MahimahiTrace::parse("Verizon-LTE-short.down", &text).unwrap());
    let lines: Vec<u64> = text.lines().map(|l| l.parse().unwrap()).collect();
    let mut link = Link::new(
        roomy(Rate::Mahimahi {
            trace,
            offset: Duration::ZERO,
        }),
        0,
    );
    // Two rounds of full packets: each leaves exactly on its line. What stands
    // at 0 is gone before a packet can use it.
    let period = *lines.last().unwrap();
    let usable: Vec<u64> = lines
        .iter()
        .filter(|line| **line > 0)
        .copied()
        .chain(lines.iter().map(|line| line + period))
        .collect();
    for _ in &usable {
        link.enqueue(ms(0), 1500, ()).unwrap();
    }
    let out = departures(&mut link);
    assert!(out.iter().zip(&usable).all(|(at, line)| *at == ms(*line)));
    let rate = BitRate::over(1500 * out.len() as u64, out.last().unwrap().since(ms(0)));
    assert!((rate.mbps() - 5.03).abs() < 0.01, "{rate}");
}

#[test]
fn loss_and_jitter_follow_the_seed() {
    let config = LinkConfig {
        loss: 0.1,
        jitter: Duration::from_millis(4),
        ..roomy(Rate::Unlimited).with_delay(Duration::from_millis(10))
    };
    let run = |seed| {
        let mut link = Link::new(config.clone(), seed);
        for i in 0..10_000_u64 {
            let _ = link.enqueue(ms(i * 5), 1500, i);
        }
        drain(&mut link)
    };
    let out = run(1);
    assert_eq!(out, run(1));
    assert_ne!(out, run(2));
    // 1000 losses expected, standard deviation 30.
    assert!((8_880..=9_120).contains(&out.len()), "{}", out.len());
    let delays: Vec<f64> = out
        .iter()
        .map(|d| (d.arrived - d.departed).as_secs_f64())
        .collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!((mean - 0.012).abs() < 0.000_1, "{mean}");
    assert!(delays.iter().all(|d| (0.010..=0.014).contains(d)));
    let certain = LinkConfig {
        loss: 1.0,
        ..config
    };
    let mut link = Link::new(certain, 1);
    assert_eq!(
        link.enqueue(ms(0), 1, ()).unwrap_err().reason,
        DropReason::Loss
    );
}

#[test]
fn bursts_of_losses_hit_packets_in_a_row() {
    let burst_loss = BurstLoss {
        to_bad: 0.01,
        to_good: 0.2,
        ..BurstLoss::NONE
    };
    let config = LinkConfig {
        burst_loss,
        ..roomy(mbps(12.0))
    };
    let mut link = Link::new(config, 5);
    let fates: Vec<bool> = (0..200_000_u64)
        .map(|i| link.enqueue(ms(i), 1500, i).is_err())
        .collect();
    let lost = link.stats().dropped_loss as f64;
    assert!(
        (lost / 200_000.0 / burst_loss.mean_loss() - 1.0).abs() < 0.1,
        "{lost}"
    );
    let bursts = fates.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    let mean = lost / bursts as f64;
    assert!((mean / 5.0 - 1.0).abs() < 0.1, "{mean}");
    // A change ends them.
    let change = LinkChange {
        burst_loss: Some(BurstLoss::NONE),
        ..LinkChange::default()
    };
    link.apply(ms(200_000), &change);
    let later = (200_000..210_000_u64).map(|i| link.enqueue(ms(i), 1500, i));
    assert!(later.into_iter().all(|taken| taken.is_ok()));
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Offer(u32),
    Rate(u64),
    Up(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..20_000_000_u64).prop_map(Step::Wait),
        6 => (1..3_000_u32).prop_map(Step::Offer),
        1 => (0..40_000_000_u64).prop_map(Step::Rate),
        1 => any::<bool>().prop_map(Step::Up),
    ]
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for(
        steps in prop::collection::vec(step(), 1..200),
        traced: bool,
        seed: u64,
    ) {
        let rate = if traced { trace("1\n1\n4\n9\n") } else { mbps(3.7) };
        let config = LinkConfig {
            jitter: Duration::from_micros(300),
            loss: 0.05,
            ..LinkConfig::new(rate).with_delay(Duration::from_millis(2))
        };
        let mut link = Link::new(config, seed);
        let mut now = Timestamp::ZERO;
        let mut out = Vec::new();
        let mut last_offered = 0_u64;
        for step in steps {
            match step {
                Step::Wait(ns) => now += Duration::from_nanos(ns),
                Step::Offer(bytes) => {
                    last_offered += 1;
                    let _ = link.enqueue(now, bytes, last_offered);
                }
                Step::Rate(bps) => {
                    let rate = Rate::Constant(BitRate::from_bps(bps));
                    link.apply(now, &LinkChange::rate(rate));
                }
                Step::Up(up) => {
                    link.apply(now, &LinkChange { up: Some(up), ..LinkChange::default() });
                }
            }
            while let Some(packet) = link.poll(now) {
                prop_assert!(packet.arrived <= now);
                out.push(packet);
            }
            prop_assert!(link.next_event().is_none_or(|at| at > now));
        }
        link.apply(now, &LinkChange::rate(mbps(1.0)));
        out.extend(drain(&mut link));
        prop_assert!(link.is_empty());
        prop_assert_eq!(link.queue_bytes(), 0);
        for packet in &out {
            prop_assert!(packet.enqueued <= packet.departed);
            prop_assert!(packet.departed + Duration::from_millis(2) <= packet.arrived);
        }
        for pair in out.windows(2) {
            prop_assert!(pair[0].packet < pair[1].packet);
            prop_assert!(pair[0].departed <= pair[1].departed);
            prop_assert!(pair[0].arrived <= pair[1].arrived);
        }
        let stats = link.stats();
        prop_assert_eq!(stats.offered_packets, last_offered);
        prop_assert_eq!(stats.departed_packets, out.len() as u64);
        prop_assert_eq!(
            last_offered,
            stats.departed_packets
                + stats.dropped_queue_full
                + stats.dropped_loss
                + stats.dropped_down
        );
    }
}

/// 1500 bytes take 1 ms. Packets wait for 5 ms from the first that waits, or until 3839 bytes wait.
#[test]
fn packets_wait_for_others() {
    let config = roomy(mbps(12.0)).with_hold(Duration::from_millis(5), 3839);
    for (offered, departed) in [
        (&[0][..], &[6][..]),
        (&[0, 3], &[6, 7]),
        // The third waits anew, since it came when the first two were being sent.
        (&[0, 3, 6], &[6, 7, 12]),
        (&[0, 1, 2], &[3, 4, 5]),
        // 4500 bytes leave from 2 ms on; the fourth begins to wait at 2 ms.
        (&[0, 1, 2, 2], &[3, 4, 5, 8]),
    ] {
        let mut link = Link::new(config.clone(), 0);
        for at in offered {
            link.enqueue(ms(*at), 1500, ()).unwrap();
        }
        let departed: Vec<Timestamp> = departed.iter().copied().map(ms).collect();
        assert_eq!(departures(&mut link), departed, "{offered:?}");
    }
}

#[test]
fn held_packets_fill_the_queue_and_are_lost_with_the_link() {
    let config = LinkConfig::new(mbps(12.0))
        .with_queue(Queue::Bytes(3000))
        .with_hold(Duration::from_millis(5), 65_535);
    let mut link = Link::new(config, 0);
    link.enqueue(ms(0), 1500, 0).unwrap();
    link.enqueue(ms(1), 1500, 1).unwrap();
    let full = link.enqueue(ms(2), 1500, 2).unwrap_err();
    assert_eq!(full.reason, DropReason::QueueFull);
    link.apply(ms(3), &LinkChange::down());
    assert_eq!(link.stats().dropped_down, 2);
    assert_eq!(link.next_event(), None);
    link.apply(ms(4), &LinkChange::up());
    link.enqueue(ms(4), 1500, 3).unwrap();
    assert_eq!(departures(&mut link), [ms(10)], "it waits anew");
}

#[test]
fn a_hold_in_a_file_is_read_and_written() {
    let text = "rate = \"8 Mbit/s\"\nhold = \"5ms\"\nhold_bytes = 7935\n";
    let link: LinkSpec = toml::from_str(text).unwrap();
    assert_eq!(
        (link.hold, link.hold_bytes),
        (Duration::from_millis(5), 7935)
    );
    let again: LinkSpec = toml::from_str(&toml::to_string(&link).unwrap()).unwrap();
    assert_eq!(again, link);
    let plain: LinkSpec = toml::from_str("rate = \"8 Mbit/s\"\n").unwrap();
    assert_eq!((plain.hold, plain.hold_bytes), (Duration::ZERO, 65_535));
    assert!(!toml::to_string(&plain).unwrap().contains("hold"));
}

proptest! {
    /// Packets keep their order, none is lost, and none leaves earlier than without a hold, or
    /// later by more than that.
    #[test]
    fn a_hold_delays_by_its_time_at_most(
        packets in prop::collection::vec((0_u64..9_000_000, 40_u32..1500), 1..60),
        hold_us in 1_u64..8_000,
        limit in 40_u64..70_000,
    ) {
        let hold = Duration::from_micros(hold_us);
        let plain = roomy(mbps(20.0));
        let run = |config: LinkConfig| {
            let mut link = Link::new(config, 0);
            let mut now = Timestamp::ZERO;
            for (number, (gap_ns, bytes)) in packets.iter().enumerate() {
                now += Duration::from_nanos(*gap_ns);
                link.enqueue(now, *bytes, number).unwrap();
            }
            drain(&mut link)
        };
        let (held, free) = (run(plain.clone().with_hold(hold, limit)), run(plain));
        prop_assert_eq!(held.len(), packets.len());
        for (held, free) in held.iter().zip(&free) {
            prop_assert_eq!(held.packet, free.packet);
            // A departure is rounded up to the nanosecond.
            let latest = free.departed + hold + Duration::from_nanos(1);
            prop_assert!(free.departed <= held.departed && held.departed <= latest);
        }
    }
}
