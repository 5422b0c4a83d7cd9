//! Throughput of links of known rates, as `mpbond status` shows it over time: never more than the
//! links carry. In namespaces of the test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::status::{Status, SubflowStatus};

use crate::apart::Apart;
use crate::daemons::{Bond, WITHIN, download, origin};
use mpbond_testing::has_tbf;
use mpbond_testing::namespaces::{is_called_for, play, sh};

/// Rates of the links in Mbit/s, towards the primary and away from it.
const OWN: [f64; 2] = [8.0, 4.0];
const PIPE: [f64; 2] = [5.0, 20.0];
const HS: [f64; 2] = [20.0, 3.0];

/// A link may send its burst at once: with it, the rate of a second is that much higher.
const BURST_BYTES: f64 = 8e3;
const SHORTEST_S: f64 = 1.0;

/// Octets of the upload: seconds on both links.
const UPLOAD_BYTES: usize = 4_000_000;

#[test]
fn the_throughput_shown_is_never_above_the_rate_of_the_link() {
    if has_tbf() {
        play("-Urnm", "status_rates::role");
    }
}

/// A line of shell that limits an interface. Each packet is one of the wire.
fn limit(interface: &str, mbps: f64) -> String {
    format!(
        "ip link set {interface} gso_max_segs 1; \
         tc qdisc add dev {interface} root tbf rate {mbps}mbit burst {BURST_BYTES} latency 200ms"
    )
}

/// The largest throughputs that were shown, as parts of the links' rates, and their number.
#[derive(Default)]
struct Shown {
    largest: f64,
    count: usize,
    excess: Vec<String>,
}

impl Shown {
    /// Takes what an end shows, which sends in this direction (0: towards the primary).
    fn look(&mut self, status: &Status, direction: usize) {
        for subflow in status.sessions.iter().flat_map(|s| &s.subflows) {
            let rate = match subflow.kind.as_str() {
                "direct" => OWN[direction],
                _ => HS[direction].min(PIPE[direction]),
            };
            if let Some(th) = subflow.th_mbps {
                self.note(subflow, th, rate);
            }
        }
    }

    fn note(&mut self, subflow: &SubflowStatus, th: f64, rate: f64) {
        self.count += 1;
        self.largest = self.largest.max(th / rate);
        let most = rate + BURST_BYTES * 8e-6 / SHORTEST_S;
        if th > most {
            let text = format!(
                "{} of {rate} Mbit/s: {th} ({})",
                subflow.name, subflow.state
            );
            self.excess.push(text);
        }
    }
}

/// Takes all that it gets.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    address
}

/// Small exchanges, for a while.
fn exchanges(bond: &Bond, origin: SocketAddr, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert!(bond.works_within(WITHIN, origin));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends octets to a [`sink`], until all have come.
fn upload(mut to: TcpStream) {
    to.set_write_timeout(Some(WITHIN)).unwrap();
    to.set_read_timeout(Some(WITHIN)).unwrap();
    to.write_all(&vec![7; UPLOAD_BYTES]).unwrap();
    to.shutdown(Shutdown::Write).unwrap();
    assert_eq!(to.read(&mut [0]).unwrap(), 0);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    sh(&limit("far0", OWN[0]));
    apart.run_there(&limit("near0", OWN[1]));
    apart.helper_runs(&format!("sh -ec \"{}\"", limit("pipe1", PIPE[0])));
    apart.run_there(&limit("pipe0", PIPE[1]));
    sh(&limit("hs0", HS[0]));
    apart.helper_runs(&format!("sh -ec \"{}\"", limit("hs1", HS[1])));
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let _helper = apart.start_helper();
    let _primary = apart.start_primary();
    bond.joined(2);
    let (origin, sink) = (origin(), sink());
    let mut shown = [Shown::default(), Shown::default()];
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            // Small pieces alone, a download, an upload, nothing, small pieces again.
            exchanges(bond, origin, Duration::from_secs(2));
            download(bond, origin, 6_000_000).end().unwrap();
            upload(bond.connect(sink).unwrap());
            thread::sleep(Duration::from_secs(2));
            exchanges(bond, origin, Duration::from_secs(2));
            download(bond, origin, 2_000_000).end().unwrap();
        });
        while !work.is_finished() {
            for (direction, end) in ["proxy", "primary"].iter().enumerate() {
                shown[direction].look(&bond.status(end).unwrap(), direction);
            }
            thread::sleep(Duration::from_millis(25));
        }
    });
    for (end, shown) in ["proxy", "primary"].iter().zip(&shown) {
        let Shown { largest, count, .. } = shown;
        eprintln!("figure: {end}: {count} values, at most {largest:.3} of the link's rate");
        assert!(*count > 20, "{end} shows {count} values");
        assert_eq!(shown.excess, Vec::<String>::new(), "{end}");
    }
}
