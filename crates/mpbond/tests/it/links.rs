//! Own links of a primary: pairing writes them, the doctor warns of one that is not used. In
//! namespaces of the test's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Outcome, Program};

const MPBOND: Program = Program::new(env!("CARGO_BIN_EXE_mpbond"));

const LIMIT: Duration = Duration::from_secs(20);

/// It is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(config: &Path, args: &[&str]) -> Outcome {
    let mut command = MPBOND.command(args);
    command.arg("--config").arg(config);
    Outcome::from(command.output().unwrap())
}

#[test]
fn pairing_writes_own_links_and_that_of_the_pipe() {
    play("-Urnm", "links::role");
}

/// Two own links with default routes, a tunnel with a third one, and a network without, on which a
/// proxy is met, then a helper.
#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let other = Command::new("unshare")
        .args(["-n", "sleep", "infinity"])
        .stdin(Stdio::null())
        .spawn();
    let other = Running(other.unwrap());
    let pid = other.0.id();
    let entered = format!("[ /proc/{pid}/ns/net -ef /proc/self/ns/net ]");
    let deadline = Instant::now() + LIMIT;
    while Command::new("sh")
        .args(["-c", &entered])
        .status()
        .unwrap()
        .success()
    {
        assert!(Instant::now() < deadline, "no namespace");
        std::thread::sleep(Duration::from_millis(10));
    }
    sh(&format!(
        "mount -t sysfs none /sys
         ip link set lo up
         for n in 1 2 3; do
             ip link add own$n type veth peer name far$n netns {pid}
             ip addr add 10.$n.0.1/24 dev own$n
             ip link set own$n up
             nsenter -t {pid} -n ip addr add 10.$n.0.2/24 dev far$n
             nsenter -t {pid} -n ip link set far$n up
         done
         ip route add default via 10.2.0.2 metric 200
         ip route add default via 10.1.0.2 metric 300
         ip tuntap add tun9 mode tun
         ip addr add 10.9.0.1/24 dev tun9
         ip link set tun9 up
         ip route add default dev tun9 metric 100"
    ));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let proxy = file("proxy.toml");
    let keys =
        "identity = \"proxy.pem\"\nstatus_socket = \"proxy.sock\"\nlisten = \"10.3.0.2:4433\"\n";
    std::fs::write(&proxy, keys).unwrap();
    let daemon = Command::new("nsenter")
        .args([
            "-t",
            &pid.to_string(),
            "-n",
            env!("CARGO_BIN_EXE_mpbond"),
            "proxy",
            "--config",
        ])
        .arg(&proxy)
        .spawn();
    let _daemon = Running(daemon.unwrap());
    let deadline = Instant::now() + LIMIT;
    while mpbond::status_socket::ask(&file("proxy.sock")).is_err() {
        assert!(Instant::now() < deadline, "the proxy does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let token = run(&proxy, &["proxy", "enrol"]).stdout;
    let primary = file("primary.toml");
    std::fs::write(&primary, "identity = \"me.pem\"\n").unwrap();
    let paired = run(&primary, &["pair", token.trim(), "--yes"]);
    assert_eq!(paired.code, 0, "{}", paired.stderr);
    let text = std::fs::read_to_string(&primary).unwrap();
    let paths = "\n[[path]]\ninterface = \"own2\"\n\n[[path]]\ninterface = \"own1\"\n";
    assert!(text.ends_with(paths), "{text}");
    assert_eq!(run(&primary, &["primary", "--check"]).code, 0);

    // A helper is written with the interface on which it was met.
    let helper = file("helper.toml");
    let keys = "identity = \"helper.pem\"\nstatus_socket = \"helper.sock\"\n\
                proxies = \"10.3.0.2:4433\"\nname = \"second laptop\"\n";
    std::fs::write(&helper, keys).unwrap();
    let mut listens = Command::new("nsenter");
    listens
        .args([
            "-t",
            &pid.to_string(),
            "-n",
            env!("CARGO_BIN_EXE_mpbond"),
            "pair",
        ])
        .args(["--yes", "--json", "--listen", "10.3.0.2:4435", "--config"])
        .arg(&helper)
        .stdout(Stdio::piped());
    let mut listens = Running(listens.spawn().unwrap());
    let mut line = String::new();
    let out = listens.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    let invitation = event["text"].as_str().unwrap();
    let paired = run(&primary, &["pair", invitation, "--yes"]);
    assert_eq!(paired.code, 0, "{}", paired.stderr);
    let text = std::fs::read_to_string(&primary).unwrap();
    assert!(text.ends_with("interface = \"own3\"\n"), "{text}");

    // Without the paths that it wrote.
    let lonely = text.replace(paths, "");
    assert_ne!(text, lonely);
    std::fs::write(&primary, lonely).unwrap();
    let said = run(&primary, &["doctor", "primary"]).stdout;
    for name in ["own1", "own2"] {
        let warned = format!(
            "only one way (through \"second laptop\"); this device's own link {name} is not used\n"
        );
        assert!(said.contains(&warned), "{said}");
        assert!(
            said.contains(&format!("-> add [[path]] interface = \"{name}\"\n")),
            "{said}"
        );
    }
    assert!(!said.contains("tun9"), "{said}");

    // A path over the helper's own hotspot.
    std::fs::write(&primary, text).unwrap();
    sh("ip route replace default via 10.3.0.2 metric 50");
    let path = "\n[[path]]\ninterface = \"own3\"\n";
    let text = std::fs::read_to_string(&primary).unwrap();
    std::fs::write(&primary, text + path).unwrap();
    let said = run(&primary, &["doctor", "primary"]).stdout;
    let warned = "the router on own3 is the helper \"second laptop\": both use its link";
    assert!(said.contains(warned), "{said}");
}
