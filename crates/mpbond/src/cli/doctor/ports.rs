//! Listening addresses: free, in use by the daemon, or by another program.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use mpbond::status::Status;
use mpbond_units::printable;

use super::finding::Findings;

/// Maximum length of a program's name (linux/sched.h, TASK_COMM_LEN), and room for replacements.
const MAX_NAME_BYTES: usize = 48;

/// State of a listening socket in /proc/net/tcp (net/tcp_states.h).
const LISTENS: &str = "0A";

/// Checks that the daemon can bind an address, or has done so.
pub(super) fn listen(
    findings: &mut Findings,
    name: &str,
    address: SocketAddr,
    status: Option<&Status>,
) {
    match TcpListener::bind(address) {
        Ok(_) => findings.ok(name, format!("{address} is free")),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => in_use(findings, name, address, status),
        Err(e) => {
            let advice = match e.kind() {
                io::ErrorKind::AddrNotAvailable => {
                    "no interface here has this address: `ip address` lists those there are"
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 are for root: choose another port"
                }
                _ => "choose another address",
            };
            findings.fail(name, format!("{address}: {e}"), advice);
        }
    }
}

fn in_use(findings: &mut Findings, name: &str, address: SocketAddr, status: Option<&Status>) {
    let holders = holders(address.port());
    let is_daemon = |s: &Status| holders.iter().any(|(process, _)| *process == s.process);
    match (status, holders.first()) {
        (Some(status), _) if is_daemon(status) => findings.ok(
            name,
            format!("{address} is in use by the daemon, as it should be"),
        ),
        (_, Some((process, program))) => findings.fail(
            name,
            format!("{address} is in use by {program} (process {process}), not by the daemon"),
            "stop that program, or choose another port",
        ),
        // Processes of other users show their sockets to root only.
        (Some(_), None) => findings.ok(
            name,
            format!("{address} is in use; root sees whether by the daemon"),
        ),
        (None, None) => findings.fail(
            name,
            format!("{address} is in use, though the daemon does not run"),
            format!(
                "`sudo ss -ltnp 'sport = :{}'` says which program; stop it, or choose another port",
                address.port()
            ),
        ),
    }
}

/// Processes with a socket that listens on this port, and their names, as far as this user may see.
fn holders(port: u16) -> Vec<(u32, String)> {
    let mut links = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let inodes = text.lines().filter_map(|line| listener(line, port));
        links.extend(inodes.map(|inode| format!("socket:[{inode}]")));
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let held = processes.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        has_any(&entry.path(), &links).then(|| {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            (process, printable(name.trim(), MAX_NAME_BYTES))
        })
    });
    held.collect()
}

/// The inode of a socket that listens on this port, in a line of /proc/net/tcp.
fn listener(line: &str, port: u16) -> Option<&str> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
    let (_, local_port) = local.rsplit_once(':')?;
    let is_port = u16::from_str_radix(local_port, 16) == Ok(port);
    (is_port && *state == LISTENS).then_some(*inode)
}

fn has_any(process: &Path, links: &[String]) -> bool {
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten();
    files.flatten().any(|file| {
        let link = std::fs::read_link(file.path()).unwrap_or_default();
        links.iter().any(|l| link.as_os_str() == l.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Verdict;

    #[test]
    fn a_port_of_another_program_is_not_the_daemons() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let of_process = |process| Status {
            process,
            ..Status::default()
        };
        let (own, other) = (of_process(std::process::id()), of_process(1));
        for (status, fails) in [(None, true), (Some(&other), true), (Some(&own), false)] {
            let mut findings = Findings::default();
            listen(&mut findings, "socks5", address, status);
            let text = findings.to_text();
            assert_eq!(findings.any(Verdict::Fail), fails, "{text}");
            let named = text.contains(&format!("(process {}), not by", std::process::id()));
            assert_eq!(named, fails, "{text}");
        }
        let mut findings = Findings::default();
        let elsewhere = "192.0.2.9:1080".parse().unwrap();
        listen(&mut findings, "socks5", elsewhere, None);
        let text = findings.to_text();
        assert!(
            text.contains("no interface here has this address"),
            "{text}"
        );
    }
}
