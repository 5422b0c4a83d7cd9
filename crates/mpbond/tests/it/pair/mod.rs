//! `mpbond pair` and `mpbond proxy enrol` as two people use them: real processes over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_net::{DeviceId, Identity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

mod enrol;
mod strangers;
mod unix;

const HELPER: &str = "identity = \"me.pem\"\nname = \"my phone\"\nlisten = \"0.0.0.0:4434\"\n\
    proxies = \"203.0.113.1:4433\"\n";
const PRIMARY: &str = "# mine\nidentity = \"me.pem\"\n[proxy]\naddress = \"203.0.113.1:4433\"\n\
    id = \"EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC\"\n[[path]]\nname = \"lte\"\n";

/// A device: its folder, with a configuration in it.
struct Device {
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Device {
    fn new(role: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("{role}.toml"));
        std::fs::write(&file, config).unwrap();
        Self {
            folder,
            config: file,
        }
    }

    fn id(&self) -> DeviceId {
        let key = self.folder.path().join("me.pem");
        Identity::load_or_create(key).unwrap().id()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.config).unwrap()
    }

    fn trusted(&self) -> Vec<TrustedDevice> {
        TrustFile::beside(&self.folder.path().join("me.pem"))
            .devices()
            .unwrap()
    }

    fn files(&self) -> Vec<String> {
        let all = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = all
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
        command
            .args(args)
            .arg("--config")
            .arg(&self.config)
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn listen(&self, args: &[&str]) -> Listener {
        let all = [&["pair", "--json", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = self.command(&all).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let event = next(&mut lines);
        assert_eq!(event["event"], "listening");
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        Listener {
            address: event["addresses"][0].as_str().unwrap().to_owned(),
            code: text("code"),
            text: text("text"),
            lines,
            child,
        }
    }
}

/// A device that waits to be called.
struct Listener {
    address: String,
    code: String,
    text: String,
    lines: BufReader<ChildStdout>,
    child: Child,
}

fn next(lines: &mut impl BufRead) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
}

impl Listener {
    /// Its last event, when it has ended well.
    fn ends_well(mut self) -> Value {
        let event = next(&mut self.lines);
        assert!(self.child.wait().unwrap().success(), "{event}");
        event
    }

    /// What it said on standard error, and with which code it ended.
    fn ends(mut self) -> (i32, String) {
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
    }

    /// A code that is not this one.
    fn wrong_code(&self) -> &'static str {
        if self.code == "0000-0000" {
            "0000-0001"
        } else {
            "0000-0000"
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

fn both() -> (Device, Device) {
    (
        Device::new("helper", HELPER),
        Device::new("primary", PRIMARY),
    )
}

/// Nothing but what was there: no trust, no half a file.
fn untouched(helper: &Device, primary: &Device) {
    assert_eq!(helper.files(), ["helper.toml", "me.pem"]);
    assert!(primary.files().len() <= 2, "{:?}", primary.files());
    assert_eq!(primary.text(), PRIMARY);
}

fn paired(helper: &Device, primary: &Device) {
    let laptop = TrustedDevice {
        id: primary.id(),
        name: "my laptop".to_owned(),
    };
    assert_eq!(helper.trusted(), [laptop]);
    let expected = format!(
        "{PRIMARY}\n[[helper]]\nname = \"my phone\"\naddress = \"127.0.0.1:4434\"\nid = \"{}\"\n",
        helper.id()
    );
    assert_eq!(primary.text(), expected);
    assert_eq!(primary.trusted(), [], "a primary lets nobody in");
    assert!(primary.run(&["primary", "--check"]).status.success());
}

#[test]
fn a_code_makes_two_devices_trust_each_other() {
    let (helper, primary) = both();
    let listener = helper.listen(&["--yes"]);
    let (address, code) = (listener.address.as_str(), listener.code.as_str());
    let args = [
        "pair",
        address,
        code,
        "--name",
        "my laptop",
        "--yes",
        "--json",
    ];
    let done = primary.run(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    let event = stdout(&done);
    assert_eq!(event["peer"]["id"], helper.id().to_string());
    assert_eq!(event["peer"]["role"], "helper");
    let event = listener.ends_well();
    assert_eq!(event["peer"]["id"], primary.id().to_string());
    assert_eq!(event["peer"]["name"], "my laptop");
    paired(&helper, &primary);
}

/// Each of them uses and lends: the sections of one file.
#[test]
fn two_devices_with_several_roles_pair_in_both_directions() {
    const DEVICE: &str = "identity = \"me.pem\"\n[primary.proxy]\naddress = \"203.0.113.1:4433\"\n\
        id = \"EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC\"\n\
        [[primary.path]]\nname = \"lte\"\n\
        [helper]\nname = \"my phone\"\nlisten = \"127.0.0.1:4434\"\n\
        proxies = \"203.0.113.1:4433\"\n";
    let devices = [Device::new("device", DEVICE), Device::new("device", DEVICE)];
    for (lends, uses) in [(0, 1), (1, 0)] {
        let (lends, uses) = (&devices[lends], &devices[uses]);
        let listener = lends.listen(&["--role", "helper", "--yes"]);
        let call = [
            "pair",
            &listener.address,
            &listener.code,
            "--role",
            "primary",
            "--yes",
        ];
        let done = uses.run(&call);
        assert!(done.status.success(), "{}", stderr(&done));
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(said.contains("mpbond up --config "), "{said}");
        listener.ends_well();
        assert_eq!(lends.trusted()[0].id, uses.id());
        let section = format!(
            "[[primary.helper]]\nname = \"my phone\"\naddress = \"127.0.0.1:4434\"\nid = \"{}\"\n",
            lends.id()
        );
        assert!(uses.text().contains(&section), "{}", uses.text());
        assert!(uses.run(&["up", "--check"]).status.success());
    }
}

#[test]
fn a_device_whose_file_lacks_the_role_gets_no_second_file() {
    const DEVICE: &str = "identity = \"me.pem\"\n[helper]\nname = \"tablet\"\n\
        listen = \"127.0.0.1:4434\"\nproxies = \"203.0.113.1:4433\"\n";
    let (helper, device) = (Device::new("helper", HELPER), Device::new("device", DEVICE));
    let listener = helper.listen(&["--yes"]);
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
        command.env("CONFIGURATION_DIRECTORY", device.folder.path());
        command.args(args).stdin(Stdio::null()).output().unwrap()
    };
    let pair = ["pair", &listener.address, &listener.code, "--yes"];
    let pair = [&pair[..], &["--role", "primary"]].concat();
    let setup = ["setup", "--role", "primary", "--yes", "--no-service"];
    for args in [&pair[..], &setup] {
        let done = run(args);
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.contains("device.toml: it has no section [primary]"),
            "{said}"
        );
        assert!(said.contains("then `mpbond pair --role primary`"), "{said}");
        assert_eq!(device.files(), ["device.toml"]);
    }
    // As the error says.
    std::fs::write(&device.config, format!("{DEVICE}[primary]\n")).unwrap();
    let again = run(&setup);
    assert_eq!(again.status.code(), Some(2));
    let said = stderr(&again);
    assert!(
        said.contains("pair by `mpbond pair --role primary`"),
        "{said}"
    );
    let done = run(&pair);
    assert!(done.status.success(), "{}", stderr(&done));
    listener.ends_well();
    assert!(device.text().contains("[[primary.helper]]"));
    assert!(!device.files().contains(&"primary.toml".to_owned()));
}

#[test]
fn a_device_that_is_a_primary_pairs_as_helper_by_its_key_and_trust_file_alone() {
    const DEVICE: &str = "identity = \"me.pem\"\n[primary]\n";
    let (device, primary) = (
        Device::new("device", DEVICE),
        Device::new("primary", PRIMARY),
    );
    let listener = primary.listen(&["--yes", "--name", "my laptop"]);
    let done = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .env("CONFIGURATION_DIRECTORY", device.folder.path())
        .args(["pair", &listener.address, &listener.code, "--yes"])
        .args(["--role", "helper"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    listener.ends_well();
    assert_eq!(device.text(), DEVICE);
    let id = Identity::load_or_create(device.folder.path().join("me.pem")).unwrap();
    assert!(
        primary.text().contains(&id.id().to_string()),
        "{}",
        primary.text()
    );
    assert!(!device.files().contains(&"helper.toml".to_owned()));
    assert!(!device.files().contains(&"identity.pem".to_owned()));
}

#[test]
fn the_text_of_the_qr_code_serves_at_either_end() {
    let (helper, primary) = both();
    let listener = primary.listen(&["--yes", "--name", "my laptop"]);
    let done = helper.run(&["pair", &listener.text, "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("Paired with \"my laptop\", a primary"),
        "{said}"
    );
    listener.ends_well();
    paired(&helper, &primary);

    // The text names who has to answer: another device there is noticed.
    let mut listener = primary.listen(&["--yes"]);
    let own = primary.id().to_string();
    let other = DeviceId::from_bytes([9; 32]).to_string();
    let done = helper.run(&["pair", &listener.text.replace(&own, &other), "--yes"]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("expected device {other}, but device {own}")),
        "{said}"
    );
    assert_eq!(
        said.lines().filter(|l| l.starts_with("mpbond: ")).count(),
        1,
        "{said}"
    );
    listener.child.kill().unwrap();
    listener.child.wait().unwrap();
}

#[test]
fn a_wrong_code_gets_nowhere_and_three_of_them_end_it() {
    // By [`mpbond_net::pairing::Attempts`], whose own tests try the right code, too.
    const PAUSE: Duration = Duration::from_secs(2);
    let (helper, primary) = both();
    let mut listener = helper.listen(&["--yes"]);
    let address = listener.address.clone();
    let (mut wrong, mut before) = (0, None::<Instant>);
    while wrong < 3 {
        let begun = Instant::now();
        let done = primary.run(&["pair", &address, listener.wrong_code(), "--yes"]);
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{said}");
        let event = next(&mut listener.lines);
        assert_eq!(event["event"], "refused");
        assert_eq!(event["device"], primary.id().to_string());
        if said.contains("wait a few seconds") {
            assert!(before.is_some(), "{said}");
            std::thread::sleep(PAUSE / 4);
            continue;
        }
        assert!(said.contains("says that the code is wrong"), "{said}");
        let too_soon = before.is_some_and(|b| b.elapsed() < PAUSE);
        assert!(!too_soon, "not limited in rate");
        (wrong, before) = (wrong + 1, Some(begun));
    }
    let (code, said) = listener.ends();
    assert_eq!(code, 1);
    assert!(said.contains("void after 3 wrong attempts"), "{said}");
    untouched(&helper, &primary);
    let done = primary.run(&["pair", &address, "1234-5678"]);
    assert!(
        stderr(&done).contains("nobody answers at"),
        "{}",
        stderr(&done)
    );
}

/// A device that has asked its person.
struct Asked {
    child: Child,
    stderr: ChildStderr,
    said: Vec<u8>,
}

impl Asked {
    /// Waits for the question.
    fn wait(mut child: Child) -> Self {
        let mut said = Vec::new();
        let mut stderr = child.stderr.take().unwrap();
        let mut octet = [0];
        while !said.ends_with(b"[y/N] ") {
            let read = stderr.read(&mut octet).unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&octet);
        }
        Self {
            child,
            stderr,
            said,
        }
    }

    /// Answers.
    fn answer(&mut self, answer: &str) {
        // It may have ended with the other person's answer.
        let _ = writeln!(self.child.stdin.as_ref().unwrap(), "{answer}");
    }

    /// Its exit code, and all that it said.
    fn end(mut self) -> (i32, String) {
        self.stderr.read_to_end(&mut self.said).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        (code, String::from_utf8(self.said).unwrap())
    }
}

#[test]
fn both_persons_see_the_other_device_and_either_may_decline() {
    for (of_helper, of_primary) in [("y", "yes"), ("n", "y"), ("y", ""), ("y", "what?")] {
        let (helper, primary) = both();
        let Listener {
            address,
            code,
            child: waiting,
            lines,
            ..
        } = helper.listen(&[]);
        let args = ["pair", &address, &code, "--name", "my laptop"];
        let calling = primary.command(&args).spawn().unwrap();
        let mut asked = [waiting, calling].map(Asked::wait);
        asked[0].answer(of_helper);
        asked[1].answer(of_primary);
        let [(helper_code, _), (primary_code, primary_saw)] = asked.map(Asked::end);
        drop(lines);
        // Two names, two fingerprints, two roles.
        for shown in [
            &helper.id().to_string(),
            &primary.id().to_string(),
            "\"my phone\", a helper",
            "\"my laptop\", a primary",
        ] {
            assert!(
                primary_saw.contains(shown),
                "{shown} is missing in {primary_saw}"
            );
        }
        let yes = (of_helper, of_primary) == ("y", "yes");
        let code = i32::from(!yes);
        assert_eq!((helper_code, primary_code), (code, code), "{primary_saw}");
        if yes {
            paired(&helper, &primary);
        } else {
            untouched(&helper, &primary);
            assert!(primary_saw.contains("declined"), "{primary_saw}");
        }
    }
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    // While it waits.
    let (helper, primary) = both();
    let listener = helper.listen(&[]);
    interrupt(&listener.child);
    let (code, said) = listener.ends();
    assert_eq!((code, said.as_str()), (130, "mpbond: cancelled\n"));
    untouched(&helper, &primary);

    // While the other user has not decided, at either end.
    for caller in [true, false] {
        let (helper, primary) = both();
        let listener = helper.listen(&["--yes"]);
        let args = ["pair", &listener.address, &listener.code];
        let mut calling = primary.command(&args).spawn().unwrap();
        let mut said = [0; 20];
        calling
            .stderr
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        interrupt(if caller { &calling } else { &listener.child });
        // Nobody has answered; the end of the input would be a no.
        let unanswered = calling.stdin.take();
        let calling = calling.wait_with_output().unwrap();
        drop(unanswered);
        let (code, said) = listener.ends();
        let codes = if caller { (130, 1) } else { (1, 130) };
        assert_eq!(
            (calling.status.code(), code),
            (Some(codes.0), codes.1),
            "{said}"
        );
        untouched(&helper, &primary);
    }
}

/// The primary cannot write the other device down after both have agreed: it has a proxy already.
#[test]
fn when_one_cannot_store_the_other_takes_it_back() {
    let proxy = Device::new("proxy", "identity = \"me.pem\"\n");
    let primary = Device::new("primary", PRIMARY);
    let listener = proxy.listen(&["--yes"]);
    let done = primary.run(&["pair", &listener.address, &listener.code, "--yes"]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains("primary.toml:3: proxy: names another proxy"),
        "{said}"
    );
    let (code, said) = listener.ends();
    assert_eq!(code, 1);
    assert!(said.contains("the other device could not store"), "{said}");
    assert_eq!(
        (proxy.trusted(), primary.text().as_str()),
        (vec![], PRIMARY)
    );
}

#[test]
fn an_idle_stranger_excludes_no_other_device() {
    let (helper, primary) = both();
    let listener = helper.listen(&["--yes"]);
    let idle: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(&listener.address).unwrap())
        .collect();
    let mut rude = TcpStream::connect(&listener.address).unwrap();
    rude.write_all(&[0x16; 4096]).unwrap();
    let args = [
        "pair",
        &listener.address,
        &listener.code,
        "--name",
        "my laptop",
        "--yes",
    ];
    let started = Instant::now();
    let done = primary.run(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    // 20 s where it is served after the idle ones.
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
    drop(idle);
    paired(&helper, &primary);
}

#[test]
fn wrong_usage_is_one_line() {
    let (helper, primary) = both();
    let token = "MPBOND:ENROL/203.0.113.1:4433/nonsense/00";
    for (args, said) in [
        (
            &["pair", "no where", "1234-5678"][..],
            "\"no where\" is no address such as",
        ),
        (&["pair", "127.0.0.1"], "the code is missing"),
        (&["pair", "127.0.0.1", "1234"], "a code has 8 digits, not 4"),
        (
            &["pair", "127.0.0.1", "1234-567x"],
            "'x' is not allowed in a code",
        ),
        (
            &["pair", "MPBOND:PAIR/1.2.3.4:5/1234-5678"],
            "the text: 2 parts",
        ),
        (&["pair", token], "the token: a device id has"),
    ] {
        let done = primary.run(args);
        let text = stderr(&done);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(said), "{text}");
    }
    // Two devices of the same role: refused before a user is asked.
    let other = Device::new("helper", HELPER);
    let listener = helper.listen(&["--yes"]);
    let done = other.run(&["pair", &listener.address, &listener.code, "--yes"]);
    assert!(
        stderr(&done).contains("one of the two has to be the primary"),
        "{}",
        stderr(&done)
    );
    assert_eq!((helper.trusted(), other.trusted()), (vec![], vec![]));
}

#[test]
fn a_key_that_others_may_read_is_refused_in_one_line() {
    let helper = Device::new("helper", HELPER);
    helper.id();
    let key = helper.folder.path().join("me.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    // A daemon is not to be started again until the file was mended.
    for (command, code) in [(&["helper"][..], 2), (&["pair"], 1), (&["id"], 1)] {
        let done = helper.run(command);
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(code), "{said}");
        let line = said.lines().last().unwrap();
        assert!(
            line.contains("may be read by others (mode 640): run `chmod 600"),
            "{said}"
        );
    }
}

#[test]
fn a_rotated_key_is_another_device() {
    let helper = Device::new("helper", HELPER);
    let old = helper.id();
    let done = helper.run(&["id", "--rotate"]);
    let said = stderr(&done);
    assert!(said.contains(&format!("mpbond untrust {old}")), "{said}");
    let new = String::from_utf8(done.stdout).unwrap();
    assert_eq!(new.trim(), helper.id().to_string());
    assert_ne!(helper.id(), old);
    assert_eq!(helper.files(), ["helper.toml", "me.pem"]);
}

#[test]
fn a_bad_configuration_is_said_before_anybody_is_called() {
    let primary = Device::new("primary", "proxi = 3\n");
    let done = primary.run(&["pair", "127.0.0.1", "1234-5678"]);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(
        said.contains("primary.toml:1: proxi: unknown key"),
        "{said}"
    );
    let missing = Path::new("/nonexistent/helper.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpbond"));
    let done = command
        .args(["pair", "--config"])
        .arg(missing)
        .output()
        .unwrap();
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("mpbond: /nonexistent/helper.toml: cannot be read"),
        "{said}"
    );
}
