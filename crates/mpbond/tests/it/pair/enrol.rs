//! Tokens: `mpbond proxy enrol` and the primary that uses one.

use mpbond_testing::free_address;

use super::*;

/// A proxy that runs; it is killed when dropped.
struct Proxy {
    device: Device,
    address: SocketAddr,
    daemon: Child,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Proxy {
    fn start() -> Self {
        let address = free_address();
        let config = format!(
            "identity = \"me.pem\"\nlisten = \"{address}\"\nstatus_socket = \"me.sock\"\n\
             workers = 1\n"
        );
        let device = Device::new("proxy", &config);
        let mut command = device.command(&["proxy"]);
        let daemon = command.stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self {
            device,
            address,
            daemon,
        }
    }

    fn token(&self, args: &[&str]) -> String {
        let made = self
            .device
            .run(&[&["proxy", "enrol", "--json"], args].concat());
        stdout(&made)["token"].as_str().unwrap().to_owned()
    }
}

fn no_proxy() -> Device {
    Device::new("primary", "identity = \"me.pem\"\n")
}

fn refused(primary: &Device, token: &str) -> String {
    let before = primary.text();
    let done = primary.run(&["pair", token, "--yes", "--json"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(primary.text(), before);
    let said = stderr(&done);
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn a_token_is_not_used_up_by_a_primary_that_cannot_store_the_proxy() {
    let proxy = Proxy::start();
    let token = proxy.token(&[]);
    let primary = no_proxy();
    let (_, before) = (primary.id(), primary.text());
    // Files of no bytes alone can be written, also by root (setrlimit(2), RLIMIT_FSIZE).
    let command = primary.command(&["pair", &token, "--yes"]);
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    limited
        .args(["-c", script, "sh"])
        .arg(command.get_program());
    let done = limited.args(command.get_args()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("primary.toml"), "{}", stderr(&done));
    assert_eq!(primary.text(), before);
    assert_eq!(proxy.device.trusted(), []);
    let other = no_proxy();
    let done = other.run(&["pair", &token, "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    // One whom the proxy refuses keeps nothing.
    assert!(refused(&primary, &token).contains("this token has been used"));
}

#[test]
fn a_token_lets_one_primary_in() {
    let proxy = Proxy::start();
    let primary = no_proxy();
    // Strangers get no answer at all while no token is out.
    let stray = format!(
        "MPBOND:ENROL/{}/{}/{}",
        proxy.address,
        proxy.device.id(),
        "0".repeat(32)
    );
    assert!(refused(&primary, &stray).contains("does `mpbond pair` wait there"));
    let nobody = stray.replace(&proxy.address.to_string(), &free_address().to_string());
    assert!(refused(&primary, &nobody).contains("does the proxy run there"));

    let token = proxy.token(&["--for", "Anna's laptop"]);
    let kept = std::fs::read_to_string(proxy.device.folder.path().join("me.enrol")).unwrap();
    let secret = token.rsplit('/').next().unwrap();
    assert!(
        !kept.to_uppercase().contains(secret),
        "only its hash is kept: {kept}"
    );

    let done = primary.run(&["pair", &token, "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let laptop = TrustedDevice {
        id: primary.id(),
        name: "Anna's laptop".to_owned(),
    };
    assert_eq!(proxy.device.trusted(), std::slice::from_ref(&laptop));
    let expected = format!(
        "identity = \"me.pem\"\n\n[proxy]\naddress = \"{}\"\nid = \"{}\"\n",
        proxy.address,
        proxy.device.id()
    );
    assert_eq!(primary.text(), expected);

    // The device that used it may repeat the request; another device is refused.
    let done = primary.run(&["pair", &token, "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("Nothing has changed."), "{said}");
    let thief = no_proxy();
    assert!(refused(&thief, &token).contains("this token has been used"));
    assert!(refused(&thief, &stray).contains("does not know this token"));
    assert_eq!(proxy.device.trusted(), [laptop]);

    let short = proxy.token(&["--valid", "1s", "--uses", "5"]);
    std::thread::sleep(Duration::from_millis(2100));
    assert!(refused(&thief, &short).contains("this token has expired"));

    // It is sent only to the proxy that it names.
    let fresh = proxy.token(&[]);
    let elsewhere = Proxy::start();
    let misled = fresh.replace(&proxy.address.to_string(), &elsewhere.address.to_string());
    elsewhere.token(&[]);
    assert!(refused(&thief, &misled).contains("expected device"));
    assert!(
        thief.run(&["pair", &fresh, "--yes"]).status.success(),
        "it is still good"
    );
}

#[test]
fn a_first_proxy_comes_with_the_policy_for_its_loss() {
    let proxy = Proxy::start();
    let token = || proxy.token(&[]);
    let policy = |primary: &Device| {
        let text = primary.text();
        let line = text.lines().find(|l| l.starts_with("on_proxy_loss"));
        line.map(str::to_owned)
    };
    // Asked of people, once.
    for (answers, written) in [
        ("y\nf\n", Some("on_proxy_loss = \"fail\"")),
        ("y\n\n", Some("on_proxy_loss = \"direct\"")),
        ("y\nperhaps\n", None),
        ("y\n", None),
    ] {
        let primary = no_proxy();
        let pair = |answers: &str| {
            let mut child = primary.command(&["pair", &token()]).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            input.write_all(answers.as_bytes()).unwrap();
            drop(input);
            let done = child.wait_with_output().unwrap();
            assert!(done.status.success(), "{}", stderr(&done));
            stderr(&done)
        };
        assert!(pair(answers).contains("While no path to the proxy works"));
        assert_eq!(policy(&primary).as_deref(), written, "{answers:?}");
        if written.is_some() {
            assert!(!pair("y\n").contains("While no path to the proxy works"));
        }
    }
    // A script decides by a flag.
    let primary = no_proxy();
    for (flag, written) in [
        (
            &["--on-proxy-loss", "fail"][..],
            Some("on_proxy_loss = \"fail\""),
        ),
        (&[], Some("on_proxy_loss = \"fail\"")),
        (
            &["--on-proxy-loss", "direct"],
            Some("on_proxy_loss = \"direct\""),
        ),
    ] {
        let token = token();
        let done = primary.run(&[&["pair", &token, "--yes"], flag].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        assert_eq!(policy(&primary).as_deref(), written);
    }
}

#[test]
fn a_token_may_name_the_proxy_and_the_name_is_written() {
    let proxy = Proxy::start();
    let primary = no_proxy();
    let token = proxy.token(&["--address", "localhost"]);
    let port = proxy.address.port();
    assert!(
        token.starts_with(&format!("MPBOND:ENROL/localhost:{port}/")),
        "{token}"
    );
    let done = primary.run(&["pair", &token, "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let text = primary.text();
    assert!(
        text.contains(&format!("address = \"localhost:{port}\"\n")),
        "{text}"
    );
    // A missing port is that at which it listens.
    let token = proxy.token(&["--address", "127.0.0.1"]);
    assert!(token.contains(&format!("/127.0.0.1:{port}/")), "{token}");
    let wrong = proxy
        .device
        .run(&["proxy", "enrol", "--address", "no such"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let nowhere = token.replace("127.0.0.1", "nowhere.invalid");
    assert!(refused(&no_proxy(), &nowhere).contains("no address is found for nowhere.invalid"));
}

#[test]
fn without_a_terminal_nobody_declines() {
    let proxy = Proxy::start();
    let token = proxy.token(&[]);
    let primary = no_proxy();
    let mut command = primary.command(&["pair", &token]);
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = stderr(&done);
    assert!(
        said.contains("standard input has ended") && said.contains("--yes"),
        "{said}"
    );
    assert!(!said.contains("declined"), "{said}");
}

/// What it says to do next works as it is printed.
#[test]
fn hints_name_the_configuration_and_what_has_to_be_started() {
    let proxy = Proxy::start();
    let primary = no_proxy();
    let done = primary.run(&["pair", &proxy.token(&[]), "--yes"]);
    let said = String::from_utf8(done.stdout).unwrap();
    let config = primary.config.display();
    let start = format!("mpbond primary --config {config}\n");
    assert!(
        said.contains("Start the primary: ") && said.contains(&start),
        "{said}"
    );
    assert!(
        said.contains(&format!("mpbond doctor primary --config {config}\n")),
        "{said}"
    );

    // A proxy that nobody may use yet.
    let device = Device::new(
        "proxy",
        &format!("identity = \"me.pem\"\nlisten = \"{}\"\n", free_address()),
    );
    let mut daemon = device.command(&["proxy"]).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(daemon.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    let enrol = format!(
        "mpbond proxy enrol --config {}` makes a token",
        device.config.display()
    );
    assert!(line.contains(&enrol), "{line}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
