//! Status for other users than the daemon's.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, Outcome, free_address};

/// A user and group with no rights (Debian: nobody).
const NOBODY: u32 = 65_534;

const LIMIT: Duration = Duration::from_secs(20);

struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A proxy with these keys, once `socket` is there.
fn start(folder: &Path, keys: &str, socket: &Path) -> Proxy {
    let file = folder.join("proxy.toml");
    let listen = free_address();
    let config = format!("identity = \"me.pem\"\nlisten = \"{listen}\"\n{keys}");
    std::fs::write(&file, config).unwrap();
    let proxy = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["proxy", "--config"])
        .arg(&file)
        .spawn();
    let proxy = Proxy(proxy.unwrap());
    let deadline = Instant::now() + LIMIT;
    while mpbond::status_socket::ask(socket).is_err() {
        assert!(
            Instant::now() < deadline,
            "no answer at {}",
            socket.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    proxy
}

fn status(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command.arg("status").args(args);
    command
}

#[test]
fn any_user_may_read_the_status_but_not_the_destinations() {
    if !nix::unistd::geteuid().is_root() {
        return Need::Root.is_missing("only root can become another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).unwrap();
    let socket = folder.path().join("proxy.sock");
    let _proxy = start(folder.path(), "status_socket = \"proxy.sock\"\n", &socket);
    let args = ["--socket", socket.to_str().unwrap()];
    let mut theirs = status(&args);
    let Ok(theirs) = theirs.uid(NOBODY).gid(NOBODY).output() else {
        return Need::Root.is_missing("other users may not run the program where it is");
    };
    let theirs = Outcome::from(theirs);
    assert_eq!(theirs.code, 0, "{}", theirs.stderr);
    assert!(theirs.stdout.starts_with("proxy "), "{}", theirs.stdout);
    let withheld = format!(
        "transfers are not shown to other users: sudo mpbond status --socket {}\n",
        socket.display()
    );
    assert!(theirs.stdout.contains(&withheld), "{}", theirs.stdout);
    let own = Outcome::from(status(&args).output().unwrap());
    assert!(!own.stdout.contains(&withheld), "{}", own.stdout);
}

/// A command that finds the status sockets in a folder.
fn among(folder: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command.args(args).env("RUNTIME_DIRECTORY", folder);
    command.env("CONFIGURATION_DIRECTORY", folder.join("none"));
    Outcome::from(command.output().unwrap())
}

/// One that was stopped by a signal: the kernel takes connections for it.
#[test]
fn a_daemon_that_does_not_answer_is_named_beside_those_that_do() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let _proxy = start(folder.path(), "status_socket = \"proxy.sock\"\n", &socket);
    let silent = folder.path().join("helper.sock");
    let _stopped = UnixListener::bind(&silent).unwrap();
    let line = format!(
        "mpbond: helper at {}: no answer: the daemon is stopped or busy\n",
        silent.display()
    );
    let told = among(folder.path(), &["status"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.starts_with("proxy "), "{told:?}");
    assert_eq!(told.stderr, line);
    let told = among(folder.path(), &["status", "helper", "--json"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""));
    assert_eq!(told.stderr, line);
}

#[test]
fn each_daemon_that_cannot_read_its_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for role in ["primary", "helper"] {
        let socket = folder.path().join(format!("{role}.sock"));
        let daemon = UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut client, _) = daemon.accept().unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
            let wrong = mpbond::reload::Answer::Wrong(format!("{role}.toml:3: x"));
            let text = serde_json::to_vec(&wrong).unwrap();
            client.write_all(&text).unwrap();
        });
    }
    let told = among(folder.path(), &["reload"]);
    assert_eq!(told.code, 2, "{told:?}");
    let lines = ["primary", "helper"]
        .map(|role| format!("mpbond: {role}.toml:3: x (the {role} goes on as before)\n"));
    assert_eq!(told.stderr, lines.concat());
}

#[test]
fn status_finds_the_systems_daemons() {
    play("-Urm", "status::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("mount -t tmpfs none /run");
    let folder = tempfile::tempdir().unwrap();
    let _proxy = start(folder.path(), "", Path::new("/run/mpbond/proxy.sock"));
    // As for an ordinary user, whose own daemons would have their sockets elsewhere.
    for args in [&[][..], &["proxy"]] {
        let mut command = status(args);
        command.env("RUNTIME_DIRECTORY", folder.path());
        let told = Outcome::from(command.output().unwrap());
        assert_eq!(told.code, 0, "{}", told.stderr);
        assert!(told.stdout.starts_with("proxy "), "{}", told.stdout);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    command
        .arg("reload")
        .env("RUNTIME_DIRECTORY", folder.path());
    command.env("CONFIGURATION_DIRECTORY", folder.path().join("none"));
    let told = Outcome::from(command.output().unwrap());
    assert_eq!(told.code, 0, "{}", told.stderr);
    let file = folder.path().join("proxy.toml");
    let said = format!("proxy: {} is read\n  no change\n", file.display());
    assert_eq!(told.stdout, said);
}
