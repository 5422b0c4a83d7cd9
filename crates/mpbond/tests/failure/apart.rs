//! A primary in a network namespace of its own, and links to it.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use crate::daemons::{Bond, Daemon, Ways};
use mpbond_testing::namespaces::sh;

/// This host's address towards the application, over a link that stays as it is.
pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);

/// Proxy, origin and application are in this namespace. The primary is in another one, and reaches
/// the proxy over the link `far0` here, `near0` there (10.9.0.2).
pub struct Apart {
    holder: Child,
    pub bond: Bond,
}

impl Apart {
    pub fn new() -> Self {
        let holder = namespace();
        let pid = holder.id();
        sh(&format!(
            "ip link set lo up
             nsenter -t {pid} -n ip link set lo up
             ip link add far0 type veth peer name near0 netns {pid}
             ip addr add 10.9.0.1/24 dev far0
             ip link set far0 up
             nsenter -t {pid} -n ip addr add 10.9.0.2/24 dev near0
             nsenter -t {pid} -n ip link set near0 up
             ip link add app0 type veth peer name app1 netns {pid}
             ip addr add {HERE}/24 dev app0
             ip link set app0 up
             nsenter -t {pid} -n ip addr add 10.8.0.2/24 dev app1
             nsenter -t {pid} -n ip link set app1 up"
        ));
        let mut bond = Bond::new(Ways::Own, "", "");
        for (file, key, to) in [
            ("proxy.toml", "listen", "10.9.0.1"),
            ("primary.toml", "address", "10.9.0.1"),
            ("primary.toml", "[socks5]\nlisten", "10.8.0.2"),
        ] {
            let path = bond.file(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let (from, to) = (format!("{key} = \"127.0.0.1"), format!("{key} = \"{to}"));
            assert!(text.contains(&from), "{text}");
            std::fs::write(path, text.replace(&from, &to)).unwrap();
        }
        bond.socks5.set_ip([10, 8, 0, 2].into());
        Self { holder, bond }
    }

    /// Starts the primary, over there.
    pub fn start_primary(&self) -> Daemon {
        let enter = format!("exec nsenter -t {} -n \"$0\" \"$@\"", self.holder.id());
        self.bond.start_by("primary", &enter)
    }

    /// Runs lines of `ip` over there.
    pub fn there(&self, lines: &[&str]) {
        for line in lines {
            sh(&format!("nsenter -t {} -n ip {line}", self.holder.id()));
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Another network namespace, held by a process that waits for its input to end.
fn namespace() -> Child {
    let mut holder = Command::new("unshare")
        .args(["-n", "sh", "-c", "echo up; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    holder
}
