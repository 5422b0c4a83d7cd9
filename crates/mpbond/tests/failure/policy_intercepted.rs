//! Rules of a policy, applied to intercepted connections, in namespaces of the test's own.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use nix::sys::signal::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::apart::{Apart, connect_from};
use crate::daemons::{WITHIN, until};
use crate::families::V4;
use crate::policy_reload::apply;

/// Address of the primary towards the origin.
const PRIMARY: &str = "10.9.0.2";

/// A server that sends each client the address from which it came.
pub fn mirror(port: u16) -> SocketAddr {
    let listener = TcpListener::bind((V4, port)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        loop {
            let (mut stream, from) = listener.accept().unwrap();
            // A client that is refused is gone.
            let _ = stream.write_all(from.ip().to_string().as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
            thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        }
    });
    address
}

/// The first message of a TLS client to a server of this name.
pub fn client_hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut octets = Vec::new();
    client.write_tls(&mut octets).unwrap();
    octets
}

/// A primary with an empty policy that intercepts connections to this host's public address.
pub fn intercepting(more: &str) -> Apart {
    let lines = format!("policy = \"policy.toml\"\n[transparent]\nmode = \"redirect\"\n{more}");
    let apart = Apart::with(&lines, "");
    sh(&format!("ip addr add {V4}/32 dev lo"));
    apart.there(&["route add default via 10.9.0.1"]);
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("127.0.0.0/8", "11.0.0.0/8")).unwrap();
    fs::write(bond.file("policy.toml"), "").unwrap();
    apart
}

/// The address that a mirror sees of a client beside the primary, which says this.
pub fn answer(apart: &Apart, to: SocketAddr, said: &[u8]) -> io::Result<String> {
    let mut stream = connect_from(apart.pid(), to)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.write_all(said)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn rules_apply_to_intercepted_connections() {
    if has_nft() {
        play("-Urnm", "policy_intercepted::role");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = intercepting("");
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let primary = apart.start_primary();
    bond.joined(1);
    let (web, other) = (mirror(80), mirror(81));
    let answer = |to, said: &[u8]| answer(&apart, to, said);
    let seen = |to| answer(to, b"");
    let through_proxy = V4.to_string();
    assert_eq!(seen(web).unwrap(), through_proxy);
    let put = |conditions: &str, set: &str| {
        let rule = format!("[[rule]]\nname = \"x\"\n{conditions}\nset = {set}\n");
        apply(bond, &rule);
    };
    put("uid = 0\nport = 80", "\"refuse\"");
    let error = seen(web).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    assert_eq!(seen(other).unwrap(), through_proxy);
    put("uid = 1", "\"refuse\"");
    assert_eq!(seen(web).unwrap(), through_proxy);
    put(&format!("ip = \"{V4}\"\nport = 80"), "\"direct\"");
    assert_eq!(seen(web).unwrap(), PRIMARY);
    assert_eq!(seen(other).unwrap(), through_proxy);
    put("domain = \"*.example.org\"", "\"refuse\"");
    // The ClientHello may be late on a busy machine.
    until("the name is refused", || {
        let answer = answer(web, &client_hello("www.example.org"));
        answer.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
    });
    let other_name = client_hello("www.example.com");
    assert_eq!(answer(web, &other_name).unwrap(), through_proxy);
    assert_eq!(answer(web, b"GET / HTTP/1.1\r\n").unwrap(), through_proxy);
    // It waits for the server to speak first.
    assert_eq!(seen(web).unwrap(), through_proxy);
    // A client that has closed its connection has no owner: a rule on its user may refuse it.
    apply(
        bond,
        "[[rule]]\nname = \"y\"\nuid = 65534\nset = \"refuse\"\n",
    );
    assert_eq!(seen(web).unwrap(), through_proxy);
    primary.signal(Signal::SIGSTOP);
    let mut closed = connect_from(apart.pid(), web).unwrap();
    closed.write_all(b"POST").unwrap();
    drop(closed);
    primary.signal(Signal::SIGCONT);
    until("the closed connection is refused", || {
        bond.status("primary").unwrap().rules[0].flows_total == 1
    });
}
