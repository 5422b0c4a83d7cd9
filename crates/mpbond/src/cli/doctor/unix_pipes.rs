//! Pipes at Unix sockets: whether somebody listens there, and the state of Bluetooth behind them,
//! by `mpbond bluetooth check`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;
use socket2::{Domain, SockAddr, Socket, Type};

use super::super::dispatch;
use super::finding::{Findings, Verdict};

/// A finding of `mpbond bluetooth check --json`.
#[derive(Deserialize)]
struct Line {
    verdict: Verdict,
    detail: String,
    advice: Option<String>,
}

/// A primary's pipe, which a process on this machine carries. Whether the helper may be asked over
/// it: somebody listens, and nothing prevents Bluetooth.
pub(super) fn of_primary(findings: &mut Findings, check: &str, path: &Path) -> bool {
    let advice = "start the process that carries it, such as mpbond-bluetooth@NAME (docs/pipes.md)";
    listens(findings, check, path, advice) && bluetooth(findings, check, path)
}

/// A pipe at which a helper listens; its daemon may run.
pub(super) fn of_helper(findings: &mut Findings, path: &Path, running: bool) {
    let check = format!("pipe unix:{}", path.display());
    if running {
        let advice = "its log has the reason; after a correction, start the helper again";
        listens(findings, &check, path, advice);
    }
    bluetooth(findings, &check, path);
}

/// Whether somebody listens at a socket.
fn listens(findings: &mut Findings, check: &str, path: &Path, advice: &str) -> bool {
    let problem = match connect(path) {
        Ok(_) => {
            findings.ok(check, format!("unix:{} takes connections", path.display()));
            return true;
        }
        Err(e) => match e.kind() {
            ErrorKind::NotFound => "there is no such socket".to_owned(),
            ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
            ErrorKind::WouldBlock => {
                "nobody takes connections: is that process stopped?".to_owned()
            }
            _ => e.to_string(),
        },
    };
    findings.fail(check, format!("unix:{}: {problem}", path.display()), advice);
    false
}

/// Connects, and does not wait where the queue of the listener is full.
fn connect(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// The state of Bluetooth behind a socket; whether nothing is known to prevent it.
fn bluetooth(findings: &mut Findings, check: &str, path: &Path) -> bool {
    const WHAT: &str = "Bluetooth";
    match run(path) {
        Ok(output) => match report(findings, check, &output.stdout) {
            Ok(may_work) => return may_work,
            Err(problem) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let problem = match said.trim() {
                    "" => problem,
                    said => said.escape_debug().to_string(),
                };
                findings.skip(
                    check,
                    WHAT,
                    format_args!("`mpbond bluetooth check`: {problem}"),
                );
            }
        },
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let why = "the program mpbond-bluetooth is neither beside this one nor in PATH";
            findings.skip(check, WHAT, why);
        }
        Err(e) => findings.skip(check, WHAT, format_args!("mpbond-bluetooth: {e}")),
    }
    true
}

fn run(socket: &Path) -> io::Result<Output> {
    let mut missing = ErrorKind::NotFound.into();
    for program in dispatch::programs("bluetooth") {
        let mut command = Command::new(program);
        command.args(["bluetooth", "check", "--json", "--socket"]);
        match command.arg(socket).output() {
            Err(e) if e.kind() == ErrorKind::NotFound => missing = e,
            done => return done,
        }
    }
    Err(missing)
}

/// Adds the findings in the output of the check; whether none is a failure.
fn report(findings: &mut Findings, check: &str, output: &[u8]) -> Result<bool, String> {
    let lines: Vec<Line> = serde_json::from_slice(output).map_err(|e| e.to_string())?;
    let may_work = lines.iter().all(|line| line.verdict != Verdict::Fail);
    for line in lines {
        findings.add(check, line.verdict, line.detail, line.advice);
    }
    Ok(may_work)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn lines_of_the_check_are_findings() {
        let mut findings = Findings::default();
        let output = br#"[{"verdict": "ok", "detail": "hci0 is on", "advice": null},
            {"verdict": "fail", "detail": "not paired", "advice": "pair it"},
            {"verdict": "skip", "detail": "not known", "advice": null}]"#;
        assert!(!report(&mut findings, "helper phone", output).unwrap());
        let text = findings.to_text();
        assert!(
            text.starts_with("ok    helper phone  hci0 is on\nFAIL  helper phone  not paired\n")
        );
        assert!(
            text.contains("-> pair it\nskip  helper phone  not known\n"),
            "{text}"
        );
        for output in ["", "[{}]", "{}", r#"[{"verdict": "good", "detail": "x"}]"#] {
            assert!(
                report(&mut findings, "c", output.as_bytes()).is_err(),
                "{output}"
            );
        }
        assert_eq!(findings.to_text(), text);
    }

    #[test]
    fn a_socket_that_is_absent_or_dead_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.sock");
        let found = |findings: &mut Findings| listens(findings, "helper phone", &path, "start it");
        let mut findings = Findings::default();
        assert!(!found(&mut findings));
        let listener = UnixListener::bind(&path).unwrap();
        // By default thousands fit in, more than a process may have files.
        socket2::SockRef::from(&listener).listen(1).unwrap();
        assert!(found(&mut findings));
        // Its process is stopped, and takes none of them.
        let mut waiting = Vec::new();
        while let Ok(socket) = connect(&path) {
            waiting.push(socket);
        }
        assert!(!found(&mut findings));
        drop(listener);
        assert!(!found(&mut findings));
        let text = findings.to_text();
        for part in [
            "there is no such socket",
            "takes connections",
            "nobody takes connections: is that process stopped?",
            "nobody listens there",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
