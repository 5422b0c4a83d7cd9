//! The command lines of `mpbond cpulog` and `mpbond energy --background`.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::programs::{lab_in, refusal};

const LOG: &str = "time_s,kind,name,mhz,utilisation\n\
    10.0,core,0,1400,0.5\n10.0,share,stack,,0.4\n\
    11.0,core,0,1400,0.2\n11.0,share,stack,,0.1\n\
    12.0,core,0,1400,0.6\n12.0,share,stack,,0.5\n";
const IDLE: &str = "time_s,kind,name,mhz,utilisation\n\
    10.0,core,0,1400,0\n20.0,core,0,1400,0.1\n";

#[test]
fn means_of_a_processor_log() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("cpu.csv"), text).unwrap();
    let summary = || {
        lab_in(folder.path(), &["cpulog", "--summary", "cpu.csv", "--json"])
            .output()
            .unwrap()
    };
    write(LOG);
    let output = summary();
    assert_eq!(output.status.code(), Some(0));
    let means: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(means["seconds"], 2.0);
    assert_eq!(means["cores"][0]["utilisation"], 0.4);
    assert_eq!(means["shares"][0]["name"], "stack");
    assert_eq!(means["shares"][0]["utilisation"], 0.3);
    write(&LOG[..LOG.len() - 3]);
    let why = refusal(&summary());
    assert!(
        why.contains("cpu.csv: line 7: file ends inside a line"),
        "{why}"
    );
    write(&LOG.replace("11.0", "9.0"));
    let why = refusal(&summary());
    assert!(
        why.contains("cpu.csv: line 4: time goes backwards"),
        "{why}"
    );
}

#[test]
fn a_duration_that_is_none_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    for seconds in ["nan", "inf", "2e9", "five"] {
        let arguments = ["cpulog", "--output", "cpu.csv", "--seconds", seconds];
        let output = lab_in(folder.path(), &arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{seconds}: {errors}");
        assert!(errors.contains("from 0 to 1e9"), "{seconds}: {errors}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_command_that_takes_longer_than_its_log_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "echo $$ >pid; exec sleep 100"];
    let log = ["cpulog", "--output", "cpu.csv", "--interval-ms", "20"];
    let arguments = [&log[..], &["--seconds", "2", "--"], &command].concat();
    // Not by its output's end, for which the command would have to end, too.
    let status = lab_in(folder.path(), &arguments).status().unwrap();
    assert_eq!(status.code(), Some(0));
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    assert!(!process.exists(), "{}", process.display());
    // One that ends before is waited for.
    let short = ["sh", "-c", "exit 7"];
    let arguments = [&log[..], &["--seconds", "100", "--"], &short].concat();
    let status = lab_in(folder.path(), &arguments).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

/// The command has the other end of a pair of sockets until it ends.
#[test]
fn a_command_ends_with_a_log_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (mut here, there) = UnixStream::pair().unwrap();
    let log = ["cpulog", "--output", "/dev/full", "--interval-ms", "20"];
    let arguments = [&log[..], &["--", "sleep", "100"]].concat();
    let output = lab_in(folder.path(), &arguments)
        .stdin(OwnedFd::from(there))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let why = "/dev/full: No space left on device";
    assert!(errors.contains(why), "{errors}");
    // Not at once: a process that another test starts has the end, too, until its exec.
    here.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let ended = here.read(&mut [0; 1]);
    assert!(matches!(ended, Ok(0)), "it runs on: {ended:?}");
}

#[test]
fn a_command_that_cannot_start_leaves_a_log_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpu.csv");
    std::fs::write(&file, LOG).unwrap();
    let log = ["cpulog", "--output", "cpu.csv", "--seconds", "0", "--"];
    let run = |command: &str| {
        let arguments = [&log[..], &[command]].concat();
        lab_in(folder.path(), &arguments).output().unwrap()
    };
    let output = run("./none");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot start ./none"), "{errors}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LOG);
    // One that starts has a log of its own.
    assert_eq!(run("true").status.code(), Some(0));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("time_s,"), "{text}");
    assert!(!text.contains("10.0,core,0,1400"), "{text}");
}

#[test]
fn two_formats_of_a_report_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cpu.csv"), LOG).unwrap();
    let energy = ["energy", "cpu.csv", "--profile", "galaxy-s3", "--json"];
    let arguments = [&energy[..], &["--format", "csv"]].concat();
    let output = lab_in(folder.path(), &arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot be used with"), "{errors}");
}

#[test]
fn energy_of_networking_is_without_the_background() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cpu.csv"), LOG).unwrap();
    std::fs::write(folder.path().join("idle.csv"), IDLE).unwrap();
    let energy = |more: &str| {
        let mut arguments = vec!["energy", "cpu.csv", "--profile", "galaxy-s3", "--json"];
        arguments.extend(more.split_ascii_whitespace());
        lab_in(folder.path(), &arguments).output().unwrap()
    };
    let share = |output: &Output| -> [f64; 2] {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let share = &report["devices"][0]["cpu_share"];
        ["cpu_net_j", "background_j"].map(|key| share[key].as_f64().unwrap())
    };
    let near = |[net, background]: [f64; 2], [n, b]: [f64; 2]| {
        assert!(
            (net - n).abs() < 1e-9 && (background - b).abs() < 1e-9,
            "{net} {background}"
        );
    };
    // 760 mW at full use, for 2 s on average 0.4 of it; 167.2 mW while awake, which is more than
    // the background of 150.2 mW.
    near(share(&energy("")), [0.608, 0.3004]);
    // The idle phone's processor is used by a tenth.
    let idle_mw = 167.2 + 76.0;
    near(
        share(&energy("--background idle.csv")),
        [0.608 - 0.152, idle_mw * 2.0 / 1e3],
    );
    std::fs::write(folder.path().join("idle.csv"), IDLE.replace("1400", "2457")).unwrap();
    let why = refusal(&energy("--background idle.csv"));
    let words = "idle.csv: line 3: sample of another phone: core 0 at 2457 MHz";
    assert!(why.contains(words), "{why}");
}

#[test]
fn a_report_refuses_a_log_of_another_phone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("cpu.csv"), text).unwrap();
    let arguments = ["energy", "cpu.csv", "--profile", "galaxy-s3"];
    let energy = || lab_in(folder.path(), &arguments).output().unwrap();
    // Its first samples fit.
    write(&LOG.replace("12.0,core,0,1400", "12.0,core,0,2457"));
    let why = refusal(&energy());
    let words = "cpu.csv: line 7: sample of another phone: core 0 at 2457 MHz";
    assert!(why.contains(words), "{why}");
    // A cut one is counted.
    write(&LOG[..LOG.len() - 3]);
    let output = energy();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("INCOMPLETE: "), "{text}");
}

#[test]
fn each_background_is_of_a_device_with_a_processor_log() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text| std::fs::write(folder.path().join(name), text).unwrap();
    write("cpu.csv", LOG);
    write("idle.csv", IDLE);
    write("idle=s3.csv", IDLE);
    let energy = |more: &str| {
        let mut arguments = vec!["energy", "cpu.csv", "--profile", "galaxy-s3"];
        arguments.extend(more.split_ascii_whitespace());
        lab_in(folder.path(), &arguments).output().unwrap()
    };
    for (more, words) in [
        (
            "--background idle.csv=watch",
            "no processor log of device \"watch\"; give one with --cpu-of",
        ),
        (
            "--background idle.csv --cpu-of cpu.csv=phone",
            "no processor log of the device without a name; give one, or name the device",
        ),
        (
            "--background idle.csv --background idle=s3.csv",
            "two logs of the device without a name; give one",
        ),
    ] {
        let why = refusal(&energy(more));
        assert!(why.contains(words), "{why}");
    }
    for more in [
        "--background idle=s3.csv",
        "--background idle=s3.csv=phone --cpu-of cpu.csv=phone",
    ] {
        let output = energy(more);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{more}: {errors}");
    }
}
