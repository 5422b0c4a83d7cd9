//! A primary in a network namespace of its own, and a helper in another one; links between them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use crate::daemons::{Bond, Daemon, Upgraded, Ways};
use mpbond_testing::namespaces::sh;

/// This host's address towards the application, over a link that stays as it is: a public one,
/// which other hosts reach through a primary also where it connects them direct.
pub const HERE: Ipv4Addr = Ipv4Addr::new(11, 8, 0, 1);

/// Proxy, origin and application are in this namespace. The primary is in another one, and reaches
/// the proxy over the link `far0` here, `near0` there (10.9.0.2). A helper, if there is one, is in
/// a third one, between `pipe0` at the primary and `hs0` here.
pub struct Apart {
    holder: Child,
    helper: Option<Child>,
    pub bond: Bond,
}

impl Apart {
    pub fn new() -> Self {
        Self::with("", "")
    }

    /// `primary_more` and `proxy_more` are further lines of their files.
    pub fn with(primary_more: &str, proxy_more: &str) -> Self {
        Self::build(Ways::Own, primary_more, proxy_more)
    }

    /// The same with a helper.
    pub fn with_helper() -> Self {
        let mut apart = Self::build(Ways::Both, "", "");
        let helper = namespace();
        let (primary, pid) = (apart.holder.id(), helper.id());
        sh(&format!(
            "nsenter -t {pid} -n ip link set lo up
             ip link add hs0 type veth peer name hs1 netns {pid}
             ip addr add 10.7.0.1/24 dev hs0
             ip link set hs0 up
             nsenter -t {pid} -n ip addr add 10.7.0.2/24 dev hs1
             nsenter -t {pid} -n ip link set hs1 up
             nsenter -t {pid} -n ip route add default via 10.7.0.1
             nsenter -t {pid} -n ip link add pipe1 type veth peer name pipe0 netns {primary}
             nsenter -t {pid} -n ip addr add 10.6.0.2/24 dev pipe1
             nsenter -t {pid} -n ip link set pipe1 up
             nsenter -t {primary} -n ip addr add 10.6.0.1/24 dev pipe0
             nsenter -t {primary} -n ip link set pipe0 up"
        ));
        apart.moves("helper.toml", "listen", "10.6.0.2");
        apart.moves("helper.toml", "proxies", "10.9.0.1");
        let name = "[[helper]]\nname = \"helper\"\naddress";
        apart.moves("primary.toml", name, "10.6.0.2");
        apart.helper = Some(helper);
        apart
    }

    fn build(ways: Ways, primary_more: &str, proxy_more: &str) -> Self {
        let holder = namespace();
        let pid = holder.id();
        // The kernel removes those of an earlier holder some time after its end.
        sh(&format!(
            "for link in far0 app0 hs0; do ip link del $link 2>/dev/null || true; done
             ip link set lo up
             nsenter -t {pid} -n ip link set lo up
             ip link add far0 type veth peer name near0 netns {pid}
             ip addr add 10.9.0.1/24 dev far0
             ip link set far0 up
             nsenter -t {pid} -n ip addr add 10.9.0.2/24 dev near0
             nsenter -t {pid} -n ip link set near0 up
             ip link add app0 type veth peer name app1 netns {pid}
             ip addr add {HERE}/24 dev app0
             ip link set app0 up
             nsenter -t {pid} -n ip addr add 11.8.0.2/24 dev app1
             nsenter -t {pid} -n ip link set app1 up"
        ));
        let mut bond = Bond::new(ways, primary_more, proxy_more);
        bond.socks5.set_ip([11, 8, 0, 2].into());
        let apart = Self {
            holder,
            helper: None,
            bond,
        };
        apart.moves("proxy.toml", "listen", "10.9.0.1");
        apart.moves("primary.toml", "[proxy]\naddress", "10.9.0.1");
        apart.moves("primary.toml", "[socks5]\nlisten", "11.8.0.2");
        apart
    }

    /// Changes an address in a configuration from loopback to this one.
    fn moves(&self, file: &str, key: &str, to: &str) {
        let path = self.bond.file(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let (from, to) = (format!("{key} = \"127.0.0.1"), format!("{key} = \"{to}"));
        assert!(text.contains(&from), "{text}");
        std::fs::write(path, text.replace(&from, &to)).unwrap();
    }

    /// Starts the primary, over there.
    pub fn start_primary(&self) -> Daemon {
        self.start_in(self.holder.id(), "primary")
    }

    /// Replaces the primary that runs there by a new process.
    pub fn upgrade_primary(&self) -> Result<Upgraded, String> {
        self.bond.upgrade_by("primary", &enter(self.holder.id()))
    }

    /// Starts the helper, in its own namespace.
    pub fn start_helper(&self) -> Daemon {
        self.start_in(self.helper_pid(), "helper")
    }

    /// Starts a device of several roles in the helper's namespace, by `up.toml`. Does not wait
    /// until it answers.
    pub fn start_up_at_helper(&self) -> Daemon {
        self.bond.start_unseen("up", &enter(self.helper_pid()))
    }

    fn start_in(&self, pid: u32, role: &str) -> Daemon {
        self.bond.start_by(role, &enter(pid))
    }

    /// A process over there.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// A process in the helper's namespace.
    pub fn helper_pid(&self) -> u32 {
        self.helper.as_ref().unwrap().id()
    }

    /// Runs a line of shell over there, which must succeed; its output.
    pub fn run_there(&self, line: &str) -> String {
        sh(&format!(
            "nsenter -t {} -n sh -ec '{line}'",
            self.holder.id()
        ))
    }

    /// Runs lines of `ip` over there.
    pub fn there(&self, lines: &[&str]) {
        for line in lines {
            self.there_runs(&format!("ip {line}"));
        }
    }

    /// Runs a command over there.
    pub fn there_runs(&self, command: &str) {
        sh(&format!("nsenter -t {} -n {command}", self.holder.id()));
    }

    /// Runs a command in the helper's namespace.
    pub fn helper_runs(&self, command: &str) {
        let pid = self.helper_pid();
        sh(&format!("nsenter -t {pid} -n {command}"));
    }

    /// Has the primary's namespace obey the table in these lines of `nft`.
    pub fn there_obeys(&self, table: &str) {
        let file = self.bond.file("rules.nft");
        std::fs::write(&file, table).unwrap();
        self.there_runs(&format!("nft -f {}", file.display()));
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for holder in [Some(&mut self.holder), self.helper.as_mut()] {
            let Some(holder) = holder else { continue };
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// A line of shell that runs a command in the network namespace of a process.
fn enter(pid: u32) -> String {
    format!("exec nsenter -t {pid} -n \"$0\" \"$@\"")
}

/// Connects from the network namespace of a process.
pub fn connect_from(pid: u32, to: SocketAddr) -> std::io::Result<TcpStream> {
    let there = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let thread = thread::spawn(move || {
        setns(there, CloneFlags::CLONE_NEWNET).unwrap();
        TcpStream::connect_timeout(&to, Duration::from_secs(10))
    });
    thread.join().unwrap()
}

/// Another network namespace, held by a process that waits for its input to end.
pub fn namespace() -> Child {
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
