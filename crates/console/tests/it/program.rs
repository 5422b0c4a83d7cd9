//! The command lines: errors, `top --once`, `top` in a terminal, and ends by signals.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mpbond_testing::command_line::compare;
use mpbond_testing::{Need, Outcome, has_script, write_script};
use serde_json::{Value, json};

use crate::console::{CONSOLE, Console};
use crate::daemon::{Daemon, primary, stream};

/// A user and group with no rights (Debian: nobody).
const NOBODY: u32 = 65_534;

const WITHIN: Duration = Duration::from_secs(60);

fn two_paths() -> Daemon {
    Daemon::start(|t| {
        let paths = [
            ("wifi", "path", "up", 1e6 * t, 1e4 * t),
            (
                "ph\u{1b}[31mone",
                "helper",
                "potentially-failed",
                4e5 * t,
                0.0,
            ),
        ];
        let mut value = primary(t, &paths);
        let moved = (1e6 * t) as u64;
        value["transfers"] = json!([stream(
            1,
            "mirror.example:443",
            "bulk",
            &[("wifi", moved, 5)]
        )]);
        value["transfers"][0]["application"] =
            json!({ "name": "restic.service", "certainty": "known" });
        value["notes"] = json!(["something to know"]);
        value
    })
}

#[test]
fn help_pages_and_completions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    compare(CONSOLE, &folder, &[]);
}

#[test]
fn without_a_daemon_there_is_one_line_and_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let place = socket.to_str().unwrap();
    for args in [&["console"][..], &["top"], &["top", "--once"]] {
        let args = [args, &["--socket", place]].concat();
        let line = CONSOLE.fails(&args, 1);
        let expected = format!("{place}: there is no such socket: is the daemon running?\n");
        assert_eq!(line, expected, "{args:?}");
    }
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let line = CONSOLE.fails(&["top", "--once", "--socket", place], 1);
    assert_eq!(
        line,
        format!("{place}: nobody listens there: the daemon has ended\n")
    );
}

/// The places are those of the daemons.
#[test]
fn without_options_the_places_of_daemons_are_tried() {
    let system = "/run/mpbond/helper.sock";
    if Path::new(system).exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let variables = [
        (&["XDG_RUNTIME_DIR", "HOME"][..], "mpbond-helper.sock"),
        (&["HOME"], ".config/mpbond/helper.sock"),
        (&["XDG_CONFIG_HOME"], "mpbond/helper.sock"),
    ];
    for (names, file) in variables {
        let mut command = CONSOLE.command(["top", "--role", "helper", "--once"]);
        for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        let outcome = command.envs(names.iter().map(|name| (name, home))).output();
        let outcome = Outcome::from(outcome.unwrap());
        assert_eq!(outcome.code, 1);
        let tried = match nix::unistd::geteuid().is_root() {
            true => system.to_owned(),
            false => format!("{home}/{file}, {system}"),
        };
        let expected = format!("no daemon answers here (tried {tried}): ");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    }
}

#[test]
fn wrong_usage_is_code_2() {
    for args in [
        &["top", "--role", "router"][..],
        &["top", "--json"],
        &["console", "--port", "80"],
        &["console", "--role", "proxy", "--socket", "x"],
        &["consoles"],
    ] {
        assert_eq!(CONSOLE.run(args).code, 2, "{args:?}");
    }
    let daemon = two_paths();
    let line = CONSOLE.fails(&["top", "--socket", daemon.place()], 2);
    assert!(line.contains("no terminal"), "{line}");
}

#[test]
fn a_socket_of_another_user_is_named_with_its_owner() {
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can become another user");
    }
    let daemon = two_paths();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(daemon.folder(), private).unwrap();
    let mut theirs = CONSOLE.command(["top", "--once", "--socket", daemon.place()]);
    let Ok(theirs) = theirs.uid(NOBODY).gid(NOBODY).output() else {
        return Need::Root.is_missing("other users may not run the program where it is");
    };
    let theirs = Outcome::from(theirs);
    assert_eq!(theirs.code, 1);
    let expected = "permission denied: it is for root, user root and group root\n";
    assert!(theirs.stderr.ends_with(expected), "{}", theirs.stderr);
}

#[test]
fn a_port_that_is_taken_is_one_line() {
    let daemon = two_paths();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let line = CONSOLE.fails(&["console", "--socket", daemon.place(), "--port", &port], 1);
    assert!(
        line.starts_with(&format!("port {port} is in use by another program: ")),
        "{line}"
    );
}

#[test]
fn what_answers_must_be_a_daemon() {
    let daemon = Daemon::start(|_| json!({ "hello": "world" }));
    let line = CONSOLE.fails(&["top", "--once", "--socket", daemon.place()], 1);
    assert!(line.contains("not the status of a daemon"), "{line}");
    // What it has sent is not repeated.
    daemon.say(|_| json!({ "role": "primary", "paths": "x".repeat(1 << 20) }));
    let line = CONSOLE.fails(&["top", "--once", "--socket", daemon.place()], 1);
    assert!(line.contains("not the status of a daemon (line 1, column "));
    assert!(line.len() < 300, "{} bytes", line.len());
}

#[test]
fn a_daemon_that_is_silent_and_one_that_closes_are_told_apart() {
    let daemon = two_paths();
    for (closes, expected) in [
        (false, "no answer within 5 s\n"),
        (
            true,
            "closed the connection without an answer: is it busy?\n",
        ),
    ] {
        daemon.mute(closes);
        let line = CONSOLE.fails(&["top", "--once", "--socket", daemon.place()], 1);
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn once_prints_a_frame_for_people_and_for_programs() {
    let daemon = two_paths();
    let args = ["top", "--once", "--socket", daemon.place()];
    let text = CONSOLE.ok(&args);
    assert!(
        text.starts_with("mpbond primary  AAAAAAA  version 0.1.0, up "),
        "{text}"
    );
    for expected in [
        "wifi ",
        "8.0",
        "Mbit/s",
        "potentially-failed",
        "restic.service, known",
        "mirror.example:443",
        "note: something to know",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert!(
        !text.contains('\u{1b}'),
        "a name controls the terminal: {text:?}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let json: Value =
        serde_json::from_str(&CONSOLE.ok(&[&args[..], &["--json"]].concat())).unwrap();
    let rate = json["paths"][0]["rate"]["down"].as_f64().unwrap();
    assert!((9e5..1.1e6).contains(&rate), "{rate}");
    assert_eq!(json["paths"][1]["state"], "potentially-failed");
    let of = &json["streams"]["applications"][0];
    assert_eq!(of["application"]["name"], "restic.service");
    assert_eq!(of["groups"][0]["destination"], "mirror.example:443");
    // What is called a share of minutes is none of one second.
    assert!(!text.contains("5 min"), "{text}");
    assert_eq!(json["paths"][0]["share"], Value::Null);
}

#[test]
fn answers_are_bounded() {
    let daemon = Daemon::start(|t| {
        let mut value = primary(t, &[]);
        value["notes"] = json!(["x".repeat(17 << 20)]);
        value
    });
    let line = CONSOLE.fails(&["top", "--once", "--socket", daemon.place()], 1);
    assert!(
        line.ends_with("its answer is longer than 16 MiB\n"),
        "{line}"
    );
}

/// A console whose browser is a script that notes the file with which it is called, and its process
/// group; returns what it has noted: mode, file, content, group.
fn opened(daemon: &Daemon, folder: &Path) -> (Console, [String; 4]) {
    let seen = folder.join("seen");
    let browser = folder.join("xdg-open");
    let script = format!(
        "#!/bin/sh\n{{ stat -c '%a' \"$1\"; echo \"$1\"; cat \"$1\"; \
         cut -d ' ' -f 5 /proc/$$/stat; }} >{0}.new && mv {0}.new {0}\n",
        seen.display()
    );
    write_script(&browser, &script);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let runtime = daemon.folder().to_str().unwrap();
    let variables = [("PATH", path.as_str()), ("XDG_RUNTIME_DIR", runtime)];
    let console = Console::start_with(&["--socket", daemon.place(), "--open"], &variables);
    let deadline = Instant::now() + WITHIN;
    while !seen.exists() {
        assert!(Instant::now() < deadline, "no browser was opened");
        thread::sleep(Duration::from_millis(20));
    }
    let noted = std::fs::read_to_string(&seen).unwrap();
    let noted: Vec<String> = noted.lines().map(str::to_owned).collect();
    (console, noted.try_into().unwrap())
}

#[test]
fn the_browser_is_opened_by_a_private_file_and_in_a_group_of_its_own() {
    let daemon = two_paths();
    let folder = tempfile::tempdir().unwrap();
    let (console, [mode, file, text, group]) = opened(&daemon, folder.path());
    assert_eq!(mode, "600");
    assert!(!file.contains(&console.token), "{file}");
    let address = format!("url={}#{}", console.origin(), console.token);
    assert!(text.contains(&address), "{text}");
    // Ctrl-C goes to the group of the console, which is that of this test.
    assert_ne!(group, nix::unistd::getpgrp().to_string());
}

#[test]
fn signals_end_the_console_and_leave_nothing() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let daemon = two_paths();
        let folder = tempfile::tempdir().unwrap();
        let (mut console, [_, file, ..]) = opened(&daemon, folder.path());
        assert!(Path::new(&file).exists());
        let mut open = console.connect();
        open.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let id = console.child.id().to_string();
        Command::new("kill")
            .args(["-s", signal, &id])
            .status()
            .unwrap();
        assert_eq!(console.child.wait().unwrap().code(), Some(0), "{signal}");
        let left = std::fs::read_dir(daemon.folder()).unwrap().count();
        assert_eq!(left, 1, "more than the daemon's socket");
        TcpListener::bind(("127.0.0.1", console.port)).unwrap();
    }
}

/// `mpbond top` in a terminal of 80 columns and 24 rows.
struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(daemon: &Daemon) -> Self {
        let program = CONSOLE.path().display();
        let line = format!(
            "stty rows 24 cols 80; before=$(stty -g); {program} top --socket {} & id=$!; echo id $id; \
             fg >/dev/null; code=$?; test \"$before\" = \"$(stty -g)\" && echo restored code $code",
            daemon.place()
        );
        // Job control, so that the program has the terminal and its number is known.
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--flush",
                "--command",
                &format!("bash -mc '{line}'"),
                "/dev/null",
            ])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let (mut from, shown) = (child.stdout.take().unwrap(), Arc::clone(&output));
        thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(octets @ 1..) = from.read(&mut block) {
                shown.lock().unwrap().extend_from_slice(&block[..octets]);
            }
        });
        Self {
            keyboard: child.stdin.take().unwrap(),
            child,
            output,
        }
    }

    fn until(&self, text: &str) -> String {
        let deadline = Instant::now() + WITHIN;
        loop {
            let shown = String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned();
            if shown.contains(text) {
                return shown;
            }
            assert!(Instant::now() < deadline, "no {text} in {shown:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn number(&self) -> String {
        let shown = self.until("id ");
        let rest = shown.split("id ").nth(1).unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn top_restores_the_terminal_after_keys_and_signals() {
    if !has_script() {
        return;
    }
    for end in ["q", "\u{3}", "\u{1b}", "TERM", "HUP", "INT", "QUIT"] {
        let daemon = two_paths();
        let mut terminal = Terminal::open(&daemon);
        terminal.until("\u{1b}[?1049h");
        terminal.until("mirror.example:443");
        if end.len() == 1 {
            terminal.keyboard.write_all(end.as_bytes()).unwrap();
            terminal.keyboard.flush().unwrap();
        } else {
            Command::new("kill")
                .args(["-s", end, &terminal.number()])
                .status()
                .unwrap();
        }
        let shown = terminal.until("restored code 0");
        assert!(
            shown.contains("\u{1b}[?1049l"),
            "{end:?}: the screen before is not back"
        );
        let named = shown.split("ph").nth(1).unwrap();
        assert!(
            !named.starts_with("\u{1b}[31m"),
            "a name controls the terminal"
        );
    }
}

/// A daemon that is gone and comes back.
#[test]
fn top_says_that_a_daemon_does_not_answer_and_goes_on() {
    if !has_script() {
        return;
    }
    let daemon = two_paths();
    let mut terminal = Terminal::open(&daemon);
    terminal.until("mirror.example:443");
    daemon.stop();
    terminal.until("there is no such socket");
    daemon.listen();
    terminal.until("answers again");
    terminal.keyboard.write_all(b"q").unwrap();
    terminal.until("restored code 0");
}
