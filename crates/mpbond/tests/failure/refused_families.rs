//! Connections to addresses of a family that the proxy lacks: the kernel refuses them, so that
//! applications use the other family at once, in namespaces of the test's own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::apart::{Apart, connect_from, namespace};
use crate::daemons::{WITHIN, until};
use crate::families::{V4, V6};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Routes of the proxy's host, which leads to the Internet by the same link as the primary's.
const ROUTE_V6: &str = "ip -6 route add default via fd00:9::2";

#[test]
fn a_redirected_connection_to_a_family_that_the_proxy_lacks_is_refused() {
    role("refused_families::role_redirect");
}

#[test]
fn a_tproxy_connection_to_a_family_that_the_proxy_lacks_is_refused() {
    role("refused_families::role_tproxy");
}

#[test]
fn direct_connections_are_refused_in_families_that_this_host_lacks() {
    role("refused_families::role_direct");
}

#[test]
fn without_a_proxy_intercepted_connections_are_refused_where_that_is_wanted() {
    role("refused_families::role_fail");
}

fn role(name: &str) {
    if has_nft() {
        play("-Urnm", name);
    }
}

/// An origin that answers every request, at both addresses.
fn origin() {
    let listener = TcpListener::bind("[::]:80").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1_024]);
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
                stream.write_all(answer.as_bytes())
            });
        }
    });
}

/// A primary with these lines of configuration, and an origin that its proxy reaches over IPv4.
fn set_up(before_tables: &str, transparent: &str) -> Apart {
    let apart = Apart::with(before_tables, "");
    let bond = &apart.bond;
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 2600::1/128 dev lo
        ip addr add fd00:9::1/64 dev far0 nodad
        ip route add default via 10.9.0.2");
    apart.there(&[
        "addr add fd00:9::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
    ]);
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let mut text = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    text.push_str("[transparent]\n");
    text.push_str(transparent);
    std::fs::write(bond.file("primary.toml"), text).unwrap();
    origin();
    apart
}

fn site(v6: bool) -> SocketAddr {
    match v6 {
        true => (V6, 80).into(),
        false => (V4, 80).into(),
    }
}

/// What a client in the namespace of this process gets from the origin.
fn get(pid: u32, v6: bool) -> Result<String, ErrorKind> {
    let fetch = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(WITHIN))?;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.rsplit("\r\n").next().unwrap().to_owned())
    };
    let connected = connect_from(pid, site(v6)).map_err(|e| e.kind())?;
    // The kernel refuses; a connection that was accepted fails otherwise.
    fetch(connected).or_else(|e: std::io::Error| Ok(format!("accepted, then {e}")))
}

const REFUSED: Result<String, ErrorKind> = Err(ErrorKind::ConnectionRefused);

fn hello() -> Result<String, ErrorKind> {
    Ok("hello".to_owned())
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_redirect() {
    if is_called_for() {
        play_mode("redirect");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_tproxy() {
    if is_called_for() {
        play_mode("tproxy");
    }
}

fn play_mode(mode: &str) {
    let has_tun = std::fs::File::options()
        .write(true)
        .open("/dev/net/tun")
        .is_ok();
    let forwarded = match has_tun {
        true => "forwarded = \"lan0\"\n",
        false => "",
    };
    let apart = set_up(
        "",
        &format!("mode = \"{mode}\"\nresolvers = \"11.0.0.1\"\n{forwarded}"),
    );
    let (bond, here) = (&apart.bond, apart.pid());
    // A host behind the primary, with public addresses: they are no exceptions of interception.
    let mut guest = namespace();
    let behind = guest.id();
    sh(&format!(
        "nsenter -t {behind} -n sh -ec \"
             ip link set lo up
             ip link add eth0 type veth peer name lan0 netns {here}
             ip addr add 11.7.0.2/24 dev eth0
             ip addr add 2601::2/64 dev eth0 nodad
             ip link set eth0 up
             ip route add default via 11.7.0.1
             ip -6 route add default via 2601::1\""
    ));
    apart.there(&[
        "addr add 11.7.0.1/24 dev lan0",
        "addr add 2601::1/64 dev lan0 nodad",
        "link set lan0 up",
    ]);
    // A program of this host that listens at every address is not mistaken for the destination.
    let _local = start_local_server(here);
    let clients: Vec<u32> = [here, behind]
        .into_iter()
        .take(if has_tun { 2 } else { 1 })
        .collect();
    let all_get = |v6, wanted: Result<String, ErrorKind>| {
        for client in &clients {
            assert_eq!(get(*client, v6), wanted, "{client} of {clients:?}");
        }
    };

    // Whatever is known of the proxy, nothing is accepted.
    let mut primary = apart.start_primary();
    assert_eq!(get(here, true), REFUSED);
    let proxy = bond.start("proxy");
    bond.joined(1);
    for _ in 0..3 {
        all_get(true, REFUSED);
        all_get(false, hello());
    }
    // As a program that knows both addresses.
    let curl = "curl -sS --max-time 20 --resolve dual.test:80:[2600::1],11.0.0.1 http://dual.test/";
    assert_eq!(apart.run_there(curl), "hello");
    let new = apart.upgrade_primary().unwrap();
    assert!(primary.ends().success());
    all_get(true, REFUSED);
    all_get(false, hello());

    // The next proxy has both.
    sh(ROUTE_V6);
    let newer = bond.upgrade("proxy").unwrap();
    until("IPv6 is accepted", || get(here, true) == hello());
    all_get(true, hello());
    all_get(false, hello());

    // And the one after it has not.
    sh("ip -6 route del default via fd00:9::2");
    let newest = bond.upgrade("proxy").unwrap();
    until("IPv6 is refused", || get(here, true) == REFUSED);
    all_get(true, REFUSED);
    all_get(false, hello());
    assert!(!new.log().contains("panicked"));
    drop((proxy, newer, newest));
    guest.kill().unwrap();
    guest.wait().unwrap();
}

/// Starts a server at port 80 of all addresses of a namespace, which is not the origin.
fn start_local_server(pid: u32) -> std::thread::JoinHandle<()> {
    let there = std::fs::File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        nix::sched::setns(there, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let listener = TcpListener::bind("[::]:80").unwrap();
        ready.send(()).unwrap();
        for stream in listener.incoming() {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlocal";
            let _ = stream.and_then(|mut s| s.write_all(answer.as_bytes()));
        }
    });
    is_ready.recv().unwrap();
    server
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_direct() {
    if !is_called_for() {
        return;
    }
    let apart = set_up("", "");
    sh(ROUTE_V6);
    let here = apart.pid();
    let primary = apart.start_primary();
    primary.logs("no path to the proxy works: new connections go direct");
    until("IPv6 is refused", || get(here, true) == REFUSED);
    assert_eq!(get(here, false), hello());
    // This host's own families count, as they are now.
    apart.there(&["-6 route add default via fd00:9::1"]);
    until("IPv6 goes direct", || get(here, true) == hello());
    // The proxy's count while it is there.
    sh("ip -6 route del default via fd00:9::2");
    let proxy = apart.bond.start("proxy");
    apart.bond.joined(1);
    until("IPv6 is refused again", || get(here, true) == REFUSED);
    let lacks = || apart.bond.status("primary").unwrap().proxy_lacks;
    assert_eq!(lacks().as_deref(), Some("IPv6"));
    proxy.kill();
    until("IPv6 goes direct again", || get(here, true) == hello());
    assert_eq!(lacks(), None);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_fail() {
    if !is_called_for() {
        return;
    }
    let apart = set_up("on_proxy_loss = \"fail\"\n", "");
    let here = apart.pid();
    let primary = apart.start_primary();
    primary.logs("no path to the proxy works: new connections are refused");
    for v6 in [true, false] {
        until("both families are refused", || get(here, v6) == REFUSED);
    }
    let _proxy = apart.bond.start("proxy");
    apart.bond.joined(1);
    until("IPv4 goes through the proxy", || {
        get(here, false) == hello()
    });
    assert_eq!(get(here, true), REFUSED);
}
