//! Mistakes of people at the command line: the line that they read, and the exit code.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use mpbond_net::Identity;
use mpbond_testing::Program;

use super::command_line::primary_toml;

const MPBOND: Program = Program::new(env!("CARGO_BIN_EXE_mpbond"));

fn fails(args: &[&str], code: i32) -> String {
    MPBOND.fails(args, code)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file in place of a folder is to root as a full disk: nothing can be written below it.
#[test]
fn what_cannot_be_written_is_code_1_and_what_is_wrong_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (below, id) = (
        file.join("identity.pem"),
        Identity::generate().unwrap().id().to_string(),
    );
    let line = fails(&["trust", &id, "--identity", text(&below)], 1);
    assert!(line.contains("identity.trusted: cannot be "), "{line}");
    let wrong = folder.path().join("identity.trusted");
    std::fs::write(&wrong, "no id\n").unwrap();
    let own = folder.path().join("identity.pem");
    fails(&["trust", &id[..7], "--identity", text(&own)], 2);
}

#[test]
fn files_that_cannot_be_read_come_with_a_remedy() {
    for (command, remedy) in [
        (
            "primary",
            "`mpbond setup` makes one, `mpbond primary --help` shows one",
        ),
        ("up", "`mpbond up --help` shows one"),
    ] {
        let name = if command == "up" { "device" } else { command };
        let line = fails(
            &[command, "--config", &format!("/nonexistent/{name}.toml")],
            2,
        );
        assert!(line.trim_end().ends_with(remedy), "{line}");
    }
}

#[test]
fn a_kill_switch_that_is_not_configured_is_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let id = Identity::generate().unwrap().id();
    let file = primary_toml(folder.path(), SocketAddr::from(([127, 0, 0, 1], 9)), id);
    let line = fails(&["kill-switch", "on", "--config", text(&file)], 2);
    let expected = format!(
        "{}: there is no `kill_switch` under [transparent]",
        text(&file)
    );
    assert!(line.starts_with(&expected), "{line}");
}

/// `mpbond proxy enrol 2>&1 | head`: standard error has no reader any more.
#[test]
fn a_reader_of_standard_error_that_has_gone_ends_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, "identity = \"me.pem\"\n").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let args = [
        "proxy",
        "enrol",
        "--address",
        "203.0.113.1",
        "--config",
        text(&file),
    ];
    let done = MPBOND.command(args).stderr(writer).output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert!(done.stdout.starts_with(b"MPBOND:ENROL/203.0.113.1:4433/"));
}

#[test]
fn a_port_that_is_taken_comes_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let id = Identity::generate().unwrap().id();
    let file = primary_toml(folder.path(), SocketAddr::from(([127, 0, 0, 1], 9)), id);
    let front = format!("[socks5]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before + &front).unwrap();
    let outcome = MPBOND.run(&["primary", "--config", text(&file)]);
    assert_eq!(outcome.code, 1);
    let last = outcome.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("another program has this port"), "{last}");
}
