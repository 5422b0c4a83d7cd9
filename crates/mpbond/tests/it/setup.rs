//! `mpbond setup` without a terminal: real processes, with folders of their own. With one it is
//! tried by `quickstart`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::terminal::Terminal;
use mpbond::config::{HelperConfig, PrimaryConfig, ProxyConfig};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Outcome, Program, has_script};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const MPBOND: Program = Program::new(env!("CARGO_BIN_EXE_mpbond"));

/// Whatever is waited for has come by then, or never will.
pub const WITHIN: Duration = Duration::from_secs(60);

/// A device without a configuration.
pub struct Device(tempfile::TempDir);

impl Device {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = MPBOND.command(args);
        command
            .env("CONFIGURATION_DIRECTORY", self.folder())
            .env("RUNTIME_DIRECTORY", self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn setup(&self, args: &[&str]) -> Outcome {
        let all = [&["setup", "--no-service"], args].concat();
        self.command(&all).output().unwrap().into()
    }

    /// Its files and their contents.
    pub fn files(&self) -> BTreeMap<String, String> {
        let all = std::fs::read_dir(self.folder()).unwrap();
        all.map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap_or_default())
        })
        .collect()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).unwrap();
    }
}

/// A running program; it is killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn interrupt(&self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).unwrap();
    }

    /// Its exit code, and the rest of what it has said.
    pub fn ends(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        for output in [
            self.0.stdout.take().map(|o| Box::new(o) as Box<dyn Read>),
            self.0.stderr.take().map(|o| Box::new(o) as Box<dyn Read>),
        ] {
            output.map(|mut o| o.read_to_string(&mut said).unwrap());
        }
        (self.0.wait().unwrap().code(), said)
    }
}

#[test]
fn without_a_terminal_each_question_names_its_option() {
    let device = Device::new();
    for (args, option) in [
        (&[][..], "--role primary, helper or proxy"),
        (&["--role", "proxy"], "--server ADDRESS"),
        (&["--role", "helper", "--yes"], "--server ADDRESS"),
        (&["--role", "primary", "--yes"], "--pair TOKEN"),
        (
            &["--role", "helper", "--server", "203.0.113.1"],
            "agree beforehand with --yes",
        ),
    ] {
        let line = device.setup(args).error(2);
        assert!(line.contains(option), "{args:?}: {line}");
        assert!(line.contains("no terminal"), "{args:?}: {line}");
    }
    assert_eq!(device.files(), BTreeMap::new(), "nothing is written");
}

#[test]
fn wrong_answers_are_one_line_and_change_nothing() {
    let device = Device::new();
    let helper = ["--role", "helper", "--yes", "--server", "203.0.113.1"];
    for (args, words) in [
        (
            &["--role", "proxy", "--server", "a b"][..],
            "--server: \"a b\" is no address",
        ),
        (
            &["--role", "proxy", "--server", "h", "--link", "eth0"],
            "--link is not for a proxy",
        ),
        (
            &["--role", "primary", "--yes", "--pair", "MPBOND:ENROL/x"],
            "--pair: the token",
        ),
        (
            &["--role", "primary", "--yes", "--pair", "10.42.0.1"],
            "--pair: the code is missing",
        ),
        (
            &[&helper[..], &["--link", "a", "--link", "b"]].concat(),
            "one link",
        ),
        (
            &[&helper[..], &["--link", "a/b", "--dry-run"]].concat(),
            "a/b",
        ),
    ] {
        let line = device.setup(args).error(2);
        assert!(line.contains(words), "{args:?}: {line}");
        assert_eq!(device.files(), BTreeMap::new(), "{args:?}");
    }
}

#[test]
fn a_dry_run_prints_files_that_a_daemon_would_start_with() {
    let id = "EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC";
    let token = format!("MPBOND:ENROL/203.0.113.1:4433/{id}/{}", "0".repeat(32));
    for (role, args) in [
        ("proxy", &["--server", "203.0.113.1:443"][..]),
        (
            "helper",
            &[
                "--server",
                "203.0.113.1",
                "--link",
                "usb0",
                "--name",
                "my \"phone\"",
            ],
        ),
        (
            "primary",
            &[
                "--pair",
                &token,
                "--pair",
                "10.42.0.1 1234-5678",
                "--link",
                "wwan0",
            ],
        ),
        (
            "primary",
            &["--pair", &token, "--link", "wwan0", "--transparent"],
        ),
    ] {
        let device = Device::new();
        let outcome = device.setup(&[&["--dry-run", "--role", role], args].concat());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert_eq!(device.files(), BTreeMap::new(), "{role}");
        let name = format!("{role}.toml");
        device.write(&name, &outcome.stdout);
        let file = device.folder().join(name);
        match role {
            "proxy" => {
                let config = ProxyConfig::load(&file).unwrap();
                assert_eq!(config.listen, ["0.0.0.0:443".parse().unwrap()]);
            }
            "helper" => {
                let config = HelperConfig::load(&file).unwrap();
                assert_eq!(config.name, "my \"phone\"");
                assert_eq!(config.proxies, ["203.0.113.1:4433".parse().unwrap()]);
                assert_eq!(config.uplink.interface.as_deref(), Some("usb0"));
            }
            _ => {
                let config = PrimaryConfig::load(&file).unwrap();
                assert_eq!(config.proxy.id.to_string(), id);
                assert_eq!(config.paths[0].interface.as_deref(), Some("wwan0"));
                let is_transparent = args.contains(&"--transparent");
                assert_eq!(config.transparent.is_some(), is_transparent);
                assert_eq!(config.socks5.is_none(), is_transparent);
                let second = outcome.stdout.contains("10.42.0.1:4435");
                assert_eq!(second, !is_transparent, "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_file_that_is_there_is_kept_unless_it_is_to_be_replaced() {
    const MINE: &str = "# mine\nlisten = \"127.0.0.1:5544\"\n";
    let device = Device::new();
    device.write("proxy.toml", MINE);
    let args = ["--role", "proxy", "--server", "203.0.113.1"];
    let outcome = device.setup(&args);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(device.files()["proxy.toml"], MINE);
    // With the port of the file.
    assert!(
        outcome.stdout.contains("MPBOND:ENROL/203.0.113.1:5544/"),
        "{outcome:?}"
    );
    let outcome = device.setup(&[&args[..], &["--replace"]].concat());
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(
        device.files()["proxy.toml"].contains("listen = \"0.0.0.0:"),
        "{outcome:?}"
    );
    // Another link or server than that of a helper's file is an error, and nothing is done.
    let helper = "listen = \"127.0.0.1:4435\"\nproxies = \"203.0.113.1:4433\"\n\
                  uplink = { interface = \"usb0\" }\n";
    device.write("helper.toml", helper);
    let args = ["--role", "helper", "--yes", "--dry-run"];
    for (option, other, same, key) in [
        ("--link", "usb1", "usb0", "uplink"),
        ("--server", "203.0.113.2", "203.0.113.1", "proxies"),
    ] {
        let line = device
            .setup(&[&args[..], &[option, other]].concat())
            .error(2);
        let remedy = format!("change `{key}` there, or write the file anew with --replace");
        assert!(line.contains(option) && line.contains(&remedy), "{line}");
        let outcome = device.setup(&[&args[..], &[option, same]].concat());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.stdout.starts_with("Kept as it is: "), "{outcome:?}");
        assert_eq!(device.files()["helper.toml"], helper);
    }
    // A primary's file is added to; a broken one is not.
    device.write("primary.toml", "[proxi]\n");
    let line = device.setup(&["--role", "primary", "--yes"]).error(2);
    assert!(
        line.contains("primary.toml:1: proxi: unknown key"),
        "{line}"
    );
    assert_eq!(device.files()["primary.toml"], "[proxi]\n");
}

#[test]
fn a_wrong_answer_is_asked_for_again_and_ctrl_c_leaves_nothing() {
    if !has_script() {
        return;
    }
    let device = Device::new();
    let folder = device.folder().to_str().unwrap();
    let variables = [
        ("CONFIGURATION_DIRECTORY", folder),
        ("RUNTIME_DIRECTORY", folder),
    ];
    let line = format!("exec {} setup", env!("CARGO_BIN_EXE_mpbond"));
    let mut terminal = Terminal::open(&line, &variables);
    for (question, answer) in [
        ("Number, or on the laptop the token", "4\n"),
        ("1, 2 or 3, or a token", "phone\n"),
        ("Address or name of the server: ", "a b\n"),
    ] {
        terminal.shows(question);
        terminal.type_in(answer);
    }
    terminal.shows("\"a b\" is no address such as 203.0.113.1");
    let deadline = Instant::now() + WITHIN;
    while terminal.question().as_deref() != Some("Address or name of the server:") {
        assert!(Instant::now() < deadline, "{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.interrupt();
    assert_eq!(terminal.ends(), 130, "{}", terminal.screen());
    assert_eq!(device.files(), BTreeMap::new());
}

#[test]
fn options_alone_set_up_three_devices() {
    play("-Urn", "setup::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    links_are_found();
    cancelled();
    three_devices();
}

/// Links are those with a default route; one on which the other device is the router is not own.
fn links_are_found() {
    let device = Device::new();
    let helper = ["--role", "helper", "--server", "203.0.113.1", "--dry-run"];
    let line = device.setup(&helper).error(1);
    assert!(line.contains("no link with a default route"), "{line}");
    sh("for n in 1 2; do
            ip link add net$n type veth peer name far$n
            ip addr add 10.1.$n.2/24 dev net$n
            ip link set net$n up
            ip link set far$n up
            ip route add default via 10.1.$n.1 metric $n
        done");
    let line = device.setup(&helper).error(2);
    assert!(line.contains("--link INTERFACE"), "{line}");

    let id = "EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC";
    let token = format!("MPBOND:ENROL/203.0.113.1:4433/{id}/{}", "0".repeat(32));
    let primary = ["--role", "primary", "--dry-run", "--pair", &token];
    for (second, expected) in [
        ("10.1.2.7 1234-5678", &["net1", "net2"][..]),
        ("10.1.2.1 1234-5678", &["net1"]),
    ] {
        let outcome = device.setup(&[&primary[..], &["--pair", second]].concat());
        let lines = outcome.stdout.lines();
        let found = lines.filter_map(|line| line.strip_prefix("interface = "));
        let expected = expected.iter().map(|name| format!("\"{name}\""));
        assert!(found.eq(expected), "{outcome:?}");
    }

    sh("ip link del net2");
    let outcome = device.setup(&helper);
    let expected = "uplink = { interface = \"net1\" }";
    assert!(outcome.stdout.contains(expected), "{outcome:?}");
    sh("ip link del net1");
}

/// Starts a helper's setup, up to its code; returns address and code.
pub fn waiting(phone: &Device) -> (Running, String) {
    let args = [
        "setup",
        "--role",
        "helper",
        "--server",
        "127.0.0.1:4433",
        "--link",
        "lo",
    ];
    let more = ["--name", "phone", "--yes", "--no-service"];
    let mut child = phone.command(&[&args[..], &more].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once("mpbond pair 127.0.0.1")?;
        Some(format!("127.0.0.1{rest}"))
    });
    std::thread::spawn(move || lines.count());
    (Running(child), line.unwrap())
}

/// Ctrl-C leaves no configuration behind.
fn cancelled() {
    let phone = Device::new();
    let (waits, _) = waiting(&phone);
    waits.interrupt();
    let (code, said) = waits.ends();
    assert_eq!(code, Some(130), "{said}");
    let files = phone.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["identity.pem"]);
}

fn three_devices() {
    let [server, phone, laptop] = [Device::new(), Device::new(), Device::new()];
    let done = server.setup(&["--role", "proxy", "--server", "127.0.0.1"]);
    assert_eq!(done.code, 0, "{done:?}");
    let token = done.stdout.lines().find(|l| l.starts_with("MPBOND:ENROL/"));
    let token = token.unwrap().to_owned();
    let _proxy = Running(
        server
            .command(&["proxy"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let deadline = Instant::now() + WITHIN;
    while std::net::TcpStream::connect("127.0.0.1:4433").is_err() {
        assert!(Instant::now() < deadline, "the proxy does not start");
        std::thread::sleep(Duration::from_millis(20));
    }

    let (waits, line) = waiting(&phone);
    // A wrong code leaves a primary with a server, which is a whole file.
    let wrong = match line.contains("0000-0000") {
        true => "127.0.0.1 0000-0001",
        false => "127.0.0.1 0000-0000",
    };
    let args = [
        "--role", "primary", "--link", "lo", "--yes", "--name", "laptop",
    ];
    let done = laptop.setup(&[&args[..], &["--pair", wrong, "--pair", &token]].concat());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains("the code is wrong"), "{done:?}");
    let file = laptop.folder().join("primary.toml");
    assert!(PrimaryConfig::load(&file).unwrap().helpers.is_empty());
    // The rest of it: a line as it is shown, and one more link. Attempts are limited in rate.
    std::thread::sleep(Duration::from_secs(3));
    let line = format!("sudo mpbond pair {line}");
    let more = ["--link", "wwan9", "--pair", &line];
    let done = laptop.setup(&[&args[..], &["--dry-run"], &more].concat());
    assert!(done.stdout.contains("interface = \"wwan9\""), "{done:?}");
    let done = laptop.setup(&[&args[..], &more].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let links = "Links of this device to the Internet: lo (as configured), wwan9\n";
    assert!(done.stderr.contains(links), "{done:?}");
    let (code, said) = waits.ends();
    assert_eq!(code, Some(0), "{said}");

    let config = PrimaryConfig::load(&file).unwrap();
    assert_eq!(config.helpers[0].name, "phone");
    let paths = config.paths.iter().map(|path| path.interface.as_deref());
    assert!(paths.eq([Some("lo"), Some("wwan9")]), "{:?}", config.paths);
    assert!(config.socks5.is_some());
    let text = laptop.files()["primary.toml"].clone();
    assert!(
        text.ends_with("[socks5]\nlisten = \"127.0.0.1:1080\"\n"),
        "{text}"
    );
    // Anew, with the token that this device has used.
    laptop.write("primary.toml", &format!("# mine\n{text}"));
    let done = laptop.setup(&[&args[..], &["--replace", "--pair", &token]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(PrimaryConfig::load(&file).unwrap().helpers.is_empty());
    assert!(laptop.files()["primary.toml"].starts_with("[proxy]\n"));

    let config = HelperConfig::load(&phone.folder().join("helper.toml")).unwrap();
    assert_eq!((config.name.as_str(), config.trust.len()), ("phone", 0));
    assert!(phone.files()["identity.trusted"].contains("laptop"));
    assert!(server.files()["identity.trusted"].contains("laptop"));
}
