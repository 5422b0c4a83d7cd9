//! Thousands of intercepted connections at once, in namespaces of the test's own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Socket, Type};

use crate::apart::Apart;
use crate::families::V4;
use crate::fronts::{LONG, echo_at, takes_descriptors};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, has_nft};

const CONNECTIONS: u64 = 3_000;

#[test]
fn three_thousand_intercepted_connections_at_once_succeed() {
    // Both ends of each connection are sockets of the test.
    if has_nft() && takes_descriptors(9_000) {
        play("-Urnm", "fronts_intercepted::role");
    }
}

/// Connections from the network namespace of a process, all of which are on their way at once.
fn connect_all(pid: u32, to: SocketAddr) -> Vec<TcpStream> {
    let there = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let begin = move || {
        setns(there, CloneFlags::CLONE_NEWNET).unwrap();
        let connect = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            if let Err(e) = socket.connect(&to.into()) {
                assert_eq!(e.raw_os_error(), Some(libc::EINPROGRESS), "{e}");
            }
            // What is written waits for the connection.
            socket.set_nonblocking(false).unwrap();
            socket.set_write_timeout(Some(LONG)).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            TcpStream::from(socket)
        };
        (0..CONNECTIONS).map(connect).collect()
    };
    thread::spawn(begin).join().unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with("", "");
    sh(&format!("ip addr add {V4}/32 dev lo"));
    apart.there(&["route add default via 10.9.0.1"]);
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, text.replace("127.0.0.0/8", "11.0.0.0/8")).unwrap();
    let origin = echo_at((V4, 80).into());
    let plain = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let _proxy = bond.start("proxy");
    for mode in ["redirect", "tproxy"] {
        let more = format!("[transparent]\nmode = \"{mode}\"\n");
        std::fs::write(bond.file("primary.toml"), plain.clone() + &more).unwrap();
        let mut primary = apart.start_primary();
        bond.joined(1);
        let mut clients = connect_all(apart.pid(), origin);
        for (n, client) in (0_u64..).zip(&mut clients) {
            let sent = client.write_all(&n.to_be_bytes());
            assert!(sent.is_ok(), "{mode}: number {n}: {sent:?}");
        }
        for (n, client) in (0_u64..).zip(&mut clients) {
            let mut got = [0; 8];
            let read = client.read_exact(&mut got);
            assert!(read.is_ok(), "{mode}: number {n}: {read:?}");
            assert_eq!(u64::from_be_bytes(got), n, "{mode}");
        }
        // On a busy machine, some go direct while the path is silent.
        let status = bond.status("primary").unwrap();
        let open: u64 = status.sessions.iter().map(|s| s.streams_open).sum();
        let direct = status.direct_total.unwrap();
        assert_eq!(open + direct, CONNECTIONS, "{mode}: {direct} direct");
        if direct > 0 {
            Need::Idle.is_missing(format_args!("{mode}: {direct} connections went direct"));
        }
        drop(clients);
        primary.stop();
    }
}
