//! The rules of ARCHITECTURE.md: dependencies between crates, checked over `cargo metadata`; and,
//! over the sources, that pure crates read no clock and that `unsafe` occurs only in listed files.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace, with those that each may depend on. Every crate must be listed.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("plot", &[]),
    ("statistics", &[]),
    ("session", &["units"]),
    ("manager", &["price", "session", "units"]),
    ("l2", &["units"]),
    ("toml-text", &["units"]),
    ("price", &["units"]),
    ("policy", &["price", "toml-text", "units"]),
    ("radio", &["plot", "price", "units"]),
    (
        "sim",
        &[
            "manager",
            "price",
            "radio",
            "session",
            "statistics",
            "units",
        ],
    ),
    ("capture", &["plot", "radio", "statistics", "units"]),
    ("systrace", &["plot", "statistics", "units"]),
    ("net", &["l2", "units"]),
    ("intercept", &["units"]),
    ("probe", &["plot", "statistics"]),
    (
        "lab",
        &[
            "capture",
            "l2",
            "net",
            "plot",
            "price",
            "probe",
            "radio",
            "sim",
            "statistics",
            "systrace",
            "units",
        ],
    ),
    // The command lines themselves, not what they start.
    ("command", &[]),
    // The product does not depend on research.
    (
        "mpbond",
        &[
            "command",
            "intercept",
            "manager",
            "net",
            "policy",
            "price",
            "session",
            "toml-text",
            "units",
        ],
    ),
    // A client of the daemons, which shares no code with them.
    ("console", &["command"]),
    // A process between the daemons' sockets, likewise.
    ("bluetooth", &["command"]),
    (
        "lab-cli",
        &[
            "capture", "command", "lab", "probe", "radio", "sim", "systrace", "units",
        ],
    ),
    // For tests alone.
    ("testing", &[]),
    // No crate depends on the fuzz targets, which cover all crates that read input.
    (
        "fuzz",
        &[
            "bluetooth",
            "capture",
            "intercept",
            "l2",
            "lab",
            "mpbond",
            "net",
            "policy",
            "probe",
            "radio",
            "session",
            "sim",
            "systrace",
            "units",
        ],
    ),
];

/// Programs: no crate's normal dependencies may have them but those of `fuzz`, which feeds hostile
/// input to the daemons' parsers. The lab runs `mpbond` as users do.
const PROGRAMS: [&str; 4] = ["mpbond", "console", "bluetooth", "lab-cli"];

/// No clock, no sockets, no async runtime.
const PURE: [&str; 13] = [
    "units",
    "plot",
    "statistics",
    "session",
    "manager",
    "l2",
    "toml-text",
    "policy",
    "price",
    "radio",
    "sim",
    "capture",
    "systrace",
];

/// What a pure crate must not reach, however indirectly: event loops, and the crates through which
/// sockets are made.
const IMPURE: [&str; 10] = [
    "async-io",
    "async-std",
    "hyper",
    "mio",
    "nix",
    "quinn",
    "rustix",
    "smol",
    "socket2",
    "tokio",
];

/// Calls that make a pure crate depend on when and where it runs.
const CLOCKS: [&str; 6] = [
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "thread::sleep",
    "std::net::Tcp",
];

/// Where `unsafe` may be, and for what. Small files named for their system calls; elsewhere the
/// crates forbid it.
const UNSAFE: [(&str, &str); 22] = [
    ("crates/net/src/tcp/sys.rs", "TCP_INFO, queue lengths"),
    ("crates/intercept/src/rules/tun.rs", "a TUN interface"),
    (
        "crates/bluetooth/src/sys/rfcomm.rs",
        "addresses of RFCOMM, BT_SECURITY, RFCOMM_CONNINFO",
    ),
    ("crates/bluetooth/src/sys/hci.rs", "adapters of Bluetooth"),
    ("crates/bluetooth/src/sys/rssi.rs", "a command of the HCI"),
    ("crates/probe/src/sys.rs", "time stamps of packets"),
    ("crates/mpbond/src/heap.rs", "malloc_trim"),
    ("crates/mpbond/src/peer_groups.rs", "SO_PEERGROUPS"),
    (
        "crates/mpbond/src/cli/doctor/adjtimex.rs",
        "whether the clock is synchronised",
    ),
    (
        "crates/lab/src/sys/clone3.rs",
        "a process in new namespaces",
    ),
    ("crates/lab/src/sys/mptcp.rs", "MPTCP_INFO"),
    ("crates/lab/src/sys/packet.rs", "packet sockets, offloads"),
    ("crates/lab/src/sys/sched.rs", "SCHED_FIFO, SCHED_IDLE"),
    (
        "crates/lab/src/sys/setns.rs",
        "threads and programs in other namespaces",
    ),
    ("crates/lab/src/sys/tap.rs", "packets with their stamps"),
    (
        "crates/lab/src/sys/terminal.rs",
        "the terminal's foreground group",
    ),
    ("crates/lab/src/sys/tun.rs", "TUN devices"),
    (
        "crates/lab/src/sys/udp.rs",
        "UDP_SEGMENT, UDP_GRO, sendmmsg",
    ),
    // Of tests and benches.
    (
        "crates/net/benches/relay_cpu.rs",
        "SO_MAX_PACING_RATE, bpf(2)",
    ),
    (
        "crates/net/tests/idle_memory.rs",
        "an allocator that counts",
    ),
    (
        "crates/radio/tests/allocation/counting_allocator.rs",
        "an allocator that counts",
    ),
    (
        "fuzz/src/memory.rs",
        "an allocator that counts, and refuses",
    ),
];

/// What the product may do without. `mpbond` must not reach these, however indirectly: each would
/// be built for every daemon.
const RESEARCH: [&str; 9] = [
    "mpbond-capture",
    "mpbond-lab",
    "mpbond-plot",
    "mpbond-probe",
    "mpbond-radio",
    "mpbond-sim",
    "mpbond-systrace",
    "mpbond-statistics",
    "rusqlite",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The platform that this runs on: other platforms' packages need not be there.
fn host() -> String {
    let output = Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

/// Which package has which normal dependencies, by name.
struct Graph {
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--offline"])
            .args(["--filter-platform", &host()])
            .current_dir(root())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata: {errors}");
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let packages = metadata["packages"].as_array().unwrap();
        let names = packages.iter().map(|p| (text(&p["id"]), text(&p["name"])));
        let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
        let edges = nodes.iter().map(|node| {
            let normal = |dep: &&Value| {
                let kinds = dep["dep_kinds"].as_array().unwrap();
                kinds.iter().any(|k| k["kind"].is_null())
            };
            let deps = node["deps"].as_array().unwrap().iter().filter(normal);
            (text(&node["id"]), deps.map(|d| text(&d["pkg"])).collect())
        });
        Self {
            names: names.collect(),
            edges: edges.collect(),
        }
    }

    fn id(&self, crate_: &str) -> &str {
        let package = package_name(crate_);
        let found = self.names.iter().find(|(_, name)| **name == package);
        found.unwrap_or_else(|| panic!("no package {package}")).0
    }

    fn direct(&self, id: &str) -> impl Iterator<Item = &str> {
        self.edges[id].iter().map(|dep| self.names[dep].as_str())
    }

    /// Everything that a package reaches, each with one way to it.
    fn reached(&self, id: &str) -> BTreeMap<&str, String> {
        let mut ways = BTreeMap::new();
        let mut todo = vec![(id, self.names[id].clone())];
        while let Some((id, way)) = todo.pop() {
            for dep in &self.edges[id] {
                let name = self.names[dep].as_str();
                if !ways.contains_key(name) {
                    let way = format!("{way} -> {name}");
                    ways.insert(name, way.clone());
                    todo.push((dep, way));
                }
            }
        }
        ways
    }
}

fn package_name(crate_: &str) -> String {
    match crate_ {
        "mpbond" => "mpbond".to_owned(),
        other => format!("mpbond-{other}"),
    }
}

#[test]
fn crates_know_only_whom_they_may() {
    let graph = Graph::read();
    let own: BTreeSet<String> = MAY_DEPEND_ON.iter().map(|(c, _)| package_name(c)).collect();
    for name in graph.names.values().filter(|n| n.starts_with("mpbond")) {
        assert!(own.contains(name), "{name} is not in MAY_DEPEND_ON");
    }
    for (crate_, allowed) in MAY_DEPEND_ON {
        let allowed: BTreeSet<String> = allowed.iter().map(|c| package_name(c)).collect();
        for dep in graph.direct(graph.id(crate_)) {
            assert!(
                !own.contains(dep) || allowed.contains(dep),
                "{crate_} must not depend on {dep}"
            );
        }
    }
}

#[test]
fn no_crate_depends_on_the_programs() {
    for (crate_, allowed) in MAY_DEPEND_ON {
        let program = PROGRAMS.iter().find(|p| allowed.contains(p));
        assert!(
            program.is_none() || *crate_ == "fuzz",
            "{crate_} depends on {program:?}"
        );
    }
}

#[test]
fn the_product_reaches_no_research() {
    let graph = Graph::read();
    let reached = graph.reached(graph.id("mpbond"));
    for research in RESEARCH {
        if let Some(way) = reached.get(research) {
            panic!("mpbond must not reach {research}: {way}");
        }
        // The list means something only while there are such packages.
        assert!(
            graph.names.values().any(|n| n == research),
            "no package {research}"
        );
    }
}

#[test]
fn pure_crates_reach_no_runtime_and_no_sockets() {
    let graph = Graph::read();
    for crate_ in PURE {
        let reached = graph.reached(graph.id(crate_));
        for impure in IMPURE {
            if let Some(way) = reached.get(impure) {
                panic!("{crate_} is pure and must not reach {impure}: {way}");
            }
        }
    }
    // The list means something only while the others do reach them.
    assert!(graph.reached(graph.id("net")).contains_key("tokio"));
}

#[test]
fn pure_crates_read_no_clock() {
    for crate_ in PURE {
        for file in sources(&format!("crates/{crate_}/src")) {
            no_clock(&file);
        }
        let lib = root().join(format!("crates/{crate_}/src/lib.rs"));
        let text = std::fs::read_to_string(lib).unwrap();
        assert!(
            text.contains("#![deny(clippy::disallowed_methods)]"),
            "{crate_} is pure and must deny the clock methods of clippy.toml"
        );
    }
}

fn no_clock(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    for (line, number) in text.lines().zip(1..) {
        let code = line.split("//").next().unwrap_or_default();
        for call in CLOCKS {
            let file = file.display();
            assert!(
                !code.contains(call),
                "{file}:{number}: {call} in a pure crate"
            );
        }
    }
}

/// Where the product reads the time of day, which can be set: everything else of it depends on
/// CLOCK_MONOTONIC alone.
const TIME_OF_DAY: [(&str, &str); 5] = [
    ("crates/mpbond/src/account_file.rs", "ages of files"),
    ("crates/mpbond/src/helper/budget.rs", "months of a budget"),
    ("crates/mpbond/src/policy/device.rs", "times of rules"),
    ("crates/mpbond/src/pairing/enrol.rs", "expiry of tokens"),
    (
        "crates/mpbond/src/cli/doctor/clock.rs",
        "whether it is right",
    ),
];

#[test]
fn the_product_reads_the_time_of_day_where_it_is_said_to_and_nowhere_else() {
    let crates = ["session", "manager", "policy", "net", "intercept", "mpbond"];
    let folders = crates.map(|name| format!("crates/{name}/src"));
    let mut found = BTreeSet::new();
    for file in folders.iter().flat_map(|folder| sources(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = |line: &str| line.split("//").next().is_some_and(reads_time_of_day);
        if text.lines().any(code) {
            let name = file.strip_prefix(root()).unwrap();
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let said = TIME_OF_DAY.map(|(file, _)| file.to_owned());
    assert_eq!(found, BTreeSet::from(said));
    assert!(TIME_OF_DAY.iter().all(|(_, reason)| !reason.is_empty()));
}

fn reads_time_of_day(code: &str) -> bool {
    let calls = ["SystemTime::now", "CLOCK_REALTIME)", "UnixTime::now"];
    calls.iter().any(|call| code.contains(call))
}

/// All Rust files below a folder of the repository.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Whether the word stands in a line's code. (`unsafe_code` is another word.)
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code.split(|c: char| c != '_' && !c.is_alphanumeric());
    words.any(|word| word == "unsafe")
}

#[test]
fn unsafe_is_where_it_is_said_to_be() {
    let mut found = BTreeSet::new();
    // This file has the word in a string.
    let own = Path::new(file!()).file_name();
    for file in ["crates", "fuzz"].into_iter().flat_map(sources) {
        let text = std::fs::read_to_string(&file).unwrap();
        if file.file_name() != own && text.lines().any(is_unsafe) {
            let name = file.strip_prefix(root()).unwrap();
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let said: BTreeSet<String> = UNSAFE.iter().map(|(f, _)| (*f).to_owned()).collect();
    let more: Vec<_> = found.difference(&said).collect();
    assert!(
        more.is_empty(),
        "unsafe in files that are not listed: {more:?}"
    );
    let less: Vec<_> = said.difference(&found).collect();
    assert!(less.is_empty(), "listed, and without unsafe: {less:?}");
    assert!(UNSAFE.iter().all(|(_, reason)| !reason.is_empty()));
}

#[test]
fn every_crate_forbids_unsafe_or_names_where_it_is() {
    for (crate_, _) in MAY_DEPEND_ON {
        let folder = match *crate_ {
            "fuzz" => root().join("fuzz"),
            other => root().join("crates").join(other),
        };
        for name in ["lib.rs", "main.rs"] {
            let file = folder.join("src").join(name);
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let held = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"];
            assert!(held.iter().any(|h| text.contains(h)), "{}", file.display());
        }
    }
}
