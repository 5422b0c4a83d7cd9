//! Pairing over the Unix sockets of a pipe. Threads in place of `mpbond bluetooth` carry the
//! connections at the primary's socket to the helper's.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

/// A helper whose configuration has a pipe at a Unix socket.
struct Helper {
    device: Device,
    pipe: PathBuf,
}

impl Helper {
    fn new() -> Self {
        let device = Device::new("helper", "");
        let pipe = device.folder.path().join("pipe.sock");
        let listen = format!("listen = [\"0.0.0.0:4434\", \"unix:{}\"]", pipe.display());
        let text = HELPER.replace("listen = \"0.0.0.0:4434\"", &listen);
        std::fs::write(&device.config, text).unwrap();
        Self { device, pipe }
    }

    fn address(&self) -> String {
        format!("unix:{}", self.pipe.display())
    }

    /// Socket at which it waits to be called.
    fn pairing_socket(&self) -> PathBuf {
        self.pipe.with_file_name("pipe.sock.pair")
    }

    fn listen(&self) -> Listener {
        let args = ["pair", "--json", "--yes", "--listen", &self.address()];
        let mut child = self.device.command(&args).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let event = next(&mut lines);
        assert_eq!(event["event"], "listening");
        // The other device has a socket of its own.
        assert_eq!(event["addresses"], serde_json::json!([]));
        assert_eq!(event["text"], Value::Null);
        Listener {
            address: self.address(),
            code: event["code"].as_str().unwrap().to_owned(),
            text: String::new(),
            lines,
            child,
        }
    }
}

/// A primary, and the socket of its pipe.
struct Primary {
    device: Device,
    address: String,
}

impl Primary {
    fn new() -> Self {
        let device = Device::new("primary", PRIMARY);
        let address = format!("unix:{}", device.folder.path().join("phone.sock").display());
        Self { device, address }
    }

    fn pairing_socket(&self) -> PathBuf {
        self.device.folder.path().join("phone.sock.pair")
    }

    /// Carries the connections at its socket to another one.
    fn carried_to(&self, to: PathBuf) {
        let listener = UnixListener::bind(self.pairing_socket()).unwrap();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), UnixStream::connect(&to));
                // Without the other end, the connection is closed.
                let Ok(far) = far else { continue };
                for (mut from, mut to) in [(&near, &far), (&far, &near)]
                    .map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap()))
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
    }

    fn call(&self, code: &str) -> Output {
        let args = ["pair", &self.address, code, "--name", "my laptop", "--yes"];
        self.device.run(&args)
    }
}

/// The one line of a command that has failed.
fn only_line(done: &Output, code: i32) -> String {
    let said = stderr(done);
    assert_eq!(done.status.code(), Some(code), "{said}");
    let lines: Vec<_> = said.lines().filter(|l| l.starts_with("mpbond: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}

#[test]
fn devices_that_share_only_a_unix_pipe_trust_each_other_and_the_pipe_is_written() {
    let (helper, primary) = (Helper::new(), Primary::new());
    primary.carried_to(helper.pairing_socket());
    let listener = helper.listen();
    let done = primary.call(&listener.code);
    assert!(done.status.success(), "{}", stderr(&done));
    listener.ends_well();
    let laptop = TrustedDevice {
        id: primary.device.id(),
        name: "my laptop".to_owned(),
    };
    assert_eq!(helper.device.trusted(), [laptop]);
    let section = format!(
        "{PRIMARY}\n[[helper]]\nname = \"my phone\"\naddress = \"{}\"\nid = \"{}\"\n",
        primary.address,
        helper.device.id()
    );
    assert_eq!(primary.device.text(), section);
    assert!(primary.device.run(&["primary", "--check"]).status.success());
    assert!(!helper.pairing_socket().exists(), "open after the end");

    // Once more: nothing changes.
    let listener = helper.listen();
    let done = primary.call(&listener.code);
    assert!(done.status.success(), "{}", stderr(&done));
    listener.ends_well();
    assert_eq!(primary.device.text(), section);
}

#[test]
fn the_pipe_over_a_network_stays_beside_one_over_a_unix_socket() {
    let (helper, primary) = (Helper::new(), Primary::new());
    let over_network = helper.device.listen(&["--yes"]);
    let (address, code) = (over_network.address.clone(), over_network.code.clone());
    let args = ["pair", &address, &code, "--name", "my laptop", "--yes"];
    assert!(primary.device.run(&args).status.success());
    over_network.ends_well();
    let before = primary.device.text();
    assert!(before.contains("address = \"127.0.0.1:4434\""), "{before}");

    primary.carried_to(helper.pairing_socket());
    let listener = helper.listen();
    let done = primary.call(&listener.code);
    assert!(done.status.success(), "{}", stderr(&done));
    listener.ends_well();
    let expected = format!(
        "{before}\n[[helper]]\nname = \"my phone 2\"\naddress = \"{}\"\nid = \"{}\"\n",
        primary.address,
        helper.device.id()
    );
    assert_eq!(primary.device.text(), expected);
}

#[test]
fn a_socket_that_is_absent_or_dead_and_nobody_at_the_other_end_are_one_line_each() {
    let primary = Primary::new();
    let line = only_line(&primary.call("1234-5678"), 1);
    let socket = primary.pairing_socket();
    let absent = format!(
        "mpbond: not paired: nobody answers at {}: {}: there is no such socket; does `mpbond \
         bluetooth connect` run here",
        primary.address,
        socket.display()
    );
    assert!(line.starts_with(&absent), "{line}");

    drop(UnixListener::bind(&socket).unwrap());
    let line = only_line(&primary.call("1234-5678"), 1);
    assert!(line.contains("its process has ended"), "{line}");

    std::fs::remove_file(&socket).unwrap();
    primary.carried_to(socket.with_file_name("nobody"));
    let line = only_line(&primary.call("1234-5678"), 1);
    assert!(
        line.contains("does `mpbond pair --listen unix:...` wait on the other device"),
        "{line}"
    );
    assert_eq!(primary.device.text(), PRIMARY);
}

#[test]
fn all_callers_at_one_unix_socket_share_eight_places() {
    const PLACES: usize = 8;
    let (helper, primary) = (Helper::new(), Primary::new());
    primary.carried_to(helper.pairing_socket());
    let mut listener = helper.listen();
    let call = |_| UnixStream::connect(helper.pairing_socket()).unwrap();
    // The ninth is refused.
    let silent: Vec<UnixStream> = (0..=PLACES).map(call).collect();
    let event = next(&mut listener.lines);
    assert_eq!(event["from"], helper.address());
    assert_eq!(
        event["problem"],
        "too many calls at a time from this address"
    );
    drop(silent);
    // Callers count for a second at least.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !primary.call(&listener.code).status.success() {
        assert!(Instant::now() < deadline, "kept out");
    }
    assert!(listener.child.wait().unwrap().success());
    assert_eq!(helper.device.trusted().len(), 1);
}

#[test]
fn three_wrong_codes_over_a_unix_socket_end_the_pairing() {
    let (helper, primary) = (Helper::new(), Primary::new());
    primary.carried_to(helper.pairing_socket());
    let mut listener = helper.listen();
    let begun = Instant::now();
    let mut wrong = 0;
    while wrong < 3 {
        let said = only_line(&primary.call(listener.wrong_code()), 1);
        let event = next(&mut listener.lines);
        assert_eq!(event["from"], helper.address());
        assert_eq!(event["device"], primary.device.id().to_string());
        match said.contains("wait a few seconds") {
            true => std::thread::sleep(Duration::from_millis(500)),
            false => wrong += 1,
        }
    }
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "not limited in rate"
    );
    let (code, said) = listener.ends();
    assert_eq!(code, 1);
    assert!(said.contains("void after 3 wrong attempts"), "{said}");
    assert!(!helper.pairing_socket().exists(), "open after the end");
    assert_eq!(helper.device.trusted(), []);
    assert_eq!(primary.device.text(), PRIMARY);
}

#[test]
fn over_a_unix_socket_the_helper_waits_at_one_of_its_own_and_the_primary_calls() {
    let (helper, primary) = (Helper::new(), Primary::new());
    let elsewhere = format!("unix:{}", helper.pipe.with_file_name("other").display());
    for (device, args, said) in [
        (
            &primary.device,
            &["pair", "--listen", &primary.address][..],
            "the helper waits and the primary calls, and this device is a primary",
        ),
        (
            &helper.device,
            &["pair", &primary.address, "1234-5678"],
            "the helper waits and the primary calls, and this device is a helper",
        ),
        (
            &helper.device,
            &["pair", "--listen", &elsewhere],
            "helper.toml: `listen` has no \"unix:",
        ),
        (
            &primary.device,
            &["pair", "unix:phone.sock", "1234-5678"],
            "no unix: with an absolute path",
        ),
        (
            &primary.device,
            &["pair", &primary.address],
            "the code is missing",
        ),
    ] {
        let line = only_line(&device.run(args), 2);
        assert!(line.contains(said), "{line}");
    }
}

#[test]
fn a_helper_without_a_configuration_has_no_pipe_to_wait_at() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", folder.path().join("pipe.sock").display());
    let done = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["pair", "--yes", "--wait", "1", "--listen", &address])
        .env("CONFIGURATION_DIRECTORY", folder.path())
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let line = only_line(&done, 2);
    assert!(line.contains("has no configuration of a helper"), "{line}");
    assert!(line.contains(&address), "{line}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "a key was made");
}

/// Another pairing waits there, or the socket cannot be made.
#[test]
fn a_socket_that_is_taken_or_cannot_be_made_is_one_line() {
    let helper = Helper::new();
    let mut listener = helper.listen();
    let args = ["pair", "--yes", "--listen", &helper.address()];
    let line = only_line(&helper.device.run(&args), 1);
    assert!(line.contains("another daemon answers there"), "{line}");
    listener.child.kill().unwrap();
    listener.child.wait().unwrap();

    let deep = Device::new("helper", HELPER);
    let used = deep.folder.path().as_os_str().len() + 1;
    let long = deep.folder.path().join("x".repeat(103 - used));
    let long = format!("unix:{}", long.display());
    let listen = format!("listen = [\"0.0.0.0:4434\", \"{long}\"]");
    let text = HELPER.replace("listen = \"0.0.0.0:4434\"", &listen);
    std::fs::write(&deep.config, text).unwrap();
    let line = only_line(&deep.run(&["pair", "--yes", "--listen", &long]), 1);
    assert!(line.contains("a path of at most 102 octets"), "{line}");
}
