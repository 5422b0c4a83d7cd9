//! The three daemons on loopback: downloads and uploads over a direct path and helpers, through
//! SOCKS5, byte for byte.
// A failed expectation in a test's helper is the test's message too.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{
    Destinations, FrontAddress, HelperAddress, HelperConfig, HelperRef, OnProxyLoss, PathConfig,
    PrimaryConfig, ProxyAddress, ProxyConfig, ProxyRef, Uplink,
};
use mpbond::status::Status;
use mpbond_net::dest::Rule;
use mpbond_net::tls::Trust;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use mpbond_testing::free_address as free;

struct Only(DeviceId);

impl Trust for Only {
    fn trusts(&self, id: &DeviceId) -> bool {
        *id == self.0
    }
}

fn byte(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

fn is_pattern(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(i, b)| *b == byte(i))
}

/// An origin: reads eight octets of length and sends that many bytes; then reads until the
/// client's FIN and answers with how many bytes that were.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut s = stream.unwrap();
            thread::spawn(move || {
                let mut want = [0; 8];
                if s.read_exact(&mut want).is_err() {
                    return;
                }
                let bytes: Vec<u8> = (0..u64::from_be_bytes(want) as usize).map(byte).collect();
                s.write_all(&bytes).unwrap();
                let mut got = Vec::new();
                s.read_to_end(&mut got).unwrap();
                assert!(is_pattern(&got));
                s.write_all(&(got.len() as u64).to_be_bytes()).unwrap();
            });
        }
    });
    address
}

/// Running daemons; they end with the test's process.
struct Bond {
    /// The proxy's own port.
    listen: SocketAddr,
    socks5: SocketAddr,
    primary: PathBuf,
    proxy: PathBuf,
    _folder: tempfile::TempDir,
}

fn start(direct: bool, helpers: usize) -> Bond {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let id = |name: &str| Identity::load_or_create(file(name)).unwrap().id();
    let (proxy_id, primary_id) = (id("proxy.pem"), id("primary.pem"));
    let listen = free();
    let proxy = ProxyConfig {
        listen: vec![listen],
        identity: file("proxy.pem"),
        status_socket: file("proxy.sock"),
        metrics: None,
        sandbox: true,
        trust: vec![primary_id],
        scheduler: SchedulerKind::Mpbond,
        reinjection: ReinjectionRule::default(),
        feedback: FeedbackRule::default(),
        buffer_delay: BufferDelay::default(),
        congestion: None,
        resume_for: Duration::from_secs(60),
        destinations: Destinations {
            allow: vec!["127.0.0.0/8".parse::<Rule>().unwrap()],
            deny: Vec::new(),
        },
        serve: None,
        workers: Some(1),
        memory_bytes: None,
        ..ProxyConfig::default()
    };
    thread::spawn(move || mpbond::proxy::run(proxy, Arc::new(Only(primary_id))).unwrap());
    let helpers: Vec<HelperRef> = (0..helpers)
        .map(|n| {
            let (name, address) = (format!("helper{n}"), free());
            let identity = file(&format!("{name}.pem"));
            let helper = HelperConfig {
                name: name.clone(),
                listen: address,
                listen_unix: Vec::new(),
                identity: identity.clone(),
                status_socket: file(&format!("{name}.sock")),
                metrics: None,
                sandbox: true,
                take_over: false,
                trust: vec![primary_id],
                proxies: vec![ProxyAddress::At(listen)],
                uplink: Uplink::default(),
                buffer_bytes: 4 << 20,
                battery_floor: None,
                max_bytes_per_month: None,
                enabled: true,
                announce: false,
                ethernet_frames: false,
                congestion: None,
            };
            let helper_id = Identity::load_or_create(&identity).unwrap().id();
            thread::spawn(move || mpbond::helper::run(helper, Arc::new(Only(primary_id))).unwrap());
            HelperRef {
                name,
                address: HelperAddress::At(address.into()),
                id: helper_id,
                interface: None,
                source: None,
                backup: false,
                place: None,
                ethernet_frames: false,
                by_app: false,
                radios: None,
            }
        })
        .collect();
    let socks5 = free();
    let subflows = usize::from(direct) + helpers.len();
    let own = PathConfig {
        name: "own".to_owned(),
        interface: None,
        source: None,
        proxy: Vec::new(),
        backup: false,
    };
    let primary = PrimaryConfig {
        identity: file("primary.pem"),
        status_socket: file("primary.sock"),
        metrics: None,
        sandbox: true,
        take_over: false,
        scheduler: SchedulerKind::Mpbond,
        reinjection: ReinjectionRule::default(),
        buffer_delay: BufferDelay::default(),
        feedback: FeedbackRule::default(),
        congestion: None,
        resume_for: Duration::from_secs(60),
        on_proxy_loss: OnProxyLoss::Fail,
        proxy: ProxyRef::at(listen, proxy_id),
        paths: direct.then_some(own).into_iter().collect(),
        helpers,
        socks5: Some(FrontAddress::at(socks5)),
        http: None,
        transparent: None,
        policy: None,
    };
    thread::spawn(move || mpbond::primary::run(primary).unwrap());
    let bond = Bond {
        listen,
        socks5,
        primary: file("primary.sock"),
        proxy: file("proxy.sock"),
        _folder: folder,
    };
    let up = |s: &Status| {
        let session = s.sessions.first();
        session.is_some_and(|s| s.subflows.iter().filter(|f| f.state == "up").count() == subflows)
    };
    wait(&bond.primary, up);
    bond
}

/// The daemon's status as soon as it is as wanted.
fn wait(socket: &Path, wanted: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = mpbond::status_socket::ask(socket);
        match status {
            Ok(status) if wanted(&status) => return status,
            status => assert!(Instant::now() < deadline, "it stays like this: {status:#?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn connect(socks5: SocketAddr, to: SocketAddr) -> TcpStream {
    asked(socks5, to).unwrap()
}

/// The connection, or the code of the refusal.
fn asked(socks5: SocketAddr, to: SocketAddr) -> Result<TcpStream, u8> {
    let mut s = TcpStream::connect(socks5).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    s.write_all(&[5, 1, 0]).unwrap();
    let mut reply = [0; 2];
    s.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [5, 0]);
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only")
    };
    let mut request = vec![5, 1, 0, 1];
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(&to.port().to_be_bytes());
    s.write_all(&request).unwrap();
    let mut reply = [0; 10];
    s.read_exact(&mut reply).unwrap();
    match reply[1] {
        0 => Ok(s),
        code => Err(code),
    }
}

fn exchange(bond: &Bond, origin: SocketAddr, down: usize, up: usize) {
    let mut s = connect(bond.socks5, origin);
    s.write_all(&(down as u64).to_be_bytes()).unwrap();
    let mut got = vec![0; down];
    s.read_exact(&mut got).unwrap();
    assert!(is_pattern(&got));
    let bytes: Vec<u8> = (0..up).map(byte).collect();
    s.write_all(&bytes).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let mut count = Vec::new();
    s.read_to_end(&mut count).unwrap();
    assert_eq!(count, (up as u64).to_be_bytes());
}

#[test]
fn both_ways_over_a_path_and_a_helper() {
    let origin = origin();
    let bond = start(true, 1);
    exchange(&bond, origin, 30_000_000, 20_000_000);
    exchange(&bond, origin, 1, 0);
    let closed = |s: &Status| s.transfers.iter().filter(|t| t.state == "closed").count() == 2;
    let status = wait(&bond.primary, closed);
    let t = &status.transfers[0];
    assert_eq!((t.bytes_in, t.bytes_out), (30_000_008, 20_000_008));
    assert_eq!(t.destination, origin.to_string());
    let known = ["own", "helper0"];
    assert!(t.subflows.iter().all(|s| known.contains(&s.name.as_str())));
    assert_eq!(status.sessions[0].streams_open, 0);
    let proxy = wait(&bond.proxy, closed);
    assert_eq!(proxy.transfers[0].bytes_out, 30_000_008);
    assert_eq!(proxy.sessions[0].subflows.len(), 2);
}

#[test]
fn helpers_alone_will_do() {
    let origin = origin();
    let bond = start(false, 2);
    exchange(&bond, origin, 3_000_000, 3_000_000);
}

/// What measures other networks measures this one: traffic through the front, both ways.
#[test]
fn traffic_goes_through_the_front() {
    use mpbond_probe::traffic::{ClientOptions, Flow, Server, ServerOptions, Target, run};
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::start(ServerOptions::new(listen)).unwrap();
    let bond = start(true, 1);
    let target = Target::Socks5 {
        front: bond.socks5,
        host: "127.0.0.1".to_owned(),
        port: server.address().port(),
    };
    let chunks = Flow::chunks(3000, Duration::from_millis(20)).unwrap();
    let options = ClientOptions {
        down: Some(chunks),
        up: Some(chunks),
        duration: Duration::from_secs(1),
        ..ClientOptions::new(target)
    };
    let s = run(&options, |_| true).unwrap();
    assert!(s.complete() && s.losses.is_empty(), "{s:?}");
    assert_eq!((s.down.unwrap().records, s.up.unwrap().records), (50, 50));
    let seen = |s: &Status| s.transfers.iter().any(|t| t.bytes_in > 150_000);
    wait(&bond.primary, seen);
}

#[test]
fn many_connections_at_once() {
    let origin = origin();
    let bond = Arc::new(start(true, 1));
    let clients: Vec<_> = (0..40)
        .map(|n| {
            let bond = Arc::clone(&bond);
            thread::spawn(move || exchange(&bond, origin, 50_000 + n, 20_000))
        })
        .collect();
    for c in clients {
        c.join().unwrap();
    }
}

#[test]
fn refusals_and_resets_reach_the_other_side() {
    let bond = start(true, 0);
    let reset =
        |r: std::io::Result<usize>| r.map_err(|e| e.kind()) == Err(ErrorKind::ConnectionReset);
    // Nobody listens there; policy forbids that; the proxy itself is out of bounds.
    for (to, code) in [
        (free(), 5),
        ("192.168.1.1:80".parse().unwrap(), 2),
        (bond.listen, 2),
    ] {
        assert_eq!(asked(bond.socks5, to).map(drop), Err(code), "{to}");
    }
    // A client that resets its connection resets the origin's.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let s = connect(bond.socks5, listener.local_addr().unwrap());
    let (mut at_origin, _) = listener.accept().unwrap();
    socket2::SockRef::from(&s)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(s);
    assert!(reset(at_origin.read(&mut [0; 1])));
}
