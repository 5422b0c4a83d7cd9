//! Decides about flows with a policy of 1,000 rules, beside a bare scan of 1,000 integers.
//!
//! The rules are of the kinds that people write: ports, applications, domains, networks, times.
//! Of 500 flows, each is selected by a rule of its own, of all kinds and everywhere in the file; a
//! flow that no rule selects is the longest decision. Prints the median and the best of several
//! runs in ns for each decision, and the ratio to the scan; then the times of reading the file, and
//! a hostile one.

// A bench may fail loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use jiff::tz::TimeZone;
use mpbond_policy::{
    Charge, Claim, Device, DomainName, Fact, Flow, LinkState, MAX_FILE_BYTES, MAX_RULES, Policy,
};

const RULES: usize = 1000;
const FLOWS: usize = 500;
const RUNS: usize = 31;

/// Maximum of the median of the longest decision: half of the 150 µs within which a new flow is
/// decided about. The other half is for reading the facts of its socket.
const MAX_MEDIAN_NS: f64 = 75_000.0;

/// Maximum of the best time of reading a hostile file: a daemon serves nobody meanwhile.
const MAX_HOSTILE_NS: f64 = 500e6;

fn rules() -> String {
    let mut text = "[policy]\nzone = \"Europe/Berlin\"\n".to_owned();
    for n in 0..RULES {
        let condition = match n % 8 {
            0 => format!(
                "port = [{}, \"{}-{}\"]",
                10_000 + n,
                20_000 + 2 * n,
                20_001 + 2 * n
            ),
            1 => format!("app = [\"org.example.app{n}\", \"app{n}.service\"]"),
            2 => format!("domain = [\"*.site{n}.example\", \"site{n}.example\"]"),
            3 => format!(
                "ip = [\"10.{}.{}.0/24\", \"2001:db8:{n:x}::/48\"]",
                n / 256,
                n % 256
            ),
            4 => format!("domain = \"*.cdn{n}.example\"\ntime = \"mon-fri 8:00-18:00\""),
            5 => format!("uid = {}\nmetered = false", 2000 + n),
            6 => format!("cgroup = \"/user.slice/user-{n}.slice\"\nport = \"1-1023\""),
            _ => format!("source = \"192.168.{}.0/24\"\nbattery = \"< 90%\"", n % 256),
        };
        // Networks of sources repeat: an application makes those rules differ.
        let more = if n % 8 == 7 {
            format!("\napp = \"host{n}\"")
        } else {
            String::new()
        };
        let set = "{ class = \"background\", priority = 2 }";
        writeln!(
            text,
            "[[rule]]\nname = \"{n}\"\n{condition}{more}\nset = {set}"
        )
        .unwrap();
    }
    text
}

/// A flow that no rule selects.
fn other_flow() -> Flow {
    let name = DomainName::new("www.eu.example.org").unwrap();
    let group = "/user.slice/user-100000.slice/app.slice/app-firefox-1.scope";
    Flow {
        app: Fact::known("org.mozilla.firefox".to_owned(), "the control group"),
        uid: Fact::known(1000, "sock_diag"),
        cgroup: Fact::known(group.to_owned(), "sock_diag"),
        dscp: Fact::known(0, "sock_diag"),
        domain: Fact::known(vec![name], "SOCKS"),
        ip: Fact::known("203.0.113.7".parse().unwrap(), "the client"),
        port: 443,
        source: Fact::known("127.0.0.1".parse().unwrap(), "the client"),
        claim: Claim::default(),
    }
}

/// The same flow, but with the facts that the rule of this number selects.
fn flow(n: usize) -> Flow {
    let mut flow = other_flow();
    let named = |name: String| Fact::known(vec![DomainName::new(&name).unwrap()], "SOCKS");
    match n % 8 {
        0 => flow.port = u16::try_from(20_000 + 2 * n).unwrap(),
        1 => flow.app = Fact::known(format!("app{n}.service"), "the service's unit"),
        2 => flow.domain = named(format!("www.eu.site{n}.example")),
        3 => {
            let ip = format!("10.{}.{}.7", n / 256, n % 256);
            flow.ip = Fact::known(ip.parse().unwrap(), "the client");
        }
        4 => flow.domain = named(format!("www.cdn{n}.example")),
        5 => flow.uid = Fact::known(u32::try_from(2000 + n).unwrap(), "sock_diag"),
        6 => {
            let group = format!("/user.slice/user-{n}.slice/app.slice/app-firefox-1.scope");
            flow.cgroup = Fact::known(group, "sock_diag");
        }
        _ => {
            flow.app = Fact::known(format!("host{n}"), "the control group");
            let source = format!("192.168.{}.7", n % 256);
            flow.source = Fact::known(source.parse().unwrap(), "the client");
        }
    }
    flow
}

fn device() -> Device {
    let link = |name: &str, metered| LinkState {
        name: name.to_owned(),
        works: true,
        metered: Fact::known(metered, "NetworkManager"),
        roaming: Fact::known(false, "NetworkManager"),
        charge: Charge::Sufficient,
        cap_reached: false,
        is_weak: false,
    };
    Device {
        now: Fact::known("2026-11-02T11:00:00Z".parse().unwrap(), "the clock"),
        battery: Fact::known(80, "sysfs"),
        charging: Fact::known(false, "sysfs"),
        links: vec![link("wifi", false), link("modem", true)],
        spent_budgets: BTreeSet::new(),
    }
}

/// A file near the limits, in which the comparison of each pair of rules takes as long as possible:
/// all of them are for the same deep control groups, and differ in their times only.
fn hostile() -> String {
    let mut text = "[policy]\nzone = \"Europe/Berlin\"\n".to_owned();
    for n in 0..MAX_RULES {
        let (day, minute) = (["mon", "tue"][n / 1400], n % 1400);
        let (begin, end) = (
            (minute / 60, minute % 60),
            ((minute + 1) / 60, (minute + 1) % 60),
        );
        let time = format!("{day} {}:{:02}-{}:{:02}", begin.0, begin.1, end.0, end.1);
        let group = "/a".repeat(20);
        writeln!(
            text,
            "[[rule]]\nname = \"{n}\"\ncgroup = \"{group}\"\ntime = \"{time}\"\nset = \"direct\""
        )
        .unwrap();
    }
    assert!(text.len() <= MAX_FILE_BYTES, "{}", text.len());
    text
}

/// Median and best of several runs, in ns for each of `count` calls.
fn time_ns(count: usize, mut pass: impl FnMut()) -> (f64, f64) {
    pass();
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            pass();
            start.elapsed().as_secs_f64() * 1e9 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[RUNS / 2], times[0])
}

fn main() -> ExitCode {
    let text = rules();
    let zones = |_: &str| TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok();
    let file = Path::new("policy.toml");
    let policy = Policy::parse(file, &text, &zones).unwrap_or_else(|e| panic!("{e}"));
    let device = device();
    let none = other_flow();
    assert_eq!(policy.decide(&none, &device).rule, None);
    // Of all kinds, everywhere in the file.
    let numbers = (0..FLOWS).map(|n| n * RULES / FLOWS + (n / 4) % 2);
    let flow_of = |n: usize| {
        let flow = flow(n);
        let rule = policy.decide(&flow, &device).rule.map(|rule| rule.index);
        assert_eq!(rule, Some(n));
        flow
    };
    let flows: Vec<Flow> = numbers.map(flow_of).collect();
    println!("{RULES} rules; {FLOWS} flows, each selected by a rule of its own");

    let numbers: Vec<u64> = (0..RULES as u64).collect();
    let scan = time_ns(FLOWS, || {
        for n in 0..FLOWS as u64 {
            let found = black_box(&numbers).iter().position(|m| *m == n + 1_000_000);
            black_box(found);
        }
    });
    let row = |name: &str, (median, best): (f64, f64)| {
        let ratio = best / scan.1;
        println!("{name:22} median {median:9.0} ns, best {best:9.0} ns, {ratio:7.1} x scan");
    };
    row("scan of integers", scan);
    let all = time_ns(FLOWS, || {
        for flow in &flows {
            black_box(policy.decide(flow, &device).rule);
        }
    });
    row("flows of all kinds", all);
    let worst = time_ns(FLOWS, || {
        for _ in 0..FLOWS {
            black_box(policy.decide(black_box(&none), &device).rule);
        }
    });
    row("selected by no rule", worst);
    let explain = time_ns(FLOWS, || {
        for flow in &flows {
            black_box(policy.explain(flow, &device).passed.len());
        }
    });
    row("explained", explain);
    let read = time_ns(1, || {
        black_box(
            Policy::parse(file, &text, &zones)
                .map(|policy| policy.rule_count())
                .ok(),
        );
    });
    row("file read and checked", read);
    let text = hostile();
    let long = time_ns(1, || {
        let policy = Policy::parse(file, &text, &zones);
        assert_eq!(policy.map(|policy| policy.rule_count()), Ok(MAX_RULES));
    });
    row("hostile file", long);
    if long.1 > MAX_HOSTILE_NS {
        println!("target: {MAX_HOSTILE_NS} ns for a hostile file, missed");
        return ExitCode::FAILURE;
    }
    let target = format!("target: {MAX_MEDIAN_NS} ns at the median for the longest decision");
    if worst.0 > MAX_MEDIAN_NS {
        println!("{target}, missed");
        return ExitCode::FAILURE;
    }
    println!("{target}, met");
    ExitCode::SUCCESS
}
