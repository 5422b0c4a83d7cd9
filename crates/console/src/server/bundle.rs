//! Diagnostic bundle: one file about a daemon, for a report of a fault.
//!
//! It is made of what the daemon and `mpbond doctor` tell to this user: none of them tells keys or
//! tokens. Destinations of connections are left out.

use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use super::answers::{Body, plain, with_type};
use super::hub::Hub;

/// Time limit of the doctor, whose checks have limits of their own.
const DOCTOR_WITHIN: Duration = Duration::from_secs(45);

/// Interval at which it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Maximum size of its results, and of what it says on its standard error.
const MAX_RESULT_BYTES: u64 = 1 << 20;
const MAX_COMPLAINT_BYTES: u64 = 2_000;

const ABOUT: &str = "Diagnostic bundle of mpbond. It has the names of links and devices, addresses, \
    and the policy as it is written. It has no keys, no tokens and no destinations of connections.";

/// The bundles that are made: one at a time.
#[derive(Debug)]
pub(super) struct Bundles(Arc<Semaphore>);

impl Bundles {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Makes one.
    pub async fn make(&self, hub: &Hub) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else {
            let why = "a bundle is being made already\n";
            return plain(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        let client = hub.client().clone();
        let status = tokio::task::spawn_blocking(move || client.ask_whole()).await;
        let status = told(status.unwrap_or_else(|e| Err(e.to_string())));
        let role = status["role"].as_str().unwrap_or_default().to_owned();
        let file = status["config_file"].as_str().map(PathBuf::from);
        let (to, result) = oneshot::channel();
        thread::spawn(move || {
            // The client may have gone.
            let _ = to.send(doctor(&program(), &role, file.as_deref()));
            drop(place);
        });
        let policy = match role_has_api(&status) {
            true => match hub.client().pass("GET", "/v1/policy", b"").await {
                Ok((200, text)) => json!(String::from_utf8_lossy(&text)),
                Ok((code, _)) => json!({ "error": format!("the API answers {code}") }),
                Err(why) => json!({ "error": why }),
            },
            false => Value::Null,
        };
        let (now, events) = hub.events();
        let made_at = SystemTime::now().duration_since(UNIX_EPOCH);
        let bundle = json!({
            "about": ABOUT,
            "console": env!("CARGO_PKG_VERSION"),
            "made_at_unix_s": made_at.map_or(0, |since| since.as_secs()),
            "status": status,
            "policy": policy,
            "events": events,
            "now_s": now,
            "doctor": result.await.unwrap_or(Value::Null),
        });
        let text = format!("{bundle:#}\n");
        let mut response = with_type("application/json", Full::from(text).boxed());
        let name = HeaderValue::from_static("attachment; filename=\"mpbond-diagnostics.json\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
        response
    }
}

/// Primaries have an API.
fn role_has_api(status: &Value) -> bool {
    status["role"] == "primary"
}

fn told(answer: Result<Value, String>) -> Value {
    answer.unwrap_or_else(|why| json!({ "error": why }))
}

/// The program `mpbond`: that beside this one, or else the one in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok();
    let beside = beside.map(|own| own.with_file_name("mpbond"));
    beside
        .filter(|file| file.is_file())
        .unwrap_or_else(|| "mpbond".into())
}

/// What the doctor finds about a role with this configuration.
fn doctor(program: &Path, role: &str, file: Option<&Path>) -> Value {
    let Some(file) = file.filter(|file| file.is_absolute()) else {
        let command = format!("mpbond doctor {role}");
        let why = format!(
            "the daemon has told no configuration: run {}",
            command.trim()
        );
        return json!({ "error": why });
    };
    told(run(program, role, file).map_err(|e| format!("{}: {e}", program.display())))
}

fn run(program: &Path, role: &str, file: &Path) -> io::Result<Value> {
    // Files take any amount while nobody reads.
    let (mut said, mut complained) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new(program)
        .args(["doctor", role, "--json", "--config"])
        .arg(file)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(complained.try_clone()?)
        .spawn()?;
    let deadline = Instant::now() + DOCTOR_WITHIN;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            let seconds = DOCTOR_WITHIN.as_secs();
            return Err(io::Error::other(format!("no result within {seconds} s")));
        }
        thread::sleep(LOOK_EVERY);
    }
    said.rewind()?;
    // What is cut is no result.
    serde_json::from_reader(said.take(MAX_RESULT_BYTES)).or_else(|_| {
        let mut octets = Vec::new();
        complained.rewind()?;
        complained
            .take(MAX_COMPLAINT_BYTES)
            .read_to_end(&mut octets)?;
        let complaint = String::from_utf8_lossy(&octets).trim().to_owned();
        Err(io::Error::other(format!("no result: {complaint}")))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What a program of these lines of shell finds.
    fn found(lines: &str, file: Option<&str>) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("mpbond");
        std::fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        doctor(&program, "proxy", file.map(Path::new))
    }

    #[test]
    fn the_results_of_the_doctor_are_its_json_or_the_reason_why_there_are_none() {
        let file = Some("/etc/mpbond/proxy.toml");
        let words = found("echo \"[\\\"$1 $2 $3 $4 $5\\\"]\"; exit 1", file);
        assert_eq!(
            words,
            json!(["doctor proxy --json --config /etc/mpbond/proxy.toml"])
        );
        let error = |lines: &str, file| found(lines, file)["error"].as_str().unwrap().to_owned();
        let wrong = error("echo 'mpbond: proxy.toml:3: no' >&2; exit 2", file);
        assert!(
            wrong.ends_with("no result: mpbond: proxy.toml:3: no"),
            "{wrong}"
        );
        let long = error(
            "echo '['; head -c 2000000 /dev/zero | tr '\\0' ' '; echo ']'",
            file,
        );
        assert!(long.ends_with("no result: "), "{long}");
        for none in [None, Some("proxy.toml"), Some("--clean")] {
            assert!(error("echo []", none).starts_with("the daemon has told no"));
        }
        let missing = doctor(Path::new("/nowhere/mpbond"), "proxy", file.map(Path::new));
        assert!(
            missing["error"]
                .as_str()
                .unwrap()
                .starts_with("/nowhere/mpbond: ")
        );
    }
}
