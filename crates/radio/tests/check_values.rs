//! The published totals, and the figures computed from the published powers.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use mpbond_radio::machine::CoreSample;
use mpbond_radio::{
    Account, Collaboration, Packet, Phase, Placement, Profiles, Radio, Summary, account,
};
use mpbond_units::Timestamp;

const HOUR: Timestamp = Timestamp::from_millis(3_600_000);

fn play(profile: &str, packets: impl IntoIterator<Item = (Timestamp, Packet)>) -> Account {
    let profiles = Profiles::shipped().unwrap();
    let mut radio = Radio::new(profiles.radio(profile).unwrap(), Placement::Recorded);
    account(&mut radio, packets, Timestamp::ZERO)
}

fn one_packet(profile: &str) -> Summary {
    // The shortest packet, so that its bits do not count.
    play(profile, [(HOUR, Packet::down(0))]).summary()
}

fn near(got: f64, expect: f64, within: f64, what: &str) {
    let error = (got / expect - 1.0).abs();
    assert!(
        error <= within,
        "{what}: {got} where {expect} is right, {:.3} % off",
        error * 100.0
    );
}

#[test]
fn one_isolated_packet() {
    for (profile, joules) in [
        ("lte-2012", 12.765),
        ("umts-2012", 7.382),
        ("wifi-2012", 0.0382),
    ] {
        near(one_packet(profile).joules, joules, 5e-3, profile);
    }
    near(
        one_packet("lte-2012").joules,
        12.765,
        1e-4,
        "lte-2012, to the digit",
    );
    near(
        one_packet("umts-2012").joules,
        7.382,
        1e-4,
        "umts-2012, to the digit",
    );
}

#[test]
fn a_packet_without_its_tail_costs_its_promotion() {
    let lte = one_packet("lte-2012");
    near(
        lte.joules_without_last_tail,
        1.2107 * 0.2601,
        1e-3,
        "promotion",
    );
    let tail = lte.phases[Phase::Tail.index()];
    near(
        tail.joules,
        lte.joules - lte.joules_without_last_tail,
        1e-9,
        "tail",
    );
    near(tail.seconds, 11.576, 1e-9, "length of the tail");
}

#[test]
fn idle_lte_draws_its_paging() {
    let profiles = Profiles::shipped().unwrap();
    let mut radio = Radio::new(profiles.radio("lte-2012").unwrap(), Placement::Live);
    let mut sums = Account::default();
    radio.advance(Timestamp::ZERO, &mut sums);
    radio.finish(HOUR, &mut sums);
    near(sums.total_mj() / 3600.0, 20.0, 0.01, "mW");
}

/// J/MB while data passes at this rate, in packets of 1500 bytes.
fn per_mb(profile: &str, up: bool, mbps: f64) -> f64 {
    let gap_ns = (1500.0 * 8.0 * 1e3 / mbps).round() as u64;
    // Less than the watch's 5 s timer, which reception does not reset.
    let count = (4e9 / gap_ns as f64) as u64;
    let packets = (0..=count).map(|i| {
        let at = Timestamp::from_nanos(HOUR.as_nanos() + i * gap_ns);
        // The last one only closes the last gap.
        let bytes = if i == count { 0 } else { 1500 };
        let packet = if up {
            Packet::up(bytes)
        } else {
            Packet::down(bytes)
        };
        (at, packet)
    });
    let transfer = play(profile, packets).summary().phases[Phase::Transfer.index()];
    transfer.joules / (count as f64 * 1500.0 / 1e6)
}

#[test]
fn joules_per_megabyte_while_data_passes() {
    type Row = (&'static str, bool, &'static [(f64, f64)]);
    let table: [Row; 8] = [
        (
            "lte-2012",
            false,
            &[
                (1.0, 10.720),
                (2.0, 5.568),
                (5.0, 2.477),
                (10.0, 1.446),
                (20.0, 0.931),
                (50.0, 0.622),
            ],
        ),
        (
            "lte-2012",
            true,
            &[(1.0, 13.811), (2.0, 8.659), (5.0, 5.568), (10.0, 4.538)],
        ),
        (
            "umts-2012",
            false,
            &[(1.0, 7.520), (2.0, 4.248), (5.0, 2.286), (10.0, 1.631)],
        ),
        (
            "wifi-2012",
            false,
            &[
                (1.0, 2.159),
                (2.0, 1.628),
                (5.0, 1.309),
                (10.0, 1.202),
                (20.0, 1.149),
                (50.0, 1.117),
            ],
        ),
        (
            "wifi-2012",
            true,
            &[(1.0, 3.328), (2.0, 2.797), (5.0, 2.478), (10.0, 2.372)],
        ),
        (
            "watch-bt-far",
            false,
            &[(0.5, 2.798), (1.0, 1.399), (1.5, 0.933)],
        ),
        (
            "watch-wifi",
            false,
            &[(1.0, 3.028), (5.0, 0.606), (10.0, 0.303)],
        ),
        // The flat 1.048 W of a relaying phone: 16 MB in 116.4 s took 121.984 J.
        ("phone-proxy-wearos", false, &[(1.1, 8.0 * 1.048 / 1.1)]),
    ];
    for (profile, up, row) in table {
        for &(mbps, joules) in row {
            let what = format!("{profile} at {mbps} Mbit/s, up {up}");
            near(per_mb(profile, up, mbps), joules, 1.2e-3, &what);
        }
    }
}

#[test]
fn a_relaying_phone_reproduces_the_published_workloads() {
    for (seconds, joules) in [
        (116.4, 121.984),
        (120.0, 125.76),
        (0.5, 0.524),
        (150.0, 157.2),
    ] {
        let packets = (0..=500).map(|i| {
            let at = HOUR.as_nanos() + (seconds * 1e9 / 500.0 * f64::from(i)) as u64;
            (Timestamp::from_nanos(at), Packet::up(1000))
        });
        near(
            play("phone-proxy-wearos", packets).summary().joules,
            joules,
            1e-3,
            "J",
        );
    }
}

#[test]
fn tails_of_the_watch() {
    // 163 mJ over the published 4.77 s; our tail lasts the whole timer of 5 s.
    near(
        one_packet("watch-bt").phases[Phase::Tail.index()].joules,
        0.163,
        0.05,
        "BT tail",
    );
    let wifi = one_packet("watch-wifi");
    near(
        wifi.phases[Phase::Tail.index()].joules,
        0.022,
        0.02,
        "WiFi tail",
    );
    near(
        wifi.phases[Phase::Promotion.index()].joules,
        0.073,
        0.01,
        "WiFi promotion",
    );
}

#[test]
fn signal_changes_the_power_of_wifi() {
    use mpbond_radio::Hint;
    let profiles = Profiles::shipped().unwrap();
    for (dbm, rx, tx) in [
        (-50.0, 451.0, 654.0),
        (-75.0, 612.5, 1066.0),
        (-99.0, 514.0, 892.0),
        (0.0, 451.0, 654.0),
    ] {
        for (up, expect) in [(false, rx), (true, tx)] {
            let mut radio = Radio::new(profiles.radio("wifi-s4").unwrap(), Placement::Live);
            let mut sums = Account::default();
            radio.hint(HOUR, Hint::Signal(dbm), &mut sums);
            for i in 0..1000 {
                let at = Timestamp::from_nanos(HOUR.as_nanos() + i * 10_000_000);
                let packet = if up {
                    Packet::up(1500)
                } else {
                    Packet::down(1500)
                };
                radio.packet(at, packet, &mut sums);
            }
            radio.finish(HOUR, &mut sums);
            let active = sums.summary().phases[Phase::Transfer.index()];
            near(active.joules / active.seconds * 1e3, expect, 1e-3, "mW");
        }
    }
}

#[test]
fn many_bytes_in_a_window_cost_the_high_power() {
    for (bytes, expect) in [(1000_u32, 450.0), (100, 250.0)] {
        let packets = (0..1000).map(|i| {
            (
                Timestamp::from_nanos(HOUR.as_nanos() + i * 10_000_000),
                Packet::down(bytes),
            )
        });
        let active = play("wifi-s2", packets).summary().phases[Phase::Transfer.index()];
        near(active.joules / active.seconds * 1e3, expect, 0.01, "mW");
    }
}

#[test]
fn the_processor() {
    let profiles = Profiles::shipped().unwrap();
    let core = |core, mhz, utilisation| CoreSample {
        core,
        mhz: Some(mhz),
        utilisation,
    };
    // PowerTutor, Nexus One: 4.1959 mW per per cent at 806 MHz.
    let one = profiles.cpu("cpu-nexus-one").unwrap();
    near(
        one.power_mw(&[core(0, 806.0, 0.5)]),
        209.8,
        1e-3,
        "Nexus One",
    );
    // Galaxy S4: a busy core at 1.89 GHz takes 1.3 W, and it is linear in both.
    let s4 = profiles.cpu("cpu-galaxy-s4").unwrap();
    near(s4.power_mw(&[core(0, 1890.0, 1.0)]), 1300.0, 1e-9, "S4");
    near(
        s4.power_mw(&[core(0, 945.0, 0.5), core(1, 945.0, 0.5)]),
        650.0,
        1e-9,
        "S4",
    );
    // Pixel 2: awake, two clusters, one core of each; cores 4 to 7 are the big ones.
    let p2 = profiles.cpu("cpu-pixel-2").unwrap();
    let expect = 3.8 * (17.757 + 6.478 + 6.141 + 31.671 + 0.5 * 212.147);
    near(
        p2.power_mw(&[core(0, 1900.8, 1.0), core(4, 2457.6, 0.5)]),
        expect,
        1e-9,
        "Pixel 2",
    );
    // Between two frequencies on a straight line; an unknown one is the highest.
    near(
        p2.power_mw(&[core(4, 1161.6, 1.0)]),
        3.8 * (17.757 + 6.141 + (35.760 + 40.608) / 2.0),
        1e-3,
        "between",
    );
    let unknown = CoreSample {
        core: 4,
        mhz: None,
        utilisation: 1.0,
    };
    near(
        p2.power_mw(&[unknown]),
        3.8 * (17.757 + 6.141 + 212.147),
        1e-9,
        "unknown",
    );
}

/// Vendors' profiles give the current of a cluster in mA (Android, power_profile.xml); the table of
/// its cores may be of measured powers.
#[test]
fn currents_beside_a_table_of_powers_are_at_the_voltage() {
    let text = include_str!("../profiles/cpu-pixel-2.toml");
    let mut profiles = Profiles::default();
    profiles
        .load(
            "mine.toml",
            &text.replace("\"MHz\", \"mA\"", "\"MHz\", \"mW\""),
        )
        .unwrap();
    let core = CoreSample {
        core: 0,
        mhz: Some(1900.8),
        utilisation: 0.5,
    };
    let power = profiles.cpu("cpu-pixel-2").unwrap().power_mw(&[core]);
    near(power, 3.8 * (17.757 + 6.478) + 0.5 * 31.671, 1e-9, "mW");
}

/// Energy of networking of a processor whose utilisation takes turns between two values, for 100 s.
fn networking(profile: &str, utilisations: [f64; 2]) -> mpbond_radio::CpuShare {
    let profiles = Profiles::shipped().unwrap();
    let mut all = Collaboration::new(Placement::Recorded);
    let device = all
        .add_device("phone", profiles.device(profile).unwrap(), &profiles)
        .unwrap();
    for i in 0..=200_u64 {
        let core = CoreSample {
            core: 0,
            mhz: Some(1400.0),
            utilisation: utilisations[(i % 2) as usize],
        };
        all.cpu_sample(Timestamp::from_millis(500 * i), device, &[core]);
    }
    let report = all.finish(Timestamp::ZERO);
    report.devices[0].cpu_share.unwrap()
}

#[test]
fn the_background_is_subtracted_on_the_mean() {
    // Nothing runs: 3.8 V * 44 mA while awake, more than the 150.2 mW of the idle phone.
    let idle = networking("galaxy-s3", [0.0, 0.0]);
    assert!(idle.cpu_net_j.abs() < 1e-9, "{idle:?}");
    near(idle.background_j, 15.02, 1e-9, "its background");
    assert_eq!(idle.cpu_share, Some(0.0));
    // A core of the Note at 1400 MHz takes 760 mW, and 167.2 mW while awake; the idle phone takes
    // 203.9 mW. Every second sample is below that, the mean is not.
    let note = networking("galaxy-note", [0.0, 0.2]);
    near(note.cpu_net_j, 167.2e-1 + 0.1 * 76.0 - 20.39, 1e-9, "Note");
    near(note.background_j, 20.39, 1e-9, "its background");
    let share = note.cpu_net_j / (note.cpu_net_j + note.background_j);
    near(note.cpu_share.unwrap(), share, 1e-12, "share");
    // A mean below the background is no negative energy.
    let less = networking("galaxy-note", [0.0, 0.01]);
    assert_eq!(less.cpu_net_j, 0.0);
}

#[test]
fn a_sample_of_another_processor_does_not_fit() {
    let profiles = Profiles::shipped().unwrap();
    let s3 = profiles.cpu("cpu-galaxy-s3").unwrap();
    let core = |core, mhz| CoreSample {
        core,
        mhz,
        utilisation: 1.0,
    };
    assert_eq!(s3.misfit(&core(3, Some(1601.0))), None);
    assert_eq!(s3.misfit(&core(3, None)), None);
    assert!(s3.misfit(&core(4, None)).unwrap().contains("4 cores"));
    assert!(
        s3.misfit(&core(0, Some(1700.0)))
            .unwrap()
            .contains("1600 MHz")
    );
}

/// A radio rests from the first packet of all on, as one without packets; also where a file that is
/// read later begins earlier.
#[test]
fn rest_before_the_first_packet_of_a_radio_counts() {
    let profiles = Profiles::shipped().unwrap();
    let wifi = profiles.radio("watch-wifi").unwrap();
    let second = |s: u64| Timestamp::from_nanos(HOUR.as_nanos() + s * 1_000_000_000);
    for earlier_last in [false, true] {
        let mut all = Collaboration::new(Placement::Recorded);
        let device = all.add_bare_device("watch");
        let names = ["early", "late", "never"];
        let [early, late, _] = names.map(|name| all.add_interface(device, name, wifi));
        let mut packets = [(second(0), early), (second(100), late)];
        if earlier_last {
            packets.reverse();
        }
        for (at, id) in packets {
            all.packet(at, id, Packet::up(100));
        }
        let report = all.finish(second(200));
        let [early, late, never] = &report.devices[0].interfaces[..] else {
            panic!("three interfaces")
        };
        let seconds = |i: &mpbond_radio::InterfaceReport| {
            i.energy.phases.iter().map(|p| p.seconds).sum::<f64>()
        };
        near(seconds(never), 200.0, 1e-9, "s without packets");
        near(seconds(late), 200.0, 1e-9, "s of the late one");
        assert!(seconds(early) >= 200.0, "and a promotion before");
        // Both have the same packet; its promotion is part of the 200 s of the late one only.
        let idle = |i: &mpbond_radio::InterfaceReport| i.energy.phases[3].joules;
        let promotion = seconds(early) - 200.0;
        near(idle(early) - idle(late), 0.025 * promotion, 1e-9, "rest");
        let trace = late.trace.power_mw().map(|bin| bin.iter().sum::<f64>());
        let drawn = trace.sum::<f64>() * late.trace.width_s() / 1e3;
        near(drawn, late.energy.joules, 1e-3, "J in the chart");
    }
}

#[test]
fn a_collaboration_is_the_sum_of_its_devices() {
    let profiles = Profiles::shipped().unwrap();
    let mut all = Collaboration::new(Placement::Recorded);
    let phone = profiles.device("pixel-2").unwrap();
    let primary = all.add_device("primary", phone, &profiles).unwrap();
    let helper = all
        .add_device("helper", profiles.device("nexus-6p").unwrap(), &profiles)
        .unwrap();
    all.make_access_point(primary, phone).unwrap();
    let ids = [
        all.add_interface(primary, "cellular", profiles.radio("lte-2012").unwrap()),
        all.add_interface(primary, "wifi", profiles.radio("wifi-2012").unwrap()),
        all.add_interface(helper, "cellular", profiles.radio("lte-2012").unwrap()),
        all.add_interface(helper, "wifi", profiles.radio("wifi-2012").unwrap()),
    ];
    for i in 0..1000_u64 {
        let at = Timestamp::from_nanos(HOUR.as_nanos() + i * 10_000_000);
        all.packet(at, ids[0], Packet::down(1500));
        all.packet(at, ids[2], Packet::down(1500));
        all.packet(at, ids[3], Packet::up(1500));
        all.packet(at, ids[1], Packet::down(1500));
    }
    let core = CoreSample {
        core: 0,
        mhz: Some(1900.8),
        utilisation: 1.0,
    };
    all.cpu_sample(HOUR, primary, &[core]);
    all.cpu_sample(
        Timestamp::from_nanos(HOUR.as_nanos() + 10_000_000_000),
        primary,
        &[core],
    );
    let report = all.finish(HOUR);
    near(report.seconds, 9.99, 1e-9, "s");
    let [p, h] = &report.devices[..] else {
        panic!("two devices")
    };
    near(report.joules, p.joules + h.joules, 1e-12, "sum");
    let lte = |d: &mpbond_radio::DeviceReport| d.interfaces[0].energy.joules;
    near(
        lte(p),
        1.2107 * 0.2601 + 1.28804 * 9.99 + 51.97e-9 * 12e6 + 12.4502,
        1e-4,
        "LTE",
    );
    near(lte(h), lte(p), 1e-12, "both alike");
    near(
        p.cpu.as_ref().unwrap().energy.joules,
        10.0 * (3.8 * (17.757 + 6.478 + 31.671) - 150.2) / 1e3,
        1e-6,
        "CPU",
    );
    assert!(h.cpu.is_none() && h.access_point.is_none());
    // The band of the access point shows in the total, and only it.
    near(
        report.joules_high - report.joules_low,
        (614.0 - 119.0) * 9.99 / 1e3,
        1e-6,
        "band",
    );
    near(p.base_joules, 25.9 * 9.99 / 1e3, 1e-9, "base");
    let tails = report.joules - report.joules_without_last_tail;
    near(tails, 2.0 * (12.4502 + 0.1193 * 0.2381), 1e-4, "last tails");
    let parts: f64 = report
        .devices
        .iter()
        .flat_map(|d| &d.interfaces)
        .flat_map(|i| &i.energy.phases)
        .map(|p| p.joules)
        .sum();
    let interfaces: f64 = report
        .devices
        .iter()
        .flat_map(|d| &d.interfaces)
        .map(|i| i.energy.joules)
        .sum();
    near(parts, interfaces, 1e-12, "phases");
    near(
        report.joules_per_mb.unwrap(),
        report.joules / 6.0,
        1e-12,
        "J/MB",
    );

    let table = report.to_table();
    assert!(
        table.contains("access point power is assumed: between"),
        "{table}"
    );
    assert!(table.lines().count() >= 9, "{table}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    near(
        json["devices"][1]["interfaces"][0]["joules"]
            .as_f64()
            .unwrap(),
        lte(h),
        1e-9,
        "JSON",
    );
    // The CSV holds the same energy, up to its three decimals.
    let csv: f64 = report
        .to_csv()
        .lines()
        .skip(1)
        .map(|line| {
            let f: Vec<&str> = line.split(',').collect();
            let n = |i: usize| f[i].parse::<f64>().unwrap();
            (n(1) - n(0)) * n(5) / 1e3
        })
        .sum();
    near(
        csv,
        interfaces + p.cpu.as_ref().unwrap().energy.joules,
        1e-3,
        "CSV",
    );
    let svg = report.to_svg("primary & <helper>");
    assert!(svg.contains("primary &amp; &lt;helper&gt;") && svg.contains("promotion"));
    let areas = svg.matches("<path fill=").count();
    assert!(areas > 0 && areas == svg.matches("</path>").count());
}
