//! Tests of the stream, with times by hand.

use mpbond_radio::{Profiles, machine::CoexistenceParameters, profile::Radios};
use proptest::prelude::*;

use super::*;

fn parameters(name: &str) -> BluetoothParameters {
    let profiles = Profiles::shipped().unwrap();
    match &profiles.radio(name).unwrap().radio {
        Radios::Bluetooth(p) => (**p).clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// The channel of [`stream`], and its ends.
const ONE: Channel = Channel(1);
const WATCH: (Channel, End) = (ONE, End::Wearable);
const PHONE: (Channel, End) = (ONE, End::Phone);

fn stream(watch: &str) -> Rfcomm {
    let mut rfcomm = Rfcomm::new(&parameters(watch), &parameters("phone-bt"), 1);
    assert_eq!(rfcomm.open(), ONE);
    rfcomm
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Bytes that arrived at the watch, by instant.
#[derive(Default)]
struct Arrivals(Vec<(Timestamp, u64)>);

impl Arrivals {
    fn between(&self, from: Timestamp, to: Timestamp) -> u64 {
        let all = self.0.iter().filter(|(t, _)| (from..to).contains(t));
        all.map(|(_, bytes)| bytes).sum()
    }
}

/// Downloads as much as possible until `end`, beside packets of `up` bytes of the watch at the
/// given instants.
fn bulk(s: &mut Rfcomm, until: Timestamp, up: &[u64], mut band: Option<&mut Band>) -> Arrivals {
    let mut arrivals = Arrivals::default();
    let mut up = up.iter().map(|ms| at(*ms)).peekable();
    let mut now = Timestamp::ZERO;
    while now <= until {
        s.handle(now, band.as_deref_mut());
        if up.next_if(|t| *t <= now).is_some() {
            s.write(now, WATCH, 20, band.as_deref_mut());
        }
        let got = s.read(now, WATCH, u64::MAX, band.as_deref_mut());
        s.read(now, PHONE, u64::MAX, band.as_deref_mut());
        if got > 0 {
            arrivals.0.push((now, got));
        }
        s.write(now, PHONE, u64::MAX, band.as_deref_mut());
        let next = s.next_event().into_iter().chain(up.peek().copied()).min();
        let Some(next) = next else {
            break;
        };
        now = next.max(now);
    }
    arrivals
}

#[test]
fn the_first_byte_waits_for_active_and_a_frame_takes_ten_slots() {
    let mut s = stream("watch-bt");
    assert_eq!(s.write(at(0), PHONE, 990, None), 990);
    assert_eq!(s.mode(), Mode::Sniff);
    // The next anchor is at 0.5 s, Active begins 0.3 s later; 6 and 4 slots of 625 us follow.
    let mut last = Timestamp::ZERO;
    while s.readable(ONE, End::Wearable) == 0 {
        last = s.next_event().unwrap();
        s.handle(last, None);
    }
    assert_eq!(last, Timestamp::from_micros(806_250));
    assert_eq!(s.acknowledged(ONE, End::Phone), 990);
    assert_eq!(s.unacknowledged(ONE, End::Phone), 0);
}

/// Wear OS paper, section 3.2 and Figure 4: the watch requests Sniff 5 s after Active, unless it
/// sends.
#[test]
fn reception_does_not_keep_the_watch_active() {
    for (watch, timer) in [("watch-bt", 5_000), ("watch-bt-2s", 2_000)] {
        let mut s = stream(watch);
        let arrivals = bulk(&mut s, at(20_000), &[], None);
        let requests: Vec<LmpRequest> = std::iter::from_fn(|| s.poll_request()).collect();
        let sniffs: Vec<_> = requests.iter().filter(|r| r.mode == Mode::Sniff).collect();
        assert!(sniffs.iter().all(|r| r.from == End::Wearable));
        let active = at(800);
        assert_eq!(sniffs[0].at, active + Duration::from_millis(timer));
        // The phone has data at once; nothing passes until 0.8 s later.
        assert_eq!(requests[2].from, End::Phone);
        let woken = requests[2].at;
        assert!(
            woken.since(sniffs[0].at) < Duration::from_millis(7),
            "{woken}"
        );
        let dark = arrivals.between(
            woken + Duration::from_millis(10),
            woken + Duration::from_millis(790),
        );
        assert_eq!(dark, 0);
        assert!(sniffs.len() >= if timer == 5_000 { 3 } else { 6 });
    }
}

/// A packet of the watch every 4 s leaves no blackout: the remedy of section 3.3.
#[test]
fn packets_of_the_watch_prevent_sniff() {
    let mut s = stream("watch-bt");
    let up: Vec<u64> = (1..8).map(|n| n * 4_000).collect();
    let arrivals = bulk(&mut s, at(30_000), &up, None);
    let requests = std::iter::from_fn(|| s.poll_request());
    assert_eq!(requests.filter(|r| r.mode == Mode::Sniff).count(), 0);
    let gaps = arrivals.0.windows(2).map(|p| p[1].0.since(p[0].0)).max();
    assert!(gaps.unwrap() < Duration::from_millis(20), "{gaps:?}");
    let rate = arrivals.between(at(1_000), at(29_000)) as f64 * 8.0 / 28.0;
    assert!(
        (rate / RFCOMM_RATE.bps() as f64 - 1.0).abs() < 0.01,
        "{rate}"
    );
}

#[test]
fn a_weak_signal_costs_rate_and_loses_nothing() {
    let mut rates = Vec::new();
    for dbm in [-50.0, -60.0, -70.0, -80.0] {
        let mut s = stream("watch-bt");
        s.set_signal(at(0), dbm);
        let total: u64 = bulk(&mut s, at(20_000), &[], None)
            .0
            .iter()
            .map(|a| a.1)
            .sum();
        assert_eq!(total, s.acknowledged(ONE, End::Phone));
        assert_eq!(s.retransmitted_packets() > 0, dbm < -50.0);
        rates.push(total);
    }
    assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?}");
}

#[test]
fn a_link_out_of_range_is_lost_after_the_supervision_timeout() {
    let mut s = stream("watch-bt");
    s.write(at(0), PHONE, 500, None);
    s.set_signal(at(0), -91.0);
    s.handle(at(19_999), None);
    assert!(!s.is_lost());
    assert_eq!(s.readable(ONE, End::Wearable), 0);
    // The ends hear each other again in time.
    s.set_signal(at(19_999), -80.0);
    s.handle(at(25_000), None);
    assert_eq!(s.readable(ONE, End::Wearable), 500);
    s.set_signal(at(30_000), -95.0);
    s.set_signal(at(31_000), -96.0);
    s.handle(at(50_000), None);
    assert!(s.is_lost());
    assert_eq!((s.room(ONE, End::Phone), s.next_event()), (0, None));
}

#[test]
fn a_supervision_timeout_of_13_s_loses_the_link_after_13_s() {
    let mut s = stream("watch-bt");
    s.set_supervision_timeout(Duration::from_secs(13));
    s.set_signal(at(1_000), -91.0);
    s.handle(at(13_999), None);
    assert!(!s.is_lost());
    s.handle(at(14_000), None);
    assert!(s.is_lost());
}

/// Section 5.2, Figure 13: Bluetooth loses 47 % of its rate while WiFi of the same band is busy.
#[test]
fn wifi_of_the_same_band_takes_half_of_the_rate() {
    let profiles = Profiles::shipped().unwrap();
    let p: &CoexistenceParameters = profiles.coexistence("band-2.4ghz").unwrap();
    let mut band = Band::new(p);
    // WiFi that is busy for all of the time.
    band.packet(at(0), BandUser::Wifi, Duration::from_secs(3600));
    let up: Vec<u64> = (1..8).map(|n| n * 4_000).collect();
    let beside = bulk(&mut stream("watch-bt"), at(20_000), &up, Some(&mut band));
    let alone = bulk(&mut stream("watch-bt"), at(20_000), &up, None);
    let bytes = |a: &Arrivals| a.between(at(1_000), at(19_000)) as f64;
    let left = bytes(&beside) / bytes(&alone);
    assert!((left - 0.53).abs() < 0.01, "{left}");
}

/// When a frame of 990 bytes is there that was written at 0; Active begins at 0.8 s, and exchanges
/// of 3.75 and 2.5 ms follow. WiFi sends or receives for 0.4 ms at each instant, in us.
fn frame_beside_wifi(wifi: &[u64]) -> (Timestamp, u64) {
    let mut s = stream("watch-bt");
    let mut band = Band::of_one_antenna();
    let mut wifi = wifi.iter().map(|us| Timestamp::from_micros(*us)).peekable();
    assert_eq!(s.write(at(0), PHONE, 990, Some(&mut band)), 990);
    loop {
        let next = s.next_event().unwrap();
        if let Some(sent) = wifi.next_if(|sent| *sent < next) {
            band.packet(sent, BandUser::Wifi, Duration::from_micros(400));
            continue;
        }
        s.handle(next, Some(&mut band));
        if s.readable(ONE, End::Wearable) > 0 {
            return (next, s.retransmitted_packets());
        }
    }
}

#[test]
fn an_exchange_that_wifi_meets_is_sent_again() {
    let us = Timestamp::from_micros;
    assert_eq!(frame_beside_wifi(&[]), (us(806_250), 0));
    // In the first exchange, and in its return slot.
    assert_eq!(frame_beside_wifi(&[801_000]), (us(810_000), 1));
    assert_eq!(frame_beside_wifi(&[803_700]), (us(810_350), 1));
    // In the second one.
    assert_eq!(frame_beside_wifi(&[805_000]), (us(808_750), 1));
    // Twice in the same exchange; in two of them.
    assert_eq!(frame_beside_wifi(&[801_000, 802_000]), (us(810_000), 1));
    assert_eq!(frame_beside_wifi(&[801_000, 805_000]), (us(813_750), 2));
    // Under way at the beginning.
    assert_eq!(frame_beside_wifi(&[799_900]), (us(806_550), 0));
    // In Sniff mode.
    assert_eq!(frame_beside_wifi(&[400_000]), (us(806_250), 0));
}

/// WiFi of 1 Mbit/s, on the air for 0.4 ms of each 12 ms and, for an acknowledgement of every
/// second packet, for 0.2 ms of each 24 ms: by hand, three exchanges of 24 ms are lost, of 3.25 ms
/// in the mean, and 1 ms is waited for.
#[test]
fn wifi_with_the_same_antenna_takes_a_part_of_the_rate() {
    let bytes = |is_beside: bool| {
        let mut s = stream("watch-bt");
        let mut band = Band::of_one_antenna();
        let mut wifi = (0..20_000_u64)
            .step_by(24)
            .flat_map(|ms| [(ms, 400), (ms + 5, 200), (ms + 12, 400)])
            .filter(|_| is_beside)
            .peekable();
        let (mut now, mut got) = (Timestamp::ZERO, 0);
        let mut up = (1..8).map(|n| at(n * 4_000)).peekable();
        while now < at(20_000) {
            s.handle(now, Some(&mut band));
            if let Some((ms, us)) = wifi.next_if(|(ms, _)| at(*ms) <= now) {
                band.packet(at(ms), BandUser::Wifi, Duration::from_micros(us));
            }
            if up.next_if(|at| *at <= now).is_some() {
                s.write(now, WATCH, 20, Some(&mut band));
            }
            got += s.read(now, WATCH, u64::MAX, Some(&mut band));
            s.read(now, PHONE, u64::MAX, Some(&mut band));
            s.write(now, PHONE, u64::MAX, Some(&mut band));
            let wifi = wifi.peek().map(|(ms, _)| at(*ms));
            let all = [s.next_event(), wifi, up.peek().copied()];
            now = all.into_iter().flatten().min().unwrap().max(now);
        }
        got as f64
    };
    let left = bytes(true) / bytes(false);
    assert!((0.45..0.7).contains(&left), "{left}");
}

#[test]
fn an_idle_link_does_nothing_and_costs_sniff() {
    let s = stream("watch-bt");
    assert_eq!(s.next_event(), None);
    let [watch, _] = s.finish(at(1_000_000));
    assert!((watch.joules - 5.0).abs() < 0.01, "{}", watch.joules);
}

#[test]
fn a_reader_that_stops_stops_the_sender() {
    let mut s = stream("watch-bt");
    for step in 0..1_000 {
        s.write(at(step * 10), PHONE, u64::MAX, None);
    }
    let held = s.readable(ONE, End::Wearable);
    assert_eq!(held, 16 * 990);
    assert_eq!(s.room(ONE, End::Phone), 0);
    assert_eq!(s.read(at(10_000), WATCH, u64::MAX, None), held);
    s.handle(at(20_000), None);
    assert!(s.readable(ONE, End::Wearable) > 0);
}

#[test]
fn a_lost_link_is_connected_again_with_new_channels() {
    let mut s = stream("watch-bt");
    s.write(at(0), PHONE, 5_000, None);
    s.set_signal(at(900), -100.0);
    s.handle(at(30_000), None);
    assert!(s.is_lost());
    s.set_signal(at(40_000), -50.0);
    s.reconnect();
    assert_eq!(
        (s.room(ONE, End::Phone), s.readable(ONE, End::Wearable)),
        (0, 0)
    );
    let two = s.open();
    assert_eq!(s.write(at(40_000), (two, End::Phone), 3_000, None), 3_000);
    s.handle(at(42_000), None);
    assert_eq!(
        s.read(at(42_000), (two, End::Wearable), u64::MAX, None),
        3_000
    );
}

/// Two channels share the rate; the silent one's share goes to the other.
#[test]
fn channels_share_the_link() {
    let mut s = stream("watch-bt");
    let two = s.open();
    let ends = [WATCH, (two, End::Wearable)];
    let mut arrived = [0, 0];
    let mut now = at(0);
    while now < at(6_000) {
        s.handle(now, None);
        for (sum, end) in arrived.iter_mut().zip(ends) {
            *sum += s.read(now, end, u64::MAX, None);
        }
        s.write(now, PHONE, u64::MAX, None);
        if now > at(3_000) {
            s.write(now, (two, End::Phone), u64::MAX, None);
        }
        now = s.next_event().unwrap().max(now);
    }
    // 2.2 s alone and 2.8 s shared, before Sniff at 5.8 s, at 990 bytes in 6.25 ms.
    let frames = arrived.map(|bytes| bytes / 990);
    assert!((570..580).contains(&frames[0]), "{frames:?}");
    assert!((220..228).contains(&frames[1]), "{frames:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Every byte written is read once, with any sequence of calls, and time goes on.
    #[test]
    fn bytes_are_neither_lost_nor_made(
        calls in prop::collection::vec(
            (0_u64..400, 0_u8..5, 0_u64..5_000, -89.0_f64..-40.0),
            1..120,
        ),
    ) {
        let mut s = stream("watch-bt-2s");
        let (mut now, mut written, mut read) = (Timestamp::ZERO, [0, 0], [0, 0]);
        for (wait, call, bytes, dbm) in calls {
            now += Duration::from_millis(wait);
            match call {
                0 => written[0] += s.write(now, WATCH, bytes, None),
                1 => written[1] += s.write(now, PHONE, bytes, None),
                2 => read[0] += s.read(now, PHONE, bytes, None),
                3 => read[1] += s.read(now, WATCH, bytes, None),
                _ => s.set_signal(now, dbm),
            }
            s.handle(now, None);
            prop_assert!(s.next_event().is_none_or(|next| next >= now));
        }
        s.set_signal(now, -50.0);
        for _ in 0..20 {
            now += Duration::from_secs(10);
            s.handle(now, None);
            read[0] += s.read(now, PHONE, u64::MAX, None);
            read[1] += s.read(now, WATCH, u64::MAX, None);
        }
        prop_assert_eq!(written, read);
    }
}
