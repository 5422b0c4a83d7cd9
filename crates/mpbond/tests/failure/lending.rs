//! Own traffic of a helper beside what it lends, over a link of a known rate in namespaces of the
//! test's own: a download or an upload of the helper's own, and its round trips.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use mpbond_testing::has_tbf;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::apart::{Apart, connect_from};
use crate::daemons::{Bond, download, origin};

/// Payload of a link of 20 Mbit/s, in segments of 1448 octets.
const LINK_MBPS: f64 = 20.0;
const PAYLOAD_MBPS: f64 = LINK_MBPS * 1448.0 / 1514.0;

/// What lending may add to a round trip.
const ADDED: Duration = Duration::from_millis(20);

#[test]
fn own_traffic_goes_before_lent() {
    if has_tbf() {
        play("-Urnm", "lending::with_a_queue");
    }
}

#[test]
fn own_traffic_goes_before_lent_on_a_link_without_a_queue() {
    if has_tbf() {
        play("-Urnm", "lending::without_a_queue");
    }
}

/// Where octets come without end, and single ones come back.
fn server(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut asked = [0];
                while stream.read_exact(&mut asked).is_ok() {
                    let octets = if asked == [1] { 1 } else { 1 << 30 };
                    let block = vec![7; octets.min(1 << 16)];
                    for _ in 0..octets / block.len() {
                        if stream.write_all(&block).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// Takes all that comes, and counts it.
fn sink() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let count = came.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut block) = (stream.unwrap(), vec![0; 1 << 16]);
            let count = count.clone();
            thread::spawn(move || {
                while let Ok(n) = stream.read(&mut block)
                    && n > 0
                {
                    count.fetch_add(n as u64, Relaxed);
                }
            });
        }
    });
    (address, came)
}

/// Sends without end.
fn send(mut to: TcpStream) {
    thread::spawn(move || while to.write_all(&[7; 1 << 14]).is_ok() {});
}

/// Reads what comes until it is dropped.
struct OwnDownload {
    came: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
}

impl OwnDownload {
    fn begin(mut from: TcpStream) -> Self {
        let (came, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stop) = (came.clone(), ends.clone());
        from.write_all(&[0]).unwrap();
        thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            while !stop.load(Relaxed) {
                match from.read(&mut block) {
                    Ok(n) if n > 0 => count.fetch_add(n as u64, Relaxed),
                    _ => return,
                };
            }
        });
        Self { came, ends }
    }
}

impl Drop for OwnDownload {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
    }
}

/// Mbit/s of a count over a time, which is spent with `meanwhile`.
fn rate(count: impl Fn() -> u64, time: Duration, mut meanwhile: impl FnMut()) -> f64 {
    let (begun, before) = (Instant::now(), count());
    while begun.elapsed() < time {
        meanwhile();
    }
    (count() - before) as f64 * 8e-6 / begun.elapsed().as_secs_f64()
}

fn lent_bytes(bond: &Bond) -> u64 {
    let relayed = bond.status("helper").unwrap().relayed;
    relayed.iter().map(|r| r.bytes_down).sum()
}

fn round_trip(echo: &mut TcpStream) -> Duration {
    thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    echo.write_all(&[1]).unwrap();
    echo.read_exact(&mut [0]).unwrap();
    begun.elapsed()
}

#[test]
fn an_own_upload_goes_before_lent() {
    if has_tbf() {
        play("-Urnm", "lending::of_an_upload");
    }
}

#[test]
#[ignore = "a role of another test"]
fn of_an_upload() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let limit = |interface, mbps| {
        format!(
            "ip link set {interface} gso_max_segs 1; \
             tc qdisc add dev {interface} root tbf rate {mbps}mbit burst 8kb latency 200ms"
        )
    };
    apart.run_there(&limit("near0", 0.5));
    apart.helper_runs(&format!("sh -ec \"{}\"", limit("hs1", LINK_MBPS)));
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    bond.joined(2);
    let ((own, own_came), (lent, lent_came)) = (sink(), sink());
    send(bond.connect(([127, 0, 0, 1], lent.port()).into()).unwrap());
    thread::sleep(Duration::from_secs(2));
    let second = || thread::sleep(Duration::from_secs(1));
    let lent_mbps = rate(|| lent_came.load(Relaxed), Duration::from_secs(3), second);
    eprintln!("figure: idle: lent {lent_mbps:.2} Mbit/s");
    assert!(lent_mbps >= 0.95 * PAYLOAD_MBPS, "{lent_mbps} are lent");
    let own = ([10, 7, 0, 1], own.port()).into();
    send(connect_from(apart.helper_pid(), own).unwrap());
    thread::sleep(Duration::from_secs(6));
    let own_mbps = rate(|| own_came.load(Relaxed), Duration::from_secs(4), second);
    eprintln!("figure: own upload: {own_mbps:.2} Mbit/s");
    eprintln!("{:?}", bond.status("helper").unwrap().lent);
    assert!(own_mbps >= 0.95 * PAYLOAD_MBPS, "{own_mbps} Mbit/s own");
}

#[test]
#[ignore = "a role of another test"]
fn with_a_queue() {
    if is_called_for() {
        lend(true);
    }
}

#[test]
#[ignore = "a role of another test"]
fn without_a_queue() {
    if is_called_for() {
        lend(false);
    }
}

/// At the sender's own interface, the kernel lets a connection queue next to nothing. A queue needs
/// another hop before it.
fn add_a_hop() {
    sh("ip addr flush dev hs0
        ip link add hop type bridge
        ip link add gate0 type veth peer name gate1
        ip link set hs0 master hop
        ip link set gate1 master hop
        for link in hop gate1 gate0; do ip link set $link up; done
        ip link set gate0 gso_max_segs 1
        ip addr add 10.7.0.1/24 dev gate0");
}

fn lend(has_queue: bool) {
    let apart = Apart::with_helper();
    if has_queue {
        add_a_hop();
    }
    // Almost everything goes through the helper.
    for (interface, mbps, latency) in [("far0", 0.5, 200), ("hs0", LINK_MBPS, 200)] {
        sh(&format!(
            "ip link set {interface} gso_max_segs 1
             tc qdisc add dev {interface} root tbf rate {mbps}mbit burst 8kb latency {latency}ms"
        ));
    }
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    bond.joined(2);
    let (origin, near) = (origin(), server("10.7.0.1:0"));
    let mut echo = connect_from(apart.helper_pid(), near).unwrap();
    echo.set_nodelay(true).unwrap();
    let _lent = download(bond, origin, 1 << 30);
    thread::sleep(Duration::from_secs(5));
    let mut round_trips = Vec::new();
    let lent = rate(
        || lent_bytes(bond),
        Duration::from_secs(4),
        || round_trips.push(round_trip(&mut echo)),
    );
    round_trips.sort();
    let p90 = round_trips[round_trips.len() * 9 / 10];
    eprintln!("figure: idle: lent {lent:.2} Mbit/s, own round trips of {p90:?} (90 %)");
    eprintln!("{:?}", bond.status("helper").unwrap().lent);
    assert!(lent >= 0.95 * PAYLOAD_MBPS, "{lent} Mbit/s are lent");
    assert!(p90 <= ADDED, "{p90:?}");
    let own = OwnDownload::begin(connect_from(apart.helper_pid(), near).unwrap());
    thread::sleep(Duration::from_secs(6));
    let second = || thread::sleep(Duration::from_secs(1));
    let lent_before = lent_bytes(bond);
    let own_mbps = rate(|| own.came.load(Relaxed), Duration::from_secs(4), second);
    let lent = (lent_bytes(bond) - lent_before) as f64 * 8e-6 / 4.0;
    eprintln!("figure: own download: {own_mbps:.2} Mbit/s, lent {lent:.2} Mbit/s");
    eprintln!("{:?}", bond.status("helper").unwrap().lent);
    assert!(own_mbps >= 0.95 * PAYLOAD_MBPS, "{own_mbps} Mbit/s own");
    assert!(lent > 0.0, "nothing is lent");
    drop(own);
    thread::sleep(Duration::from_secs(2));
    let lent = rate(|| lent_bytes(bond), Duration::from_secs(2), second);
    eprintln!("figure: idle again: lent {lent:.2} Mbit/s");
    assert!(lent >= 0.9 * PAYLOAD_MBPS, "{lent} Mbit/s are lent again");
}
