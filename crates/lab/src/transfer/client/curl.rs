//! The usual client: unmodified `curl` inside the primary host.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::outcome::{Outcome, Progress, Receipt};
use super::way::Way;
use crate::error::{Doing, Error, Result};
use crate::network::host::Host;
use crate::transfer::content::hex;
use crate::transfer::origin::Received;
use crate::transfer::watch::Watch;

/// Report of curl on a transfer (`--write-out '%{json}'`).
#[derive(Deserialize)]
struct Account {
    time_total: f64,
    time_starttransfer: f64,
    http_code: u16,
}

/// Checks that curl is installed.
///
/// # Errors
/// [`Error::Missing`] naming the package.
pub(crate) fn check() -> Result<()> {
    let asked = Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Missing(
            "curl is missing: install the package curl (apt-get install curl)".into(),
        )),
    }
}

/// GETs `url`, and counts and digests the body.
pub(crate) fn download(
    host: &Host,
    url: &str,
    way: &Way,
    limit: Duration,
    progress: Progress,
) -> Result<Outcome> {
    let mut child = curl(host, url, way, limit, &["--no-buffer"])?;
    let mut out = child.stdout.take().ok_or_else(no_pipe)?;
    let mut watch = Watch::since(Instant::now());
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match out.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let got = buffer.get(..length).unwrap_or_default();
                digest.update(got);
                watch.saw(watch.bytes() + length as u64, Instant::now());
                progress(watch.bytes());
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).doing("cannot read from curl"),
        }
    }
    let account = finish(child)?;
    Ok(Outcome {
        bytes: watch.bytes(),
        sha256: hex(&digest.finalize()),
        seconds: account.time_total,
        first_byte_s: account.time_starttransfer,
        longest_stall: watch.longest(),
        ..Outcome::default()
    })
}

/// PUTs `file` to `url`. Progress is that of the origin.
pub(crate) fn upload(
    host: &Host,
    url: &str,
    way: &Way,
    file: &Path,
    limit: Duration,
    received: &Received,
    progress: Progress,
) -> Result<Outcome> {
    let before = received.bytes();
    let file = file.to_string_lossy();
    // Without a wait for "100 Continue", which plain HTTP/1.1 servers skip.
    let arguments = ["--upload-file", &*file, "--header", "Expect:"];
    let mut child = curl(host, url, way, limit, &arguments)?;
    let mut out = child.stdout.take().ok_or_else(no_pipe)?;
    let mut watch = Watch::since(Instant::now());
    while child.try_wait().doing("cannot wait for curl")?.is_none() {
        let bytes = received.bytes() - before;
        if bytes > watch.bytes() {
            watch.saw(bytes, Instant::now());
        }
        progress(bytes);
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    let limit = 64 << 10;
    Read::by_ref(&mut out)
        .take(limit)
        .read_to_string(&mut text)
        .doing("cannot read from curl")?;
    let account = finish(child)?;
    let receipt = Receipt::read(&text)?;
    Ok(Outcome {
        bytes: receipt.bytes,
        sha256: receipt.sha256,
        seconds: account.time_total,
        first_byte_s: account.time_starttransfer,
        longest_stall: watch.longest(),
        ..Outcome::default()
    })
}

fn curl(host: &Host, url: &str, way: &Way, limit: Duration, more: &[&str]) -> Result<Child> {
    let mut command = host.command("curl");
    command
        // Without the caller's settings: proxies, ~/.curlrc.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .args([
            "--disable",
            "--silent",
            "--show-error",
            "--fail",
            "--http1.1",
        ])
        .args(["--max-time", &limit.as_secs().max(1).to_string()])
        .args(["--write-out", "%{stderr}\n%{json}\n", "--output", "-"])
        .args(more);
    match way {
        Way::Plain(None) => &mut command,
        Way::Plain(Some(interface)) => command.args(["--interface", interface]),
        Way::Socks5(server) => command.args(["--socks5-hostname", server]),
        Way::Http(server) => {
            command.args(["--proxytunnel", "--proxy", &format!("http://{server}")])
        }
        Way::Forwarded(_) => return Err(Error::run("curl is not used with other programs")),
        Way::Mptcp { .. } => return Err(Error::run("curl has no Multipath TCP")),
    };
    command
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing("cannot start curl")
}

/// The report of curl, or its error message.
fn finish(child: Child) -> Result<Account> {
    let output = child.wait_with_output().doing("cannot wait for curl")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let account = text.lines().rev().find(|line| line.starts_with('{'));
    let account = account.and_then(|line| serde_json::from_str::<Account>(line).ok());
    match account {
        Some(account) if output.status.success() => Ok(account),
        account => {
            let error_text = text
                .lines()
                .find(|line| line.starts_with("curl:"))
                .unwrap_or("no error message");
            let code = account.map_or(0, |a| a.http_code);
            Err(Error::run(format!(
                "curl failed ({}, HTTP {code}): {error_text}",
                output.status
            )))
        }
    }
}

fn no_pipe() -> Error {
    Error::run("curl has no output")
}
