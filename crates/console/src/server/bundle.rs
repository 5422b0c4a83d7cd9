//! Diagnostic bundle: one file about a daemon, for a report of a fault.
//!
//! It is made of what the daemon and `mpbond doctor` tell to this user: none of them tells keys or
//! tokens. Destinations of connections are left out.

use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use super::answers::{Body, plain, with_type};
use super::hub::Hub;
use crate::model::{Event, Kind};

/// Roles of daemons. They and the file go to a program that may run as root, and what tells them
/// may be a daemon that was taken over.
const ROLES: [&str; 3] = ["primary", "helper", "proxy"];

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
        let role = role_of(&status);
        let file = status["config_file"].as_str().map(PathBuf::from);
        let (to, result) = oneshot::channel();
        thread::spawn(move || {
            // The client may have gone.
            let _ = to.send(doctor(&program(), role, file.as_deref()));
            drop(place);
        });
        let policy = match role_has_api(&status) {
            true => match hub.client().pass("GET", "/v1/policy", b"").await {
                Ok((200, text)) => json!(String::from_utf8_lossy(&text)),
                Ok((code, _)) => json!({ "error": format!("the API answers {code}") }),
                Err(why) => json!({ "error": why }),
            },
            false if role.is_some() => Value::Null,
            false => json!({ "error": "the daemon has told no role" }),
        };
        let (now, events) = hub.events();
        let events = without_destinations(events);
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

/// The events that name no ends of a connection.
fn without_destinations(mut events: Vec<Event>) -> Vec<Event> {
    events.retain(|event| event.kind != Kind::StreamRule);
    events
}

fn role_of(status: &Value) -> Option<&'static str> {
    let role = status["role"].as_str()?;
    ROLES.into_iter().find(|known| *known == role)
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
fn doctor(program: &Path, role: Option<&str>, file: Option<&Path>) -> Value {
    let Some(role) = role else {
        return json!({ "error": "the daemon has told no role: run mpbond doctor" });
    };
    let Some(file) = file.filter(|file| file.is_absolute()) else {
        let why = format!("the daemon has told no configuration: run mpbond doctor {role}");
        return json!({ "error": why });
    };
    if !is_trusted(file) {
        let file = file.display();
        let why = format!(
            "{file}: not a file of root or of this user: run mpbond doctor {role} --config {file}"
        );
        return json!({ "error": why });
    }
    let found = run(program, role, file, DOCTOR_WITHIN);
    told(found.map_err(|e| format!("{}: {e}", program.display())))
}

/// Whether root or this user has made a file.
fn is_trusted(file: &Path) -> bool {
    let meta = std::fs::metadata(file);
    meta.is_ok_and(|meta| meta.is_file() && [0, geteuid().as_raw()].contains(&meta.uid()))
}

fn run(program: &Path, role: &str, file: &Path, within: Duration) -> io::Result<Value> {
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
    let deadline = Instant::now() + within;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            // With the programs that it runs.
            let group = i32::try_from(child.id()).map_err(io::Error::other)?;
            killpg(Pid::from_raw(group), Signal::SIGKILL)?;
            child.wait()?;
            return Err(io::Error::other(format!("no result within {within:?}")));
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
    use super::*;

    /// A program of these lines of shell.
    fn shell(folder: &Path, lines: &str) -> PathBuf {
        let program = folder.join("mpbond");
        mpbond_testing::write_script(&program, &format!("#!/bin/sh\n{lines}\n"));
        program
    }

    #[test]
    fn events_that_name_the_ends_of_connections_are_left_out() {
        let event = |kind| Event {
            id: 1,
            t: 0.5,
            kind,
            subject: String::new(),
            text: String::new(),
        };
        let kinds = [Kind::PolicyChanged, Kind::StreamRule, Kind::PathUp];
        let told = without_destinations(kinds.map(event).to_vec());
        let told: Vec<_> = told.into_iter().map(|event| event.kind).collect();
        assert_eq!(told, [Kind::PolicyChanged, Kind::PathUp]);
    }

    fn error(found: &Value) -> &str {
        found["error"].as_str().unwrap()
    }

    #[test]
    fn the_results_of_the_doctor_are_its_json_or_the_reason_why_there_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("proxy.toml");
        std::fs::write(&file, "").unwrap();
        let found = |lines: &str| {
            let program = shell(folder.path(), lines);
            doctor(&program, Some("proxy"), Some(&file))
        };
        let words = found("echo \"[\\\"$1 $2 $3 $4 $5\\\"]\"; exit 1");
        let said = format!("doctor proxy --json --config {}", file.display());
        assert_eq!(words, json!([said]));
        let wrong = found("echo 'mpbond: proxy.toml:3: no' >&2; exit 2");
        let wrong = error(&wrong);
        assert!(
            wrong.ends_with("no result: mpbond: proxy.toml:3: no"),
            "{wrong}"
        );
        let long = found("echo '['; head -c 2000000 /dev/zero | tr '\\0' ' '; echo ']'");
        assert!(error(&long).ends_with("no result: "), "{long}");
        let missing = doctor(Path::new("/nowhere/mpbond"), Some("proxy"), Some(&file));
        assert!(
            error(&missing).starts_with("/nowhere/mpbond: "),
            "{missing}"
        );
    }

    #[test]
    fn a_daemon_names_no_option_and_no_file_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let program = shell(folder.path(), "echo '[]'");
        for role in [json!("--clean"), json!(""), json!(null), json!(["primary"])] {
            let role = role_of(&json!({ "role": role }));
            assert_eq!(role, None);
            let found = doctor(&program, role, Some(&program));
            assert!(error(&found).starts_with("the daemon has told no role"));
        }
        assert_eq!(role_of(&json!({ "role": "helper" })), Some("helper"));
        for none in [None, Some("proxy.toml"), Some("--clean")] {
            let found = doctor(&program, Some("proxy"), none.map(Path::new));
            assert!(error(&found).starts_with("the daemon has told no configuration"));
        }
        let mut of_others = vec![folder.path().to_owned(), PathBuf::from("/nowhere/a.toml")];
        if geteuid().is_root() {
            let file = folder.path().join("primary.toml");
            std::fs::write(&file, "").unwrap();
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            of_others.push(file);
        }
        for file in of_others {
            let found = doctor(&program, Some("proxy"), Some(&file));
            assert!(error(&found).contains("not a file of root"), "{found}");
        }
    }

    #[test]
    fn a_doctor_that_takes_too_long_ends_with_the_programs_that_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("pid");
        let lines = format!("sleep 600 & echo $! > {}; wait", list.display());
        let program = shell(folder.path(), &lines);
        let found = run(&program, "proxy", &program, Duration::from_secs(4));
        assert_eq!(found.unwrap_err().to_string(), "no result within 4s");
        let pid = std::fs::read_to_string(list).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let deadline = Instant::now() + Duration::from_secs(10);
        // Nobody may have waited for it yet.
        while std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z ")) {
            assert!(Instant::now() < deadline, "it runs");
            thread::sleep(LOOK_EVERY);
        }
    }
}
