//! Peers that ask and do not read the answers: control connections, status sockets, metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond::status::Status;
use mpbond_net::control::{ControlChannel, Message, Opening, VERSION, read_opening};
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::wire::{Frame, Secret};
use mpbond_session::{Capabilities, Limits, PathLabel, SubflowId};
use mpbond_testing::free_address;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

use crate::daemons::{Bond, Daemon, WITHIN, Ways, download, origin, until};
use crate::texts::{identity, play, soon};
use crate::visitor::{control_over, runtime};

const BYTES: u32 = 20_000_000;

/// Memory that a daemon may need more than before: buffers of a download, and 64 KiB of messages.
const MORE_BYTES: u64 = 24 << 20;

const UNREAD: &str = "octets of control messages unread";

/// Resident memory of a daemon.
fn resident_bytes(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() << 10
}

/// Number of descriptors that a daemon has open.
fn descriptors(daemon: &Daemon) -> usize {
    let folder = fs::read_dir(format!("/proc/{}/fd", daemon.id()));
    folder.unwrap().count()
}

/// Pings, and does not read, until the other end closes the connection.
async fn ping_only(control: &mut ControlChannel) {
    for token in 0.. {
        let ping = Message::Ping { token };
        let sent = async {
            control.queue(&ping)?;
            control.flush().await
        };
        match timeout(WITHIN, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => panic!("it does not read the pings, either"),
        }
    }
}

/// A control connection of the primary's to the helper; little is on the way in its direction.
async fn control(bond: &Bond) -> ControlChannel {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let tcp = socket.connect(bond.helper).await.unwrap();
    control_over(bond, tcp).await
}

#[test]
fn a_primary_that_pings_a_helper_and_never_reads_is_dropped_and_relays_go_on() {
    let bond = Bond::new(Ways::Helper, "on_proxy_loss = \"fail\"", "");
    let _proxy = bond.start("proxy");
    let mut helper = bond.start("helper");
    let _primary = bond.start("primary");
    bond.joined(1);
    let before = resident_bytes(&helper);
    let running = download(&bond, origin(), BYTES);
    let runtime = runtime();
    let silent = runtime.block_on(async {
        ping_only(&mut control(&bond).await).await;
        // Another one, whose answers the helper keeps while it stops.
        let mut silent = control(&bond).await;
        for token in 0..1_000 {
            silent.send(&Message::Ping { token }).await.unwrap();
        }
        silent
    });
    helper.logs(UNREAD);
    assert_eq!(running.end().unwrap(), BYTES as usize);
    let more = resident_bytes(&helper).saturating_sub(before);
    assert!(more < MORE_BYTES, "{more} octets more");
    assert!(helper.stop().success());
    drop(silent);
}

/// A helper that greets, pings and never reads.
fn helper_that_pings(bond: &Bond) {
    let (listen, identity) = (bond.helper, identity(bond, "helper"));
    let listener = std::net::TcpListener::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    // Before a window is advertised: Linux drops what comes beyond one that was made smaller, and
    // with it the acknowledgements and the reset of the primary.
    let small = socket2::SockRef::from(&listener).set_recv_buffer_size(4_096);
    small.unwrap();
    play(async move || {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut tcp = tcp.into();
            let Ok(Opening::Control) = read_opening(&mut tcp, soon()).await else {
                continue;
            };
            let anyone = Arc::new(|_: &DeviceId| true);
            let Ok(tls) = TlsStream::accept(tcp, &identity, anyone, soon()).await else {
                continue;
            };
            let mut control = ControlChannel::new(tls);
            let (version, name) = (VERSION, "helper".to_owned());
            let _ = control.send(&Message::Hello { version, name }).await;
            ping_only(&mut control).await;
        }
    });
}

#[test]
fn a_helper_that_pings_a_primary_and_never_reads_is_dropped_and_other_paths_go_on() {
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    let _proxy = bond.start("proxy");
    helper_that_pings(&bond);
    let primary = bond.start("primary");
    bond.joined(1);
    let before = resident_bytes(&primary);
    let running = download(&bond, origin(), BYTES);
    primary.logs(UNREAD);
    assert_eq!(running.end().unwrap(), BYTES as usize);
    let more = resident_bytes(&primary).saturating_sub(before);
    assert!(more < MORE_BYTES, "{more} octets more");
    until("status has the reason", || {
        let links = bond.status("primary").unwrap().links;
        let errors = links.into_iter().filter_map(|l| l.error);
        errors.into_iter().any(|e| e.contains(UNREAD))
    });
}

/// Sessions of a device, the most that a proxy lets it have.
const SESSIONS: usize = 16;
const DEVICES: usize = 50;

/// Clients that ask for the status. Each has one made for it.
const CLIENTS: usize = 10;

/// A session with a path of the longest name, which stays.
async fn session(to: SocketAddr, own: &Identity, proxy: DeviceId) -> TlsStream {
    let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
    let tls = TlsStream::connect(tcp, own, proxy, soon()).await;
    let mut tls = tls.unwrap();
    let hello = Frame::MpCapable {
        random: Secret([1; 32]),
        subflow: SubflowId(0),
        limits: Limits {
            max_data: 1 << 20,
            max_stream_data: 1 << 20,
            max_streams: 8,
        },
        path: PathLabel {
            name: "n".repeat(64),
            ..PathLabel::default()
        },
        capabilities: Capabilities::of_this_version(None),
    };
    let mut record = Vec::new();
    hello.encode(&mut record);
    tls.queue_record(&record).unwrap();
    std::future::poll_fn(|cx| tls.poll_flush(cx)).await.unwrap();
    // With its answer, the proxy no longer counts the connection among those that may be strangers.
    while tls.next_record().unwrap().is_none() {
        std::future::poll_fn(|cx| tls.poll_fill(cx)).await.unwrap();
    }
    tls
}

#[test]
fn clients_that_do_not_read_a_long_status_are_dropped_and_others_have_theirs() {
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    let proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let trusted = TrustFile::beside(&bond.file("proxy.pem"));
    let (to, id) = (bond.proxy, identity(&bond, "proxy").id());
    let runtime = runtime();
    let _sessions = runtime.block_on(async {
        let mut sessions = Vec::new();
        for n in 0..DEVICES {
            let (own, name) = (Identity::generate().unwrap(), n.to_string());
            trusted.add(&TrustedDevice { id: own.id(), name }).unwrap();
            for _ in 0..SESSIONS {
                sessions.push(session(to, &own, id).await);
            }
        }
        sessions
    });
    until("all sessions are shown", || {
        bond.status("proxy").unwrap().sessions.len() == DEVICES * SESSIONS + 1
    });
    let before = (resident_bytes(&proxy), descriptors(&proxy));
    let running = download(&bond, origin(), BYTES);
    let silent: Vec<UnixStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = UnixStream::connect(bond.file("proxy.sock")).unwrap();
            client.write_all(b"\n").unwrap();
            client
        })
        .collect();
    until("another one has its status", || {
        bond.status("proxy").is_some()
    });
    assert!(bond.works(origin()));
    assert_eq!(running.end().unwrap(), BYTES as usize);
    until("all are dropped", || descriptors(&proxy) <= before.1);
    for mut client in silent {
        client.set_read_timeout(Some(WITHIN)).unwrap();
        let mut text = Vec::new();
        client.read_to_end(&mut text).unwrap();
        let cut = serde_json::from_slice::<Status>(&text);
        assert!(cut.is_err_and(|e| e.is_eof()), "{} octets", text.len());
    }
    let more = resident_bytes(&proxy).saturating_sub(before.0);
    assert!(more < 2 * MORE_BYTES, "{more} octets more");
}

/// More wait in the kernel's queue.
const SCRAPERS: usize = 16;

#[test]
fn sixteen_scrapers_that_say_nothing_keep_the_next_one_waiting_for_5_s() {
    let address = free_address();
    let bond = Bond::new(Ways::Own, "", &format!("metrics = \"{address}\""));
    let _proxy = bond.start("proxy");
    let connect = || TcpStream::connect(address).unwrap();
    let began = Instant::now();
    let silent: Vec<TcpStream> = (0..SCRAPERS).map(|_| connect()).collect();
    let mut scraper = connect();
    scraper.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    scraper.set_read_timeout(Some(WITHIN)).unwrap();
    let mut page = String::new();
    scraper.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.0 200"), "{page}");
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(4_900), "{waited:?}");
    for mut closed in silent {
        closed.set_read_timeout(Some(WITHIN)).unwrap();
        assert_eq!(closed.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn a_peer_that_goes_on_behind_the_end_of_its_tls_stream_loses_the_connection() {
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let [own, proxy] = ["primary", "proxy"].map(|name| identity(&bond, name));
    let goes_on = async {
        let mut tls = session(bond.proxy, &own, proxy.id()).await;
        tls.close();
        std::future::poll_fn(|cx| tls.poll_flush(cx)).await.unwrap();
        let (tcp, octets) = (tls.tcp().unwrap(), vec![0; 64 << 10]);
        loop {
            tcp.writable().await.unwrap();
            match tcp.try_write(&octets) {
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
    };
    let ended = runtime().block_on(async { timeout(WITHIN, goes_on).await });
    ended.expect("what nobody takes is read");
}
