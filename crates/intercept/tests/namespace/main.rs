//! Tests of real nft rules in user and network namespaces of their own.
//!
//! The tests run by cargo start this binary again under `unshare`, each with one of the ignored
//! tests, the roles. A role requires the namespaces: run directly on a host, it does nothing.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lifetime;
mod source;
mod succession;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpbond_intercept::rules::{Ipv6, Method, Rules, RulesConfig, Udp};
use mpbond_intercept::{Front, FrontConfig, Protocol, Refusal, Via};
use mpbond_testing::{Need, has_nft};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::AsyncWriteExt;

const ROLE: &str = "MPBOND_INTERCEPT_ROLE";
const PORT: u16 = 1080;
const DNS_PORT: u16 = 1053;
const LIMIT: Duration = Duration::from_secs(5);
/// Unused addresses; the rules must intercept connections to them.
const SITE: &str = "198.51.100.1:80";
const SITE_V6: &str = "[2001:db8:5::1]:80";

/// Runs a role of this binary in new user, network and mount namespaces.
fn in_namespaces(role: &str) {
    run_role(role, "-Urnm");
}

fn run_role(role: &str, namespaces: &str) {
    if !has_nft() {
        return;
    }
    let unshare = [namespaces, "--kill-child"];
    let allowed = Command::new("unshare").args(unshare).arg("true").output();
    if !allowed.is_ok_and(|o| o.status.success()) {
        return Need::Namespaces
            .is_missing(format_args!("unshare {namespaces} is not allowed here"));
    }
    let output = Command::new("unshare")
        .args(unshare)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", role, "--nocapture"])
        .env(ROLE, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn is_role() -> bool {
    std::env::var_os(ROLE).is_some()
}

#[test]
fn redirect() {
    in_namespaces("role_redirect");
}

#[test]
fn tproxy() {
    in_namespaces("role_tproxy");
}

#[test]
fn redirect_for_other_hosts() {
    in_namespaces("role_forwarded_redirect");
}

#[test]
fn tproxy_for_other_hosts() {
    in_namespaces("role_forwarded_tproxy");
}

#[test]
fn refused_ipv6_and_udp() {
    in_namespaces("role_refuse");
}

#[test]
fn lifetime() {
    in_namespaces("lifetime::role_lifetime");
}

#[test]
fn succession() {
    in_namespaces("succession::role_succession");
}

#[test]
fn every_configuration_loads() {
    in_namespaces("role_every_configuration");
}

#[test]
fn no_permission() {
    run_role("role_no_permission", "-U");
}

/// An unprivileged user in the host's network.
#[test]
#[ignore = "a role: see the top of this file"]
fn role_no_permission() {
    if is_role() {
        let error = Rules::install(&RulesConfig::new(PORT)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("nft failed: "), "{text}");
        assert!(text.contains("Operation not permitted"), "{text}");
    }
}

fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Another host at the far end of a veth pair: 10.9.0.2 and 10.9.0.3 behind 10.9.0.1 on `lan0`,
/// with default routes to each other.
struct Peer {
    holder: Child,
}

impl Peer {
    fn new() -> Self {
        // `cat` keeps the namespace alive until its input ends.
        let mut holder = Command::new("unshare")
            .args(["-n", "sh", "-c", "echo up; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(holder.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let pid = holder.id();
        sh(&format!(
            "ip link set lo up
             ip link add lan0 type veth peer name eth0 netns {pid}
             ip addr add 10.9.0.1/24 dev lan0
             ip addr add 2001:db8:9::1/64 dev lan0 nodad
             ip link set lan0 up
             nsenter -t {pid} -n sh -ec '
                 ip link set lo up
                 ip addr add 10.9.0.2/24 dev eth0
                 ip addr add 10.9.0.3/24 dev eth0
                 ip addr add 2001:db8:9::2/64 dev eth0 nodad
                 ip link set eth0 up
                 ip route add default via 10.9.0.1
                 ip -6 route add default via 2001:db8:9::1'
             ip route add default via 10.9.0.2
             ip -6 route add default via 2001:db8:9::2
             echo 1 > /proc/sys/net/ipv4/ip_forward"
        ));
        Self { holder }
    }

    /// Starts a role in the peer's namespace; its standard output is read line by line.
    fn role(&self, role: &str, argument: &str) -> (Child, BufReader<impl Read + use<>>) {
        let mut child = Command::new("nsenter")
            .args(["-t", &self.holder.id().to_string(), "-n"])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", role, "--nocapture"])
            .env(ROLE, argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }

    /// A server at the peer that answers each connection with "direct" and then
    /// echoes.
    fn serve(&self) -> Server {
        let (child, mut out) = self.role("role_server", "1");
        wait_for(&mut out, "listening");
        Server(child)
    }

    /// The first response that a client at the peer gets from this address.
    fn asks(&self, addr: &str) -> String {
        let (mut child, mut out) = self.role("role_client", addr);
        let found = wait_for(&mut out, "found ");
        child.wait().unwrap();
        found
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        self.holder.wait().unwrap();
    }
}

/// Reads lines up to one that contains `sign`, and returns the text after it.
fn wait_for(out: &mut impl BufRead, sign: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(
            out.read_line(&mut line).unwrap(),
            0,
            "no {sign:?} in {all:?}"
        );
        if let Some((_, rest)) = line.split_once(sign) {
            return rest.trim().to_owned();
        }
        all.push_str(&line);
    }
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_server() {
    if !is_role() {
        return;
    }
    let listener = TcpListener::bind("[::]:80").unwrap();
    println!("listening");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            stream.write_all(b"direct").unwrap();
            let mut reader = stream.try_clone().unwrap();
            _ = std::io::copy(&mut reader, &mut stream);
        });
    }
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_client() {
    if !is_role() {
        return;
    }
    let addr = std::env::var(ROLE).unwrap();
    let found = match addr.strip_prefix("udp ") {
        Some(addr) => ask_udp(addr),
        None => ask(&addr, 0),
    };
    println!("found {found}");
}

/// Connects with this mark and returns the first word received, or the error.
fn ask(addr: &str, mark: u32) -> String {
    let addr: SocketAddr = addr.parse().unwrap();
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
    if mark != 0 {
        socket.set_mark(mark).unwrap();
    }
    if let Err(error) = socket.connect_timeout(&addr.into(), LIMIT) {
        return format!("{:?}", error.kind());
    }
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut word = [0; 100];
    match stream.read(&mut word) {
        Ok(n) => String::from_utf8_lossy(&word[..n]).into_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Sends a datagram and returns the response, or the error.
fn ask_udp(addr: &str) -> String {
    let addr: SocketAddr = addr.parse().unwrap();
    let any = if addr.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    // Connected: responses from other addresses are not received, errors are.
    socket.connect(addr).unwrap();
    // For a packet of this host, nft's reject fails the send with EPERM as well
    // as answering with the ICMP message, which is what counts.
    match socket.send(b"ping") {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => {
            return format!("{:?}", error.kind());
        }
        _ => {}
    }
    let mut answer = [0; 100];
    match socket.recv(&mut answer) {
        Ok(n) => String::from_utf8_lossy(&answer[..n]).into_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Answers every connection to the front with its original destination.
fn start_front(protocol: Protocol, addr: &str) {
    let addr = addr.parse().unwrap();
    let (ready, up) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut front = Front::bind(addr, FrontConfig::new(protocol)).unwrap();
            let mark = RulesConfig::new(PORT).own_mark;
            let socket = front.socket().unwrap();
            let listener = SockRef::from(&socket);
            listener.set_mark(mark).unwrap();
            ready.send(()).unwrap();
            loop {
                let i = front.accept().await;
                assert_eq!(i.via(), Via::Transparent);
                let text = i.destination().to_string();
                if text.ends_with(":81") {
                    i.refused(Refusal::ConnectionRefused).await;
                    continue;
                }
                let mut client = i.accepted().await.unwrap();
                client.write_all(text.as_bytes()).await.unwrap();
            }
        });
    });
    up.recv().unwrap();
}

/// Answers datagrams with a fixed response, as a resolver.
fn start_resolver(addr: &str) {
    let socket = UdpSocket::bind(addr).unwrap();
    std::thread::spawn(move || {
        loop {
            let mut buffer = [0; 100];
            let (_, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(b"stub", from).unwrap();
        }
    });
}

fn config(method: Method) -> RulesConfig {
    let mut config = RulesConfig::new(PORT);
    config.method = method;
    config.dns_port = Some(DNS_PORT);
    config.endpoints = vec!["10.9.0.3".parse().unwrap()];
    config
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_redirect() {
    if is_role() {
        local(Method::Redirect, Protocol::Redirect);
    }
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_tproxy() {
    if is_role() {
        local(Method::Tproxy, Protocol::Tproxy);
    }
}

fn local(method: Method, protocol: Protocol) {
    let peer = Peer::new();
    let _server = peer.serve();
    start_front(protocol, &format!("127.0.0.1:{PORT}"));
    start_front(protocol, &format!("[::1]:{PORT}"));
    start_resolver(&format!("127.0.0.1:{DNS_PORT}"));
    start_resolver(&format!("[::1]:{DNS_PORT}"));

    let mut earlier = TcpStream::connect("10.9.0.2:80").unwrap();
    // Of an application that serves others.
    let service = TcpListener::bind("[::]:7000").unwrap();
    std::thread::spawn(move || {
        for stream in service.incoming() {
            stream.unwrap().write_all(b"service").unwrap();
        }
    });
    let config = config(method);
    let mut rules = Rules::install(&config).unwrap();
    assert!(rules.in_force());

    for addr in [SITE, SITE_V6, "10.9.0.2:80", "[2001:db8:9::2]:80"] {
        assert_eq!(ask(addr, 0), addr);
        assert_eq!(ask(addr, 0), addr, "the second time");
    }
    assert_eq!(ask("198.51.100.1:81", 0), "ConnectionReset");
    // The daemon's own connections, and endpoints, are not intercepted.
    assert_eq!(ask("10.9.0.2:80", config.own_mark), "direct");
    assert_eq!(ask("10.9.0.3:80", 0), "direct");
    // Traffic within this host is not intercepted; the front refuses direct connections.
    assert_eq!(ask("127.0.0.1:9", 0), "ConnectionRefused");
    assert_eq!(ask("10.9.0.1:9", 0), "ConnectionRefused");
    let visitor = ask(&format!("127.0.0.1:{PORT}"), 0);
    assert!(["", "ConnectionReset"].contains(&&*visitor), "{visitor}");

    for addr in ["9.9.9.9:53", "10.9.0.3:53", "[2001:db8:53::1]:53"] {
        assert_eq!(ask_udp(addr), "stub", "{addr}");
    }
    for addr in [
        "198.51.100.1:443",
        "[2001:db8:5::1]:443",
        "198.51.100.1:853",
    ] {
        assert_eq!(ask_udp(addr), "ConnectionRefused", "{addr}");
    }

    // An existing connection is not intercepted.
    earlier.write_all(b"!").unwrap();
    earlier.set_read_timeout(Some(LIMIT)).unwrap();
    let mut word = [0; 7];
    earlier.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"direct!");

    // Connections from outside are answered over the link that they came by.
    for addr in ["10.9.0.1:7000", "[2001:db8:9::1]:7000"] {
        assert_eq!(peer.asks(addr), "service");
    }
    match rules.addresses() {
        Ok(_) => source::of_the_interface(&config),
        Err(error) => Need::Namespaces.is_missing(error),
    }
    rules.remove();
    assert_clean();
    assert_eq!(ask("10.9.0.2:80", 0), "direct");
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_forwarded_redirect() {
    if is_role() {
        forwarded(Method::Redirect, Protocol::Redirect);
    }
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_forwarded_tproxy() {
    if is_role() {
        forwarded(Method::Tproxy, Protocol::Tproxy);
    }
}

fn forwarded(method: Method, protocol: Protocol) {
    let peer = Peer::new();
    // A destination for packets that the rules let pass.
    sh(
        "ip link add wan0 type veth peer name wan1; ip link set wan0 up; ip link set wan1 up
        ip addr add 198.51.100.254/24 dev wan0",
    );
    let mut config = config(method);
    config.forwarded = vec!["lan0".into()];
    let rules = Rules::install(&config).unwrap();
    let addresses = match rules.addresses() {
        Ok(addresses) => addresses,
        Err(error) => return Need::Namespaces.is_missing(error),
    };
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        let listen = match (method, address) {
            (Method::Redirect, address) => *address,
            (Method::Tproxy, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
            (Method::Tproxy, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        };
        start_front(protocol, &SocketAddr::new(listen, PORT).to_string());
        start_resolver(&SocketAddr::new(*address, DNS_PORT).to_string());
    }

    assert_eq!(peer.asks(SITE), SITE);
    assert_eq!(peer.asks(SITE_V6), SITE_V6);
    assert_eq!(peer.asks("10.9.0.1:9"), "ConnectionRefused");
    assert_eq!(peer.asks("udp 9.9.9.9:53"), "stub");
    assert_eq!(peer.asks("udp [2001:db8:53::1]:53"), "stub");
    assert_eq!(peer.asks("udp 198.51.100.1:443"), "ConnectionRefused");
    // The addresses of the interface are reached by redirection alone.
    let service = TcpListener::bind("[::]:7000").unwrap();
    std::thread::spawn(move || {
        for stream in service.incoming() {
            stream.unwrap().write_all(b"service").unwrap();
        }
    });
    assert_eq!(peer.asks("10.9.0.1:7000"), "service");
    for address in addresses {
        let to = SocketAddr::new(*address, 7000).to_string();
        assert_eq!(peer.asks(&to), "TimedOut");
    }
    rules.remove();
    assert_clean();
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_refuse() {
    if !is_role() {
        return;
    }
    let _peer = Peer::new();
    start_front(Protocol::Redirect, &format!("127.0.0.1:{PORT}"));
    start_resolver(&format!("127.0.0.1:{DNS_PORT}"));
    let mut config = config(Method::Redirect);
    config.udp = Udp::Reject;
    config.ipv6 = Ipv6::Reject;
    let _rules = Rules::install(&config).unwrap();
    assert_eq!(ask(SITE, 0), SITE);
    assert_eq!(ask(SITE_V6, 0), "ConnectionRefused");
    assert_eq!(ask_udp("198.51.100.1:4000"), "ConnectionRefused");
    assert_eq!(ask_udp("[2001:db8:5::1]:4000"), "ConnectionRefused");
    assert_eq!(ask_udp("9.9.9.9:53"), "stub");
}

/// Whether no table, no routing rule, no route and no interface of mpbond is left.
fn is_clean() -> bool {
    let left = sh(LEFT);
    !left.contains("mpbond") && !left.contains("\n900") && !left.contains("\n901")
}

/// Shows what rules might leave.
const LEFT: &str = "nft list tables; ip link; ip rule; ip -6 rule
    for table in 28016 28017 28018 28019 28020 28021; do
        ip route show table $table 2>/dev/null | sed s/^/mpbond:/
        ip -6 route show table $table 2>/dev/null | sed s/^/mpbond:/
    done";

fn assert_clean() {
    assert!(is_clean(), "{}", sh(LEFT));
}

#[test]
#[ignore = "a role: see the top of this file"]
fn role_every_configuration() {
    if !is_role() {
        return;
    }
    sh("ip link set lo up");
    for method in [Method::Redirect, Method::Tproxy] {
        for udp in [Udp::Pass, Udp::Reject] {
            for ipv6 in [Ipv6::Intercept, Ipv6::Reject] {
                for (dns_port, forwarded) in [(None, vec![]), (Some(53), vec!["wlan0".into()])] {
                    let mut config = RulesConfig::new(PORT);
                    config.method = method;
                    config.udp = udp;
                    config.ipv6 = ipv6;
                    config.dns_port = dns_port;
                    config.forwarded = forwarded;
                    config.own_uid = Some(65534);
                    config.exclude = mpbond_intercept::rules::private_networks();
                    config.endpoints = vec!["10.0.0.1".parse().unwrap()];
                    let rules = Rules::install(&config).unwrap();
                    rules.remove();
                    assert_clean();
                }
            }
        }
    }
}
