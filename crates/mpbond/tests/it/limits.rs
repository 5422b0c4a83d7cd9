//! What strangers and primaries may have at a time, at a proxy and at a helper: real daemons, on
//! loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{Destinations, HelperConfig, ProxyAddress, ProxyConfig, Uplink};
use mpbond_net::control::{ControlChannel, Direction, Message, RefusalCode, RequestId};
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use mpbond_testing::free_address as free;

fn wait_for(path: PathBuf) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while mpbond::status_socket::ask(&path).is_err() {
        assert!(Instant::now() < deadline, "it does not come up");
        thread::sleep(Duration::from_millis(10));
    }
}

fn proxy() -> (SocketAddr, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let listen = free();
    let config = ProxyConfig {
        listen: vec![listen],
        identity: folder.path().join("proxy.pem"),
        status_socket: folder.path().join("proxy.sock"),
        metrics: None,
        sandbox: true,
        trust: Vec::new(),
        scheduler: SchedulerKind::Mpbond,
        reinjection: ReinjectionRule::default(),
        feedback: FeedbackRule::default(),
        buffer_delay: BufferDelay::default(),
        congestion: None,
        resume_for: Duration::from_secs(60),
        destinations: Destinations::default(),
        serve: None,
        workers: Some(1),
        memory_bytes: None,
        ..ProxyConfig::default()
    };
    thread::spawn(move || mpbond::proxy::run(config, Arc::new(|_: &DeviceId| true)).unwrap());
    wait_for(folder.path().join("proxy.sock"));
    (listen, folder)
}

/// A helper that everyone may use, and its id.
fn helper(relays_to: SocketAddr) -> (SocketAddr, DeviceId, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let listen = free();
    let identity = folder.path().join("helper.pem");
    let id = Identity::load_or_create(&identity).unwrap().id();
    let config = HelperConfig {
        announce: false,
        ethernet_frames: false,
        name: "helper".to_owned(),
        listen,
        listen_unix: Vec::new(),
        identity,
        status_socket: folder.path().join("helper.sock"),
        metrics: None,
        sandbox: true,
        take_over: false,
        trust: Vec::new(),
        proxies: vec![ProxyAddress::At(relays_to)],
        uplink: Uplink::default(),
        buffer_bytes: 1 << 20,
        battery_floor: None,
        max_bytes_per_month: None,
        enabled: true,
        congestion: None,
    };
    thread::spawn(move || mpbond::helper::run(config, Arc::new(|_: &DeviceId| true)).unwrap());
    wait_for(folder.path().join("helper.sock"));
    (listen, id, folder)
}

/// A connection that is kept is watched for this long.
const A_MOMENT: Duration = Duration::from_millis(300);
/// One that is not kept is closed by then, also on a busy machine; and before the daemons' time
/// limit for silent ones.
const AT_ONCE: Duration = Duration::from_secs(8);

/// Whether the other end keeps a connection for this long that sends these octets and nothing else.
fn is_kept(stream: &mut TcpStream, say: &[u8], for_so_long: Duration) -> bool {
    let _ = stream.write_all(say);
    stream.set_read_timeout(Some(for_so_long)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(n) => n > 0,
        Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// One source gets so many connections, and the next one when one of these is gone.
fn one_source_gets(listen: SocketAddr, most: usize, say: &[u8]) {
    let connect = || TcpStream::connect(listen).unwrap();
    let mut kept: Vec<_> = (0..most).map(|_| connect()).collect();
    let mut too_many = connect();
    assert!(
        !is_kept(&mut too_many, say, AT_ONCE),
        "one more than {most}"
    );
    for stream in [0, most - 1] {
        let stream = &mut kept[stream];
        assert!(is_kept(stream, say, A_MOMENT), "one of {most}");
    }
    kept.pop();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_kept(&mut connect(), say, A_MOMENT) {
        assert!(
            Instant::now() < deadline,
            "what was given back is not given again"
        );
    }
}

#[test]
fn handshakes_of_one_source_at_a_proxy() {
    let (listen, _folder) = proxy();
    // The beginning of a ClientHello that never goes on.
    one_source_gets(listen, 64, &[0x16, 3, 1, 0, 200, 1]);
}

#[test]
fn openings_of_one_source_at_a_helper() {
    let (listen, _, _folder) = helper(free());
    one_source_gets(listen, 16, b"MPR1");
}

async fn control(listen: SocketAddr, helper: DeviceId, identity: &Identity) -> ControlChannel {
    let tcp = tokio::net::TcpStream::connect(listen).await.unwrap();
    let soon = tokio::time::Instant::now() + Duration::from_secs(20);
    let tls = TlsStream::connect(tcp, identity, helper, soon)
        .await
        .unwrap();
    let mut control = ControlChannel::new(tls);
    let (version, name) = (1, "primary".to_owned());
    control
        .send(&Message::Hello { version, name })
        .await
        .unwrap();
    control
}

/// The first message other than greetings.
async fn answer(control: &mut ControlChannel) -> Message {
    loop {
        match control.receive().await.unwrap().unwrap() {
            Message::Hello { .. } | Message::HelperState(_) => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn control_connections_of_one_primary() {
    let (listen, id, _folder) = helper(free());
    let one = Identity::generate().unwrap();
    let other = Identity::generate().unwrap();
    let mut kept = Vec::new();
    for token in 0..8 {
        let mut control = control(listen, id, &one).await;
        control.send(&Message::Ping { token }).await.unwrap();
        assert_eq!(answer(&mut control).await, Message::Pong { token });
        kept.push(control);
    }
    let mut ninth = control(listen, id, &one).await;
    let told = answer(&mut ninth).await;
    assert!(matches!(told, Message::Bye { .. }), "{told:?}");
    let mut another = control(listen, id, &other).await;
    another.send(&Message::Ping { token: 9 }).await.unwrap();
    assert_eq!(answer(&mut another).await, Message::Pong { token: 9 });
}

#[tokio::test]
async fn relays_of_one_primary() {
    // It accepts connections and sends nothing.
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = proxy.local_addr().unwrap();
    let (listen, id, _folder) = helper(to);
    let ask = async |control: &mut ControlChannel, n| {
        let (request, proxy) = (RequestId(n), to);
        control
            .send(&Message::InitMp {
                request,
                proxy,
                others: Vec::new(),
                max_segment_bytes: None,
            })
            .await
            .unwrap();
        answer(control).await
    };
    let one = Identity::generate().unwrap();
    let mut greedy = control(listen, id, &one).await;
    for n in 0..16 {
        let told = ask(&mut greedy, n).await;
        assert!(matches!(told, Message::Relay { .. }), "{n}: {told:?}");
    }
    // Also over a connection of its own: it is the device that counts.
    let mut again = control(listen, id, &one).await;
    for control in [&mut greedy, &mut again] {
        let told = ask(control, 99).await;
        let too_many = matches!(
            &told,
            Message::Refused {
                code: RefusalCode::TooMany,
                ..
            }
        );
        assert!(too_many, "{told:?}");
    }
    let other = Identity::generate().unwrap();
    let mut modest = control(listen, id, &other).await;
    let told = ask(&mut modest, 0).await;
    assert!(matches!(told, Message::Relay { .. }), "{told:?}");
}

#[tokio::test]
async fn measurements_of_one_primary() {
    let (listen, id, _folder) = helper(free());
    let ask = async |control: &mut ControlChannel| {
        let message = Message::MeasurePipe {
            request: RequestId(1),
            direction: Direction::Down,
        };
        control.send(&message).await.unwrap();
        answer(control).await
    };
    let one = Identity::generate().unwrap();
    let mut greedy = control(listen, id, &one).await;
    for _ in 0..2 {
        let told = ask(&mut greedy).await;
        assert!(matches!(told, Message::Relay { .. }), "{told:?}");
    }
    let told = ask(&mut greedy).await;
    let too_many = matches!(
        &told,
        Message::Refused {
            code: RefusalCode::TooMany,
            ..
        }
    );
    assert!(too_many, "{told:?}");
    let mut modest = control(listen, id, &Identity::generate().unwrap()).await;
    let told = ask(&mut modest).await;
    assert!(matches!(told, Message::Relay { .. }), "{told:?}");
}
