//! Replay of the committed corpora and regressions, and of mutations of them, without libFuzzer.
#![allow(clippy::unwrap_used, clippy::panic)] // test code

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mpbond_fuzz::{Mutations, TARGETS, Target, seeds};

/// Maximum time of one input: far more than any takes, also on a busy machine without optimisation.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Number of mutations of one target: the same on every machine, however fast, so that the test
/// passes on all of them or on none.
const MUTATIONS: usize = 1000;

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// All committed inputs of a target with their names.
fn inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = seeds::all().into_iter().filter(|s| s.0 == target.name);
    let mut all: Vec<_> = seeds.map(|(_, name, octets)| (name, octets)).collect();
    for kind in ["corpus", "regressions"] {
        for path in files(&root.join(kind).join(target.name)) {
            let octets = std::fs::read(&path).unwrap();
            all.push((path.display().to_string(), octets));
        }
    }
    all
}

/// Whether the target passes on an input; a failing input is reported and kept.
fn passes(target: &Target, name: &str, octets: &[u8]) -> bool {
    let begun = Instant::now();
    let run = std::panic::catch_unwind(|| target.check(octets));
    if run.is_err() {
        let kept = std::env::temp_dir().join(format!("mpbond-fuzz-{}", target.name));
        std::fs::write(&kept, octets).unwrap();
        eprintln!("{}: {name} (kept as {})", target.name, kept.display());
        return false;
    }
    let took = begun.elapsed();
    if took >= MOST_TIME {
        eprintln!("{}: {name} took {took:?}", target.name);
    }
    took < MOST_TIME
}

#[test]
fn every_committed_input_passes() {
    let mut good = true;
    for target in TARGETS {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (name, octets) in inputs {
            good &= passes(target, &name, &octets);
        }
    }
    assert!(good, "some inputs failed");
}

#[test]
fn mutations_of_them_pass() {
    let mut good = true;
    for (number, target) in (1..).zip(TARGETS) {
        let inputs = inputs(target);
        let mut mutations = Mutations::new(number);
        for i in 0..MUTATIONS {
            let (name, octets) = &inputs[i % inputs.len()];
            let (_, other) = &inputs[(i * 7 + 3) % inputs.len()];
            let octets = mutations.of(octets, other, target.most_octets);
            let passed = passes(target, &format!("mutation {i}, of {name}"), &octets);
            good &= passed;
            if !passed {
                break;
            }
        }
    }
    assert!(good, "some inputs failed");
}

/// Every corpus directory must belong to a target: otherwise a renamed target would lose its corpus
/// unnoticed.
#[test]
fn every_folder_has_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for kind in ["corpus", "regressions"] {
        for folder in files(&root.join(kind)) {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(
                Target::named(&name).is_some(),
                "{} belongs to no target",
                folder.display()
            );
        }
    }
}

/// The tests above can fail: a target that panics is detected, and one that exceeds its memory
/// limit.
#[test]
fn faults_are_detected() {
    let fault = |octets: &[u8]| assert_ne!(octets.first(), Some(&7), "a fault");
    let hoard = |octets: &[u8]| drop(vec![0_u8; octets.len() << 20]);
    let small = TARGETS[0];
    let faulty = Target {
        run: fault,
        ..small
    };
    let hoarder = Target {
        run: hoard,
        ..small
    };
    assert!(std::panic::catch_unwind(|| faulty.check(&[1])).is_ok());
    assert!(std::panic::catch_unwind(|| faulty.check(&[7])).is_err());
    assert!(std::panic::catch_unwind(|| hoarder.check(&[0])).is_ok());
    assert!(std::panic::catch_unwind(|| hoarder.check(&[0; 9])).is_err());
}

/// Whether `fuzz/instrument` has the compiler add libFuzzer's counters to a crate.
fn is_instrumented(crate_name: &str) -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("instrument");
    let output = Command::new(script)
        .args(["echo", "--crate-name", crate_name, "src/lib.rs"])
        .output()
        .unwrap();
    let arguments = String::from_utf8_lossy(&output.stdout);
    assert!(arguments.contains(crate_name), "{output:?}");
    arguments.contains("sancov")
}

#[test]
fn crates_are_instrumented_and_build_scripts_are_not() {
    assert!(is_instrumented("mpbond_session"));
    // It is linked without libFuzzer, which has the functions that counters call.
    assert!(!is_instrumented("build_script_build"));
}
