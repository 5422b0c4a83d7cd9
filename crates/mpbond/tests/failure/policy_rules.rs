//! Rules of a policy, each applied to real connections: their classes at both ends, refusals, and
//! connections without the proxy.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play};
use nix::sys::signal::Signal;
use socket2::{Domain, SockRef, Socket, Type};

use crate::class_names::socks5;
use crate::daemons::{Bond, Daemon, WITHIN, Ways, origin, origin_at, until};
use crate::log_flood::start;
use crate::policy_reload::apply;

/// CS1 in IP_TOS: a class of its own, which a rule's class replaces.
const CS1: u32 = 8 << 2;

/// EF in IP_TOS, which claims the class realtime.
const EF: u32 = 46 << 2;

/// A socket of an application, not yet connected.
pub fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

/// Connects over SOCKS5; the code of a refusal.
pub fn connect(bond: &Bond, socket: Socket, to: SocketAddr) -> Result<TcpStream, u8> {
    answer(ask(bond, socket, to))
}

/// Asks for a connection over SOCKS5.
fn ask(bond: &Bond, socket: Socket, to: SocketAddr) -> TcpStream {
    socket.connect(&bond.socks5.into()).unwrap();
    let mut tcp = TcpStream::from(socket);
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    tcp.write_all(&[5, 1, 0]).unwrap();
    tcp.read_exact(&mut [0; 2]).unwrap();
    let (IpAddr::V4(ip), port) = (to.ip(), to.port().to_be_bytes()) else {
        panic!("IPv4 only")
    };
    let request = [&[5, 1, 0, 1], &ip.octets()[..], &port].concat();
    tcp.write_all(&request).unwrap();
    tcp
}

/// The answer to [`ask`].
fn answer(mut tcp: TcpStream) -> Result<TcpStream, u8> {
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).unwrap();
    match reply[1] {
        0 => Ok(tcp),
        code => Err(code),
    }
}

/// The status of an HTTP proxy's answer.
fn http(bond: &Bond, to: SocketAddr) -> String {
    let mut tcp = TcpStream::connect(bond.http).unwrap();
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    tcp.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    tcp.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

/// The class of the only open stream, which both ends agree on.
#[track_caller]
fn assert_class(bond: &Bond, expected: &str, what: &str) {
    for role in ["primary", "proxy"] {
        until(&format!("{what} is {expected} at the {role}"), || {
            let status = bond.status(role).unwrap();
            let classes = status.sessions.first().map(|s| s.streams_by_class.clone());
            let classes = classes.unwrap_or_default();
            classes.into_iter().eq([(expected.to_owned(), 1)])
        });
    }
}

/// Opens a connection, looks at its class, and ends it.
#[track_caller]
fn class_is(bond: &Bond, socket: Socket, to: SocketAddr, expected: &str, what: &str) {
    let open = connect(bond, socket, to).unwrap();
    assert_class(bond, expected, what);
    drop(open);
    for role in ["primary", "proxy"] {
        until("the stream has ended", || {
            let status = bond.status(role).unwrap();
            status.sessions.first().is_some_and(|s| s.streams_open == 0)
        });
    }
}

/// Asks an origin for bytes.
fn exchange(open: &mut TcpStream) {
    open.write_all(&1_000_u32.to_be_bytes()).unwrap();
    open.read_exact(&mut [0; 1_000]).unwrap();
}

fn rule(condition: &str, set: &str) -> String {
    format!("[policy]\nzone = \"UTC\"\n[[rule]]\nname = \"it\"\n{condition}\nset = {set}\n")
}

const INTERACTIVE: &str = "{ class = \"interactive\" }";

/// A control group of this test's own, of an application `org.example.A`.
pub struct Group {
    folder: PathBuf,
    /// The group in which this process was before.
    before: PathBuf,
}

impl Group {
    /// None where control groups of version 2 cannot be made here.
    pub fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut places = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?;
            (fields.next() == Some("cgroup2")).then_some(place)
        });
        let root = Path::new(places.next()?);
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let name = format!("app-x-org.example.A-{}.scope", std::process::id());
        Self::at(root.join(name), root.join(own))
    }

    fn at(folder: PathBuf, before: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, before })
    }

    pub fn name(&self) -> &str {
        self.folder.file_name().unwrap().to_str().unwrap()
    }

    /// Makes something while this process is in the group.
    pub fn inside<T>(&self, make: impl FnOnce() -> T) -> T {
        enter(&self.folder).unwrap();
        let _back = Back(&self.before);
        make()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Moves this process to the group of a folder.
fn enter(group: &Path) -> io::Result<()> {
    let process = std::process::id().to_string();
    fs::write(group.join("cgroup.procs"), process)
}

/// Moves this process back to this group in the end, also after a panic.
struct Back<'a>(&'a Path);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        let back = enter(self.0);
        assert!(back.is_ok() || thread::panicking(), "{back:?}");
    }
}

#[test]
fn rules_apply_to_connections_that_they_select_and_to_no_others() {
    // A process of its own, which moves to another control group.
    play("-Ur", "policy_rules::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let head = "policy = \"policy.toml\"\non_proxy_loss = \"fail\"";
    let bond = Bond::new(Ways::Own, head, "");
    fs::write(bond.file("policy.toml"), "").unwrap();
    let (proxy, primary) = (start(&bond, "proxy"), start(&bond, "primary"));
    bond.joined(1);
    let to = origin();
    let there = origin_at((Ipv4Addr::new(127, 0, 0, 3), 0).into());
    conditions_select(&bond, to, there);
    control_groups_select(&bond, to);

    let refuse = rule(&format!("port = {}\ndscp = 0", to.port()), "\"refuse\"");
    apply(&bond, &refuse);
    assert_eq!(connect(&bond, socket(), to).map(drop), Err(2));
    assert_eq!(http(&bond, to), "HTTP/1.1 403");
    class_is(&bond, socket(), there, "bulk", "another port");
    let rules = bond.status("primary").unwrap().rules;
    let rules: Vec<_> = rules
        .iter()
        .map(|r| (&*r.name, r.line, r.flows_total))
        .collect();
    // The rule of this name has had other conditions before.
    assert!(
        matches!(rules[..], [("it", 3, flows)] if flows >= 2),
        "{rules:?}"
    );
    apply(&bond, &rule("domain = \"*.example\"", "\"refuse\""));
    let named = bond.connect_to_name("www.site.example", 80);
    assert_eq!(named.map(drop), Err(2));

    apply(&bond, "[policy]\ndefault = { class = \"background\" }\n");
    class_is(&bond, socket(), to, "background", "the default");
    // A connection goes on under a policy that refuses new ones.
    let mut open = connect(&bond, socket(), to).unwrap();
    apply(&bond, "[policy]\ndefault = \"refuse\"\n");
    let others = || bond.status("primary").unwrap().default_flows_total.unwrap();
    let before = others();
    assert_eq!(connect(&bond, socket(), to).map(drop), Err(2));
    assert_eq!(others(), before + 1);
    primary.logs("connections are refused by the policy");
    exchange(&mut open);
    drop(open);
    // The proxy stands still: nothing of the second connection goes there.
    apply(&bond, &rule(&format!("port = {}", to.port()), "\"direct\""));
    proxy.signal(Signal::SIGSTOP);
    exchange(&mut connect(&bond, socket(), to).unwrap());
    proxy.signal(Signal::SIGCONT);
    a_claim_does_not_replace_the_paths_of_a_rule(&bond, to);
    clients_that_wait_have_the_policy_of_the_end_of_their_wait(&bond, proxy, to);
}

/// A realtime flow has one path: where a rule demands several, the flow is interactive.
fn a_claim_does_not_replace_the_paths_of_a_rule(bond: &Bond, to: SocketAddr) {
    let aggregate = rule(
        &format!("port = {}", to.port()),
        "{ multipath = \"aggregate\" }",
    );
    apply(bond, &aggregate);
    for user in ["me,class=realtime", "me,class=interactive"] {
        let open = socks5(bond, user, to).unwrap();
        assert_class(bond, "interactive", user);
        drop(open);
    }
    let marked = socket();
    marked.set_tos_v4(EF).unwrap();
    class_is(bond, marked, to, "interactive", "the code point EF");
    // A program that sets it later.
    let open = connect(bond, socket(), to).unwrap();
    assert_class(bond, "bulk", "no claim");
    SockRef::from(&open).set_tos_v4(EF).unwrap();
    exchange(&mut open.try_clone().unwrap());
    assert_class(bond, "interactive", "EF, set later");
}

/// A client waits for a path for a moment only: on a busy machine the new policy may be late.
fn clients_that_wait_have_the_policy_of_the_end_of_their_wait(
    bond: &Bond,
    proxy: Daemon,
    to: SocketAddr,
) {
    const PROXY_LOST: u8 = 3;
    let mut proxy = Some(proxy);
    for _ in 0..5 {
        let up = proxy.take().unwrap_or_else(|| start(bond, "proxy"));
        bond.joined(1);
        apply(bond, &rule(&format!("port = {}", to.port()), INTERACTIVE));
        up.kill();
        until("the session has lost its only path", || {
            let status = bond.status("primary").unwrap();
            status.sessions.iter().all(|s| s.subflows.is_empty())
        });
        let client = ask(bond, socket(), to);
        // The primary has seen the client before it answers both questions.
        for _ in 0..2 {
            bond.status("primary").unwrap();
        }
        apply(bond, "[policy]\ndefault = \"refuse\"\n");
        match answer(client).map(drop) {
            Err(PROXY_LOST) => {}
            answer => return assert_eq!(answer, Err(2)),
        }
    }
    panic!("clients that wait go on under the old policy");
}

fn conditions_select(bond: &Bond, to: SocketAddr, there: SocketAddr) {
    let select = |condition: &str| apply(bond, &rule(condition, INTERACTIVE));
    select(&format!("port = {}", to.port()));
    class_is(bond, socket(), to, "interactive", "the port");
    class_is(bond, socket(), there, "bulk", "another port");
    select("ip = \"127.0.0.3\"");
    class_is(bond, socket(), there, "interactive", "the address");
    class_is(bond, socket(), to, "bulk", "another address");
    select("source = \"127.0.0.2\"");
    let from = socket();
    from.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into())
        .unwrap();
    class_is(bond, from, to, "interactive", "the source");
    class_is(bond, socket(), to, "bulk", "another source");
    select("dscp = \"CS1\"");
    let marked = socket();
    marked.set_tos_v4(CS1).unwrap();
    class_is(bond, marked, to, "interactive", "the code point");
    class_is(bond, socket(), to, "bulk", "another code point");
    let uid = nix::unistd::getuid().as_raw();
    select(&format!("uid = {uid}"));
    class_is(bond, socket(), to, "interactive", "the user");
    select(&format!("uid = {}", uid + 1));
    class_is(bond, socket(), to, "bulk", "another user");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let hour = |later: u64| (now.as_secs() / 3600 + later) % 24;
    select(&format!("time = \"{}:00-{}:00\"", hour(23), hour(2)));
    class_is(bond, socket(), to, "interactive", "the time");
    select(&format!("time = \"{}:00-{}:00\"", hour(11), hour(13)));
    class_is(bond, socket(), to, "bulk", "another time");
}

fn control_groups_select(bond: &Bond, to: SocketAddr) {
    let Some(group) = Group::make() else {
        return Need::Root.is_missing("no control group of version 2 can be made here");
    };
    apply(bond, &rule("app = \"org.example.A\"", INTERACTIVE));
    class_is(
        bond,
        group.inside(socket),
        to,
        "interactive",
        "the application",
    );
    class_is(bond, socket(), to, "bulk", "another application");
    apply(
        bond,
        &rule(&format!("cgroup = \"/{}\"", group.name()), INTERACTIVE),
    );
    class_is(bond, group.inside(socket), to, "interactive", "the group");
    class_is(bond, socket(), to, "bulk", "another group");
    // Its path may be used for a minute: that of another one was never looked for.
    let name = group.name().replace("org.example.A", "org.example.B");
    let gone = Group::at(group.folder.with_file_name(&name), group.before.clone()).unwrap();
    apply(bond, &rule(&format!("cgroup = \"/{name}\""), INTERACTIVE));
    let left = gone.inside(socket);
    drop(gone);
    class_is(bond, left, to, "bulk", "a group that has gone");
}
