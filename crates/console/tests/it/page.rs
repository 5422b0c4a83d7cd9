//! The page in a browser: live data, hostile names, many streams, keys, a daemon that goes.

use std::path::Path;

use mpbond_testing::Need;
use mpbond_testing::browser::{self, Page};
use serde_json::{Value, json};

use crate::console::Console;
use crate::daemon::{Daemon, primary, stream};

/// The page of a console, in a browser of this size.
pub fn open(daemon: &Daemon, console: &Console, width: u32, height: u32) -> Option<Page> {
    open_in(daemon.folder(), console, width, height)
}

/// The same, with the browser's files in this folder.
pub fn open_in(folder: &Path, console: &Console, width: u32, height: u32) -> Option<Page> {
    if let Some(why) = browser::is_missing() {
        Need::Chromium.is_missing(why);
        return None;
    }
    let mut page = Page::with_network(folder);
    page.resize(width, height);
    // Violations of the page's policy are faults, too, where the console shows them as a report.
    page.run_first(
        "addEventListener('securitypolicyviolation', (e) => console.error(e.violatedDirective))",
    );
    page.open_address(&console.origin(), &format!("#{}", console.token));
    Some(page)
}

fn two_paths(t: f64) -> Value {
    let paths = [
        ("wifi", "path", "up", 1e6 * t, 1e4 * t),
        ("phone", "helper", "up", 5e5 * t, 0.0),
    ];
    primary(t, &paths)
}

fn text(page: &mut Page, selector: &str) -> String {
    let text = page.eval(&format!(
        "document.querySelector({}).textContent",
        json!(selector)
    ));
    text.as_str().unwrap().to_owned()
}

#[test]
fn live_points_move_and_nothing_is_refused_by_the_policy() {
    let daemon = Daemon::start(two_paths);
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelector('.areas path.down')");
    let shape = "document.querySelector('.areas path.down').getAttribute('d')";
    let before = page.eval(shape);
    page.until(&format!("{shape} !== {before}"));
    page.until("/^1[12]\\.\\d Mbit/.test(document.getElementById('total-down').textContent)");
    // The token is not in the address any more, and a reload still has it.
    assert_eq!(page.eval("location.href"), console.origin());
    page.open_address(&console.origin(), "?again");
    page.until("document.querySelectorAll('#paths li').length === 2");
    assert_eq!(page.eval("document.cookie"), "");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn the_policy_of_the_page_lets_no_foreign_script_run() {
    let daemon = Daemon::start(two_paths);
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 800, 600) else {
        return;
    };
    page.until("document.querySelectorAll('#paths li').length === 2");
    assert_eq!(page.faults(), Vec::<String>::new());
    for attempt in [
        "document.body.innerHTML = '<img src=x onerror=alert(1)>'",
        "document.body.insertAdjacentHTML('beforeend', '<p>')",
        "document.createElement('script').src = 'https://evil.example/'",
    ] {
        let refused = page.eval(&format!(
            "(() => {{ try {{ {attempt}; return false }} catch {{ return true }} }})()"
        ));
        assert_eq!(refused, true, "{attempt}");
    }
    assert!(!page.faults().is_empty(), "violations are seen as faults");
}

/// Answers of the API, by the number of the page of the list; notes what is asked for.
const API: &str = "window.asked = []; const real = window.fetch;
    window.fetch = async (resource, options) => {
        if (!resource.startsWith('/v1/streams')) return real(resource, options);
        window.asked.push(resource);
        const page = resource.endsWith('after=0') ? { streams: [LIKE], next: 7 } : { streams: [OTHER, IT] };
        const explained = { rule: null, class: 'bulk', multipath: 'aggregate', links: [], policy_has_changed: false,
            now: { rule: null, passed: [] } };
        return { ok: true, json: async () => resource.includes('/8/explain') ? explained : page };
    };";

#[test]
fn a_stream_is_found_whose_names_the_console_has_cut() {
    let long = |end: &str| format!("{}{end}", "n".repeat(150));
    let listed = |id: u64, app: &str, destination: &str, rule: &str| {
        let of = |name: &str, value: &str| json!({ "name": name, "value": value });
        json!({ "id": id, "destination": destination, "class": "bulk", "rule": rule,
            "application": [of("app", app), of("uid", "1000"), of("cgroup", "/")] })
    };
    let (to, rule) = (long(".example:443"), long("rule"));
    let app = format!("\u{202e}{}", long(".service"));
    let api = API
        .replace("LIKE", &listed(6, &"n".repeat(127), &to, &rule).to_string())
        .replace("OTHER", &listed(7, &app, &to, &"m".repeat(150)).to_string())
        .replace("IT", &listed(8, &app, &to, &rule).to_string());
    let daemon = Daemon::start(move |t| {
        let mut value = two_paths(t);
        let mut stream = stream(1, &to, "bulk", &[("wifi", 5000, 1)]);
        stream["rule"] = json!(rule);
        stream["application"] = json!({ "name": app, "certainty": "known", "uid": 1000 });
        value["transfers"] = json!([stream]);
        value
    });
    // Where there is an API, its controls are shown.
    std::fs::write(daemon.socket.with_extension("api"), "").unwrap();
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.run_first(&api);
    page.open_address(&console.origin(), "?again");
    page.until("document.querySelectorAll('.fold').length === 1");
    page.click(".fold");
    page.until("document.querySelector('.ask:not([hidden])')");
    page.click(".ask");
    page.until("document.getElementById('why-lines').textContent.startsWith('No rule selects it')");
    let asked = page.eval("window.asked");
    let list = |after: u64| format!("/v1/streams?limit=256&after={after}");
    assert_eq!(asked, json!([list(0), list(7), "/v1/streams/8/explain"]));
}

#[test]
fn hostile_names_are_shown_as_text() {
    const NAME: &str = "<img src=x onerror=\"document.title='taken'\">";
    const NOTE: &str = "</script><script>document.title='taken'</script>";
    let with = |t: f64, state: &str| {
        let mut value = primary(t, &[(NAME, "helper", state, 1e6 * t, 0.0)]);
        value["transfers"] = json!([stream(1, NAME, NOTE, &[(NAME, 5000, 1)])]);
        value["rules"] = json!([{ "name": NAME, "line": 3, "flows_total": 2 }]);
        value["notes"] = json!([NOTE]);
        value["links"][0]["error"] = json!(NOTE);
        value["needs_restart"] = json!([NAME]);
        value
    };
    let daemon = Daemon::start(move |t| with(t, "up"));
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelector('.areas path.down')");
    // Again if the machine was too slow to have the two answers compared.
    for state in ["potentially-failed", "up"].into_iter().cycle().take(20) {
        daemon.say(move |t| with(t, state));
        page.until(&format!(
            "document.querySelector('#paths .pill').textContent !== {}",
            json!(if state == "up" { "no answer" } else { "up" })
        ));
        if page.eval("!!document.querySelector('.marks .doubtful title')") == true {
            break;
        }
    }
    for selector in [
        "#paths .name",
        "#device-cards li:nth-child(2) h3",
        "#streams-rows .cell-destination .to",
        "#rules-list .name",
    ] {
        assert_eq!(text(&mut page, selector), NAME, "{selector}");
    }
    assert_eq!(text(&mut page, "#paths .error"), NOTE);
    assert_eq!(text(&mut page, "#notes-list li:last-child"), NOTE);
    assert!(text(&mut page, "#events li span").starts_with(NAME));
    assert!(text(&mut page, ".marks title").starts_with(NAME));
    assert_eq!(
        page.eval("document.querySelectorAll('main img, main script').length"),
        0
    );
    assert_eq!(page.eval("document.title"), "primary – mpbond");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_thousand_streams_are_listed_as_far_as_people_read() {
    let daemon = Daemon::start(|t| {
        let mut value = two_paths(t);
        value["sessions"][0]["streams_open"] = 1000.into();
        let streams = (0..1000).map(|n| {
            let bytes = n * 1000 + (t * 1e5) as u64;
            stream(
                n,
                &format!("host{n}.example:443"),
                "bulk",
                &[("wifi", bytes, 7)],
            )
        });
        value["transfers"] = streams.collect();
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelectorAll('#streams-rows tr').length === 200");
    assert_eq!(text(&mut page, "#streams-none"), "and 800 more groups");
    assert_eq!(text(&mut page, "#streams-count"), "1,000 open");
    // The same rows are filled again: what is read or selected stays.
    page.eval("window.first = document.querySelector('#streams-rows tr'); 1");
    let before = json!(text(&mut page, "#streams-rows .cell-bytes"));
    page.until(&format!(
        "document.querySelector('#streams-rows .cell-bytes').textContent !== {before}"
    ));
    assert_eq!(
        page.eval("document.querySelector('#streams-rows tr') === window.first"),
        true
    );
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn streams_are_folded_under_their_applications_with_class_rule_and_bytes_by_path() {
    const NAME: &str = "<img src=x onerror=\"document.title='taken'\">";
    let daemon = Daemon::start(|t| {
        let mut value = two_paths(t);
        let of = |n: u64, to: &str, application: Value, shares: &[(&str, u64, u64)]| {
            let mut stream = stream(n, to, "bulk", shares);
            stream["application"] = application;
            stream
        };
        let restic = json!({ "name": NAME, "certainty": "known", "uid": 0 });
        let both = [("wifi", 3_000_000, 0), ("phone", 1_000_000, 0)];
        let mut ruled = of(1, "a.example:443", restic.clone(), &both);
        ruled["rule"] = json!(NAME);
        value["transfers"] = json!([
            ruled,
            of(2, "b.example:443", restic, &[("wifi", 1_000_000, 0)]),
            of(
                3,
                "c.example:443",
                json!({ "name": "x", "certainty": "guessed" }),
                &[("wifi", 9, 0)]
            ),
            of(
                4,
                "d.example:443",
                json!({ "certainty": "unknown", "uid": 33 }),
                &[("wifi", 1, 0)]
            ),
        ]);
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    let rows =
        |count: usize| format!("document.querySelectorAll('#streams-rows tr').length === {count}");
    page.until(&rows(3));
    let heads = page.eval(
        "[...document.querySelectorAll('#streams-rows tr')].map((row) => \
         [row.querySelector('.fold').textContent, row.querySelector('.pill').textContent])",
    );
    let wanted = json!([
        [NAME, "known"],
        ["x", "guessed"],
        ["Application of user 33", "unknown"]
    ]);
    assert_eq!(heads, wanted);
    assert_eq!(text(&mut page, "#streams-rows .cell-open"), "2");
    assert_eq!(text(&mut page, "#streams-rows .cell-bytes"), "5.00 MB");
    let shares = text(&mut page, "#streams-rows .shares");
    assert_eq!(
        shares.replace(['\u{2068}', '\u{2069}'], ""),
        "wifi 80 %, phone 20 %"
    );
    // With the keyboard, and it stays as it is when the next answer comes.
    page.eval("document.querySelector('#streams-rows .fold').focus(); 1");
    page.press("Enter");
    page.until(&rows(5));
    let first = "document.querySelector('#streams-rows tr')";
    let expanded = format!("{first}.querySelector('.fold').getAttribute('aria-expanded')");
    assert_eq!(page.eval(&expanded), "true");
    assert_eq!(
        text(&mut page, "#streams-rows .member .to"),
        "a.example:443"
    );
    assert_eq!(
        text(&mut page, "#streams-rows .member .cell-class"),
        format!("bulk{NAME}")
    );
    let time = page.eval("performance.now()").as_f64().unwrap();
    page.until(&format!("performance.now() > {}", time + 2500.0));
    assert_eq!(page.eval(&rows(5)), true);
    page.eval(&format!("{first}.querySelector('.fold').click(), 1"));
    assert_eq!(page.eval(&rows(3)), true);
    assert_eq!(
        page.eval("document.querySelectorAll('main img, main script').length"),
        0
    );
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn connections_that_wait_are_listed_with_the_reason_and_those_that_are_not_are_counted() {
    let daemon = Daemon::start(|t| {
        let mut value = two_paths(t);
        let waits = |what: &str| {
            json!({ "destination": "<i>late</i>:25", "rule": "<b>backups</b>", "waits_for": what,
                "waited_s": 3.5, "left_s": 61.0 })
        };
        let mut waiting = vec![waits("radio"); 11];
        waiting.push(json!({ "destination": "b:1", "waits_for": "session", "waited_s": 0.1 }));
        waiting.push(waits("path"));
        value["waiting"] = waiting.into();
        value["waiting_count"] = 1040.into();
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelectorAll('#waiting li').length === 13");
    let lines = "[...document.querySelectorAll('#waiting li')].map((line) => line.textContent)";
    let lines = page.eval(lines);
    let line = |n: usize| {
        let line = lines[n].as_str().unwrap();
        line.replace(['\u{2068}', '\u{2069}'], "")
    };
    assert_eq!(
        line(0),
        "<i>late</i>:25 waits for a radio that is awake, by rule <b>backups</b>, for 1 min 1 s \
         more at most."
    );
    assert_eq!(line(11), "b:1 waits for a session with the proxy.");
    assert_eq!(line(12), "and 1,028 more");
    let count = text(&mut page, "#streams-count");
    assert!(count.ends_with(" open, 1,040 waiting"), "{count}");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn destinations_that_are_withheld_are_told_with_the_remedy() {
    let daemon = Daemon::start(|t| {
        let mut value = two_paths(t);
        value["transfers_withheld"] = true.into();
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("/^Destinations are shown to root/.test(document.getElementById('streams-none').textContent)");
    assert_eq!(
        page.eval("document.querySelectorAll('#streams-rows tr').length"),
        0
    );
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn everything_is_reached_and_read_with_keys_on_a_small_screen() {
    let daemon = Daemon::start(|t| {
        let mut value = two_paths(t);
        value["transfers"] = json!([stream(1, "a.example:443", "bulk", &[("wifi", 9, 1)])]);
        value["rules"] = json!([{ "name": "calls", "line": 3, "flows_total": 2 }]);
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 320, 640) else {
        return;
    };
    page.until("document.querySelectorAll('.areas path').length > 0 && performance.now() > 3000");
    let focused = "document.activeElement.getAttribute('href') || document.activeElement.id \
                   || document.activeElement.className";
    let mut visited = Vec::new();
    for _ in 0..8 {
        page.press("Tab");
        visited.push(page.eval(focused).as_str().unwrap().to_owned());
    }
    let sections = [
        "#traffic", "#traffic", "#streams", "#devices", "#rules", "#notes",
    ];
    assert_eq!(visited[..6], sections);
    assert_eq!(visited[6..], ["chart", "scroll"]);
    page.eval("document.getElementById('chart').focus(); 1");
    page.press("ArrowLeft");
    page.until("/ ago: ↓ 1\\d\\.\\d Mbit.s, ↑ .*wifi\\u2069 ↓ 8\\.0\\d/.test(document.getElementById('readout').textContent)");
    let spoken = "document.getElementById('spoken').textContent";
    assert!(page.eval(spoken).as_str().unwrap().contains(" ago: "));
    page.press("Escape");
    page.until("!document.querySelector('.cursor line')");
    assert_eq!(page.eval(spoken), "");
    // Each thing that takes the focus has a name, and nothing is wider than the screen.
    let nameless = "[...document.querySelectorAll('a, [tabindex]')].filter((e) => !(e.textContent.trim() \
                    || e.getAttribute('aria-label'))).length";
    assert_eq!(page.eval(nameless), 0);
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert!(page.eval(wide).as_i64().unwrap() <= 0);
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_daemon_that_goes_and_comes_back_is_told() {
    let daemon = Daemon::start(two_paths);
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.getElementById('live').textContent === 'live'");
    daemon.stop();
    page.until("/^The daemon does not answer/.test(document.getElementById('banner').textContent)");
    daemon.say(|t| {
        let mut value = two_paths(t);
        value["process"] = 4712.into();
        value
    });
    daemon.listen();
    page.until("document.getElementById('banner').hidden");
    page.until("/started again/.test(document.getElementById('events').textContent)");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn the_address_of_another_start_is_opened_in_the_same_tab() {
    let daemon = Daemon::start(two_paths);
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 800, 600) else {
        return;
    };
    let is_live = "document.getElementById('live').textContent === 'live'";
    page.until(is_live);
    let port = console.port.to_string();
    drop(console);
    let again = Console::start_with(&["--socket", daemon.place(), "--port", &port], &[]);
    page.until("/earlier start/.test(document.getElementById('banner').textContent)");
    // Only the fragment differs: the page loads itself again.
    page.open_address(&again.origin(), &format!("#{}", again.token));
    page.until(is_live);
    assert_eq!(page.eval("location.href"), again.origin());
}

#[test]
fn caps_are_rings_and_helpers_show_their_batteries_and_radios_their_energy() {
    const NAME: &str = "<b>phone</b>";
    let daemon = Daemon::start(|t| {
        let mut value = primary(
            t,
            &[
                ("wifi", "path", "up", 1e6 * t, 0.0),
                (NAME, "helper", "up", 9.0, 0.0),
            ],
        );
        value["links"][1]["cap"] =
            json!({ "used_bytes": 15e8 as u64, "bytes": 2e9 as u64, "resets": "2026-12-17" });
        value["links"][1]["battery_percent"] = json!(41);
        value["links"][1]["charging"] = json!(true);
        value["links"][1]["metered"] = json!(true);
        value["links"][1]["energy"] = json!({ "radio": "lte-2020-tmobile", "joules": 3.21,
            "days": [{ "day": "2026-11-26", "joules": 41.5 }, { "day": "2026-11-27", "joules": 7900.0 }] });
        value
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelector('.ring:not([hidden])')");
    let ring = "document.querySelector('.ring:not([hidden])')";
    assert_eq!(page.eval(&format!("{ring}.dataset.tone")), "doubtful");
    assert_eq!(
        page.eval(&format!("{ring}.getAttribute('aria-label')")),
        "75 % used"
    );
    let card = page.eval(&format!("{ring}.closest('li').textContent"));
    let card = card.as_str().unwrap().to_owned();
    assert!(card.starts_with(&format!("Cap of {NAME}")), "{card}");
    assert!(
        card.contains("2026-12-17") && card.contains("2.00 GB"),
        "{card}"
    );
    let cards = text(&mut page, "#device-cards");
    assert!(cards.contains("Battery41 %, on mainsMeteredyes"), "{cards}");
    let energy = format!(
        "Energy of {NAME}Radiolte-2020-tmobileSince the start3 J2026-11-277.90 kJ2026-11-2642 J"
    );
    assert!(cards.contains(&energy), "{cards}");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn the_bytes_of_a_cap_are_shown_by_day_with_their_share_of_it() {
    let daemon = Daemon::start(|t| {
        let mut status = two_paths(t);
        status["links"][0]["cap"] = json!({
            "used_bytes": 400_000_000, "bytes": 2_000_000_000, "resets": "2026-12-17",
            "days": [{ "day": "2026-11-24", "bytes": 300_000_000 },
                { "day": "2026-11-27", "bytes": 100_000_000 }],
        });
        status["links"][1]["cap"] =
            json!({ "used_bytes": 1, "bytes": 2, "resets": "x", "days": [{ "day": "<i>" }] });
        status
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 800, 600) else {
        return;
    };
    page.until("document.querySelectorAll('#usage-cards .card').length === 2");
    let card = text(&mut page, "#usage-cards .card:first-child");
    assert!(
        card.contains("400 MB of 2.00 GB (20 %), until 17 Dec"),
        "{card}"
    );
    let days = "[...document.querySelectorAll('#usage-cards .card:first-child .days li')]";
    let said = page.eval(&format!("{days}.map((day) => day.title)"));
    let wanted = json!([
        "24 Nov: 300 MB, 15 % of the cap",
        "25 Nov: 0 B, 0.0 % of the cap",
        "26 Nov: 0 B, 0.0 % of the cap",
        "27 Nov: 100 MB, 5.0 % of the cap",
    ]);
    assert_eq!(said, wanted);
    let heights = page.eval(&format!(
        "{days}.map((day) => Math.round(day.querySelector('.fill').getBoundingClientRect().height \
         / day.querySelector('.bar-of-day').getBoundingClientRect().height * 10))"
    ));
    assert_eq!(heights, json!([10, 0, 0, 3]));
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_helper_and_a_proxy_have_pages_of_their_own() {
    let daemon = Daemon::start(|t| {
        json!({
            "role": "helper", "device": "cd".repeat(32), "version": "0.1.0", "process": 3,
            "uptime_s": t,
            "relayed": [{ "primary": "ab".repeat(32), "bytes_down": (1e6 * t) as u64, "bytes_up": 9 }],
            "relays": [{ "primary": "ab".repeat(32), "level_down_bytes": 5, "level_up_bytes": 0 }],
            "budget": { "month": "2026-11", "used_bytes": 300, "max_bytes": 1000 },
        })
    });
    let console = Console::start(daemon.place());
    let Some(mut page) = open(&daemon, &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelector('.areas path')");
    assert_eq!(text(&mut page, "#paths-title"), "Primaries");
    assert_eq!(page.eval("document.getElementById('streams').hidden"), true);
    assert_eq!(text(&mut page, "#paths .name"), "abababa");
    assert_eq!(
        page.eval("document.querySelector('.ring:not([hidden])').getAttribute('aria-label')"),
        "30 % used"
    );
    assert_eq!(page.eval("document.getElementById('rules').hidden"), true);

    daemon.say(|t| {
        json!({
            "role": "proxy", "device": "cd".repeat(32), "version": "0.1.0", "process": 4,
            "uptime_s": t, "memory": { "used_bytes": 90, "most_bytes": 100 },
            "sessions": [{ "peer": "ab".repeat(32), "state": "up", "streams_open": 2, "subflows": [
                { "name": "wifi", "kind": "direct", "state": "up", "rtt_ms": 12.0 }] }],
            "paths": [{ "peer": "ab".repeat(32), "name": "wifi", "bytes_in": 1, "bytes_out": (1e6 * t) as u64 }],
        })
    });
    page.until("document.getElementById('role').textContent === 'proxy'");
    page.until("/Mbit/.test(document.getElementById('total-down').textContent)");
    page.until("document.querySelector('#paths .name').textContent === 'wifi'");
    assert_eq!(
        page.eval("document.getElementById('streams').hidden"),
        false
    );
    assert_eq!(
        page.eval("document.querySelector('.ring:not([hidden])').dataset.tone"),
        "doubtful"
    );
    assert_eq!(page.faults(), Vec::<String>::new());
}
