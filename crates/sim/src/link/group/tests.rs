//! Groups: shared media and radios.

use std::time::Duration;

use mpbond_radio::Profiles;
use proptest::prelude::*;

use mpbond_units::BitRate;

use super::super::{BurstLoss, DropReason, LinkConfig, Queue, Rate};
use super::*;

fn mbps(rate: f64) -> BitRate {
    BitRate::from_mbps(rate)
}

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn us(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

fn link(rate: Rate) -> Link<u32> {
    Link::new(LinkConfig::new(rate).with_queue(Queue::Bytes(u64::MAX)), 0)
}

/// Links of constant rates in Mbit/s on one medium.
fn on_a_medium(medium: Medium, rates: &[f64]) -> Group<u32> {
    let mut group = Group::new();
    let medium = Some(group.add_medium(medium));
    for rate in rates {
        group.add(link(Rate::Constant(mbps(*rate))), medium, Vec::new());
    }
    group
}

/// Everything that comes out of any link, in order of departure, driven by
/// `next_event` alone: (link, departed, arrived).
fn drain(group: &mut Group<u32>) -> Vec<(usize, Timestamp, Timestamp)> {
    let mut out = Vec::new();
    let mut last = None;
    while let Some(at) = group.next_event() {
        assert!(last.is_none_or(|last| last < at), "it goes on: {at}");
        last = Some(at);
        for index in 0..group.members.len() {
            while let Some(packet) = group.poll(index, at) {
                assert_eq!(packet.arrived, at, "an arrival has its own event");
                out.push((index, packet.departed, packet.arrived));
            }
        }
    }
    out.sort_by_key(|packet| packet.1);
    out
}

fn departures(group: &mut Group<u32>) -> Vec<(usize, Timestamp)> {
    drain(group).into_iter().map(|(i, at, _)| (i, at)).collect()
}

#[test]
fn two_directions_share_the_airtime() {
    let mut group = on_a_medium(Medium::default(), &[12.0, 12.0]);
    for _ in 0..3 {
        for index in [0, 1] {
            group.enqueue(index, ms(0), 1500, 0).unwrap();
        }
    }
    // A packet takes 1 ms, and they take turns.
    let want: Vec<_> = (0..6).map(|i| (i % 2, ms(i as u64 + 1))).collect();
    assert_eq!(departures(&mut group), want);
}

#[test]
fn a_link_alone_has_the_whole_medium() {
    let mut group = on_a_medium(Medium::default(), &[7.0, 7.0]);
    for _ in 0..7_000 {
        group.enqueue(1, ms(0), 1500, 0).unwrap();
    }
    let out = departures(&mut group);
    // No nanosecond is lost on the way, see the same test of a link.
    assert_eq!(out.last(), Some(&(1, ms(12_000))));
}

#[test]
fn a_slow_station_slows_all() {
    let mut group = on_a_medium(Medium::default(), &[12.0, 4.0]);
    for _ in 0..100 {
        group.enqueue(0, ms(0), 1500, 0).unwrap();
        group.enqueue(1, ms(0), 1500, 0).unwrap();
    }
    // 1 + 3 ms a round, a packet each.
    let out = departures(&mut group);
    let until = |link, at| out.iter().filter(|p| p.0 == link && p.1 <= at).count();
    assert_eq!((until(0, ms(80)), until(1, ms(80))), (20, 20));
    assert_eq!(out.last().unwrap().1, ms(400));
}

#[test]
fn a_single_packet_does_not_wait_for_the_queues_of_others() {
    let mut group = on_a_medium(Medium::default(), &[12.0, 12.0]);
    for _ in 0..50 {
        group.enqueue(0, ms(0), 1500, 0).unwrap();
    }
    group.enqueue(1, us(10_500), 60, 0).unwrap();
    let out = departures(&mut group);
    // The packet in the air, and the next of the queue, whose turn had begun
    // to count half a millisecond later: 60 bytes take 40 us.
    assert_eq!(out[11], (1, us(11_040)), "{:?}", &out[9..13]);
    assert_eq!(out[12], (0, us(12_040)));
}

/// A receiver that acknowledges packets of 1500 bytes by ones of 52: without its acknowledgements
/// the medium carries 22 % more if there is one for every two packets, 45 % if there is one for
/// each.
#[test]
fn frames_cost_time_beside_their_octets() {
    let wifi = Medium {
        frame_overhead: Duration::from_micros(159),
        ..Medium::default()
    };
    // Departures of the first and the last of `data` packets and of their acknowledgements, one for
    // every `per_ack`.
    let first_and_last = |data: usize, per_ack: usize| {
        let mut group = on_a_medium(wifi, &[54.0, 54.0]);
        for i in 1..=data {
            group.enqueue(0, ms(0), 1500, 0).unwrap();
            if i % per_ack == 0 {
                group.enqueue(1, ms(0), 52, 0).unwrap();
            }
        }
        let out = departures(&mut group);
        (out[0].1, out[out.len() - 1].1)
    };
    // 159 us, and 1536 octets at 54 Mbit/s; an acknowledgement has 88 octets.
    let (first, both) = first_and_last(1, 1);
    assert_eq!(first.as_nanos(), 159_000 + 227_556);
    assert_eq!(both.since(first).as_nanos() / 1_000, 172);
    let (_, alone) = first_and_last(2_000, usize::MAX);
    assert_eq!(alone.as_nanos() / 1_000, 2_000 * 386_556 / 1_000);
    for (per_ack, more) in [(2, 0.2225), (1, 0.445)] {
        let (_, all) = first_and_last(2_000, per_ack);
        let gain = all.as_secs_f64() / alone.as_secs_f64() - 1.0;
        assert!((gain - more).abs() < 0.0005, "{gain}");
    }
}

/// A medium on which a try of a full packet takes 2 ms, and a link with this loss on it.
fn with_retries(retries: u32, config: LinkConfig) -> Group<u32> {
    let overhead = Medium {
        frame_overhead: Duration::from_micros(976),
        ..Medium::default()
    };
    let mut group = Group::new();
    let medium = Some(group.add_medium(overhead));
    let lossy = Link::new(config, 1).with_retries(retries);
    group.add(lossy, medium, Vec::new());
    group.add(link(Rate::Constant(mbps(12.0))), medium, Vec::new());
    group
}

#[test]
fn a_packet_whose_tries_are_all_lost_takes_the_time_of_each() {
    let mut config = LinkConfig::new(Rate::Constant(mbps(12.0)));
    config.loss = 1.0;
    let mut group = with_retries(3, config.clone());
    group.enqueue(0, ms(0), 1500, 7).unwrap();
    group.enqueue(1, ms(0), 1500, 8).unwrap();
    // Four tries of 2 ms, then the packet of the other link.
    assert_eq!(departures(&mut group), [(1, ms(10))]);
    let stats = group.link(0).unwrap().stats();
    assert_eq!((stats.departed_packets, stats.dropped_loss), (0, 1));
    assert_eq!(group.link(0).unwrap().queue_bytes(), 0);
    // Without retries it is lost before the queue.
    let mut group = with_retries(0, config);
    let refused = group.enqueue(0, ms(0), 1500, 7).unwrap_err();
    assert_eq!(refused.reason, DropReason::Loss);
    group.enqueue(1, ms(0), 1500, 8).unwrap();
    assert_eq!(departures(&mut group), [(1, ms(2))]);
}

#[test]
fn retries_turn_loss_into_time_on_the_air() {
    const PACKETS: usize = 20_000;
    // A quarter of the tries is lost: 1 + 1/4 + 1/16 tries a packet, of which 1/64 is lost. In
    // bursts, a try is lost with 3/4 after a lost one, and with 1/12 after another. If x is the
    // share of packets whose first try is lost, 9/16 x are lost, so that
    // x = (1 - 9/16 x) / 12 + 3/4 * 9/16 x = 2/15, and a packet has 1 + x + 3/4 x tries.
    let bursts = BurstLoss {
        to_bad: 1.0 / 12.0,
        to_good: 0.25,
        ..BurstLoss::NONE
    };
    for (loss, burst_loss, tries, lost) in [
        (0.25, BurstLoss::NONE, 1.3125, 1.0 / 64.0),
        (
            0.0,
            bursts,
            1.0 + 1.75 * 2.0 / 15.0,
            9.0 / 16.0 * 2.0 / 15.0,
        ),
    ] {
        let mut config = LinkConfig::new(Rate::Constant(mbps(12.0)));
        config.queue = Queue::Bytes(u64::MAX);
        (config.loss, config.burst_loss) = (loss, burst_loss);
        let mut group = with_retries(2, config);
        for _ in 0..PACKETS {
            group.enqueue(0, ms(0), 1500, 0).unwrap();
        }
        let out = departures(&mut group);
        let (_, last) = out[out.len() - 1];
        let per_packet = last.as_secs_f64() / 0.002 / PACKETS as f64;
        assert!((per_packet - tries).abs() < 0.03, "{per_packet}");
        let share = 1.0 - out.len() as f64 / PACKETS as f64;
        assert!((share - lost).abs() < 0.01, "{share}");
        // What the ideal bound takes: the tries that are not lost.
        let arrive = out.len() as f64 / (last.as_secs_f64() / 0.002);
        assert!((arrive - 0.75).abs() < 0.01, "{arrive}");
    }
}

#[test]
fn a_cell_has_a_rate_of_its_own() {
    let cell = Medium {
        rate: Some(mbps(15.0)),
        ..Medium::default()
    };
    // Alone: the link's own 10. Both: half of 15 each.
    for (links, want) in [(1, 10.0), (2, 7.5)] {
        let mut group = on_a_medium(cell, &[10.0, 10.0]);
        for _ in 0..1_000 {
            for index in 0..links {
                group.enqueue(index, ms(0), 1500, 0).unwrap();
            }
        }
        let out = departures(&mut group);
        for index in 0..links {
            let times: Vec<_> = out.iter().filter(|p| p.0 == index).collect();
            let rate = BitRate::over(1_500 * 999, times[999].1 - times[0].1);
            assert!((rate.mbps() - want).abs() < 0.01, "{index}: {rate}");
        }
    }
    // A medium slower than its link sets the pace.
    let slow = Medium {
        rate: Some(mbps(3.0)),
        ..Medium::default()
    };
    let mut group = on_a_medium(slow, &[12.0]);
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    assert_eq!(departures(&mut group), [(0, ms(4)), (0, ms(8))]);
}

/// On a medium with a rate of its own a packet is on the air for its bytes at that rate, however
/// long its link takes.
#[test]
fn bluetooth_waits_for_the_packet_on_the_air() {
    for (medium_rate, rate) in [(None, 12.0), (Some(mbps(12.0)), 1.0)] {
        let mut group = Group::new();
        let id = group.add_medium(Medium {
            rate: medium_rate,
            shares_antenna: true,
            ..Medium::default()
        });
        group.add(link(Rate::Constant(mbps(rate))), Some(id), Vec::new());
        group.enqueue(0, ms(1), 1500, 0).unwrap();
        let slots = Duration::from_millis(4);
        let band = group.band(us(1_500)).unwrap();
        // From 1 to 2 ms.
        let through = band.packet(us(1_500), BandUser::Bluetooth, slots);
        assert_eq!(through, ms(6), "{rate} Mbit/s");
        assert!(!band.has_hit_bluetooth());
        // The packets of WiFi that follow meet the one of Bluetooth.
        group.enqueue(0, ms(3), 1500, 0).unwrap();
        let hit = group.band(ms(14)).unwrap().has_hit_bluetooth();
        // At 1 Mbit/s the second one begins when the first one has left its queue, at 13 ms.
        assert_eq!(hit, rate > 1.0, "{rate} Mbit/s");
    }
}

/// A packet that fails when the rate falls to zero is on the air until then.
#[test]
fn a_packet_that_fails_leaves_the_air_to_bluetooth() {
    let steps = vec![
        (Duration::ZERO, mbps(12.0)),
        (Duration::from_micros(1_500), BitRate::ZERO),
        (Duration::from_secs(600), mbps(12.0)),
    ];
    let mut group = Group::new();
    let id = group.add_medium(Medium {
        shares_antenna: true,
        ..Medium::default()
    });
    group.add(link(Rate::Schedule(steps)), Some(id), Vec::new());
    group.enqueue(0, ms(1), 1500, 0).unwrap();
    let slots = Duration::from_millis(4);
    let band = group.band(us(1_200)).unwrap();
    assert_eq!(
        band.packet(us(1_200), BandUser::Bluetooth, slots),
        us(5_500)
    );
}

#[test]
fn media_of_one_group_are_apart() {
    // As the two directions of a cell: one radio, two media.
    let profiles = Profiles::shipped().unwrap();
    let profile = Arc::new(profiles.radio("lte-2012").unwrap().clone());
    let mut group = Group::new();
    let radio = group.add_radio(profile);
    for direction in [Direction::Up, Direction::Down] {
        let medium = group.add_medium(Medium::default());
        for _ in 0..2 {
            let link = link(Rate::Constant(mbps(12.0)));
            group.add(link, Some(medium), vec![(radio, direction)]);
        }
    }
    for index in 0..4 {
        group.enqueue(index, ms(0), 1500, 0).unwrap();
    }
    let mut out = departures(&mut group);
    out.sort();
    let (first, second) = (us(261_100), us(262_100));
    assert_eq!(out, [(0, first), (1, second), (2, first), (3, second)]);
}

#[test]
fn an_outage_leaves_the_medium_to_others() {
    let steps = vec![
        (Duration::ZERO, mbps(12.0)),
        (Duration::from_micros(1_500), BitRate::ZERO),
        (Duration::from_millis(5), mbps(12.0)),
    ];
    let mut group = Group::new();
    let medium = Some(group.add_medium(Medium::default()));
    group.add(link(Rate::Schedule(steps)), medium, Vec::new());
    group.add(link(Rate::Constant(mbps(12.0))), medium, Vec::new());
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(1, us(1_100), 1500, 0).unwrap();
    group.enqueue(1, us(1_100), 1500, 0).unwrap();
    // The second of link 0 fails half sent at 1.5 ms and is sent again at 5.
    assert_eq!(
        departures(&mut group),
        [(0, ms(1)), (1, us(2_500)), (1, us(3_500)), (0, ms(6))]
    );
    // A link that never sends has no event, and stops nobody.
    let mut group = on_a_medium(Medium::default(), &[0.0, 12.0]);
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(1, ms(0), 1500, 0).unwrap();
    assert_eq!(departures(&mut group), [(1, ms(1))]);
    group.apply(0, ms(20), &LinkChange::rate(Rate::Constant(mbps(12.0))));
    assert_eq!(departures(&mut group), [(0, ms(21))]);
}

#[test]
fn a_link_that_goes_down_frees_the_medium() {
    let mut group = on_a_medium(Medium::default(), &[1.0, 12.0]);
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(1, ms(0), 1500, 0).unwrap();
    group.apply(0, ms(2), &LinkChange::down());
    let refused = group.enqueue(0, ms(2), 100, 0).unwrap_err();
    assert_eq!(refused.reason, DropReason::Down);
    assert_eq!(departures(&mut group), [(1, ms(3))]);
    group.apply(0, ms(10), &LinkChange::up());
    group.enqueue(0, ms(10), 1500, 0).unwrap();
    assert_eq!(departures(&mut group), [(0, ms(22))]);
}

#[test]
fn a_change_of_rate_concerns_the_packet_in_the_air() {
    let mut group = on_a_medium(Medium::default(), &[1.0, 12.0]);
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.enqueue(1, ms(0), 1500, 0).unwrap();
    // Half of it sent; the other half takes 1 ms at 6 Mbit/s.
    group.apply(0, ms(6), &LinkChange::rate(Rate::Constant(mbps(6.0))));
    assert_eq!(departures(&mut group), [(0, ms(7)), (1, ms(8))]);
}

fn with_radio(name: &str, medium: Option<Medium>, rates: [Rate; 2]) -> Group<u32> {
    let profiles = Profiles::shipped().unwrap();
    let profile = Arc::new(profiles.radio(name).unwrap().clone());
    let mut group = Group::new();
    let medium = medium.map(|medium| group.add_medium(medium));
    let radio = group.add_radio(profile);
    for (rate, direction) in rates.into_iter().zip([Direction::Up, Direction::Down]) {
        group.add(link(rate), medium, vec![(radio, direction)]);
    }
    group
}

#[test]
fn a_radio_holds_packets_while_it_is_promoted() {
    let rate = || Rate::Constant(mbps(12.0));
    for medium in [None, Some(Medium::default())] {
        let mut group = with_radio("lte-2012", medium, [rate(), rate()]);
        group.enqueue(0, ms(0), 1500, 0).unwrap();
        group.enqueue(0, ms(10), 1500, 0).unwrap();
        // 260.1 ms of promotion (Huang 2012), then 1 ms each at 12 Mbit/s.
        assert_eq!(departures(&mut group), [(0, us(261_100)), (0, us(262_100))]);
        // The other direction finds the radio up.
        group.enqueue(1, ms(300), 1500, 0).unwrap();
        assert_eq!(departures(&mut group), [(1, ms(301))]);
        // Within the tail, what goes up passes at once, after it not.
        group.enqueue(0, ms(5_000), 1500, 0).unwrap();
        assert_eq!(departures(&mut group), [(0, ms(5_001))]);
        group.enqueue(0, ms(30_000), 1500, 0).unwrap();
        assert_eq!(departures(&mut group), [(0, us(30_261_100))]);
        // A radio at rest is promoted again.
        group.rest_radios();
        group.enqueue(0, ms(30_300), 1500, 0).unwrap();
        assert_eq!(departures(&mut group), [(0, us(30_561_100))]);
    }
}

#[test]
fn what_comes_down_waits_for_a_listening_occasion() {
    let rate = || Rate::Constant(mbps(12.0));
    let mut group = with_radio("lte-2012", None, [rate(), rate()]);
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    let (_, last) = departures(&mut group)[0];
    // Long DRX: within its cycle of 40 ms some packets wait, none longer.
    let mut waits = Vec::new();
    for i in 0..40 {
        let mut group = with_radio("lte-2012", None, [rate(), rate()]);
        group.enqueue(0, ms(0), 1500, 0).unwrap();
        drain(&mut group);
        let at = last + Duration::from_millis(1_000 + i);
        group.enqueue(1, at, 1500, 0).unwrap();
        waits.push(departures(&mut group)[0].1 - at - Duration::from_millis(1));
    }
    assert!(waits.iter().all(|w| *w <= Duration::from_millis(40)));
    assert!(
        waits.iter().any(|w| *w > Duration::from_millis(30)),
        "{waits:?}"
    );
    assert!(waits.contains(&Duration::ZERO));
}

/// While the first packet waits for the far radio, the near one does not go to sleep again.
#[test]
fn packets_behind_one_that_wakes_two_radios_find_both_awake() {
    let profiles = Profiles::shipped().unwrap();
    for offset in 0..40 {
        let mut group = Group::new();
        let medium = Some(group.add_medium(Medium::default()));
        let [near, far] = ["watch-wifi", "wifi-s4"].map(|name| {
            let profile = profiles.radio(name).unwrap().clone();
            group.add_radio(Arc::new(profile))
        });
        let up = vec![(near, Direction::Up), (far, Direction::Down)];
        let down = vec![(far, Direction::Up), (near, Direction::Down)];
        let rate = || Rate::Constant(mbps(12.0));
        group.add(link(rate()), medium, up);
        group.add(link(rate()), medium, down);
        for (index, at) in [(0, 10_000), (1, 20_000)] {
            let at = ms(at + 10 * offset);
            for _ in 0..5 {
                group.enqueue(index, at, 1500, 0).unwrap();
            }
            let left = departures(&mut group);
            // Promotions of 300 and 79.1 ms and a beacon, each 308.2 ms; 1 ms for each packet.
            assert!(left[0].1 < at + Duration::from_millis(689), "{left:?}");
            let behind = left[4].1.since(left[0].1);
            assert_eq!(behind, Duration::from_millis(4), "{left:?}");
        }
    }
}

#[test]
fn a_rate_may_change_while_a_radio_wakes() {
    let mut group = with_radio(
        "lte-2012",
        None,
        [Rate::Constant(mbps(12.0)), Rate::Unlimited],
    );
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    group.apply(0, ms(100), &LinkChange::rate(Rate::Constant(mbps(6.0))));
    assert_eq!(departures(&mut group), [(0, us(262_100))]);
}

#[derive(Debug, Clone)]
enum Action {
    Wait(u64),
    Offer(usize, u32),
    Rate(usize, u64),
    Up(usize, bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0..20_000_000_u64).prop_map(Action::Wait),
        6 => (0..3_usize, 1..3_000_u32).prop_map(|(i, bytes)| Action::Offer(i, bytes)),
        1 => (0..3_usize, 0..40_000_000_u64).prop_map(|(i, bps)| Action::Rate(i, bps)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(i, up)| Action::Up(i, up)),
    ]
}

fn config() -> LinkConfig {
    LinkConfig::new(Rate::Constant(mbps(3.7))).with_delay(Duration::from_millis(2))
}

proptest! {
    /// A group whose links share nothing is those links.
    #[test]
    fn without_anything_shared_a_group_is_its_links(
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let mut group = Group::new();
        let mut alone: Vec<Link<u32>> = (0..3).map(|i| Link::new(config(), i)).collect();
        for i in 0..3 {
            group.add(Link::new(config(), i), None, Vec::new());
        }
        let mut now = Timestamp::ZERO;
        for action in actions {
            match action {
                Action::Wait(ns) => now += Duration::from_nanos(ns),
                Action::Offer(i, bytes) => prop_assert_eq!(
                    group.enqueue(i, now, bytes, 7),
                    alone[i].enqueue(now, bytes, 7)
                ),
                Action::Rate(i, bps) => {
                    let change = LinkChange::rate(Rate::Constant(BitRate::from_bps(bps)));
                    group.apply(i, now, &change);
                    alone[i].apply(now, &change);
                }
                Action::Up(i, up) => {
                    let change = LinkChange { up: Some(up), ..LinkChange::default() };
                    group.apply(i, now, &change);
                    alone[i].apply(now, &change);
                }
            }
            for (i, link) in alone.iter_mut().enumerate() {
                loop {
                    let want = link.poll(now);
                    prop_assert_eq!(&group.poll(i, now), &want);
                    if want.is_none() {
                        break;
                    }
                }
            }
            let want = alone.iter().filter_map(Link::next_event).min();
            prop_assert_eq!(group.next_event(), want);
        }
    }

    /// On a medium every packet is accounted for, and none are sent at once.
    #[test]
    fn a_medium_carries_one_packet_at_a_time(
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let mut group = Group::new();
        let medium = Some(group.add_medium(Medium::default()));
        for i in 0..3 {
            group.add(Link::new(config(), i), medium, Vec::new());
        }
        let mut now = Timestamp::ZERO;
        let mut out = Vec::new();
        for action in actions {
            match action {
                Action::Wait(ns) => now += Duration::from_nanos(ns),
                Action::Offer(i, bytes) => {
                    let _ = group.enqueue(i, now, bytes, 0);
                }
                // Faster only, so that a packet takes at least its time below.
                Action::Rate(..) => {}
                Action::Up(i, up) => {
                    let change = LinkChange { up: Some(up), ..LinkChange::default() };
                    group.apply(i, now, &change);
                }
            }
            for i in 0..3 {
                while let Some(packet) = group.poll(i, now) {
                    prop_assert!(packet.arrived <= now);
                    out.push(packet);
                }
            }
            prop_assert!(group.next_event().is_none_or(|at| at > now));
        }
        while let Some(at) = group.next_event() {
            for i in 0..3 {
                out.extend(group.poll(i, at));
            }
        }
        out.sort_by_key(|packet| packet.departed);
        for pair in out.windows(2) {
            let took = mbps(3.7).time_for(u64::from(pair[1].bytes));
            // Departures are rounded up to the nanosecond.
            let begun = pair[1].departed.before(took) + Duration::from_nanos(2);
            prop_assert!(begun >= pair[0].departed, "{pair:?}");
        }
        for i in 0..3 {
            let link = group.link(i).unwrap();
            prop_assert!(link.is_empty());
            let stats = link.stats();
            prop_assert_eq!(
                stats.offered_packets,
                stats.departed_packets + stats.dropped_queue_full + stats.dropped_down
            );
        }
    }
}

/// A driver holds packets, then wakes its bus: two packets of one aggregate find it awake.
#[test]
fn packets_wait_for_others_before_a_bus_wakes_up() {
    let profiles = Profiles::shipped().unwrap();
    let bus = Arc::new(profiles.radio("bus-broadcom").unwrap().clone());
    let config = LinkConfig::new(Rate::Constant(mbps(12.0)));
    let departures_with = |config: LinkConfig| {
        let mut group = Group::new();
        let radio = group.add_radio(Arc::clone(&bus));
        group.add(Link::new(config, 0), None, vec![(radio, Direction::Up)]);
        group.enqueue(0, ms(0), 1500, 0).unwrap();
        group.enqueue(0, ms(3), 1500, 0).unwrap();
        departures(&mut group)
    };
    let free = departures_with(config.clone());
    let held = departures_with(config.with_hold(Duration::from_millis(5), 65_535));
    let later = |(index, at): &(usize, Timestamp)| (*index, *at + Duration::from_millis(5));
    assert_eq!(held, free.iter().map(later).collect::<Vec<_>>());
    assert_eq!(held[1].1.since(held[0].1), Duration::from_millis(1));
}

/// On a medium, a held packet leaves the turn to the others.
#[test]
fn a_held_packet_does_not_take_the_medium() {
    let mut group = Group::new();
    let medium = Some(group.add_medium(Medium::default()));
    let config = LinkConfig::new(Rate::Constant(mbps(12.0)));
    let holding = config.clone().with_hold(Duration::from_millis(5), 65_535);
    group.add(Link::new(holding, 0), medium, Vec::new());
    group.add(Link::new(config, 0), medium, Vec::new());
    group.enqueue(0, ms(0), 1500, 0).unwrap();
    for _ in 0..8 {
        group.enqueue(1, ms(0), 1500, 0).unwrap();
    }
    let out = departures(&mut group);
    // The packet that the medium carries at 5 ms, perhaps the next one, and then the held one.
    let at = out.iter().position(|p| p.0 == 0).unwrap();
    assert!((5..=6).contains(&at), "{out:?}");
    assert_eq!(out.len(), 9);
    assert_eq!(out[8].1, ms(9), "no time is lost");
}
