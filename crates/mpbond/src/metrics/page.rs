//! The page of metrics. Labels are names of peers and paths, never numbers of a run: a restart
//! makes no new series.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::status::{CapStatus, SessionStatus, Status, SubflowStatus};

/// Type of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// Values with their labels.
type Samples = Vec<(String, f64)>;

/// The metrics as text.
pub fn text(s: &Status) -> String {
    let mut page = Page::default();
    let one = |value: f64| vec![(String::new(), value)];
    page.gauge(
        "mpbond_uptime_seconds",
        "Time since the start of the daemon.",
        one(s.uptime_s),
    );
    if let Some(memory) = &s.memory {
        page.gauge(
            "mpbond_memory_bytes",
            "Memory of all sessions, as the daemon counts it.",
            one(memory.used_bytes as f64),
        );
        page.gauge(
            "mpbond_memory_limit_bytes",
            "Limit of that memory.",
            one(memory.most_bytes as f64),
        );
    }
    sessions(&mut page, s);
    paths(&mut page, s);
    gauges_of_paths(&mut page, s);
    caps(&mut page, s);
    radios(&mut page, s);
    relays(&mut page, s);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn counter(&mut self, name: &str, help: &str, samples: Samples) {
        self.family(Kind::Counter, name, help, samples);
    }

    fn gauge(&mut self, name: &str, help: &str, samples: Samples) {
        self.family(Kind::Gauge, name, help, samples);
    }

    /// A metric, unless it has no sample.
    fn family(&mut self, kind: Kind, name: &str, help: &str, samples: Samples) {
        if samples.is_empty() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels = match labels.as_str() {
                "" => String::new(),
                some => format!("{{{some}}}"),
            };
            let _ = writeln!(self.text, "{name}{labels} {value}");
        }
    }
}

/// Label of a peer: a proxy has many, and a primary has one proxy.
fn peer_label(s: &Status, peer: &str) -> String {
    match s.role.as_str() {
        "proxy" => label("primary", peer),
        _ => String::new(),
    }
}

fn joined(labels: &[String]) -> String {
    let some: Vec<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|l| !l.is_empty())
        .collect();
    some.join(",")
}

/// Two samples, for the two directions.
fn both(labels: &str, [first, second]: [&str; 2], values: [u64; 2]) -> [(String, f64); 2] {
    [(first, values[0]), (second, values[1])].map(|(direction, value)| {
        let labels = joined(&[labels.to_owned(), label("direction", direction)]);
        (labels, value as f64)
    })
}

const IN_OUT: [&str; 2] = ["in", "out"];

fn sessions(page: &mut Page, s: &Status) {
    let sum = |value: fn(&SessionStatus) -> u64| -> Samples {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for peer in &s.peers {
            sums.insert(peer_label(s, &peer.peer), 0);
        }
        for session in &s.sessions {
            *sums.entry(peer_label(s, &session.peer)).or_default() += value(session);
        }
        let sums = sums.into_iter();
        sums.map(|(labels, value)| (labels, value as f64)).collect()
    };
    page.gauge(
        "mpbond_sessions",
        "Sessions that are established and not lost, those that retire included.",
        sum(|x| u64::from(!["joining", "lost"].contains(&x.state.as_str()))),
    );
    page.gauge(
        "mpbond_streams_open",
        "Open streams.",
        sum(|x| x.streams_open),
    );
    page.gauge(
        "mpbond_unscheduled_bytes",
        "Bytes written and not yet scheduled on a subflow.",
        sum(|x| x.unscheduled_bytes),
    );
    let peers = || s.peers.iter().map(|p| (peer_label(s, &p.peer), p));
    page.counter(
        "mpbond_streams_total",
        "Streams opened.",
        peers()
            .map(|(labels, p)| (labels, p.streams_total as f64))
            .collect(),
    );
    page.counter(
        "mpbond_reinjected_bytes_total",
        "Bytes recalled from slow, silent or lost subflows.",
        peers()
            .map(|(labels, p)| (labels, p.reinjected_bytes_out as f64))
            .collect(),
    );
    page.counter(
        "mpbond_redundant_bytes_total",
        "Stream bytes that arrived, or were sent, more than once.",
        peers()
            .flat_map(|(labels, p)| {
                let values = [p.redundant_bytes_in, p.redundant_bytes_out];
                both(&labels, IN_OUT, values)
            })
            .collect(),
    );
    page.counter(
        "mpbond_direct_connections_total",
        "Connections that went direct, since no path to the proxy worked.",
        s.direct_total
            .map(|n| (String::new(), n as f64))
            .into_iter()
            .collect(),
    );
    let selected = s.rules.iter().filter(|rule| rule.flows_total > 0);
    page.counter(
        "mpbond_rule_flows_total",
        "Connections that the rule of the policy has selected.",
        selected
            .map(|rule| (label("rule", &rule.name), rule.flows_total as f64))
            .collect(),
    );
}

fn path_label(s: &Status, peer: &str, name: &str) -> String {
    joined(&[peer_label(s, peer), label("path", name)])
}

fn paths(page: &mut Page, s: &Status) {
    // A primary knows its paths before they have ever joined.
    let mut up: BTreeMap<String, bool> = BTreeMap::new();
    for path in &s.paths {
        up.insert(path_label(s, &path.peer, &path.name), false);
    }
    for link in &s.links {
        up.insert(path_label(s, "", &link.name), false);
    }
    let links = s.links.iter();
    let used_up = links.filter(|link| link.cap.as_ref().is_some_and(|cap| cap.used_up));
    let used_up: BTreeSet<&str> = used_up.map(|link| link.name.as_str()).collect();
    for session in &s.sessions {
        for subflow in &session.subflows {
            let carries = ["up", "backup"].contains(&subflow.state.as_str())
                && !used_up.contains(subflow.name.as_str());
            *up.entry(path_label(s, &session.peer, &subflow.name))
                .or_default() |= carries;
        }
    }
    page.gauge(
        "mpbond_path_up",
        "1 while the path can carry data.",
        up.into_iter()
            .map(|(labels, up)| (labels, f64::from(u8::from(up))))
            .collect(),
    );
    let all = || s.paths.iter().map(|p| (path_label(s, &p.peer, &p.name), p));
    page.counter(
        "mpbond_path_joins_total",
        "Number of times that the path has joined a session.",
        all()
            .map(|(labels, p)| (labels, p.joins_total as f64))
            .collect(),
    );
    page.counter(
        "mpbond_path_bytes_total",
        "Stream bytes by path and direction, copies included.",
        all()
            .flat_map(|(labels, p)| both(&labels, IN_OUT, [p.bytes_in, p.bytes_out]))
            .collect(),
    );
}

/// Gauges of the subflow that each path has now: in the session in use, and no express.
fn gauges_of_paths(page: &mut Page, s: &Status) {
    let mut current: BTreeMap<String, &SubflowStatus> = BTreeMap::new();
    for session in &s.sessions {
        for subflow in session.subflows.iter().filter(|f| f.state != "express") {
            let labels = path_label(s, &session.peer, &subflow.name);
            current.entry(labels).or_insert(subflow);
        }
    }
    let each = |value: fn(&SubflowStatus) -> f64| -> Samples {
        let all = current.iter();
        all.map(|(labels, f)| (labels.clone(), value(f))).collect()
    };
    // Zero where nothing was measured.
    let measured = |value: fn(&SubflowStatus) -> f64| -> Samples {
        let all = each(value).into_iter();
        all.filter(|(_, value)| *value > 0.0).collect()
    };
    page.gauge(
        "mpbond_path_pad_seconds",
        "Pipe-aware delay.",
        measured(|f| f.pad_ms / 1e3),
    );
    page.gauge(
        "mpbond_path_rtt_seconds",
        "Round-trip time over all hops.",
        measured(|f| f.rtt_ms / 1e3),
    );
    page.gauge(
        "mpbond_path_sender_bytes",
        "B_s: bytes that have not left the near hop.",
        each(|f| f.b_s as f64),
    );
    page.gauge(
        "mpbond_path_helper_bytes",
        "B_p: bytes that wait at the helper.",
        each(|f| f.b_p as f64),
    );
    page.gauge(
        "mpbond_path_throughput_bytes_per_second",
        "End-to-end throughput where load has shown it within 10 s.",
        current
            .iter()
            .filter_map(|(labels, f)| Some((labels.clone(), f.th_mbps? * 1e6 / 8.0)))
            .collect(),
    );
    page.gauge(
        "mpbond_path_potentially_failed",
        "1 while acknowledgements of the path have stopped for longer than any repair takes.",
        each(|f| f64::from(u8::from(f.state == "potentially-failed"))),
    );
}

/// Use of the caps of links.
fn caps(page: &mut Page, s: &Status) {
    let links = s.links.iter();
    let with = links.filter_map(|link| Some((label("path", &link.name), link.cap.as_ref()?)));
    let with: Vec<_> = with.collect();
    let each = |value: fn(&CapStatus) -> u64| -> Samples {
        let all = with.iter();
        all.map(|(labels, cap)| (labels.clone(), value(cap) as f64))
            .collect()
    };
    page.gauge(
        "mpbond_cap_used_bytes",
        "Bytes used of the path's cap in its period, both ways.",
        each(|cap| cap.used_bytes),
    );
    page.gauge(
        "mpbond_cap_limit_bytes",
        "Bytes of that cap.",
        each(|cap| cap.bytes),
    );
}

/// Energy of the radios that the policy names.
fn radios(page: &mut Page, s: &Status) {
    let links = s.links.iter();
    let with = links.filter_map(|link| Some((label("path", &link.name), link.energy.as_ref()?)));
    let with: Vec<_> = with.collect();
    let joules = with.iter().map(|(labels, e)| (labels.clone(), e.joules));
    page.counter(
        "mpbond_radio_joules_total",
        "Energy of the path's radio by its model, in joules.",
        joules.collect(),
    );
    let today = with.iter().filter_map(|(labels, e)| {
        let today = e.days.last()?;
        Some((labels.clone(), today.joules))
    });
    page.gauge(
        "mpbond_radio_today_joules",
        "The same on this calendar day in the time zone of the host, over restarts.",
        today.collect(),
    );
}

fn relays(page: &mut Page, s: &Status) {
    const DOWN_UP: [&str; 2] = ["down", "up"];
    let mut now: BTreeMap<String, (u64, [u64; 2])> = BTreeMap::new();
    for relayed in &s.relayed {
        now.insert(label("primary", &relayed.primary), (0, [0, 0]));
    }
    for r in &s.relays {
        let sum = now.entry(label("primary", &r.primary)).or_default();
        sum.0 += 1;
        sum.1 = [sum.1[0] + r.level_down_bytes, sum.1[1] + r.level_up_bytes];
    }
    page.gauge(
        "mpbond_relays",
        "Relays.",
        now.iter()
            .map(|(labels, (count, _))| (labels.clone(), *count as f64))
            .collect(),
    );
    page.gauge(
        "mpbond_relay_level_bytes",
        "Bytes that wait in relays.",
        now.iter()
            .flat_map(|(labels, (_, levels))| both(labels, DOWN_UP, *levels))
            .collect(),
    );
    let moved = s.relayed.iter().flat_map(|r| {
        let labels = label("primary", &r.primary);
        both(&labels, DOWN_UP, [r.bytes_down, r.bytes_up])
    });
    page.counter(
        "mpbond_relay_bytes_total",
        "Bytes relayed.",
        moved.collect(),
    );
    if let Some(budget) = &s.budget {
        page.gauge(
            "mpbond_budget_used_bytes",
            "Bytes relayed in this calendar month (UTC).",
            vec![(String::new(), budget.used_bytes as f64)],
        );
    }
}

/// A label with an arbitrary value, escaped.
fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use mpbond_testing::Need;

    use super::*;
    use crate::status::{
        BudgetStatus, DayJoules, LinkEnergy, LinkStatus, MemoryStatus, PathStatus, PeerStatus,
        RelayStatus, RelayedStatus, RuleStatus,
    };

    fn subflow(id: u32, state: &str) -> SubflowStatus {
        SubflowStatus {
            id,
            name: "a \"b\"".into(),
            state: state.into(),
            pad_ms: 40.0 * f64::from(id),
            rtt_ms: 30.0 * f64::from(id),
            th_mbps: Some(8.0),
            ..SubflowStatus::default()
        }
    }

    fn energy() -> LinkEnergy {
        let day = |day: &str, joules| DayJoules {
            day: day.into(),
            joules,
        };
        LinkEnergy {
            radio: "lte-2012".into(),
            joules: 25.5,
            days: vec![day("2026-11-26", 120.0), day("2026-11-27", 26.25)],
            woken_for: None,
        }
    }

    fn cap() -> CapStatus {
        CapStatus {
            used_bytes: 10_000,
            bytes: 30_000,
            ..CapStatus::default()
        }
    }

    /// A status with every value. `run` is what differs from start to start.
    fn status(role: &str, run: u32) -> Status {
        let session = SessionStatus {
            id: format!("{run}"),
            peer: "P".into(),
            streams_open: 2,
            subflows: vec![subflow(run + 1, "express"), subflow(run, "up")],
            ..SessionStatus::default()
        };
        Status {
            role: role.into(),
            uptime_s: 1.5,
            direct_total: (role == "primary").then_some(3),
            rules: vec![
                RuleStatus {
                    name: "a \"b\"".into(),
                    flows_total: 5,
                    ..RuleStatus::default()
                },
                RuleStatus::default(),
            ],
            memory: Some(MemoryStatus::default()),
            budget: Some(BudgetStatus::default()),
            sessions: vec![session.clone(), session],
            peers: vec![PeerStatus {
                peer: "P".into(),
                redundant_bytes_in: 7,
                ..PeerStatus::default()
            }],
            paths: vec![PathStatus {
                peer: "P".into(),
                name: "a \"b\"".into(),
                bytes_in: 12,
                joins_total: 4,
                ..PathStatus::default()
            }],
            links: vec![LinkStatus {
                name: "lte".into(),
                energy: (role == "primary").then(energy),
                cap: (role == "primary").then(cap),
                ..LinkStatus::default()
            }],
            relays: vec![RelayStatus {
                primary: "P".into(),
                bytes_down: u64::from(run),
                ..RelayStatus::default()
            }],
            relayed: vec![RelayedStatus {
                primary: "P".into(),
                bytes_down: 9,
                ..RelayedStatus::default()
            }],
            ..Status::default()
        }
    }

    /// Names with labels.
    fn series(text: &str) -> Vec<&str> {
        let samples = text.lines().filter(|l| !l.starts_with('#'));
        samples.map(|l| l.rsplit_once(' ').unwrap().0).collect()
    }

    #[test]
    fn values_are_by_name() {
        let page = text(&status("primary", 1));
        for line in [
            "mpbond_uptime_seconds 1.5",
            "mpbond_streams_open 4",
            "mpbond_direct_connections_total 3",
            "mpbond_rule_flows_total{rule=\"a \\\"b\\\"\"} 5",
            "mpbond_redundant_bytes_total{direction=\"in\"} 7",
            "mpbond_path_up{path=\"a \\\"b\\\"\"} 1",
            "mpbond_path_up{path=\"lte\"} 0",
            "mpbond_path_joins_total{path=\"a \\\"b\\\"\"} 4",
            "mpbond_cap_used_bytes{path=\"lte\"} 10000",
            "mpbond_cap_limit_bytes{path=\"lte\"} 30000",
            "mpbond_path_bytes_total{path=\"a \\\"b\\\"\",direction=\"in\"} 12",
            "mpbond_path_pad_seconds{path=\"a \\\"b\\\"\"} 0.04",
            "mpbond_path_throughput_bytes_per_second{path=\"a \\\"b\\\"\"} 1000000",
            "mpbond_relay_bytes_total{primary=\"P\",direction=\"down\"} 9",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        let page = text(&status("proxy", 1));
        let line = "mpbond_streams_total{primary=\"P\"} 0";
        assert!(page.lines().any(|l| l == line), "{page}");
        let empty = text(&Status::default());
        assert_eq!(
            series(&empty),
            ["mpbond_uptime_seconds"],
            "no family without a sample"
        );
    }

    #[test]
    fn a_path_whose_cap_is_used_up_is_not_up() {
        let mut status = status("primary", 1);
        status.links[0].name = "a \"b\"".into();
        for used_up in [false, true] {
            status.links[0].cap = Some(CapStatus { used_up, ..cap() });
            let page = text(&status);
            let line = format!(
                "mpbond_path_up{{path=\"a \\\"b\\\"\"}} {}",
                i32::from(!used_up)
            );
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn sessions_that_were_never_established_or_are_lost_do_not_count() {
        let mut status = status("primary", 1);
        for (first, second, count) in [
            ("up", "retiring", 2),
            ("waiting", "lost", 1),
            ("joining", "lost", 0),
        ] {
            status.sessions[0].state = first.into();
            status.sessions[1].state = second.into();
            let page = text(&status);
            let line = format!("mpbond_sessions {count}");
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn a_restart_makes_no_new_series_and_none_comes_twice() {
        for role in ["primary", "proxy", "helper"] {
            let (first, second) = (text(&status(role, 1)), text(&status(role, 2)));
            assert_eq!(series(&first), series(&second));
            let unique: BTreeSet<&str> = series(&first).into_iter().collect();
            assert_eq!(unique.len(), series(&first).len(), "{first}");
        }
    }

    #[test]
    fn promtool_accepts_every_metric_of_each_role() {
        if Command::new("promtool").arg("--version").output().is_err() {
            return Need::Promtool.is_missing("there is no promtool");
        }
        for role in ["primary", "proxy", "helper"] {
            let page = text(&status(role, 1));
            let mut check = Command::new("promtool")
                .args(["check", "metrics"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = check.stdin.take().unwrap();
            stdin.write_all(page.as_bytes()).unwrap();
            drop(stdin);
            let done = check.wait_with_output().unwrap();
            let said = [done.stdout, done.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(done.status.success() && said.is_empty(), "{said}{page}");
        }
    }

    /// The rules of `promtool check metrics`: base units, no abbreviated ones, `_total` for
    /// counters and for nothing else, a help for each.
    #[test]
    fn names_follow_the_rules_of_prometheus() {
        const OTHER_UNITS: [&str; 12] = [
            "bits",
            "milliseconds",
            "ms",
            "us",
            "ns",
            "s",
            "sec",
            "b",
            "kb",
            "mb",
            "minutes",
            "m",
        ];
        let page = text(&status("primary", 1));
        let mut lines = page.lines().peekable();
        let mut families = BTreeSet::new();
        while let Some(head) = lines.next() {
            let (name, help) = head
                .strip_prefix("# HELP ")
                .unwrap()
                .split_once(' ')
                .unwrap();
            assert!(!help.is_empty() && families.insert(name), "{name}");
            let kind = lines.next().unwrap().rsplit_once(' ').unwrap().1;
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            let parts: Vec<&str> = name.split('_').collect();
            assert!(parts.iter().all(|p| !OTHER_UNITS.contains(p)), "{name}");
            while let Some(sample) = lines.next_if(|l| !l.starts_with('#')) {
                let (series, value) = sample.rsplit_once(' ').unwrap();
                assert_eq!(series.split('{').next(), Some(name));
                assert!(value.parse::<f64>().is_ok(), "{sample}");
            }
        }
        assert!(families.len() > 20, "{families:?}");
    }
}
