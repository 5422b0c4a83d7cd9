//! Pictures of the page for docs/console.md, of invented devices over ten minutes: written where
//! `MPBOND_TEST_UPDATE` is set.

use std::path::Path;

use serde_json::{Value, json};

use crate::console::Console;
use crate::daemon::{Daemon, id, primary, stream};
use crate::page;

/// Replaces the answers of the console's server by lines that the test has made.
const REPLAY: &str = "window.fetch = async (resource) => ({ ok: true,
    json: async () => ({ '/v1/links': { links: ['wifi', 'phone', 'tablet'].map((name) => ({ name, mode: 'bonded' })) },
        '/v1/mode': { mode: 'balanced', has_effect: true },
        '/v1/devices': { devices: [{ id: 'P', links: ['phone'] }, { id: 'T', links: ['tablet'] }] },
        '/v1/streams?destination=backup.example.com%3A443&app=restic.service&limit=256&after=0':
            { streams: [[2, '1000'], [3, '0']].map(([id, uid]) => ({ id, destination: 'backup.example.com:443', class: 'background', rule: 'backups wait for wifi',
                application: ['restic.service', uid, null].map((value) => ({ value })) })) },
        '/v1/streams/3/explain': { rule: 'backups wait for wifi', line: 9, class: 'background', multipath: 'aggregate',
            policy_has_changed: false, links: [{ name: 'wifi', unusable: null, used: true, bytes_in: 4e6, bytes_out: 61e6 },
                { name: 'phone', unusable: 'metered', used: false, bytes_in: 0, bytes_out: 0 },
                { name: 'tablet', unusable: 'perhaps-metered', used: false, bytes_in: 0, bytes_out: 0 }],
            now: { rule: null, passed: [{ name: 'calls', line: 4, condition: 'domain', certainty: 'known' }] } },
        '/v1/pairing': { state: 'waiting', code: '1234-5678', addresses: ['10.42.0.7:4435'], expires_in_s: 94 } })[resource],
    body: new ReadableStream({ start(to) { to.enqueue(new TextEncoder().encode(LINES)); } }) });";

/// Rates in bytes per second of three paths, `t` seconds after the begin of ten minutes.
fn rates(t: f64) -> [(f64, f64); 3] {
    let wave = |period: f64, phase: f64| ((t / period + phase) * std::f64::consts::TAU).sin();
    let noise = |seed: f64| ((t * 12.9898 + seed).sin() * 43758.547).fract().abs() - 0.5;
    let busy = if (130.0..205.0).contains(&t) || t < 30.0 {
        0.08
    } else {
        1.0
    };
    let of = |rate: f64, w: f64, n: f64| (rate * (1.0 + 0.22 * w + 0.16 * n) * busy).max(0.0);
    let wifi = of(4.6e6, wave(90.0, 0.2), noise(1.0));
    let phone = if (330.0..372.0).contains(&t) {
        0.0
    } else {
        of(2.1e6, wave(60.0, 0.6), noise(2.0))
    };
    let tablet = if t < 240.0 {
        0.0
    } else {
        of(1.2e6, wave(140.0, 0.9), noise(3.0))
    };
    [
        (wifi, wifi * 0.06 + 3e4),
        (phone, phone * 0.05),
        (tablet, tablet * 0.08),
    ]
}

fn lines(real: &Value) -> String {
    let now = 1000.0;
    let samples = (0..600).map(|i| {
        let rates = rates(f64::from(i));
        let rates: Vec<Value> = rates
            .iter()
            .enumerate()
            .filter(|(_, r)| r.0 > 0.0)
            .map(|(s, r)| json!([s, r.0, r.1]))
            .collect();
        json!({ "t": now - 599.0 + f64::from(i), "span": 1.0, "rates": rates })
    });
    let event = |id: u32, t: f64, kind: &str, subject: &str, text: &str| {
        let t = now - 600.0 + t;
        json!({ "id": id, "t": t, "kind": kind, "subject": subject, "text": text })
    };
    let events = [
        event(0, 241.0, "helper-joined", "tablet", "tablet has joined"),
        event(1, 329.0, "path-suspect", "phone", "phone does not answer"),
        event(
            2,
            334.0,
            "helper-left",
            "phone",
            "phone has left: the pipe was closed",
        ),
        event(3, 373.0, "helper-joined", "phone", "phone has joined"),
    ];
    let history = json!({
        "type": "history", "t": now, "samples": samples.collect::<Vec<_>>(), "events": events,
        "owner": "mpbond", "may_change": true,
    });
    let mut frame = real.clone();
    frame["t"] = now.into();
    let last = rates(599.0);
    let total = last.iter().fold((0.0, 0.0), |a, r| (a.0 + r.0, a.1 + r.1));
    frame["total"] = json!({ "down": total.0, "up": total.1 });
    for (path, rate) in frame["paths"].as_array_mut().unwrap().iter_mut().zip(last) {
        path["rate"] = json!({ "down": rate.0, "up": rate.1 });
    }
    for (at, share) in [0.61, 0.24, 0.15].into_iter().enumerate() {
        frame["paths"][at]["share"] = share.into();
    }
    let applications = frame["streams"]["applications"].as_array_mut().unwrap();
    for (of, down) in applications.iter_mut().zip([4.1e6, 2.9e6, 5e5, 0.0]) {
        let rate = json!({ "down": down, "up": down * 0.04 });
        of["rate"] = rate.clone();
        // Of two, the first one moves.
        of["groups"][0]["rate"] = rate;
    }
    format!("{history}\n{frame}\n")
}

/// Bytes by day of November from this one on, in GB.
fn days(first: u32, all: &[f64]) -> Vec<Value> {
    let day = |(day, gb): (u32, &f64)| json!({ "day": format!("2026-11-{day:02}"), "bytes": (gb * 1e9) as u64 });
    (first..).zip(all).map(day).collect()
}

fn status(t: f64) -> Value {
    let mut status = primary(
        t + 9000.0,
        &[
            ("wifi", "path", "up", 3.4e9, 2.1e8),
            ("phone", "helper", "up", 1.1e9, 6e7),
            ("tablet", "helper", "up", 4.6e8, 3e7),
        ],
    );
    status["sessions"][0]["streams_open"] = 14.into();
    for (at, rtt) in [18.2, 47.0, 61.5].into_iter().enumerate() {
        status["sessions"][0]["subflows"][at]["rtt_ms"] = rtt.into();
    }
    status["transfers"] = json!([
        stream(
            1,
            "mirror.example.org:443",
            "bulk",
            &[
                ("wifi", 900_000_000, 9_000_000),
                ("phone", 410_000_000, 0),
                ("tablet", 230_000_000, 0)
            ]
        ),
        stream(
            2,
            "video.example.net:443",
            "interactive",
            &[("wifi", 300_000_000, 900_000), ("phone", 90_000_000, 0)]
        ),
        stream(
            3,
            "backup.example.com:443",
            "background",
            &[("wifi", 4_000_000, 61_000_000)]
        ),
        stream(
            4,
            "chat.example.org:443",
            "realtime",
            &[("wifi", 900_000, 400_000)]
        ),
    ]);
    let of = [
        json!({ "name": "org.gnome.Software", "certainty": "guessed", "uid": 1000 }),
        json!({ "name": "firefox-esr", "certainty": "guessed", "uid": 1000 }),
        json!({ "name": "restic.service", "certainty": "known", "uid": 0 }),
        json!({ "name": "firefox-esr", "certainty": "guessed", "uid": 1000 }),
    ];
    let rules = [
        None,
        Some("video"),
        Some("backups wait for wifi"),
        Some("calls"),
    ];
    for (at, (application, rule)) in of.into_iter().zip(rules).enumerate() {
        status["transfers"][at]["application"] = application;
        status["transfers"][at]["rule"] = rule.into();
    }
    status["rules"] = json!([
        { "name": "calls", "line": 4, "flows_total": 12 },
        { "name": "backups wait for wifi", "line": 9, "flows_total": 3 },
        { "name": "video", "line": 15, "flows_total": 41 },
    ]);
    status["links"][1]["battery_percent"] = 64.into();
    let of_phone = [1.2, 2.4, 0.4, 0.0, 0.9, 3.1, 1.6, 1.8, 0.3, 2.6, 2.1];
    status["links"][1]["cap"] = json!({ "used_bytes": 16_400_000_000_u64,
        "bytes": 20_000_000_000_u64, "resets": "2026-12-17", "days": days(17, &of_phone) });
    let of_wifi = [
        2.1, 8.4, 3.0, 2.2, 5.9, 0.0, 0.0, 4.1, 6.6, 3.8, 2.9, 1.7, 0.8, 3.3, 4.4, 7.2, 5.0, 2.6,
        1.1, 3.9, 4.7, 0.6, 5.2, 6.1, 4.0, 3.6, 3.1,
    ];
    status["links"][0]["cap"] = json!({ "used_bytes": 96_300_000_000_u64,
        "bytes": 250_000_000_000_u64, "resets": "2026-12-01", "days": days(1, &of_wifi) });
    status["links"][2]["battery_percent"] = 91.into();
    status["links"][1]["energy"] = json!({ "radio": "lte-2020-tmobile", "joules": 212.0,
        "days": [{ "day": "2026-11-26", "joules": 1490.0 }, { "day": "2026-11-27", "joules": 655.0 }] });
    status["default_flows_total"] = 88.into();
    status["waiting"] = json!([
        { "destination": "photos.example.com:443", "rule": "backups wait for wifi", "waits_for": "path", "waited_s": 3.5, "left_s": 597.0 },
        { "destination": "updates.example.org:443", "waits_for": "radio", "waited_s": 12.0, "left_s": 48.0 }]);
    status["waiting_count"] = 2.into();
    status["notes"] =
        json!(["the proxy has no route for IPv6: connections to such addresses are refused"]);
    status
}

#[test]
fn the_page_is_drawn_dark_and_light_wide_and_narrow() {
    let daemon = Daemon::start(status);
    let console = Console::start(daemon.place());
    let Some(mut page) = page::open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelectorAll('#paths li').length === 3");
    // The line of the server, as the page has it.
    let real = page.eval(&format!(
        "fetch('/stream', {{ headers: {{ Authorization: 'Bearer {}' }} }}).then(async (answer) => {{
            const reader = answer.body.getReader(); let text = '';
            while (text.split('\\n').length < 3)
                text += new TextDecoder().decode((await reader.read()).value);
            reader.cancel(); return JSON.parse(text.split('\\n')[1]); }})",
        console.token
    ));
    assert_eq!(real["daemon"]["device"], id('A'));
    let replay = REPLAY.replace("LINES", &Value::from(lines(&real)).to_string());
    page.run_first(&replay);
    for (name, width, height, is_dark) in [
        ("dark-wide", 1280, 900, true),
        ("light-wide", 1280, 900, false),
        ("dark-narrow", 320, 640, true),
        ("light-narrow", 320, 640, false),
    ] {
        page.resize(width, height);
        page.darken(is_dark);
        page.open_address(&console.origin(), &format!("?{name}"));
        page.until("document.querySelectorAll('.areas path').length === 8");
        page.eval("document.querySelectorAll('.fold').forEach((fold) => fold.click()), 1");
        page.eval("document.querySelectorAll('.ask')[3].click(), 1");
        page.until("document.querySelectorAll('#why-lines li').length === 6");
        page.eval("(document.activeElement.blur(), scrollTo(0, 0), 1)");
        if std::env::var_os("MPBOND_TEST_UPDATE").is_some() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
            let file = |folder: &Path| folder.join(format!("console-{name}.png"));
            match name {
                "dark-wide" => page.save_top(&file(&folder), 1385),
                "light-narrow" => page.save_top(&file(&folder), 1050),
                _ => {}
            }
            page.save_picture(&file(Path::new(env!("CARGO_TARGET_TMPDIR"))));
        }
        let overflow =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        let overflow = page.eval(overflow).as_i64().unwrap();
        assert!(
            overflow <= 0,
            "{name}: {overflow} pixels wider than the window"
        );
    }
}
