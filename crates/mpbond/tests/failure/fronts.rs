//! Fronts of a primary: many clients, limits, passwords, and hosts of the local network.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use mpbond::driver::{Clock, Driver, FairQueue, Notice, Seat, Tcp, TransferLog};
use mpbond::memory::Memory;
use mpbond_net::sock_diag::SockDiag;
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::{Session, SessionConfig, SessionId, parse_hello};
use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, setfsuid};

use crate::apart::{Apart, HERE};
use crate::daemons::{Bond, WITHIN, Ways, until};

/// Clients of one program.
const MOST_EACH: usize = 12_288;

/// Those that have bytes, at once. The others stay in the queues of their origins.
const BUSY: usize = 3_072;

/// Whatever a slow machine needs for thousands of connections.
pub const LONG: Duration = Duration::from_secs(240);

/// Runs a future on a thread of its own.
fn play_aside(part: impl AsyncFnOnce() + Send + 'static) {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, part());
    });
}

/// An origin that returns what it reads; one thread for all connections.
fn echo() -> SocketAddr {
    echo_at((Ipv4Addr::LOCALHOST, 0).into())
}

/// The same at this address.
pub fn echo_at(address: SocketAddr) -> SocketAddr {
    let listener = std::net::TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    play_aside(async move || {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

fn socks5_request(to: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only")
    };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(&to.port().to_be_bytes());
    request
}

/// A client whose request is sent and whose reply is still to be read.
fn ask(front: SocketAddr, to: SocketAddr) -> TcpStream {
    let mut tcp = TcpStream::connect(front).unwrap();
    tcp.write_all(&socks5_request(to)).unwrap();
    tcp
}

/// The code of a SOCKS5 reply.
fn reply(tcp: &mut TcpStream) -> u8 {
    tcp.set_read_timeout(Some(LONG)).unwrap();
    let mut reply = [0; 12];
    tcp.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..3], [5, 0, 5]);
    reply[3]
}

fn echoes(tcp: &mut TcpStream, word: &[u8]) -> bool {
    let mut got = vec![0; word.len()];
    tcp.write_all(word).is_ok() && tcp.read_exact(&mut got).is_ok() && got == word
}

/// A connection from another address of this host.
fn from_elsewhere(front: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let other = SocketAddr::from(([127, 0, 0, 2], 0));
    socket.bind(&other.into()).unwrap();
    socket.connect(&front.into()).unwrap();
    socket.into()
}

/// Origins that accept nothing: the kernel holds their connections, without descriptors.
fn silent_origins(count: usize) -> Vec<socket2::Socket> {
    let listen = |_| {
        let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM);
        let socket = socket2::Socket::new(domain, kind, None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(&any.into()).unwrap();
        // As many as the kernel allows (net.core.somaxconn).
        socket.listen(i32::MAX).unwrap();
        socket
    };
    (0..count).map(listen).collect()
}

/// Does something with sockets of another user, as its programs would; only root can.
fn as_another_user<T: Send>(part: impl FnOnce() -> T + Send) -> Option<T> {
    let other = Uid::from_raw(65_534);
    let aside = || {
        // This thread's alone.
        setfsuid(other);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let owner = nix::sys::stat::fstat(&socket).unwrap().st_uid;
        if owner == other.as_raw() {
            return Some(part());
        }
        Need::Root.is_missing("sockets of another user");
        None
    };
    thread::scope(|scope| scope.spawn(aside).join().unwrap())
}

/// Sockets of the test itself: both ends of what it opens.
pub fn takes_descriptors(count: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < count {
        Need::Root.is_missing(format_args!("{hard} descriptors; {count} are needed"));
        return false;
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard).unwrap();
    true
}

/// Idle connections of one program do not cut others off: three quarters of a session's streams are
/// all that it gets, and what is beyond is refused before it is confirmed.
#[test]
fn twelve_thousand_connections_succeed_and_leave_room_for_others() {
    if !takes_descriptors((MOST_EACH + BUSY) as u64 + 1_000) {
        return;
    }
    let origin = echo();
    let bond = Bond::new(Ways::Own, "", "");
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let mut clients: Vec<_> = (0..BUSY).map(|_| ask(bond.socks5, origin)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(reply(client), 0, "number {n}");
        client.write_all(&(n as u64).to_be_bytes()).unwrap();
    }
    let silent = silent_origins((MOST_EACH - BUSY).div_ceil(BUSY));
    for origin in &silent {
        let to = origin.local_addr().unwrap().as_socket().unwrap();
        let mut some: Vec<_> = (0..BUSY).map(|_| ask(bond.socks5, to)).collect();
        for (n, client) in some.iter_mut().enumerate() {
            assert_eq!(reply(client), 0, "number {n} at {to}");
        }
        clients.extend(some);
    }
    assert_eq!(clients.len(), MOST_EACH);
    for (n, client) in clients.iter_mut().take(BUSY).enumerate() {
        let mut got = [0; 8];
        client.read_exact(&mut got).unwrap();
        assert_eq!(u64::from_be_bytes(got), n as u64);
    }

    assert_eq!(reply(&mut ask(bond.socks5, origin)), 1, "SOCKS5");
    let ends = (clients[0].local_addr().unwrap(), bond.socks5);
    let named = SockDiag::open().and_then(|diag| diag.find(ends.0, ends.1));
    if !matches!(named, Ok(Some(_))) {
        return eprintln!("this kernel does not name the owners of sockets: {named:?}");
    }
    // At another front or from another address it is the same program.
    let mut http = TcpStream::connect(bond.http).unwrap();
    http.set_read_timeout(Some(LONG)).unwrap();
    let request = format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    http.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    http.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 503");
    let mut other = from_elsewhere(bond.socks5);
    other.write_all(&socks5_request(origin)).unwrap();
    assert_eq!(reply(&mut other), 1);
    let another_user = as_another_user(|| {
        let mut tcp = ask(bond.socks5, origin);
        reply(&mut tcp) == 0 && echoes(&mut tcp, b"room")
    });
    assert_ne!(another_user, Some(false));

    // What is given back is given again.
    clients.drain(..10);
    until("a closed connection makes room", || {
        let mut client = ask(bond.socks5, origin);
        reply(&mut client) == 0 && echoes(&mut client, b"again")
    });
}

/// A proxy that allows eight streams, and connects all of them to this origin.
fn small_proxy(bond: &Bond, origin: SocketAddr) {
    const STREAMS: u64 = 8;
    let listen = bond.proxy;
    let identity = Identity::load_or_create(bond.file("proxy.pem")).unwrap();
    let (ready, is_ready) = mpsc::channel();
    play_aside(async move || {
        let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
        ready.send(()).unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let anyone = Arc::new(|_: &DeviceId| true);
        let soon = tokio::time::Instant::now() + WITHIN;
        let tls = TlsStream::accept(tcp, &identity, anyone, soon).await;
        let mut tls = tls.unwrap();
        let record = loop {
            if let Some(record) = tls.next_record().unwrap() {
                break record;
            }
            std::future::poll_fn(|cx| tls.poll_fill(cx)).await.unwrap();
        };
        let (hello, rest): (_, Bytes) = parse_hello(record.payload).unwrap();
        let config = SessionConfig {
            max_streams: STREAMS,
            ..SessionConfig::default()
        };
        let session = Session::server(config, SessionId([9; 16]), [4; 32], &hello);
        let queue = FairQueue::start();
        let seat = Seat::take(&queue, &Memory::unbounded()).unwrap();
        let (clock, log) = (Clock::start(), TransferLog::default());
        let peer = tls.peer_id();
        let (driver, mut notices) = Driver::start(session, peer, clock, log, seat);
        let end = record.ciphertext_end;
        driver.accept_subflow(tls, &hello, rest, end).unwrap();
        while let Some(notice) = notices.recv().await {
            if let Notice::Opened { stream, .. } = notice {
                let driver = driver.clone();
                tokio::task::spawn_local(async move {
                    assert!(driver.admits(stream));
                    let tcp = tokio::net::TcpStream::connect(origin).await.unwrap();
                    driver.attach(stream, Tcp::new(tcp));
                });
            }
        }
    });
    is_ready.recv().unwrap();
}

#[test]
fn a_connection_beyond_the_proxys_limit_waits_and_is_refused_before_it_is_confirmed() {
    let origin = echo();
    let bond = Bond::new(Ways::Own, "", "");
    small_proxy(&bond, origin);
    let _primary = bond.start("primary");
    bond.joined(1);
    let mut clients: Vec<_> = (0..8).map(|_| ask(bond.socks5, origin)).collect();
    for client in &mut clients {
        assert_eq!(reply(client), 0);
        assert!(echoes(client, b"open"));
    }
    let mut ninth = ask(bond.socks5, origin);
    let mut greeting = [0; 2];
    ninth.set_read_timeout(Some(LONG)).unwrap();
    ninth.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, [5, 0]);
    let soon = Some(Duration::from_millis(200));
    ninth.set_read_timeout(soon).unwrap();
    assert!(
        ninth.read(&mut [0; 1]).is_err(),
        "it is told neither yes nor no"
    );
    let mut tenth = ask(bond.socks5, origin);
    // One that ends makes room for one that waits.
    clients.pop();
    ninth.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = [0; 10];
    ninth.read_exact(&mut answer).unwrap();
    assert_eq!(answer[1], 0);
    assert!(echoes(&mut ninth, b"ninth"));
    // None ends for the other one, which is told so. Those that are open go on.
    assert_eq!(reply(&mut tenth), 1);
    assert!(echoes(&mut clients[0], b"still"));
}

/// A greeting with both methods, and the answer to it.
fn greet(front: SocketAddr, methods: &[u8]) -> (TcpStream, [u8; 2]) {
    let mut tcp = TcpStream::connect(front).unwrap();
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    let mut greeting = vec![5, methods.len() as u8];
    greeting.extend_from_slice(methods);
    tcp.write_all(&greeting).unwrap();
    let mut answer = [0; 2];
    tcp.read_exact(&mut answer).unwrap();
    (tcp, answer)
}

#[test]
fn a_front_with_a_password_serves_those_who_know_it() {
    let origin = echo();
    let bond = Bond::new(Ways::Own, "", "");
    let (config, password) = (bond.file("primary.toml"), bond.file("socks5.password"));
    let text = std::fs::read_to_string(&config).unwrap();
    let with = text.replace(
        "[socks5]\n",
        "[socks5]\ncredentials = \"socks5.password\"\n",
    );
    assert_ne!(text, with);
    std::fs::write(&config, with).unwrap();
    std::fs::write(&password, "anna:s3cret\n").unwrap();
    let mode = |mode| std::fs::set_permissions(&password, PermissionsExt::from_mode(mode)).unwrap();

    // Others may read it: the daemon does not start, and says what to do.
    mode(0o644);
    let tried = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["primary", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&tried.stderr);
    assert!(
        !tried.status.success() && error.contains("chmod 600"),
        "{error}"
    );

    mode(0o600);
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let (_, refused) = greet(bond.socks5, &[0]);
    assert_eq!(refused, [5, 0xff]);
    for (line, answer) in [("\x01\x04anna\x05wrong", 1), ("\x01\x04anna\x06s3cret", 0)] {
        let (mut tcp, method) = greet(bond.socks5, &[0, 2]);
        assert_eq!(method, [5, 2]);
        tcp.write_all(line.as_bytes()).unwrap();
        let mut status = [0; 2];
        tcp.read_exact(&mut status).unwrap();
        assert_eq!(status, [1, answer]);
        if answer == 0 {
            tcp.write_all(&socks5_request(origin)[3..]).unwrap();
            let mut granted = [0; 10];
            tcp.read_exact(&mut granted).unwrap();
            assert_eq!(granted[1], 0);
            assert!(echoes(&mut tcp, b"hello"));
        }
    }
}

#[test]
fn hosts_of_the_local_network_reach_only_public_addresses_in_direct_mode() {
    play("-Urnm", "fronts::reach_role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn reach_role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    // A service of the primary's host: its metrics.
    let bond = &apart.bond;
    let config = bond.file("primary.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("metrics = \"0.0.0.0:9092\"\n{text}")).unwrap();
    let _primary = apart.start_primary();
    let listen = |ip: Ipv4Addr| std::net::TcpListener::bind((ip, 0)).unwrap();
    let (public, private) = (listen(HERE), listen([10, 9, 0, 1].into()));
    // There is no proxy: connections go direct, from the primary's host.
    let code = |to: SocketAddr| bond.connect(to).err().unwrap_or(0);
    assert_eq!(code(public.local_addr().unwrap()), 0);
    for to in ["127.0.0.1:9092", "10.9.0.2:9092", "11.8.0.2:9092"] {
        assert_eq!(code(to.parse().unwrap()), 2, "{to}");
    }
    assert_eq!(
        code(private.local_addr().unwrap()),
        2,
        "a network of the primary's"
    );
    let by_name = bond.connect_to_name("localhost", 9092);
    assert_eq!(by_name.err(), Some(2));
}
