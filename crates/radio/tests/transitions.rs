//! Every transition of every machine, by table: what happens, when packets
//! pass, and which states follow each other. Times are in ms.
// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use mpbond_radio::machine::{
    Band, BandState, BandUser, BluetoothLink, BluetoothParameters, End, Mode,
};
use mpbond_radio::profile::Radios;
use mpbond_radio::{Hint, Packet, Placement, Profiles, Radio, Span};
use mpbond_units::Timestamp;
use std::time::Duration;

fn ms(t: f64) -> Timestamp {
    Timestamp::from_nanos((t * 1e6).round() as u64)
}

fn in_ms(t: Timestamp) -> f64 {
    (t.as_nanos() as f64 / 1e5).round() / 10.0
}

fn show(spans: &[Span]) -> String {
    // Stretches of one state that were written apart belong together here.
    let mut merged: Vec<(&str, f64, f64)> = Vec::new();
    for span in spans {
        let name = span.state.name();
        match merged.last_mut() {
            Some((last, _, end)) if *last == name => *end = in_ms(span.end),
            _ => merged.push((name, in_ms(span.start), in_ms(span.end))),
        }
    }
    let parts: Vec<String> = merged
        .iter()
        .map(|(name, start, end)| format!("{name} {start}-{end}"))
        .collect();
    parts.join(", ")
}

/// Events are `T up BYTES`, `T down BYTES`, `T wake`, `T release`, `T off`,
/// `T signal DBM`, `T end`; the result is the passing times and the states.
fn play(radio: &mut Radio, script: &str) -> (String, String) {
    let mut spans: Vec<Span> = Vec::new();
    let mut passes = Vec::new();
    for event in script.split(',') {
        let words: Vec<&str> = event.split_whitespace().collect();
        let at = ms(words[0].parse().unwrap());
        let number = || words[2].parse::<f64>().unwrap();
        let mut packet = |p: Packet| {
            let pass = radio.packet(at, p, &mut spans);
            assert!(pass >= at, "no packet passes before it is there");
            passes.push(in_ms(pass).to_string());
        };
        match words[1] {
            "up" => packet(Packet::up(number() as u32)),
            "down" => packet(Packet::down(number() as u32)),
            "wake" => radio.hint(at, Hint::Wake, &mut spans),
            "release" => radio.hint(at, Hint::Release, &mut spans),
            "off" => radio.hint(at, Hint::Off, &mut spans),
            "signal" => radio.hint(at, Hint::Signal(number()), &mut spans),
            "at" => radio.advance(at, &mut spans),
            "end" => radio.finish(at, &mut spans),
            other => panic!("no event {other}"),
        }
    }
    for pair in spans.windows(2) {
        assert_eq!(pair[0].end, pair[1].start, "{script}: {}", show(&spans));
    }
    (passes.join(" "), show(&spans))
}

fn check(profile: &str, placement: Placement, table: &[(&str, &str, &str)]) {
    let profiles = Profiles::shipped().unwrap();
    for (script, passes, states) in table {
        let mut radio = Radio::new(profiles.radio(profile).unwrap(), placement);
        let (got_passes, got_states) = play(&mut radio, script);
        assert_eq!(got_passes, *passes, "{profile}: passing times of: {script}");
        assert_eq!(got_states, *states, "{profile}: states of: {script}");
    }
}

#[test]
fn lte_live() {
    check(
        "lte-aro",
        Placement::Live,
        &[
            (
                "0 up 100, 12000 end",
                "260",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-10380, idle 10380-12000",
            ),
            // Packets offered during the promotion pass when it is over.
            (
                "0 up 100, 100 down 100, 12000 end",
                "260 260",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-10380, idle 10380-12000",
            ),
            // A gap up to T_i is activity, exactly T_i included.
            (
                "0 up 100, 360 up 100, 0 end",
                "260 360",
                "promotion 0-260, active 260-360, continuous reception 360-460, short drx 460-480, long drx 480-10480",
            ),
            // Short and long DRX: what is received waits for the next cycle.
            (
                "0 up 100, 365 down 100, 0 end",
                "260 380",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, continuous reception 380-480, short drx 480-500, long drx 500-10500",
            ),
            (
                "0 up 100, 361 down 100, 0 end",
                "260 361",
                "promotion 0-260, continuous reception 260-360, short drx 360-361, continuous reception 361-461, short drx 461-481, long drx 481-10481",
            ),
            (
                "0 up 100, 390 down 100, 0 end",
                "260 420",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-420, continuous reception 420-520, short drx 520-540, long drx 540-10540",
            ),
            // What is sent does not wait.
            (
                "0 up 100, 365 up 100, 600 up 100, 0 end",
                "260 365 600",
                "promotion 0-260, continuous reception 260-360, short drx 360-365, continuous reception 365-465, short drx 465-485, long drx 485-600, continuous reception 600-700, short drx 700-720, long drx 720-10720",
            ),
            // Paging: heard in an occasion, else at the next.
            (
                "0 up 100, 10400 down 100, 0 end",
                "260 10660",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-10380, idle 10380-10400, promotion 10400-10660, continuous reception 10660-10760, short drx 10760-10780, long drx 10780-20780",
            ),
            (
                "0 up 100, 10500 down 100, 0 end",
                "260 11920",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-10380, idle 10380-11660, promotion 11660-11920, continuous reception 11920-12020, short drx 12020-12040, long drx 12040-22040",
            ),
            // Own data cuts the wait short.
            (
                "0 up 100, 10500 down 100, 11000 up 100, 0 end",
                "260 11920 11260",
                "promotion 0-260, continuous reception 260-360, short drx 360-380, long drx 380-10380, idle 10380-11000, promotion 11000-11260, active 11260-11920, continuous reception 11920-12020, short drx 12020-12040, long drx 12040-22040",
            ),
            (
                "0 wake, 300 up 100, 0 end",
                "300",
                "promotion 0-260, active 260-300, continuous reception 300-400, short drx 400-420, long drx 420-10420",
            ),
            (
                "0 up 100, 300 release, 900 end",
                "260",
                "promotion 0-260, continuous reception 260-300, idle 300-900",
            ),
            (
                "0 up 100, 100 release, 900 end",
                "260",
                "promotion 0-260, idle 260-900",
            ),
            ("0 at, 50 release, 90 end", "", "idle 0-90"),
        ],
    );
}

#[test]
fn lte_recorded() {
    check(
        "lte-aro",
        Placement::Recorded,
        &[
            // The promotion lies before the packet.
            (
                "1000 down 100, 0 end",
                "1000",
                "promotion 740-1000, continuous reception 1000-1100, short drx 1100-1120, long drx 1120-11120",
            ),
            // A hint may end what a hint began; the packet passes at its own time.
            (
                "1000 wake, 1100 release, 1150 up 100, 0 end",
                "1150",
                "promotion 1000-1150, continuous reception 1150-1250, short drx 1250-1270, long drx 1270-11270",
            ),
            // Nothing waits in DRX.
            (
                "1000 down 100, 1130 down 100, 0 end",
                "1000 1130",
                "promotion 740-1000, continuous reception 1000-1100, short drx 1100-1120, long drx 1120-1130, continuous reception 1130-1230, short drx 1230-1250, long drx 1250-11250",
            ),
            (
                "1000 up 100, 20000 down 100, 0 end",
                "1000 20000",
                "promotion 740-1000, continuous reception 1000-1100, short drx 1100-1120, long drx 1120-11120, idle 11120-19740, promotion 19740-20000, continuous reception 20000-20100, short drx 20100-20120, long drx 20120-30120",
            ),
            // Idle for less than a promotion takes: only that much is charged.
            (
                "1000 up 100, 11220 down 100, 0 end",
                "1000 11220",
                "promotion 740-1000, continuous reception 1000-1100, short drx 1100-1120, long drx 1120-11120, promotion 11120-11220, continuous reception 11220-11320, short drx 11320-11340, long drx 11340-21340",
            ),
        ],
    );
}

#[test]
fn nr_with_and_without_a_suspended_connection() {
    check(
        "5g-sa-2020",
        Placement::Live,
        &[
            (
                "0 up 100, 20000 end",
                "270",
                "promotion 0-270, tail 270-10470, inactive 10470-15270, idle 15270-20000",
            ),
            (
                "0 up 100, 12000 up 100, 0 end",
                "270 12100",
                "promotion 0-270, tail 270-10470, inactive 10470-12000, promotion 12000-12100, tail 12100-22300, inactive 22300-27100",
            ),
            (
                "0 up 100, 16000 up 100, 0 end",
                "270 16270",
                "promotion 0-270, tail 270-10470, inactive 10470-15270, idle 15270-16000, promotion 16000-16270, tail 16270-26470, inactive 26470-31270",
            ),
            // Received data waits for its DRX cycle of 40 ms.
            (
                "0 up 100, 285 down 100, 384 down 100, 0 end",
                "270 285 384",
                "promotion 0-270, active 270-384, tail 384-10584, inactive 10584-15384",
            ),
            (
                "0 up 100, 405 down 100, 0 end",
                "270 430",
                "promotion 0-270, tail 270-10630, inactive 10630-15430",
            ),
        ],
    );
    check(
        "lte-2020-tmobile",
        Placement::Live,
        &[(
            "0 up 100, 9000 end",
            "270",
            "promotion 0-270, tail 270-5270, idle 5270-9000",
        )],
    );
}

#[test]
fn umts_live() {
    check(
        "umts-aro",
        Placement::Live,
        &[
            // IDLE to DCH, DCH to FACH after 5 s, FACH to IDLE after 12 s.
            (
                "0 up 1000, 30000 end",
                "2000",
                "promotion 0-2000, dch 2000-7000, fach 7000-19000, idle 19000-30000",
            ),
            (
                "0 up 1000, 500 down 100, 0 end",
                "2000 2000",
                "promotion 0-2000, dch 2000-7000, fach 7000-19000",
            ),
            // More than 320 bytes restart the DCH timer …
            (
                "0 up 1000, 4000 up 400, 0 end",
                "2000 4000",
                "promotion 0-2000, dch 2000-9000, fach 9000-21000",
            ),
            // … 320 do not, unless others passed within 0.3 s.
            (
                "0 up 1000, 4000 up 320, 0 end",
                "2000 4000",
                "promotion 0-2000, dch 2000-7000, fach 7000-19000",
            ),
            (
                "0 up 1000, 4000 up 200, 4050 down 200, 0 end",
                "2000 4000 4050",
                "promotion 0-2000, dch 2000-4000, active 4000-4050, dch 4050-9050, fach 9050-21050",
            ),
            // A small packet passes over FACH (5 kbit/s up) and restarts its timer.
            (
                "0 up 1000, 8000 up 100, 0 end",
                "2000 8160",
                "promotion 0-2000, dch 2000-7000, fach 7000-20160",
            ),
            // FACH to DCH above 543 bytes up or 475 down, queued bytes included.
            (
                "0 up 1000, 8000 up 544, 0 end",
                "2000 9500",
                "promotion 0-2000, dch 2000-7000, fach 7000-8000, promotion 8000-9500, dch 9500-14500, fach 14500-26500",
            ),
            (
                "0 up 1000, 8000 up 543, 0 end",
                "2000 8868.8",
                "promotion 0-2000, dch 2000-7000, fach 7000-20868.8",
            ),
            (
                "0 up 1000, 8000 down 300, 8005 down 300, 0 end",
                "2000 8030 9505",
                "promotion 0-2000, dch 2000-7000, fach 7000-8005, promotion 8005-9505, dch 9505-14505, fach 14505-26505",
            ),
            // The queue drains (80 kbit/s down).
            (
                "0 up 1000, 8000 down 300, 8100 down 300, 0 end",
                "2000 8030 8130",
                "promotion 0-2000, dch 2000-7000, fach 7000-20130",
            ),
            // Paging delays what is received in IDLE.
            (
                "0 up 1000, 19100 down 1000, 0 end",
                "2000 26112",
                "promotion 0-2000, dch 2000-7000, fach 7000-19000, idle 19000-24112, promotion 24112-26112, dch 26112-31112, fach 31112-43112",
            ),
            (
                "0 up 1000, 19100 down 1000, 20000 up 40, 0 end",
                "2000 26112 22000",
                "promotion 0-2000, dch 2000-7000, fach 7000-19000, idle 19000-20000, promotion 20000-22000, active 22000-26112, dch 26112-31112, fach 31112-43112",
            ),
            (
                "0 wake, 2100 up 1000, 0 end",
                "2100",
                "promotion 0-2000, active 2000-2100, dch 2100-7100, fach 7100-19100",
            ),
            (
                "0 up 1000, 3000 release, 4000 end",
                "2000",
                "promotion 0-2000, dch 2000-3000, idle 3000-4000",
            ),
            (
                "0 up 1000, 8000 off, 9000 end",
                "2000",
                "promotion 0-2000, dch 2000-7000, fach 7000-8000, idle 8000-9000",
            ),
        ],
    );
}

#[test]
fn umts_recorded() {
    check(
        "umts-aro",
        Placement::Recorded,
        &[
            (
                "5000 up 1000, 12000 up 100, 14000 up 600, 0 end",
                "5000 12000 14000",
                "promotion 3000-5000, dch 5000-10000, fach 10000-12500, promotion 12500-14000, dch 14000-19000, fach 19000-31000",
            ),
            // What was written up to the packet at 12 s stays: less time is left to charge.
            (
                "5000 up 1000, 12000 up 100, 13000 up 600, 0 end",
                "5000 12000 13000",
                "promotion 3000-5000, dch 5000-10000, fach 10000-12000, promotion 12000-13000, dch 13000-18000, fach 18000-30000",
            ),
            // A hint may end what a hint began; the packet passes at its own time.
            (
                "5000 wake, 5000 release, 5000 up 1000, 0 end",
                "5000",
                "dch 5000-10000, fach 10000-22000",
            ),
        ],
    );
}

#[test]
fn umts_from_idle_to_fach() {
    check(
        "umts-teliasonera",
        Placement::Live,
        &[
            ("0 up 1000, 0 end", "430", "promotion 0-430, fach 430-6030"),
            (
                "0 up 1001, 0 end",
                "1700",
                "promotion 0-1700, dch 1700-5800, fach 5800-11400",
            ),
            ("0 down 515, 0 end", "430", "promotion 0-430, fach 430-6030"),
            (
                "0 down 516, 0 end",
                "1700",
                "promotion 0-1700, dch 1700-5800, fach 5800-11400",
            ),
        ],
    );
}

#[test]
fn wifi_live() {
    check(
        "watch-wifi",
        Placement::Live,
        &[
            (
                "0 up 100, 1000 end",
                "300",
                "promotion 0-300, tail 300-480, psm 480-1000",
            ),
            // Awake in the tail: passes at once.
            (
                "0 up 100, 400 down 100, 0 end",
                "300 400",
                "promotion 0-300, tail 300-580",
            ),
            // Asleep: what is received waits for a beacon (308.2 ms).
            (
                "0 up 100, 500 down 100, 0 end",
                "300 1088.2",
                "promotion 0-300, tail 300-480, psm 480-788.2, promotion 788.2-1088.2, tail 1088.2-1268.2",
            ),
            (
                "0 up 100, 500 up 100, 0 end",
                "300 800",
                "promotion 0-300, tail 300-480, psm 480-500, promotion 500-800, tail 800-980",
            ),
            // Off: the next packet waits for an association.
            (
                "0 up 100, 350 off, 1000 up 100, 0 end",
                "300 9300",
                "promotion 0-300, tail 300-350, off 350-1000, association 1000-9300, tail 9300-9480",
            ),
            (
                "0 off, 100 wake, 8500 up 100, 0 end",
                "8500",
                "off 0-100, association 100-8400, tail 8400-8680",
            ),
            (
                "0 wake, 320 up 100, 350 release, 500 end",
                "320",
                "promotion 0-300, active 300-320, tail 320-350, psm 350-500",
            ),
        ],
    );
}

#[test]
fn host_bus_live() {
    check(
        "bus-broadcom",
        Placement::Live,
        &[
            (
                "0 up 100, 100 end",
                "12",
                "promotion 0-12, tail 12-62, asleep 62-100",
            ),
            // Within 50 ms awake, later 12 ms to wake, both ways.
            (
                "0 up 100, 61 down 100, 0 end",
                "12 61",
                "promotion 0-12, tail 12-111",
            ),
            (
                "0 up 100, 85 down 100, 0 end",
                "12 97",
                "promotion 0-12, tail 12-62, asleep 62-85, promotion 85-97, tail 97-147",
            ),
        ],
    );
}

#[test]
fn flat_live() {
    check(
        "phone-proxy-wearos",
        Placement::Live,
        &[(
            "0 up 100, 900 up 100, 5000 down 100, 6000 end",
            "0 900 5000",
            "active 0-900, idle 900-6000",
        )],
    );
}

#[test]
fn bluetooth_end_of_a_wearable() {
    check(
        "watch-bt",
        Placement::Live,
        &[
            // ❶ transmission ends Sniff, at the next anchor point (500 ms) + 300 ms;
            // ❷ the 5 s timer ends Active.
            (
                "0 at, 100 up 100, 9000 end",
                "800",
                "sniff 0-500, promotion 500-800, tail 800-5800, sniff 5800-9000",
            ),
            // ❸ reset by transmission …
            (
                "0 at, 100 up 100, 3000 up 100, 0 end",
                "800 3000",
                "sniff 0-500, promotion 500-800, tail 800-8000",
            ),
            // … and not by reception.
            (
                "0 at, 100 up 100, 3000 down 100, 0 end",
                "800 3000",
                "sniff 0-500, promotion 500-800, tail 800-5800",
            ),
        ],
    );
    check(
        "watch-bt-2s",
        Placement::Live,
        &[(
            "0 at, 100 up 100, 0 end",
            "800",
            "sniff 0-500, promotion 500-800, tail 800-2800",
        )],
    );
}

#[test]
fn bluetooth_end_of_a_phone() {
    check(
        "phone-bt",
        Placement::Live,
        &[
            // ③ any data ends Sniff, ④ 5 s, ❿ any data resets the timer.
            (
                "0 at, 100 down 100, 3000 down 100, 9000 end",
                "800 3000",
                "sniff 0-500, promotion 500-800, tail 800-8000, sniff 8000-9000",
            ),
            (
                "0 at, 100 up 100, 3000 up 100, 0 end",
                "800 3000",
                "sniff 0-500, promotion 500-800, tail 800-8000",
            ),
            (
                "0 wake, 900 up 100, 1000 release, 1500 end",
                "900",
                "sniff 0-500, promotion 500-800, tail 800-1000, sniff 1000-1500",
            ),
        ],
    );
    check(
        "phone-bt",
        Placement::Recorded,
        &[(
            "1000 down 100, 0 end",
            "1000",
            "promotion 700-1000, tail 1000-6000",
        )],
    );
}

fn bluetooth(name: &str) -> BluetoothParameters {
    match &Profiles::shipped().unwrap().radio(name).unwrap().radio {
        Radios::Bluetooth(p) => (**p).clone(),
        _ => panic!("{name} is no Bluetooth profile"),
    }
}

/// Plays `(at, from, bytes)` and returns requests as text, and passing times.
fn link(watch: &str, script: &[(f64, End)]) -> (Vec<String>, Vec<f64>, Vec<Span>) {
    let mut link = BluetoothLink::new(&bluetooth(watch), &bluetooth("phone-bt"));
    let (mut w, mut p) = (Vec::new(), Vec::new());
    let mut requests = Vec::new();
    let mut passes = Vec::new();
    let mut note = |r: mpbond_radio::machine::LmpRequest| {
        requests.push(format!("{} {:?} {:?}", in_ms(r.at), r.from, r.mode));
    };
    link.advance(Timestamp::ZERO, &mut w, &mut p);
    for &(at, from) in script {
        if let Some(r) = link.advance(ms(at), &mut w, &mut p) {
            note(r);
        }
        let (pass, r) = link.transmit(ms(at), from, 1000, &mut w, &mut p);
        passes.push(in_ms(pass));
        if let Some(r) = r {
            note(r);
        }
    }
    link.finish(ms(60_000.0), &mut w, &mut p);
    assert_eq!(link.mode(), Mode::Sniff, "both timers end");
    (requests, passes, w)
}

#[test]
fn bluetooth_requests_between_the_two() {
    use End::{Phone, Wearable};
    // ❶ → ❼: the watch wakes the phone. ❷ → ❽: its timer takes the phone along.
    let (requests, passes, _) = link("watch-bt", &[(100.0, Wearable), (7000.0, Wearable)]);
    assert_eq!(
        requests,
        [
            "100 Wearable Active",
            "5800 Wearable Sniff",
            "7000 Wearable Active"
        ]
    );
    // Anchor points count from the entry: 5800 + k·500.
    assert_eq!(passes, [800.0, 7600.0]);
    // ③ → ❺: the phone wakes the watch.
    let (requests, _, _) = link("watch-bt", &[(100.0, Phone)]);
    assert_eq!(requests, ["100 Phone Active"]);
    // ④ → ❻: the phone's timer is the shorter one when the watch goes on later.
    let (requests, _, _) = link(
        "watch-bt",
        &[(100.0, Phone), (3000.0, Phone), (9000.0, Phone)],
    );
    assert_eq!(
        requests,
        [
            "100 Phone Active",
            "5800 Wearable Sniff",
            "9000 Phone Active"
        ]
    );
}

#[test]
fn a_download_falls_into_sniff_every_five_seconds() {
    // Figures 3 to 5: 500 kbit/s to the watch without anything upwards.
    let packets: Vec<(f64, End)> = (0..1250)
        .map(|i| (f64::from(i) * 16.0, End::Phone))
        .collect();
    let (requests, passes, _) = link("watch-bt", &packets);
    let sniffs: Vec<&String> = requests.iter().filter(|r| r.ends_with("Sniff")).collect();
    assert_eq!(sniffs.len(), 3, "{requests:?}");
    assert!(
        sniffs.iter().all(|r| r.contains("Wearable")),
        "{requests:?}"
    );
    let mut gaps: Vec<f64> = passes.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_by(f64::total_cmp);
    // Blackouts of 0.5 to 1.2 s.
    assert!(
        gaps[gaps.len() - 3..]
            .iter()
            .all(|g| (500.0..=1200.0).contains(g))
    );
    // 5 s from Active to the next Sniff request.
    let (a, s) = (&requests[0], &requests[1]);
    assert_eq!(
        (a.as_str(), s.as_str()),
        ("0 Phone Active", "5800 Wearable Sniff")
    );

    // A small packet upwards before the timer ends: none of it.
    let mut kept: Vec<(f64, End)> = packets;
    kept.extend((1..5).map(|i| (f64::from(i) * 4500.0 + 1.0, End::Wearable)));
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (requests, _, _) = link("watch-bt", &kept);
    assert_eq!(requests.len(), 1, "{requests:?}");
}

#[test]
fn the_band_is_shared() {
    let profiles = Profiles::shipped().unwrap();
    let mut band = Band::new(profiles.coexistence("band-2.4ghz").unwrap());
    let air = Duration::from_millis(10);
    use BandUser::{Bluetooth, Wifi};
    for (at, user, after, through) in [
        (0.0, Bluetooth, BandState::Alone(Bluetooth), 10.0),
        // Both busy: WiFi keeps 93 %, Bluetooth 53 %.
        (20.0, Wifi, BandState::Both, 20.0 + 10.0 / 0.93),
        (30.0, Bluetooth, BandState::Both, 30.0 + 10.0 / 0.53),
        // 50 ms after WiFi's last packet Bluetooth is alone again.
        (90.0, Bluetooth, BandState::Alone(Bluetooth), 100.0),
        (300.0, Wifi, BandState::Alone(Wifi), 310.0),
    ] {
        let got = band.packet(ms(at), user, air);
        assert!((in_ms(got) - through).abs() < 0.1, "at {at}: {got:?}");
        assert_eq!(band.state(ms(at)), after, "at {at}");
    }
    assert_eq!(band.state(ms(1000.0)), BandState::Free);
}
