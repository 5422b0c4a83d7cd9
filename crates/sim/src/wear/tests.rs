//! Runs with results by hand.

use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_radio::machine::{BluetoothParameters, End, Mode};
use mpbond_radio::profile;
use mpbond_units::{BitRate, Timestamp};

use super::*;
use crate::link::SUPERVISION_TIMEOUT;

fn setup(paths: Paths, flow: Traffic, seconds: u64) -> Setup {
    let profiles = Profiles::shipped().unwrap();
    let bluetooth = |name: &str| -> BluetoothParameters {
        match &profiles.radio(name).unwrap().radio {
            profile::Radios::Bluetooth(p) => (**p).clone(),
            other => panic!("{name}: {other:?}"),
        }
    };
    let network = |mbps, ms| Network {
        rate: BitRate::from_mbps(mbps),
        rtt: Duration::from_millis(ms),
    };
    Setup {
        radios: Radios {
            watch: bluetooth("watch-bt"),
            phone: bluetooth("phone-bt"),
            watch_wifi: profiles.radio("watch-wifi").unwrap().clone(),
            phone_wifi: profiles.radio("wifi-s4").unwrap().clone(),
            relaying_phone: profiles.radio("phone-proxy-wearos").unwrap().clone(),
            watch_base_mw: 20.0,
        },
        phone: network(50.0, 20),
        wifi: (paths != Paths::Phone).then(|| Wifi {
            network: network(10.0, 10),
            on_air: None,
            band: None,
            on_after: Duration::ZERO,
            join: Joining::After(Duration::from_secs(8)),
            connects: Connects::Joined,
        }),
        window_bytes: 4 << 20,
        proxy_bytes: 200_000,
        virtual_queue: false,
        keeper: false,
        uplink_every: None,
        paths,
        dbm: -50.0,
        lost_after: SUPERVISION_TIMEOUT,
        walk: None,
        flows: vec![flow],
        until: Timestamp::from_millis(1_000 * seconds),
        seed: 1,
    }
}

const ENDLESS: Traffic = Traffic::Bulk { bytes: None };

fn camera() -> Traffic {
    Traffic::Chunks {
        bytes: 3_000,
        every: Duration::from_millis(160),
    }
}

fn mbps(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.deliveries.iter().map(|d| d.bytes).sum();
    BitRate::over(bytes, outcome.end.since(outcome.start)).mbps()
}

/// Mean delay of what arrived in the last half, in s.
fn late_delay(outcome: &Outcome) -> f64 {
    let half = outcome.start + outcome.end.since(outcome.start) / 2;
    let late = outcome.deliveries.iter().filter(|d| d.arrived >= half);
    let delays: Vec<f64> = late.map(|d| d.delay.as_secs_f64()).collect();
    delays.iter().sum::<f64>() / delays.len() as f64
}

#[test]
fn a_download_fills_the_phones_window_and_sniff_takes_a_seventh_of_the_rate() {
    let mut s = setup(Paths::Phone, ENDLESS, 60);
    s.window_bytes = 400_000;
    s.proxy_bytes = 100_000;
    let slow = run(&s);
    // 5 s of every 5.8 s at 1.267 Mbit/s.
    assert!((mbps(&slow) - 1.09).abs() < 0.05, "{}", mbps(&slow));
    // 510 kB wait at 1.09 Mbit/s.
    assert!(
        (late_delay(&slow) - 3.7).abs() < 0.3,
        "{}",
        late_delay(&slow)
    );
    let sniffs = slow.requests.iter().filter(|r| r.mode == Mode::Sniff);
    assert!(sniffs.clone().all(|r| r.from == End::Wearable));
    assert!((9..=11).contains(&sniffs.count()));
    assert_eq!(slow.keeper_packets, 0);
    s.keeper = true;
    let kept = run(&s);
    assert!((mbps(&kept) - 1.26).abs() < 0.03, "{}", mbps(&kept));
    assert!(kept.requests.iter().all(|r| r.mode == Mode::Active));
    // Every 4.5 s of 59 s.
    assert!((12..=14).contains(&kept.keeper_packets));
    let times: Vec<Timestamp> = kept.deliveries.iter().map(|d| d.delivered).collect();
    let gap = times.windows(2).map(|p| p[1].since(p[0])).max().unwrap();
    assert!(gap <= Duration::from_millis(200), "{gap:?}");
}

#[test]
fn a_keeper_sends_nothing_for_a_message_every_20_s() {
    let message = Traffic::Chunks {
        bytes: 1_000,
        every: Duration::from_secs(20),
    };
    let mut s = setup(Paths::Phone, message, 300);
    let without = run(&s);
    s.keeper = true;
    let with = run(&s);
    assert_eq!((with.keeper_packets, with.undelivered), (0, 0));
    assert_eq!(with.joules, without.joules);
}

#[test]
fn a_phone_relays_for_a_camera_at_the_published_power() {
    // 150 s at 1.048 W (Wear OS paper, section 5.1), and the 1 s for which the power is held.
    let outcome = run(&setup(Paths::Phone, camera(), 151));
    let joules = outcome.joules.relaying_phone;
    assert!((157.2 - joules).abs() < 1.1, "{joules}");
    // The watch takes 20 mW without its radios.
    assert!((outcome.joules.watch_base - 0.02 * 151.0).abs() < 0.01);
}

#[test]
fn a_virtual_queue_bounds_the_delay_and_keeps_the_rate() {
    let mut s = setup(Paths::Phone, ENDLESS, 60);
    let without = run(&s);
    s.virtual_queue = true;
    let with = run(&s);
    assert!(late_delay(&without) > 10.0, "{}", late_delay(&without));
    let worst = with.deliveries.iter().map(|d| d.delay).max().unwrap();
    assert!(late_delay(&with) < 0.8, "{}", late_delay(&with));
    // The upper threshold, 0.7 s, and a blackout of 0.8 s.
    assert!(worst < Duration::from_millis(1_600), "{worst:?}");
    let (before, after) = (mbps(&without), mbps(&with));
    assert!(after > 0.97 * before, "{after} for {before}");
    // Without blackouts every delay is tolerable.
    s.keeper = true;
    let kept = run(&s);
    let worst = kept.deliveries.iter().map(|d| d.delay).max().unwrap();
    assert!(worst < Duration::from_millis(800), "{worst:?}");
    assert!(mbps(&kept) > after);
}

#[test]
fn what_bluetooth_cannot_drain_goes_to_wifi() {
    let file = Traffic::Bulk {
        bytes: Some(16_000_000),
    };
    let bluetooth = run(&setup(Paths::Phone, file, 600));
    let wifi = run(&setup(Paths::Wifi, file, 600));
    let selected = run(&setup(Paths::Selected(Rule::Published), file, 600));
    let [b, w, s] = [&bluetooth, &wifi, &selected].map(|o| {
        assert_eq!(o.undelivered, 0);
        o.end.since(o.start).as_secs_f64()
    });
    assert!((b - 117.0).abs() < 2.0, "{b}");
    assert!((12.8..14.5).contains(&w), "{w}");
    assert!(s < 20.0, "{s}");
    assert_eq!(selected.switches, 1);
    // 116 s of Bluetooth cost more than 13 s of WiFi.
    assert!(bluetooth.joules.watch_bluetooth > wifi.joules.watch_wifi);
}

#[test]
fn a_camera_goes_on_while_its_watch_leaves() {
    for (mode, most) in [
        (HandoverMode::OnDemand, 0.3),
        (HandoverMode::AlwaysOn, 0.3),
        (HandoverMode::Reactive, 60.0),
    ] {
        let mut s = setup(Paths::Handover(mode), camera(), 90);
        s.keeper = true;
        s.walk = Some(Walk {
            from: Timestamp::from_millis(5_000),
            speed: 1.2,
        });
        let outcome = run(&s);
        let times: Vec<Timestamp> = outcome.deliveries.iter().map(|d| d.delivered).collect();
        let gap = times.windows(2).map(|p| p[1].since(p[0]).as_secs_f64());
        let gap = gap.fold(0.0, f64::max);
        assert!(gap < most, "{mode:?}: {gap}");
        assert!(outcome.undelivered < 3, "{mode:?}: {}", outcome.undelivered);
        let last = outcome.deliveries.last().unwrap();
        assert_eq!(last.path, Path::Wifi, "{mode:?}");
        assert!(mode != HandoverMode::Reactive || gap > 20.0, "{gap}");
    }
}

/// Bluetooth is lost 20 s after its signal, WiFi is joined 22 s later. A connection that began at
/// the loss repeats its SYN after 1, 3, 7, 15 and 31 s, one that began with the silence also after
/// 63 s.
#[test]
fn a_connection_that_began_before_wifi_waits_for_its_next_syn() {
    for (connects, p4) in [
        (Connects::Joined, 0),
        (Connects::Lost, 31 - 22),
        (Connects::Silent, 63 - 42),
    ] {
        let mut s = setup(Paths::Handover(HandoverMode::Reactive), camera(), 150);
        s.keeper = true;
        s.walk = Some(Walk {
            from: Timestamp::from_millis(5_000),
            speed: 1.2,
        });
        let wifi = s.wifi.as_mut().unwrap();
        wifi.on_after = Duration::from_secs(15);
        wifi.join = Joining::After(Duration::from_secs(7));
        wifi.connects = connects;
        let outcome = run(&s);
        let [silent, off, joining, resuming] = outcome.phases.unwrap();
        let seconds = Duration::from_secs;
        assert_eq!(
            [silent, off, joining],
            [20, 15, 7].map(seconds),
            "{connects:?}"
        );
        // The handshake, and the first data.
        let most = seconds(p4) + Duration::from_millis(100);
        assert!(
            (seconds(p4)..most).contains(&resuming),
            "{connects:?}: {resuming:?}"
        );
        assert!(outcome.undelivered < 3, "{}", outcome.undelivered);
    }
}

#[test]
fn a_handover_before_the_loss_has_no_phases() {
    let mut s = setup(Paths::Handover(HandoverMode::OnDemand), camera(), 90);
    s.walk = Some(Walk {
        from: Timestamp::from_millis(5_000),
        speed: 1.2,
    });
    assert_eq!(run(&s).phases, None);
}

#[test]
fn copies_on_both_paths_take_the_shorter_delay() {
    let steady = Traffic::Chunks {
        bytes: 1_250,
        every: Duration::from_millis(20),
    };
    let delay = |paths| {
        let outcome = run(&setup(paths, steady, 60));
        let all: Vec<f64> = outcome
            .deliveries
            .iter()
            .map(|d| d.delay.as_secs_f64())
            .collect();
        assert!(outcome.undelivered < 100);
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (phone, wifi, both) = (
        delay(Paths::Phone),
        delay(Paths::Wifi),
        delay(Paths::Redundant),
    );
    assert!(wifi < phone && both <= wifi * 1.01, "{phone} {wifi} {both}");
}

#[test]
fn a_connection_after_the_second_join_carries_its_own_chunks() {
    let mut s = setup(Paths::Handover(HandoverMode::OnDemand), camera(), 300);
    s.keeper = true;
    // The smoothed signal crosses the threshold now and then.
    s.dbm = -66.0;
    s.wifi.as_mut().unwrap().join = Joining::After(Duration::from_millis(100));
    let outcome = run(&s);
    assert!(outcome.switches >= 4, "{}", outcome.switches);
    let times: Vec<Timestamp> = outcome.deliveries.iter().map(|d| d.delivered).collect();
    let gap = times.windows(2).map(|p| p[1].since(p[0]).as_secs_f64());
    let gap = gap.fold(0.0, f64::max);
    assert!(gap < 1.0, "{gap} s");
    assert!(outcome.undelivered < 3, "{}", outcome.undelivered);
}

#[test]
fn an_idle_wifi_connection_costs_a_keep_alive_every_four_minutes() {
    let once = Traffic::Chunks {
        bytes: 1_000,
        every: Duration::from_secs(3_600),
    };
    let joules = |seconds| {
        let s = setup(Paths::Handover(HandoverMode::AlwaysOn), once, seconds);
        let outcome = run(&s);
        assert_eq!(outcome.undelivered, 0);
        outcome.joules.watch_wifi
    };
    // WiFi is joined at 8 s.
    let idle = joules(240) - joules(200);
    for around in [248, 488] {
        let more = joules(around + 20) - joules(around - 20) - idle;
        assert!(more > 0.01, "at {around} s: {more} J");
    }
    let between = joules(440) - joules(400);
    assert!((between - idle).abs() < 1e-6, "{between} for {idle}");
}

#[test]
fn a_virtual_queue_bounds_the_delay_of_all_flows_together() {
    let late = |flows: usize| {
        let mut s = setup(Paths::Phone, ENDLESS, 60);
        s.virtual_queue = true;
        s.flows = vec![ENDLESS; flows];
        let outcome = run(&s);
        assert!(mbps(&outcome) > 1.05, "{flows}: {}", mbps(&outcome));
        let worst = outcome.deliveries.iter().map(|d| d.delay).max().unwrap();
        (late_delay(&outcome), worst)
    };
    for flows in [1, 2] {
        let (mean, worst) = late(flows);
        assert!(mean < 0.8, "{flows}: {mean} s");
        // As above; each connection rounds its share of the window up.
        assert!(worst < Duration::from_millis(1_700), "{flows}: {worst:?}");
    }
}

/// Downloads over Bluetooth and over WiFi with a bound of 1 Mbit/s at once (Wear OS paper, Figure
/// 13). WiFi of the same antenna is on the air for a thirtieth of the time, and takes far more of
/// Bluetooth's rate, since an exchange that it meets is lost as a whole.
#[test]
fn short_packets_of_wifi_cost_whole_exchanges_of_bluetooth() {
    let rates = |band: Option<Interference>| {
        let mut s = setup(Paths::Each, ENDLESS, 60);
        s.flows.push(ENDLESS);
        let wifi = s.wifi.as_mut().unwrap();
        wifi.network.rate = BitRate::from_mbps(1.0);
        wifi.on_air = Some(BitRate::from_mbps(31.0));
        wifi.band = band;
        let outcome = run(&s);
        [Path::Phone, Path::Wifi].map(|path| {
            let of_path = outcome.deliveries.iter().filter(|d| d.path == path);
            of_path.map(|d| d.bytes).sum::<u64>() as f64
        })
    };
    let [apart, wifi_apart] = rates(None);
    let [beside, wifi_beside] = rates(Some(Interference::OneAntenna));
    let left = beside / apart;
    assert!((0.4..0.75).contains(&left), "{left}");
    let left = wifi_beside / wifi_apart;
    assert!((left - 1.0).abs() < 0.01, "WiFi goes first: {left}");
}

#[test]
fn a_run_repeats() {
    let s = setup(Paths::MinRtt, ENDLESS, 10);
    let (a, b) = (run(&s), run(&s));
    assert_eq!(a.deliveries, b.deliveries);
    assert_eq!(a.joules, b.joules);
}

#[test]
fn an_application_goes_to_wifi_while_its_rate_is_high() {
    let in_turn = Traffic::InTurn {
        bytes: 1_250,
        every: [Duration::from_millis(50), Duration::from_micros(2_500)],
        phase: Duration::from_secs(10),
    };
    let wifi_from = BitRate::from_mbps(1.0);
    let outcome = run(&setup(Paths::ByRate(wifi_from), in_turn, 41));
    assert_eq!(outcome.switches, 3);
    for d in &outcome.deliveries {
        let phase = d.due.since(outcome.start).as_secs() / 10;
        let path = if phase.is_multiple_of(2) {
            Path::Phone
        } else {
            Path::Wifi
        };
        assert_eq!(d.path, path, "{d:?}");
    }
    // 200 kbit/s and 4 Mbit/s for 20 s each.
    let bytes: u64 = outcome.deliveries.iter().map(|d| d.bytes).sum();
    assert!((10_400_000..=10_500_000).contains(&bytes), "{bytes}");
    // Bluetooth alone carries a third of the high rate.
    let bluetooth = run(&setup(Paths::Phone, in_turn, 41));
    assert!(bluetooth.undelivered > 1_000, "{}", bluetooth.undelivered);
}
