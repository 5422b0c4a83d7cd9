//! Small experiments with the real daemons over emulated links: mpbond beside the baselines, where
//! the kernel's Multipath TCP is checked to use both paths, or reported as unfit if it cannot; and
//! a direct path that falls silent while a helper holds much.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mpbond_lab::{Quantity, RunReport, Transfer};
use mpbond_testing::Need;
use serde_json::Value;

use crate::programs::{LAB, mpbond};

/// One at a time: links are played in real time.
static MACHINE: Mutex<()> = Mutex::new(());

const BYTES: u64 = 256 << 10;

/// Until this is dropped, no other test plays links.
fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record of one run; `None` where the machine does not meet its requirements.
fn run(name: &str) -> Option<RunReport> {
    run_alone(name, &alone())
}

fn run_alone(name: &str, _alone: &MutexGuard<()>) -> Option<RunReport> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data");
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let _ = std::fs::remove_file(&record);
    mpbond();
    let output = LAB
        .command(["lab", "run", "--quiet"])
        .arg(folder.join(format!("{name}.toml")))
        .arg("--json")
        .arg(&record)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        // The row that must be unfit makes the run one that was not judged.
        Some(0 | 4) => {}
        Some(3) => {
            Need::Namespaces.is_missing(complaint);
            return None;
        }
        code => panic!("exit code {code:?}: {complaint}"),
    }
    let text = std::fs::read_to_string(&record).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Whether a transfer that should have used both paths ended before the second one had joined.
fn was_too_quick(report: &RunReport) -> bool {
    let whole = |d: &&Transfer| d.name != "kibbutz without a pipe";
    let one_path = |d: &Transfer| {
        let says = d.unfit_because.as_ref();
        says.is_some_and(|why| why.contains("used one path"))
            || d.subflows.iter().any(|s| s.bytes <= BYTES / 50)
    };
    report.transfers.iter().filter(whole).any(one_path)
}

#[test]
fn parts_of_a_run_make_a_whole() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("../lab/tests/data/single.toml");
    let run = |args: &[&str]| {
        let mut command = LAB.command(["lab", "run", "--quiet", "--repetitions", "3"]);
        let ran = command.arg(&file).args(args).current_dir(out.path());
        let output = ran.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), complaint)
    };
    let repetitions = |name: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(out.path().join(name)).unwrap();
        let lines = text
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        lines
            .map(|l| l["transfer"]["repetition"].as_u64().unwrap())
            .collect()
    };
    let (code, complaint) = run(&["--part", "2/2", "--resume", "results"]);
    match code {
        Some(0 | 4) => {}
        Some(3) => return Need::Namespaces.is_missing(complaint),
        code => panic!("exit code {code:?}: {complaint}"),
    }
    assert_eq!(repetitions("results"), [1, 1]);
    let (code, complaint) = run(&["--further", "0", "--resume", "results"]);
    assert!(matches!(code, Some(0 | 4)), "{code:?}: {complaint}");
    assert_eq!(repetitions("results"), [1, 1, 0, 0, 2, 2]);
}

#[test]
fn baselines_beside_mpbond() {
    let Some(mut report) = run("baselines") else {
        return;
    };
    // A quarter of a mebibyte leaves a busy machine little time to join.
    for _ in 0..2 {
        if was_too_quick(&report)
            && let Some(again) = run("baselines")
        {
            report = again;
        }
    }
    let of = |name: &str| -> Vec<&Transfer> {
        let all = report.transfers.iter();
        all.filter(|d| d.name == name).collect()
    };
    for (name, transfers) in [
        ("kibbutz", 2),
        ("combine", 1),
        ("mpbond", 2),
        ("mpbond, no split", 1),
    ] {
        let all = of(name);
        assert_eq!(all.len(), transfers, "{name}");
        for d in all {
            used_both_paths(d);
        }
    }
    // The primary reads the class of the uploads from their sockets; the proxy has it from there.
    for d in of("mpbond") {
        let class = match d.workload.as_str() {
            "up" => "background",
            _ => "bulk",
        };
        assert!(
            d.classes.iter().eq([class]),
            "{}: {:?}",
            d.workload,
            d.classes
        );
    }
    // A helper that only forwards has no daemon.
    let [tethered] = of("mpbond, no split")[..] else {
        panic!("one transfer was expected");
    };
    assert!(
        !tethered.cpu_s.contains_key("phone"),
        "{:?}",
        tethered.cpu_s
    );
    // Both users have got their chunks, each by the own daemon.
    let [dual] = of("dual mode")[..] else {
        panic!("one transfer was expected");
    };
    assert!(dual.sha256_ok && dual.bytes == 2 * (64 << 10), "{dual:?}");
    for quantity in [Quantity::ChunkS, Quantity::SecondChunkS] {
        let seconds = dual.noticed.get(&quantity).copied();
        assert!(seconds.is_some_and(|s| s > 0.02), "{:?}", dual.noticed);
    }
    // Nothing comes over a pipe that is dead: that is no kibbutz.
    let [broken] = of("kibbutz without a pipe")[..] else {
        panic!("one transfer was expected");
    };
    assert!(broken.sha256_ok && !broken.fit, "{broken:?}");
    let why = broken.unfit_because.as_deref().unwrap_or_default();
    assert!(why.contains("no subflow was joined"), "{why}");
}

/// Sessions of real daemons over a pipe of Unix sockets and emulated Bluetooth alone.
#[test]
fn bytes_arrive_whole_over_emulated_bluetooth_that_is_lost_and_comes_back() {
    let Some(report) = run("bluetooth") else {
        return;
    };
    let [down, up, lost] = &report.transfers[..] else {
        panic!("three transfers were expected");
    };
    for d in [down, up, lost] {
        assert!(d.sha256_ok, "{d:?}");
        let names: Vec<_> = d.subflows.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["phone"], "{d:?}");
    }
    // The link takes 1.2 s for it, and carries nothing from 0.5 to 3 s.
    assert!(lost.seconds > 3.0, "{lost:?}");
}

/// Copies of missing bytes overtake the queue at the helper; behind it they would arrive after more
/// than a second.
///
/// A run that the machine was too busy for is repeated. If all were such, the shortest stall of all
/// must be shorter than behind the queue.
#[test]
fn copies_overtake_the_queue_of_a_helper() {
    const LONGEST_S: f64 = 0.7;
    const BEHIND_QUEUE_S: f64 = 1.0;
    const ATTEMPTS: u32 = 5;
    let mut shortest_s = f64::INFINITY;
    for _ in 0..ATTEMPTS {
        let Some(report) = run("direct-silent") else {
            return;
        };
        let [d] = &report.transfers[..] else {
            panic!("one transfer was expected");
        };
        assert!(d.sha256_ok && d.seconds > 5.0, "{d:?}");
        let redundant = d.redundant_bytes.unwrap_or_default();
        println!("longest stall: {} s", d.longest_stall_s);
        if let Some(why) = d.unfit_because.as_ref().or(d.disturbed.as_ref()) {
            println!("{why}");
            shortest_s = shortest_s.min(d.longest_stall_s);
            continue;
        }
        assert!(
            d.longest_stall_s < LONGEST_S && redundant < d.bytes / 50,
            "stall of {} s, {redundant} bytes sent twice",
            d.longest_stall_s
        );
        return;
    }
    assert!(
        shortest_s < BEHIND_QUEUE_S,
        "stalls of {shortest_s} s and more"
    );
}

fn used_both_paths(d: &Transfer) {
    assert!(d.sha256_ok, "{d:?}");
    assert_eq!(d.bytes, BYTES);
    assert!(d.ratio > 1.0, "nothing beats the bound: {d:?}");
    // Lateness of a busy machine is reported too, and is no failure.
    let why = d.unfit_because.as_deref().unwrap_or_default();
    assert!(!why.contains("used one path"), "{why}");
    assert!(!why.contains("did not carry"), "{why}");
    let mut names: Vec<&str> = d.subflows.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["lte", "phone"]);
    for share in &d.subflows {
        assert!(share.bytes > BYTES / 50, "{share:?} of {}", d.name);
    }
    let carried: u64 = d.subflows.iter().map(|s| s.bytes).sum();
    assert!(carried >= BYTES, "{carried}");
    let arrived = d.progress.last().map(|(_, bytes)| *bytes);
    assert_eq!(arrived, Some(BYTES), "{:?}", d.progress);
}

/// Threads that always run, of the same priority as the lab's.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..threads).map(spin).collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Beside four threads for each processor, daemons, client and origin wait for much longer than is
/// undisturbed. The transfer is disturbed, is run again once, and enters the figures since there
/// are no others.
#[test]
fn a_transfer_beside_busy_processors_is_disturbed_and_repeated() {
    let processors = std::thread::available_parallelism().unwrap().get();
    // The load would disturb other tests, too.
    let alone = alone();
    let load = Load::start(4 * processors);
    let report = run_alone("busy", &alone);
    drop(load);
    drop(alone);
    let Some(report) = report else {
        return;
    };
    assert_eq!(
        report.transfers.len(),
        3,
        "two repetitions and a further one"
    );
    for d in &report.transfers {
        assert!(d.sha256_ok, "{d:?}");
        let waited = d.waited.as_ref().unwrap();
        let (name, seconds) = waited.longest.clone().unwrap();
        println!(
            "waited {} of {} s, {name} {seconds} s",
            waited.waited_s, waited.seconds
        );
        assert!(waited.waited_s > 0.2 * waited.seconds, "{waited:?}");
        assert!((0.0..=waited.waited_s).contains(&seconds), "{waited:?}");
        let why = d.disturbed.as_deref().unwrap_or_default();
        assert!(why.contains("waited for a processor"), "{d:?}");
        // Links may have been late, too, on a machine without real-time priority.
        assert!(!d.left_out, "{d:?}");
    }
    let summary = &report.summary[0];
    assert_eq!(summary.disturbed + summary.unfit, 3);
}

/// With the programs under test, and two of its six rows.
#[test]
fn make_demo_ends_with_the_gain_that_it_has_measured() {
    let _alone = alone();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join("demo.json");
    let _ = std::fs::remove_file(&record);
    let output = Command::new("make")
        .args([
            "--silent",
            "--old-file=demo-programs",
            "demo",
            "--directory",
        ])
        .arg(repository)
        .arg(format!("MPBOND={}", mpbond().display()))
        .arg(format!(
            "RECORD=--json '{}' --scheme '1 device, socks5' --scheme '3 devices, socks5'",
            record.display()
        ))
        // Of a make that this test runs under.
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("Error 3") {
        return Need::Namespaces.is_missing(complaint);
    }
    assert!(output.status.success(), "{complaint}");
    let screen = String::from_utf8(output.stdout).unwrap();
    let last = screen.lines().last().unwrap();
    let text = std::fs::read_to_string(&record).unwrap();
    let report: RunReport = serde_json::from_str(&text).unwrap();
    let seconds = [1, 3].map(|devices| {
        let all = report.transfers.iter();
        let seconds: Vec<f64> = all
            .filter(|t| t.devices == devices)
            .map(|t| t.seconds)
            .collect();
        assert_eq!(seconds.len(), 1, "{text}");
        seconds[0]
    });
    let [one, all] = seconds;
    if all >= one
        && report
            .transfers
            .iter()
            .any(|t| !t.fit || t.disturbed.is_some())
    {
        return Need::Idle.is_missing(last);
    }
    let gain = one / all;
    let expected = format!("3 devices: {gain:.1} × faster than one ({all:.1} s, not {one:.1} s)");
    assert!(last.starts_with(&expected), "{expected} is not {last}");
}

#[test]
fn a_shell_on_a_host_finds_mpbond() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/demo.toml");
    let mpbond = mpbond();
    let output = LAB
        .command(["lab", "shell"])
        .arg(demo)
        .args(["primary", "--", "sh", "-c", "command -v mpbond"])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return Need::Namespaces.is_missing(complaint);
    }
    let found = String::from_utf8_lossy(&output.stdout);
    assert_eq!(found.trim(), mpbond.display().to_string(), "{complaint}");
}

/// Runs one scheme of `external.toml` with this PATH.
fn external(scheme: &str, path: &Path, record: &Path) -> std::process::Output {
    let _alone = alone();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data");
    LAB.command([
        "lab",
        "run",
        "--quiet",
        "--further",
        "0",
        "--scheme",
        scheme,
    ])
    .arg(data.join("external.toml"))
    .arg("--json")
    .arg(record)
    .env("PATH", path)
    .output()
    .unwrap()
}

#[test]
fn programs_other_than_mpbond_carry_transfers() {
    let lab = Path::new(env!("CARGO_BIN_EXE_mpbond-lab"));
    let path = lab.parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("external.json");

    // A program that is missing is named before anything runs.
    let missing = external("relay", folder.path(), &record);
    let complaint = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(3), "{complaint}");
    let expected = "scheme \"relay\": the program mpbond-lab is not in PATH: install it";
    assert!(complaint.contains(expected), "{complaint}");

    let output = external("relay", path, &record);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return Need::Namespaces.is_missing(complaint);
    }
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    let text = std::fs::read_to_string(&record).unwrap();
    let report: RunReport = serde_json::from_str(&text).unwrap();
    assert_eq!(report.transfers.len(), 4);
    for transfer in &report.transfers {
        assert!(transfer.sha256_ok && !transfer.is_unfit(), "{transfer:?}");
        assert_eq!(transfer.scheme, "external");
        // They passed the link.
        assert!(transfer.seconds >= transfer.ideal_seconds, "{transfer:?}");
    }

    // The failure of a transfer is a result.
    let nowhere = external("leads nowhere", path, &record);
    let complaint = String::from_utf8_lossy(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(1), "{complaint}");
    let text = std::fs::read_to_string(&record).unwrap();
    let report: RunReport = serde_json::from_str(&text).unwrap();
    assert_eq!(report.transfers.len(), 4);
    for transfer in &report.transfers {
        assert!(!transfer.sha256_ok && !transfer.fit, "{transfer:?}");
        let why = transfer.unfit_because.as_deref().unwrap();
        assert!(why.starts_with("it failed: "), "{why}");
    }

    let ended = external("ends at once", path, &record);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("the program on primary ended"),
        "{complaint}"
    );
    // With the end of its log.
    assert!(complaint.contains(env!("CARGO_PKG_VERSION")), "{complaint}");
}
