//! Devices and strangers that would fill a daemon's log: what they cause is a few lines each.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mpbond::driver::{Clock, Driver, FairQueue, Notice, Seat, TransferLog};
use mpbond::memory::Memory;
use mpbond_net::control::{ControlChannel, Message, VERSION};
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::wire::{Frame, Secret};
use mpbond_session::{
    Capabilities, CloseCode, Limits, PathLabel, Session, SessionConfig, SubflowId, SubflowSetup,
};
use socket2::{Domain, Socket, Type};

use crate::daemons::{Bond, Daemon, WITHIN, Ways, origin};

/// Lines of one source at once, and the interval of further ones.
const AT_ONCE: u64 = 10;
const EVERY: Duration = Duration::from_secs(10);

/// Lines at once about connections of a trusted device.
const OF_TRUSTED: u64 = 60;

/// Connections of a stranger.
const CALLS: u64 = 400;

/// Starts a daemon that logs what daemons log by default.
pub fn start(bond: &Bond, role: &str) -> Daemon {
    bond.start_by(role, "exec \"$0\" \"$1\" --config \"$5\"")
}

/// The number of lines with these words.
fn lines(daemon: &Daemon, words: &str) -> u64 {
    let log = daemon.log();
    log.lines().filter(|line| line.contains(words)).count() as u64
}

/// Calls again and again from this address, says this, and waits for the end each time; the lines
/// that one source may have caused since.
fn calls(from: Ipv4Addr, to: SocketAddr, word: &[u8]) -> u64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(WITHIN)).unwrap();
        let _ = tcp.write_all(word);
        let _ = tcp.shutdown(Shutdown::Write);
        let _ = tcp.read_to_end(&mut Vec::new());
    }
    AT_ONCE + 1 + began.elapsed().as_secs() / EVERY.as_secs()
}

/// A stranger speaks another protocol to a proxy, and presents tickets to a helper that it never
/// gave.
#[test]
fn four_hundred_calls_of_a_stranger_are_ten_lines_and_those_of_another_one_ten_more() {
    let bond = Bond::new(Ways::Both, "", "");
    let (proxy, helper) = (start(&bond, "proxy"), start(&bond, "helper"));
    let http = b"GET / HTTP/1.1\r\nHost: proxy\r\n\r\n";
    let ticket = [b"MPR1".as_slice(), &[7; 32]].concat();
    for (daemon, to, word) in [
        (&proxy, bond.proxy, http.as_slice()),
        (&helper, bond.helper, &ticket),
    ] {
        for last in [8, 9] {
            let stranger = Ipv4Addr::new(127, 0, 0, last);
            let most = calls(stranger, to, word);
            let about = format!("{stranger}:");
            let count = lines(daemon, &about);
            let log = daemon.log();
            assert!((AT_ONCE..=most).contains(&count), "{count} lines: {log}");
        }
    }
    let _primary = start(&bond, "primary");
    bond.joined(2);
    assert!(bond.works(origin()));
}

/// The number of lines since `before`, and the number of those left out as the log tells it.
fn told(daemon: &Daemon, before: usize) -> (u64, u64) {
    let log = daemon.log()[before..].to_owned();
    let left_out = log.lines().filter_map(|line| {
        let (_, count) = line.split_once("left_out=")?;
        let digits = count.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    });
    (log.lines().count() as u64, left_out.sum())
}

/// Runs `device` with many TLS connections to a daemon, as the primary that it trusts: the lines
/// that this causes are few, and the rest is counted.
fn reconnects<D: AsyncFnMut(TlsStream)>(
    bond: &Bond,
    (role, to, daemon): (&str, SocketAddr, &Daemon),
    mut device: D,
) {
    let identity = |name: &str| Identity::load_or_create(bond.file(name)).unwrap();
    let own = identity("primary.pem");
    let expected = identity(&format!("{role}.pem")).id();
    let before = daemon.log().len();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut connect = async || {
            let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
            tcp.set_nodelay(true).unwrap();
            let soon = tokio::time::Instant::now() + WITHIN;
            let tls = TlsStream::connect(tcp, &own, expected, soon).await;
            device(tls.unwrap()).await;
        };
        let began = Instant::now();
        for _ in 0..CALLS {
            connect().await;
        }
        let (lines, _) = told(daemon, before);
        let most = OF_TRUSTED + 1 + began.elapsed().as_secs() / EVERY.as_secs();
        let log = daemon.log();
        assert!((OF_TRUSTED..=most).contains(&lines), "{lines} lines: {log}");
        // The next line tells the number of those left out.
        let deadline = Instant::now() + EVERY + WITHIN;
        loop {
            let (lines, left_out) = told(daemon, before);
            if lines + left_out >= CALLS {
                return;
            }
            let log = daemon.log();
            assert!(Instant::now() < deadline, "{lines}, {left_out}: {log}");
            tokio::time::sleep(Duration::from_millis(500)).await;
            connect().await;
        }
    });
}

/// A trusted device whose only subflow joins and breaks again and again.
#[test]
fn four_hundred_subflows_of_a_trusted_device_are_60_lines_and_the_number_left_out() {
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = start(&bond, "proxy");
    let mut session = None;
    reconnects(&bond, ("proxy", bond.proxy, &proxy), async |tls| {
        let (driver, notices) = session.get_or_insert_with(|| {
            let session = Session::client(SessionConfig::default(), [1; 32]);
            let seat = Seat::take(&FairQueue::start(), &Memory::unbounded()).unwrap();
            let (clock, log) = (Clock::start(), TransferLog::default());
            Driver::start(session, tls.peer_id(), clock, log, seat)
        });
        let setup = SubflowSetup {
            name: "own".to_owned(),
            ..SubflowSetup::default()
        };
        let id = driver.add_subflow(tls, setup);
        loop {
            match notices.recv().await.unwrap() {
                Notice::SubflowUp(up) if up == id => break,
                Notice::Lost(reason) => panic!("{reason}"),
                _ => {}
            }
        }
        driver.drop_subflow(id, "it is dropped");
    });
    let _primary = start(&bond, "primary");
    bond.joined(1);
    assert!(bond.works(origin()));
}

/// A trusted device that opens and closes its control connection again and again.
#[test]
fn four_hundred_visits_of_a_primary_at_a_helper_are_60_lines_and_the_number_left_out() {
    let bond = Bond::new(Ways::Both, "", "");
    let (_proxy, helper) = (start(&bond, "proxy"), start(&bond, "helper"));
    reconnects(&bond, ("helper", bond.helper, &helper), async |tls| {
        let mut control = ControlChannel::new(tls);
        let (version, name) = (VERSION, "primary".to_owned());
        control
            .send(&Message::Hello { version, name })
            .await
            .unwrap();
        let answer = control.receive().await.unwrap();
        assert!(matches!(answer, Some(Message::Hello { .. })), "{answer:?}");
        control.close().await.unwrap();
        while let Ok(Some(_)) = control.receive().await {}
    });
    let _primary = start(&bond, "primary");
    bond.joined(2);
    assert!(bond.works(origin()));
}

/// A trusted device whose session consists of GO_AWAY frames.
#[test]
fn four_hundred_kilobytes_of_go_away_are_one_line() {
    let bond = Bond::new(Ways::Own, "", "");
    let proxy = start(&bond, "proxy");
    let before = proxy.log().len();
    let identity = |name: &str| Identity::load_or_create(bond.file(name)).unwrap();
    let (own, expected) = (identity("primary.pem"), identity("proxy.pem").id());
    let to = bond.proxy;
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(flood(to, &own, expected));
    });
    // All frames before this one have been read.
    proxy.logs("flooded");
    assert!(bond.status("proxy").is_some(), "it goes on");
    let log = proxy.log();
    assert!(
        log.len() - before < 4_000,
        "{} octets: {log}",
        log.len() - before
    );
    assert_eq!(lines(&proxy, "takes no new streams"), 1, "{log}");
}

async fn flood(proxy: SocketAddr, own: &Identity, expected: DeviceId) {
    let tcp = tokio::net::TcpStream::connect(proxy).await.unwrap();
    let soon = tokio::time::Instant::now() + WITHIN;
    let tls = TlsStream::connect(tcp, own, expected, soon).await;
    let mut tls = tls.unwrap();
    let mut send = async |record: &[u8]| {
        tls.queue_record(record).unwrap();
        std::future::poll_fn(|cx| tls.poll_flush(cx)).await
    };
    let hello = Frame::MpCapable {
        random: Secret([1; 32]),
        subflow: SubflowId(0),
        limits: Limits {
            max_data: 1 << 20,
            max_stream_data: 1 << 20,
            max_streams: 8,
        },
        path: PathLabel {
            name: "own".to_owned(),
            ..PathLabel::default()
        },
        capabilities: Capabilities::of_this_version(None),
    };
    let mut record = Vec::new();
    hello.encode(&mut record);
    send(&record).await.unwrap();
    let away = Frame::GoAway {
        reason: "away".to_owned(),
    };
    let (mut record, mut sent) = (Vec::new(), 0);
    while record.len() < 10_000 {
        away.encode(&mut record);
    }
    while sent < 400_000 {
        sent += record.len();
        send(&record).await.unwrap();
    }
    let close = Frame::Close {
        code: CloseCode::Done,
        reason: "flooded".to_owned(),
    };
    let mut record = Vec::new();
    close.encode(&mut record);
    send(&record).await.unwrap();
    // A reset would discard what the proxy has not read.
    std::future::pending::<()>().await;
}
