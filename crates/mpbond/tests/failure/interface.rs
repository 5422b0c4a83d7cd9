//! Intercepted connections while the primary's own link loses its address, or is gone: in
//! namespaces of the test's own.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::apart::{Apart, connect_from};
use crate::daemons::{WITHIN, download_over, origin_at, until};
use crate::families::{V4, V6, resolver};
use mpbond_testing::names::resolv_conf;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, has_nft};

#[test]
fn intercepted_connections_do_without_the_primarys_own_link() {
    if !has_nft() {
        return;
    }
    if let Err(e) = File::options().write(true).open("/dev/net/tun") {
        return Need::Namespaces.is_missing(format_args!("/dev/net/tun: {e}"));
    }
    play("-Urnm", "interface::role");
}

/// Connects from the primary's namespace.
fn connect(apart: &Apart, to: SocketAddr) -> std::io::Result<TcpStream> {
    connect_from(apart.pid(), to)
}

/// The address that a service in the local network answers to.
fn seen_locally(apart: &Apart, service: SocketAddr) -> IpAddr {
    let mut text = String::new();
    let mut stream = connect(apart, service).unwrap();
    stream.read_to_string(&mut text).unwrap();
    text.parse().unwrap()
}

/// Answers each client with its address.
fn mirror(address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        loop {
            // A client that is refused is gone.
            let (mut stream, peer) = listener.accept().unwrap();
            let peer = peer.ip().to_string();
            let _ = std::io::Write::write_all(&mut stream, peer.as_bytes());
        }
    });
    address
}

/// What a primary might leave.
fn left(apart: &Apart) -> String {
    let text = apart.run_there("nft list tables; ip link; ip rule; ip -6 rule");
    let ours = text
        .lines()
        .filter(|l| l.contains("mpbond") || l.starts_with("900"));
    ours.collect()
}

fn set_up(apart: &Apart) {
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 2600::1/128 dev lo
        ip addr add fd00:9::1/64 dev far0 nodad
        ip route add default via 10.9.0.2
        ip -6 route add default via fd00:9::2");
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    // Everything that arrives from the primary by its own link, except the tunnel and answers.
    let port = bond.proxy.port();
    let file = bond.file("leaks.nft");
    let table = format!(
        "table inet leaks {{
             counter leaks {{ }}
             chain arriving {{
                 type filter hook prerouting priority -300;
                 iifname \"far0\" tcp dport {port} accept
                 iifname \"far0\" ip daddr 10.9.0.1 tcp dport 7000 accept
                 iifname \"far0\" meta l4proto {{ tcp, udp }} counter name leaks
             }}
         }}"
    );
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    // A name server of the own link's network.
    resolv_conf(&bond.file("resolv.conf"), "nameserver 10.9.0.1\n");
}

/// The own link comes up with this address.
fn link_comes(apart: &Apart, host: u8) {
    apart.there(&[
        "link set near0 up",
        &format!("addr add 10.9.0.{host}/24 dev near0"),
        &format!("addr add fd00:9::{host}/64 dev near0 nodad"),
        "route add default via 10.9.0.1",
        "-6 route add default via fd00:9::1",
    ]);
}

fn link_goes(apart: &Apart) {
    apart.there(&["link set near0 down", "addr flush dev near0"]);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    set_up(&apart);
    link_goes(&apart);
    link_comes(&apart, 2);
    resolver();
    let origins = [V4.into(), V6.into()].map(|ip: IpAddr| origin_at((ip, 80).into()));
    let service = mirror("10.9.0.1:7000".parse().unwrap());
    let plain = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();

    for mode in ["redirect", "tproxy"] {
        eprintln!("mode {mode}");
        let more = format!("[transparent]\nmode = \"{mode}\"\nresolvers = \"11.0.0.1\"\n");
        std::fs::write(bond.file("primary.toml"), plain.clone() + &more).unwrap();
        let primary = apart.start_primary();
        bond.joined(2);
        let begin =
            || origins.map(|origin| download_over(connect(&apart, origin).unwrap(), 5_000_000));
        let finish = |running: [crate::daemons::Download; 2]| {
            for download in running {
                assert_eq!(download.end().unwrap(), 5_000_000);
            }
        };

        // The address is replaced under downloads.
        let running = begin();
        link_goes(&apart);
        link_comes(&apart, 3);
        finish(running);
        bond.joined(2);
        let of_link: IpAddr = "10.9.0.3".parse().unwrap();
        assert_eq!(seen_locally(&apart, service), of_link);

        // The link goes and does not come back: connections begin, and names are found, without a
        // default route.
        let running = begin();
        link_goes(&apart);
        finish(running);
        let routes = apart.run_there("ip route; ip -6 route");
        assert!(!routes.contains("default"), "{routes}");
        finish(begin());
        until("both families are found", || {
            let found = apart.run_there("getent ahosts dual.test || true");
            found.contains("11.0.0.1") && found.contains("2600::1")
        });
        link_comes(&apart, 2);
        bond.joined(2);

        // A primary that is killed leaves nothing, also not its applications waiting.
        let waiting = origins.map(|origin| connect(&apart, origin).unwrap());
        until("the streams are open", || {
            let status = bond.status("primary").unwrap();
            status.sessions.first().is_some_and(|s| s.streams_open >= 2)
        });
        primary.kill();
        for mut stream in waiting {
            stream.set_read_timeout(Some(WITHIN)).unwrap();
            let end = stream.read(&mut [0; 1]);
            let timeout = std::io::ErrorKind::WouldBlock;
            assert!(!end.is_err_and(|e| e.kind() == timeout), "it waits");
        }
        until("nothing is left", || left(&apart).is_empty());

        // The next one, started at once, intercepts; told to stop, it leaves nothing.
        let mut primary = apart.start_primary();
        bond.joined(2);
        primary.stop();
        let left = left(&apart);
        assert!(left.is_empty(), "{left}");
    }
    let leaks = sh("nft list counter inet leaks leaks");
    assert!(leaks.contains("packets 0 bytes 0"), "{leaks}");

    // Without an interface of its own, which status says.
    sh("mount --bind /dev/null /dev/net/tun");
    let _primary = apart.start_primary();
    bond.joined(2);
    let notes = bond.status("primary").unwrap().notes;
    let says = |note: &String| note.contains("end with the address of its link");
    assert!(notes.iter().any(says), "{notes:?}");
}
