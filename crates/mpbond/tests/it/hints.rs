//! Commands in messages: each works as it is printed, for files in a folder with a space and a
//! quote in its name.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_testing::free_address;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Whatever is waited for has come by then, or never will.
const WITHIN: Duration = Duration::from_secs(60);

/// A running program; it is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A device with its configurations in such a folder, and with `mpbond` and `sudo` in its PATH.
struct Place {
    folder: tempfile::TempDir,
    /// Commands that have been executed.
    done: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self {
            folder,
            done: Vec::new(),
        };
        for folder in ["bin", "home", "my conf's"] {
            std::fs::create_dir(place.folder.path().join(folder)).unwrap();
        }
        let bin = place.folder.path().join("bin");
        symlink(env!("CARGO_BIN_EXE_mpbond"), bin.join("mpbond")).unwrap();
        let sudo = bin.join("sudo");
        std::fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").unwrap();
        std::fs::set_permissions(&sudo, std::fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("my conf's").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let bin = self.folder.path().join("bin");
        let mut command = Command::new(program);
        command
            .env("PATH", format!("{}:{path}", bin.display()))
            // Nothing is to be found in the usual places.
            .env("CONFIGURATION_DIRECTORY", self.folder.path().join("home"))
            .env("RUNTIME_DIRECTORY", self.folder.path().join("home"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What `mpbond` prints with these arguments and this configuration, output and errors.
    fn says(&self, args: &str, config: &str) -> String {
        let mut command = self.command(env!("CARGO_BIN_EXE_mpbond"));
        command.args(args.split(' ')).arg("--config");
        let done = command.arg(self.file(config)).output().unwrap();
        [done.stdout, done.stderr]
            .map(|o| String::from_utf8(o).unwrap())
            .concat()
    }

    /// Executes each command of a message that is complete; there must be these, at least.
    fn follow(&mut self, message: &str, expected: &[&str]) {
        let found = commands(message);
        for words in expected {
            let is_there = found.iter().any(|command| command.contains(words));
            assert!(is_there, "no command with \"{words}\" in {message}");
        }
        for command in found {
            // It would go on until somebody calls, or for ever.
            let more = match command.split(' ').find(|w| *w != "sudo" && *w != "mpbond") {
                Some("pair") => " --wait 1",
                Some("primary" | "helper") => " --check",
                Some("proxy") if !command.contains("enrol") => " --check",
                _ => "",
            };
            let mut shell = self.command("sh");
            let done = shell.args(["-c", &format!("{command}{more}")]).output();
            let done = done.unwrap();
            let error = String::from_utf8(done.stderr).unwrap();
            // 2: wrong usage, or a file that is not there; 127: no such command.
            let code = done.status.code();
            assert!(matches!(code, Some(0 | 1)), "{command}: {code:?} {error}");
            self.done.push(command);
        }
    }
}

/// Commands in a message: those between backquotes, and those that end a line after a colon. Ones
/// with words to be filled in are left out, and those that are about the machine.
fn commands(message: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in message.lines() {
        found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        for start in [": sudo mpbond ", ": mpbond "] {
            if let Some((_, rest)) = line.rsplit_once(start) {
                found.push(format!("mpbond {rest}"));
            }
        }
    }
    let is_ours = |command: &String| {
        let command = command.strip_prefix("sudo ").unwrap_or(command);
        command.starts_with("mpbond ") || command.starts_with("chmod ")
    };
    let is_complete = |command: &String| {
        let mut words = command.split(' ');
        !words.any(|w| w.len() > 1 && w.chars().all(|c| c.is_ascii_uppercase()))
    };
    found.retain(|command| is_ours(command) && is_complete(command));
    found
}

/// In a namespace of its own: a doctor asks the name servers of its host.
#[test]
fn commands_in_messages_work_as_they_are_printed() {
    play("-Urn", "hints::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let mut place = Place::new();
    let id = "EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC";
    let [proxy, helper] = [free_address(), free_address()];
    let keys =
        |role: &str| format!("identity = \"{role} key.pem\"\nstatus_socket = \"{role}.sock\"\n");
    place.write(
        "proxy.toml",
        &format!("{}listen = \"{proxy}\"\n", keys("proxy")),
    );
    let of_helper = format!(
        "{}name = \"phone\"\nlisten = \"{helper}\"\nproxies = \"{proxy}\"\n",
        keys("helper")
    );
    // A name that does not say the role.
    place.write("of the phone.toml", &of_helper);
    place.write(
        "primary.toml",
        &format!(
            "{}[proxy]\naddress = \"{proxy}\"\nid = \"{id}\"\n[[path]]\ninterface = \"lo\"\n",
            keys("primary")
        ),
    );

    // Without identities, and without trust.
    let said = place.says("doctor proxy", "proxy.toml");
    place.follow(
        &said,
        &[
            "mpbond id --create --identity",
            "mpbond proxy enrol --config",
        ],
    );
    let said = place.says("doctor helper", "of the phone.toml");
    place.follow(
        &said,
        &["mpbond id --create --identity", "mpbond pair --role helper"],
    );
    let said = place.says("speed", "primary.toml");
    place.follow(&said, &["mpbond speed --config"]);
    let said = place.says("doctor primary", "primary.toml");
    place.follow(&said, &["mpbond id --create --identity"]);
    let said = place.says("upgrade helper", "of the phone.toml");
    place.follow(&said, &["mpbond helper --config"]);
    let said = place.says("untrust nobody", "proxy.toml");
    place.follow(&said, &["mpbond trust --list --config"]);

    // Files that others may read or write.
    let key = place.file("primary key.pem");
    open_to_others(&key, 0o644);
    let said = place.says("doctor primary", "primary.toml");
    place.follow(&said, &["chmod 600 "]);
    assert_eq!(mode(&key), 0o600);
    let said = place.says(&format!("trust {id}"), "proxy.toml");
    assert!(said.contains("is trusted now"), "{said}");
    let trusted = place.file("proxy key.trusted");
    open_to_others(&trusted, 0o666);
    let said = place.says("doctor proxy", "proxy.toml");
    place.follow(&said, &["chmod 600 "]);
    assert_eq!(mode(&trusted), 0o600);

    // A daemon that runs, and what it logs.
    let mut child = place.command(env!("CARGO_BIN_EXE_mpbond"));
    child.args(["helper", "--config"]);
    let child = child.arg(place.file("of the phone.toml")).spawn();
    let mut daemon = Running(child.unwrap());
    let socket = place.file("helper.sock");
    let deadline = Instant::now() + WITHIN;
    while mpbond::status_socket::ask(&socket).is_err() {
        assert!(Instant::now() < deadline, "the helper does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    place.write("of the phone.toml", &of_helper.replace("phone", "tablet"));
    let said = place.says("doctor helper", "of the phone.toml");
    place.follow(&said, &["mpbond reload helper --config"]);
    let listen = of_helper.replace(&helper.to_string(), &free_address().to_string());
    place.write("of the phone.toml", &listen);
    let said = place.says("reload helper", "of the phone.toml");
    place.follow(&said, &["mpbond helper --config"]);
    daemon.0.kill().unwrap();
    let mut log = String::new();
    let mut output = daemon.0.stderr.take().unwrap();
    output.read_to_string(&mut log).unwrap();
    place.follow(&log, &["mpbond pair --role helper"]);

    // Two devices that pair.
    let said = paired(&place);
    place.follow(&said, &["mpbond primary --config", "mpbond doctor primary"]);
    assert!(place.done.len() > 12, "{:?}", place.done);
}

fn open_to_others(file: &Path, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// Pairs the helper and the primary; returns what the primary prints.
fn paired(place: &Place) -> String {
    let mut waits = place.command(env!("CARGO_BIN_EXE_mpbond"));
    waits.args(["pair", "--yes", "--json", "--role", "helper", "--listen"]);
    waits.arg(free_address().to_string()).arg("--config");
    let mut waits = Running(waits.arg(place.file("of the phone.toml")).spawn().unwrap());
    let mut output = BufReader::new(waits.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&line).unwrap();
    let text = shown["text"].as_str().unwrap();
    place.says(&format!("pair {text} --yes --role primary"), "primary.toml")
}
