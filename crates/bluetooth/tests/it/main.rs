//! The program `mpbond-bluetooth` as a user runs it, on a machine with or without Bluetooth.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::path::Path;

use mpbond_testing::Program;
use mpbond_testing::command_line::compare;
use socket2::{Domain, Protocol, Socket, Type};

const BLUETOOTH: Program = Program::new(env!("CARGO_BIN_EXE_mpbond-bluetooth"));

#[test]
fn help_pages_and_completions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    compare(BLUETOOTH, &folder, &[]);
}

#[test]
fn wrong_usage_is_told_with_code_2() {
    for (args, part) in [
        (
            &["connect", "--device", "00:1A", "--socket", "x"][..],
            "six octets",
        ),
        (
            &["listen", "--socket", "x", "--channels", "0-40"],
            "channels are 1 to 30",
        ),
        (&["listen"], "--socket <PATH>"),
    ] {
        let outcome = BLUETOOTH.run(&[&["bluetooth"], args].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

/// One line with the remedy, and no socket that nobody serves.
#[test]
fn without_bluetooth_in_the_kernel_every_command_fails_with_one_line() {
    let domain = Domain::from(libc::AF_BLUETOOTH);
    let rfcomm = Some(Protocol::from(3));
    if Socket::new(domain, Type::STREAM, rfcomm).is_ok() {
        // The opposite is in .ci/bluetooth.
        return eprintln!("not tested: this kernel has Bluetooth");
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("phone.sock");
    let path = socket.to_str().unwrap();
    for args in [
        &["check"][..],
        &["connect", "--device", "00:1A:7D:DA:71:13", "--socket", path],
        &["listen", "--socket", path],
    ] {
        let line = BLUETOOTH.fails(&[&["bluetooth"], args].concat(), 1);
        assert!(line.starts_with("this kernel has no "), "{line}");
        assert!(line.contains("load the module"), "{line}");
    }
    assert!(!socket.exists());
}
