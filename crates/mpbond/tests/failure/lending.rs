//! Own traffic of a device beside what it lends, over a link of 20 Mbit/s in namespaces of the
//! test's own.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_testing::has_tbf;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::apart::{Apart, connect_from};
use crate::daemons::{Bond, Daemon, socks5_at, until};

/// Payload of a link of 20 Mbit/s, in segments of 1448 octets.
const LINK_MBPS: f64 = 20.0;
const PAYLOAD_MBPS: f64 = LINK_MBPS * 1448.0 / 1514.0;

/// The tests have the machine in turn: each fills a link.
static TURN: Mutex<()> = Mutex::new(());

/// Port of the SOCKS front of a device with several roles.
const OWN_FRONT: u16 = 1080;

#[test]
fn an_own_download_goes_before_lent() {
    play_in_turn("download");
}

#[test]
fn an_own_upload_goes_before_lent() {
    play_in_turn("upload");
}

#[test]
fn a_download_of_the_own_primary_goes_before_lent() {
    play_in_turn("download_of_up");
}

fn play_in_turn(role: &str) {
    if has_tbf() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        play("-Urnm", &format!("lending::{role}"));
    }
}

/// Figures of ADR 0041.
#[test]
#[ignore = "takes ten minutes"]
fn figures() {
    for role in [
        "figure_down",
        "figure_down_fair",
        "figure_up",
        "figure_up_fair",
        "figure_dual",
    ] {
        play_in_turn(role);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Down,
    Up,
}

/// What is run and measured.
struct Setting {
    way: Way,
    /// The link's queue; none: the kernel serves flows in turn, before the link.
    queue_ms: Option<u64>,
    /// The helper is a role of a device whose primary has the own download.
    dual: bool,
    /// Of a minute, which has two trials.
    figures: bool,
}

impl Setting {
    const fn new(way: Way, queue_ms: Option<u64>, dual: bool, figures: bool) -> Self {
        Self {
            way,
            queue_ms,
            dual,
            figures,
        }
    }
}

#[test]
#[ignore = "a role of another test"]
fn download() {
    lend(&Setting::new(Way::Down, Some(100), false, false));
}

#[test]
#[ignore = "a role of another test"]
fn upload() {
    lend(&Setting::new(Way::Up, Some(100), false, false));
}

#[test]
#[ignore = "a role of another test"]
fn download_of_up() {
    lend(&Setting::new(Way::Down, Some(100), true, false));
}

#[test]
#[ignore = "a role of another test"]
fn figure_down() {
    lend(&Setting::new(Way::Down, Some(100), false, true));
}

#[test]
#[ignore = "a role of another test"]
fn figure_down_fair() {
    lend(&Setting::new(Way::Down, None, false, true));
}

#[test]
#[ignore = "a role of another test"]
fn figure_up() {
    lend(&Setting::new(Way::Up, Some(100), false, true));
}

#[test]
#[ignore = "a role of another test"]
fn figure_up_fair() {
    lend(&Setting::new(Way::Up, None, false, true));
}

#[test]
#[ignore = "a role of another test"]
fn figure_dual() {
    lend(&Setting::new(Way::Down, Some(100), true, true));
}

/// Sends without end to who writes an octet, and counts what others send.
fn server() -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let (port, came) = (listener.local_addr().unwrap().port(), Arc::default());
    let count: Arc<AtomicU64> = Arc::clone(&came);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, count) = (stream.unwrap(), count.clone());
            thread::spawn(move || {
                let mut block = vec![0; 1 << 16];
                while let Ok(n) = stream.read(&mut block)
                    && n > 0
                {
                    if n == 1 {
                        while stream.write_all(&block).is_ok() {}
                    }
                    count.fetch_add(n as u64, Relaxed);
                }
            });
        }
    });
    (port, came)
}

/// A transfer that ends when it is dropped.
struct Transfer {
    stream: TcpStream,
    came: Arc<AtomicU64>,
}

impl Transfer {
    fn download(mut stream: TcpStream) -> Self {
        let came: Arc<AtomicU64> = Arc::default();
        stream.write_all(&[0]).unwrap();
        let (mut from, count) = (stream.try_clone().unwrap(), came.clone());
        thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            while let Ok(n) = from.read(&mut block)
                && n > 0
            {
                count.fetch_add(n as u64, Relaxed);
            }
        });
        Self { stream, came }
    }

    /// `came` is the server's count.
    fn upload(stream: TcpStream, came: Arc<AtomicU64>) -> Self {
        let mut to = stream.try_clone().unwrap();
        thread::spawn(move || while to.write_all(&[7; 1 << 14]).is_ok() {});
        Self { stream, came }
    }

    fn begin(way: Way, stream: TcpStream, came: &Arc<AtomicU64>) -> Self {
        match way {
            Way::Down => Self::download(stream),
            Way::Up => Self::upload(stream, Arc::clone(came)),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Part of the link that counts have had in these seconds.
fn parts<const N: usize>(counts: [&dyn Fn() -> u64; N], seconds: u64) -> [f64; N] {
    let (begun, before) = (Instant::now(), counts.map(|count| count()));
    thread::sleep(Duration::from_secs(seconds));
    let time = begun.elapsed().as_secs_f64();
    let mut now = counts.map(|count| count() as f64);
    for (now, before) in now.iter_mut().zip(before) {
        *now = (*now - before as f64) * 8e-6 / time / PAYLOAD_MBPS;
    }
    now
}

/// Bytes that the helper has relayed in this direction.
fn lent_bytes(bond: &Bond, way: Way) -> u64 {
    let relayed = bond.status("helper").unwrap().relayed;
    let bytes = relayed.iter().map(|r| match way {
        Way::Down => r.bytes_down,
        Way::Up => r.bytes_up,
    });
    bytes.sum()
}

/// A line of shell that limits what an interface sends.
fn limit(interface: &str, mbps: f64, queue_ms: u64) -> String {
    format!(
        "ip link set {interface} gso_max_segs 1; \
         tc qdisc add dev {interface} root tbf rate {mbps}mbit burst 8kb latency {queue_ms}ms"
    )
}

/// The link of the helper, of the same rate both ways. At the sender's own interface, the kernel
/// lets a connection queue next to nothing. A queue needs another hop before it.
fn limit_link(apart: &Apart, queue_ms: Option<u64>) {
    let Some(queue_ms) = queue_ms else {
        sh(&limit("hs0", LINK_MBPS, 100));
        apart.helper_runs(&format!("sh -ec \"{}\"", limit("hs1", LINK_MBPS, 100)));
        return;
    };
    sh("ip addr flush dev hs0
        ip link add hop type bridge
        ip link set hop arp off
        ip link add gate0 type veth peer name gate1
        ip link set hs0 master hop
        ip link set gate1 master hop
        for link in hop gate1 gate0; do ip link set $link up; done
        ip link set gate0 gso_max_segs 1
        ip addr add 10.7.0.1/24 dev gate0");
    apart.helper_runs("ip link set hs1 gso_max_segs 1");
    sh(&limit("hs0", LINK_MBPS, queue_ms));
    sh(&limit("gate1", LINK_MBPS, queue_ms));
}

/// Starts the helper, alone or as a role beside a primary.
fn start_helper(apart: &Apart, dual: bool) -> Daemon {
    if !dual {
        return apart.start_helper();
    }
    let bond = &apart.bond;
    let helper = std::fs::read_to_string(bond.file("helper.toml")).unwrap();
    let (identity, helper) = helper.split_once('\n').unwrap();
    let proxy = bond.proxy.port();
    let text = format!(
        "{identity}\n[helper]\n{helper}\n[primary]\nstatus_socket = \"own.sock\"\n\
         [primary.proxy]\naddress = \"10.9.0.1:{proxy}\"\nid = \"{}\"\n\
         [[primary.path]]\nname = \"own\"\n[primary.socks5]\nlisten = \"127.0.0.1:{OWN_FRONT}\"\n",
        bond.id("proxy")
    );
    std::fs::write(bond.file("up.toml"), text).unwrap();
    let daemon = apart.start_up_at_helper();
    until(&format!("both roles serve: {}", daemon.log()), || {
        let primary = bond.status("own");
        let session = primary.as_ref().and_then(|status| status.sessions.first());
        bond.status("helper").is_some() && session.is_some_and(|s| !s.subflows.is_empty())
    });
    daemon
}

fn lend(setting: &Setting) {
    if !is_called_for() {
        return;
    }
    let way = setting.way;
    let (seconds, times) = if setting.figures { (62, 1) } else { (3, 3) };
    let apart = Apart::with_helper();
    limit_link(&apart, setting.queue_ms);
    // Almost everything goes through the helper.
    sh(&limit("far0", 0.5, 200));
    apart.run_there(&limit("near0", 0.5, 200));
    let bond = &apart.bond;
    let id = bond.id("helper");
    let name = "helper".to_owned();
    let trusted = TrustFile::beside(&bond.file("proxy.pem"));
    trusted.add(&TrustedDevice { id, name }).unwrap();
    let _proxy = bond.start("proxy");
    let helper = start_helper(&apart, setting.dual);
    let _primary = apart.start_primary();
    bond.joined(2);
    let (own_port, own_came) = server();
    let (lent_port, lent_came) = server();
    let begin_own = || {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let stream = match setting.dual {
            true => {
                let front = connect_from(apart.helper_pid(), local(OWN_FRONT)).unwrap();
                socks5_at(front, local(own_port))
            }
            false => connect_from(apart.helper_pid(), ([10, 7, 0, 1], own_port).into()).unwrap(),
        };
        Transfer::begin(way, stream, &own_came)
    };
    let lent = || lent_bytes(bond, way);

    let own = begin_own();
    thread::sleep(Duration::from_secs(1));
    let [alone] = parts([&|| own.came.load(Relaxed)], 3);
    drop(own);

    let stream = bond.connect(([127, 0, 0, 1], lent_port).into()).unwrap();
    let _lent = Transfer::begin(way, stream, &lent_came);
    thread::sleep(Duration::from_secs(4));
    let [idle] = parts([&lent], seconds);
    let logged = helper.log();
    let limits: Vec<_> = logged
        .lines()
        .filter(|l| l.contains("own traffic"))
        .collect();

    let own = begin_own();
    thread::sleep(Duration::from_secs(4));
    // A trial disturbs two of the short measurements at most.
    let beside = (0..times).map(|_| parts([&|| own.came.load(Relaxed), &lent], seconds));
    let beside: Vec<_> = beside.collect();
    let most = beside.iter().map(|[own, _]| *own).fold(0.0, f64::max);
    let least = beside.iter().map(|[_, lent]| *lent).fold(1.0, f64::min);
    drop(own);

    let (ended, mut again) = (Instant::now(), 0.0);
    while again < 0.8 * idle && ended.elapsed() < Duration::from_secs(30) {
        [again] = parts([&lent], 1);
    }
    let recovery = ended.elapsed();
    eprintln!(
        "figure: own alone {alone:.3}, lent while idle {idle:.3}, own and lent beside each other \
         {beside:.3?}; lent again {again:.3} after {recovery:.1?}; limits while idle {limits:#?}"
    );
    // Wide limits, for a machine with other load. Without the ledger, an own download has about
    // half of the link.
    assert!(idle >= 0.8 * alone, "{idle} are lent, {alone} alone");
    assert!(most >= 0.9 * alone, "{most} own, {alone} alone");
    assert!(least > 0.0, "nothing is lent");
    assert!(recovery <= Duration::from_secs(8), "{recovery:?}");
}
