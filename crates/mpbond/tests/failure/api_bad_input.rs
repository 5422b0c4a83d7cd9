//! The API: requests that are wrong, hostile or too many. Each is refused, and others go on.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use mpbond_testing::Need;
use serde_json::Value;

use crate::api::{Answer, ask, ask_with, connect, got};
use crate::daemons::{Bond, Ways, origin, until};

/// A user and group with no rights (Debian: nobody).
const NOBODY: u32 = 65_534;

#[test]
fn wrong_requests_have_one_error_and_change_nothing() {
    let bond = Bond::new(Ways::Own, "", "");
    let _primary = bond.start("primary");
    let long = "x".repeat((1 << 20) + 1);
    let deep = "[".repeat(100_000);
    let wrong = [
        ("GET /", "", 404, "there is no such resource"),
        ("GET /v2/status", "", 404, "there is no such resource"),
        ("GET /v1/links/none", "", 404, "no path or helper"),
        ("DELETE /v1/status", "", 405, "this resource has GET"),
        (
            "POST /v1/links/own",
            "",
            405,
            "this resource has GET, PATCH",
        ),
        (
            "GET /v1/streams?limit=0",
            "",
            400,
            "limit in the query: 1 to 256",
        ),
        (
            "GET /v1/streams?limit=257",
            "",
            400,
            "limit in the query: 1 to 256",
        ),
        (
            "GET /v1/streams?application=x",
            "",
            400,
            "unknown key in the query",
        ),
        ("GET /v1/status?x=1", "", 400, "unknown key in the query"),
        ("GET /v1/events?since=9", "", 410, "the last event is 0"),
        ("GET /v1/streams/1", "", 404, "no open connection"),
        ("GET /v1/streams/127.0.0.1:1", "", 404, "no open connection"),
        ("PATCH /v1/streams/x", "{}", 404, "no open connection"),
        ("PATCH /v1/links/own", "{", 422, "it ends early"),
        ("PATCH /v1/links/own", "{}", 422, "no change: mode, metered"),
        (
            "PATCH /v1/links/own",
            "{\"metered\": null, \"metered_guessed\": true}",
            422,
            "metered_guessed: with true or false of metered only",
        ),
        (
            "PATCH /v1/links/own",
            "{\"metered\": 1}",
            422,
            "integer `1` is wrong here: write true or false",
        ),
        (
            "PATCH /v1/links/own",
            "{\"mode\": \"on\"}",
            422,
            "unknown value `on`: write one of `bonded`",
        ),
        (
            "PATCH /v1/links/own",
            "{\"mode\": \"off\", \"x\": 1}",
            422,
            "unknown key `x`: write ",
        ),
        (
            "PATCH /v1/links/own",
            "[\"off\"]",
            422,
            "the body is no JSON object",
        ),
        (
            "PATCH /v1/links/own",
            "{\"mode\": \"off\"}",
            409,
            "the only link",
        ),
        (
            "PATCH /v1/links/own",
            &long,
            413,
            "the body is longer than 1048576 bytes",
        ),
        (
            "PATCH /v1/links/own",
            &deep,
            422,
            "the body is no JSON object",
        ),
        ("POST /v1/explain", &deep, 422, "the body is no JSON object"),
        (
            "POST /v1/explain",
            "{\"port\": 70000}",
            422,
            "integer `70000` is wrong here: write a whole number",
        ),
        ("POST /v1/explain", "{\"port\": 0}", 422, "port: 1 to 65535"),
        (
            "POST /v1/explain",
            "{\"port\": 1, \"dscp\": 64}",
            422,
            "dscp: 0 to 63",
        ),
        (
            "POST /v1/explain",
            "{\"port\": 1, \"domain\": \"a b\"}",
            422,
            "domain: not a",
        ),
        ("PUT /v1/policy", &long, 413, "the body is longer"),
    ];
    for (line, body, code, error) in wrong {
        let answer = ask(&bond, line, body);
        assert_eq!(answer.code, code, "{line}: {answer:?}");
        let told = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(told.contains(error), "{line}: {told}");
        assert!(!told.contains('\n'), "{line}: {told}");
    }
    let wrong = ask(&bond, "PATCH /v1/links/own", "{\n \"mode\": 7}");
    assert_eq!(wrong.json()["place"]["line"], 2);
    assert_eq!(got(&bond, "GET /v1/links/own", "")["mode"], "bonded");

    for header in [
        "Origin: http://x.example",
        "Referer: http://x.example/",
        "Origin: null",
    ] {
        let answer = ask_with(&bond, "GET /v1/status", &format!("{header}\r\n"), "");
        assert_eq!(answer.code, 403, "{header}");
    }
}

#[test]
fn hostile_heads_and_slow_clients_are_dropped_and_others_go_on() {
    let bond = Bond::new(Ways::Own, "", "");
    let _primary = bond.start("primary");
    let long = "x".repeat(1 << 20);
    let heads = [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET /v1/status HTTP/9.9\r\n\r\n".to_owned(),
        "GET /v1/status HTTP/1.1\r\nA b: c\r\n\r\n".to_owned(),
        "PUT /v1/policy HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "PUT /v1/policy HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET /v1/status HTTP/1.1\r\nA: {long}\r\n\r\n"),
        format!(
            "GET /v1/status HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(1_000)
        ),
    ];
    for head in heads {
        let mut stream = connect(&bond);
        let _ = stream.write_all(head.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let answer = Answer::of(&String::from_utf8_lossy(&text));
        assert!(answer.is_none_or(|a| (400..500).contains(&a.code)));
    }
    // These say nothing, or stop in the middle.
    let silent: Vec<_> = (0..100)
        .map(|n| {
            let mut stream = connect(&bond);
            if n % 2 == 0 {
                stream
                    .write_all(b"PUT /v1/policy HTTP/1.1\r\nContent-Length: 9\r\n\r\nx")
                    .unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(got(&bond, "GET /v1/status", "")["role"], "primary");
    for mut stream in silent {
        // Within the limit of a read, they are closed.
        let read = stream.read(&mut [0]);
        assert!(
            read.as_ref()
                .map_or_else(|e| e.kind() == ErrorKind::ConnectionReset, |n| *n == 0),
            "{read:?}"
        );
    }
}

#[test]
fn ten_thousand_listeners_are_refused_beyond_a_bound_and_others_go_on() {
    let bond = Bond::new(Ways::Own, "", "");
    let _primary = bond.start("primary");
    let mut listeners = Vec::new();
    let mut refused = 0;
    for _ in 0..10_000 {
        let mut stream = connect(&bond);
        let request = b"GET /v1/events HTTP/1.1\r\nHost: mpbond\r\n\r\n";
        if stream.write_all(request).is_err() {
            refused += 1;
            continue;
        }
        let mut start = [0; 12];
        match stream.read_exact(&mut start) {
            Ok(()) if start.ends_with(b"200") => listeners.push(stream),
            _ => refused += 1,
        }
    }
    assert_eq!((listeners.len(), refused), (32, 10_000 - 32));
    assert_eq!(got(&bond, "GET /v1/status", "")["role"], "primary");
    listeners.pop();
    until("there is room again", || {
        let mut stream = connect(&bond);
        let request = b"GET /v1/events HTTP/1.1\r\nHost: mpbond\r\n\r\n";
        let mut start = [0; 12];
        stream.write_all(request).is_ok()
            && stream.read_exact(&mut start).is_ok()
            && start.ends_with(b"200")
    });
}

/// The group of the daemon of this test is root's, since root plays it.
#[test]
fn a_user_of_the_daemons_group_reads_everything_and_changes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can become another user");
    }
    let bond = Bond::new(Ways::Own, "", "");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bond.folder.path(), everybody).unwrap();
    let _primary = bond.start("primary");
    let own = nix::unistd::getegid().to_string();
    let nobody = NOBODY.to_string();
    let code = |groups: &str, args: &[&str]| {
        let out = Command::new("setpriv")
            .args(["--reuid", &nobody, "--regid", &nobody, "--groups", groups])
            .args(["curl", "-s", "-i", "--unix-socket"])
            .arg(bond.file("primary.api"))
            .args(args)
            .output()
            .ok()?;
        Some(Answer::of(&String::from_utf8(out.stdout).unwrap())?.code)
    };
    let links = ["http://mpbond/v1/links"];
    let Some(other) = code(&nobody, &links) else {
        return Need::Curl.is_missing("curl is not there, or other users may not run it");
    };
    assert_eq!(other, 403);
    assert_eq!(code(&format!("{nobody},{own}"), &links), Some(200));
    let change = [
        "-X",
        "PATCH",
        "-d",
        "{\"mode\": \"off\"}",
        "http://mpbond/v1/links/own",
    ];
    assert_eq!(code(&own, &change), Some(403));
}

#[test]
fn another_user_reads_the_status_without_destinations_and_nothing_else() {
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can become another user");
    }
    let bond = Bond::new(Ways::Own, "", "");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bond.folder.path(), everybody).unwrap();
    let _primary = bond.start("primary");
    let theirs = |args: &[&str]| {
        let mut command = Command::new("curl");
        command
            .args(["-s", "-i", "--unix-socket"])
            .arg(bond.file("primary.api"));
        let Ok(out) = command.args(args).uid(NOBODY).gid(NOBODY).output() else {
            return None;
        };
        Answer::of(&String::from_utf8(out.stdout).unwrap())
    };
    let Some(status) = theirs(&["http://mpbond/v1/status"]) else {
        return Need::Curl.is_missing("curl is not there, or other users may not run it");
    };
    assert_eq!(
        (status.code, &status.json()["transfers_withheld"]),
        (200, &true.into())
    );
    for args in [
        &["http://mpbond/v1/streams"][..],
        &["http://mpbond/v1/streams/1"],
        &["http://mpbond/v1/events"],
        &["http://mpbond/v1/policy"],
        &["http://mpbond/v1/links"],
        &["http://mpbond/v1/devices"],
        &["http://mpbond/v1/pairing"],
        &["-d", "{}", "http://mpbond/v1/pairing"],
        &["-X", "DELETE", "http://mpbond/v1/pairing"],
        &["-X", "DELETE", "http://mpbond/v1/devices/x"],
        &["-d", "", "http://mpbond/v1/policy:check"],
        &[
            "-T",
            "/dev/null",
            "-H",
            "If-Match: *",
            "http://mpbond/v1/policy",
        ],
        &[
            "-X",
            "PATCH",
            "-d",
            "{\"mode\": \"standby\"}",
            "http://mpbond/v1/links/own",
        ],
    ] {
        let answer = theirs(args).unwrap();
        assert_eq!(answer.code, 403, "{args:?}");
    }
    assert_eq!(got(&bond, "GET /v1/links/own", "")["mode"], "bonded");
}

#[test]
fn a_daemon_without_a_place_for_its_api_works() {
    let bond = Bond::new(Ways::Own, "", "");
    std::fs::write(bond.file("primary.api"), "a file of somebody").unwrap();
    let mut primary = bond.start("primary");
    primary.logs("no API at");
    assert!(primary.stop().success());
    let kept = std::fs::read(bond.file("primary.api")).unwrap();
    assert_eq!(kept, b"a file of somebody");
    assert!(UnixStream::connect(bond.file("primary.api")).is_err());
}

/// A program that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another user's program makes a connection, and changes its class by the address of its socket.
#[test]
fn a_user_changes_the_class_of_connections_of_his_own_only() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can act as another user");
    }
    // Others reach the socket.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bond.folder.path(), mode).unwrap();
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let ours = bond.connect(origin).unwrap();
    let (socks5, port) = (bond.socks5.port(), origin.port());
    let handshake = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{socks5}; printf '\\5\\1\\0' >&3; head -c 2 <&3 >/dev/null; \
         printf '\\5\\1\\0\\1\\177\\0\\0\\1\\x{:02x}\\x{:02x}' >&3; read -r line",
        port >> 8,
        port & 255
    );
    let program = Command::new("bash")
        .args(["-c", &handshake])
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(std::process::Stdio::piped())
        .spawn();
    let _program = Killed(program.unwrap());
    let clients = || {
        let page = got(&bond, "GET /v1/streams", "");
        let streams = page["streams"].as_array().unwrap().clone();
        let client = |s: &Value| s["client"].as_str().unwrap().to_owned();
        streams.iter().map(client).collect::<Vec<_>>()
    };
    until("both are carried", || clients().len() == 2);
    let own = ours.local_addr().unwrap().to_string();
    let theirs = clients().into_iter().find(|client| *client != own).unwrap();
    let as_nobody = |client: &str, class: &str| {
        let out = Command::new("curl")
            .args(["-sS", "-i", "-X", "PATCH", "-d"])
            .arg(format!("{{\"class\": \"{class}\"}}"))
            .arg("--unix-socket")
            .arg(bond.file("primary.api"))
            .arg(format!("http://mpbond/v1/streams/{client}"))
            .uid(NOBODY)
            .gid(NOBODY)
            .output();
        Answer::of(&String::from_utf8(out.ok()?.stdout).unwrap())
    };
    let Some(done) = as_nobody(&theirs, "background") else {
        return Need::Curl.is_missing("curl is not there, or other users may not run it");
    };
    assert_eq!(
        (done.code, &done.json()["class"]),
        (200, &"background".into())
    );
    let classes = || {
        bond.status("proxy").unwrap().sessions[0]
            .streams_by_class
            .clone()
    };
    until("the proxy knows it", || {
        classes().get("background") == Some(&1)
    });
    assert_eq!(as_nobody(&own, "background").unwrap().code, 403);
    assert_eq!(as_nobody("127.0.0.1:1", "background").unwrap().code, 403);
    assert_eq!(as_nobody(&theirs, "fast").unwrap().code, 422);
    // Ends of chunks; nothing of a body is taken where a part of it is wrong.
    let change = |body: &str| ask(&bond, &format!("PATCH /v1/streams/{own}"), body);
    for wrong in [
        "{}",
        r#"{"chunk_end": {}}"#,
        r#"{"chunk_end": 7}"#,
        r#"{"chunk_end": {"download": -1}}"#,
        r#"{"chunk_end": {"upload": 4611686018427387904}}"#,
        r#"{"class": "realtime", "chunk_end": {"download": 0}}"#,
    ] {
        let refused = change(wrong);
        assert_eq!(refused.code, 422, "{wrong}: {refused:?}");
    }
    let right = change(r#"{"chunk_end": {"download": 4611686018427387903, "upload": 1}}"#);
    assert_eq!((right.code, &right.json()["class"]), (200, &"bulk".into()));
    // A rule's class wins.
    let rule = "[policy]\ndefault = { class = \"bulk\" }\n[[rule]]\nname = \"r\"\nip = \"127.0.0.0/8\"\n\
                set = { class = \"interactive\" }\n";
    let put = ask_with(&bond, "PUT /v1/policy", "If-Match: *\r\n", rule);
    assert_eq!(put.code, 200, "{put:?}");
    let ruled = bond.connect(origin).unwrap().local_addr().unwrap();
    until("it is carried", || clients().contains(&ruled.to_string()));
    let refused = ask(
        &bond,
        &format!("PATCH /v1/streams/{ruled}"),
        "{\"class\": \"bulk\"}",
    );
    assert_eq!(refused.code, 409, "{refused:?}");
}
