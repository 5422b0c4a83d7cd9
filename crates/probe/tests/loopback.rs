//! Probes over loopback: every method is answered, and the clocks stand in their order.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_testing::{Need, free_address};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use mpbond_probe::{
    KernelSource, Method, Options, Probe, ProbeError, Server, ServerOptions, Summary, run,
};

fn server(address: &str) -> Server {
    let listen = address.parse().unwrap();
    Server::start(ServerOptions { listen }).unwrap()
}

fn options(target: SocketAddr, method: Method) -> Options {
    let mut options = Options::new(target, method);
    options.count = 50;
    options.interval = Duration::from_millis(1);
    options.timeout = Duration::from_secs(5);
    options
}

fn probes(options: &Options) -> (Vec<Probe>, Summary) {
    let mut all = Vec::new();
    let summary = run(options, |p| {
        all.push(*p);
        true
    });
    (all, summary.unwrap())
}

/// User, kernel, kernel, user: each later than the one before.
fn in_order(probe: &Probe) {
    let (user, kernel) = (probe.stamps.user.unwrap(), probe.stamps.kernel.unwrap());
    assert_eq!(kernel.source, KernelSource::SoTimestamping);
    let order = [user.out_ns, kernel.out_ns, kernel.in_ns, user.in_ns];
    assert!(order.is_sorted(), "{order:?}");
    assert!(probe.d_u_us.unwrap() >= probe.d_k_us.unwrap());
    assert_eq!(probe.d_n_us, None, "loopback has no hardware");
}

#[test]
fn datagrams_are_answered_and_stamped_by_both_ends() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        let (all, s) = probes(&options(server.address(), Method::Udp));
        assert_eq!((s.sent, s.lost, s.duplicates, all.len()), (50, 0, 0, 50));
        all.iter().for_each(in_order);
        // Both ends have the same clock here: the truth is 0, and it lies within the bound.
        let clock = s.clock.unwrap();
        let (offset_us, error_us) = (clock.offset_us.unwrap(), clock.offset_error_us.unwrap());
        assert!(offset_us.abs() <= error_us + 0.001, "{clock:?}");
        assert!(!clock.drifted);
        assert!(s.one_way_out_us.unwrap().min > 0.0);
        assert!(s.delta_d_u_out_us.unwrap().min > 0.0);
    }
}

/// A server that answers the first `count` probes with the stamps that `stamps` makes of their
/// number and the present time, `times` times each.
fn server_with_stamps(
    count: u32,
    times: usize,
    stamps: fn(u32, u64) -> (u64, u64),
) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let answering = std::thread::spawn(move || {
        let mut message = [0; 200];
        for seq in 0..count {
            let (bytes, from) = socket.recv_from(&mut message).unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let (t2, t3) = stamps(seq, now.as_nanos() as u64);
            message[5] = 1;
            message[24..32].copy_from_slice(&t2.to_be_bytes());
            message[32..40].copy_from_slice(&t3.to_be_bytes());
            for _ in 0..times {
                socket.send_to(&message[..bytes], from).unwrap();
            }
        }
    });
    (address, answering)
}

/// The server's clock is set forward by an hour after 25 probes: two segments, none averaged.
#[test]
fn a_servers_clock_that_is_set_is_reported() {
    const HOUR: u64 = 3_600_000_000_000;
    let set = |seq: u32, now| {
        if seq < 25 {
            (now, now)
        } else {
            (now + HOUR, now + HOUR)
        }
    };
    let (address, answering) = server_with_stamps(50, 1, set);
    let (_, s) = probes(&options(address, Method::Udp));
    answering.join().unwrap();
    let clock = s.clock.unwrap();
    assert!(clock.drifted && clock.offset_us.is_none(), "{clock:?}");
    assert_eq!((clock.segments.len(), clock.crossed), (2, 0), "{clock:?}");
    for (segment, true_us) in clock.segments.iter().zip([0.0, 3.6e9]) {
        assert_eq!(segment.exchanges, 25);
        assert!((segment.out.offset_us - true_us).abs() <= segment.out.offset_error_us + 0.5);
    }
    // Each delay is corrected by its own segment.
    assert!(s.one_way_out_us.unwrap().max < 1e7);
}

/// A server that claims to have kept each second probe for an hour, and answers everything twice.
#[test]
fn stamps_that_contradict_each_other_and_second_answers_are_reported() {
    let contradictory = |seq: u32, now| (now, now + u64::from(seq % 2) * 3_600_000_000_000);
    let (address, answering) = server_with_stamps(50, 2, contradictory);
    let (_, s) = probes(&options(address, Method::Udp));
    answering.join().unwrap();
    let clock = s.clock.unwrap();
    assert_eq!((clock.crossed, clock.drifted), (25, false), "{clock:?}");
    assert_eq!(clock.segments[0].exchanges, 25);
    assert!(clock.offset_us.unwrap().abs() <= clock.offset_error_us.unwrap() + 0.001);
    assert_eq!(s.one_way_out_us.unwrap().count, 25);
    // The last second answer may come after the run.
    assert!((49..=50).contains(&s.duplicates), "{}", s.duplicates);
}

#[test]
fn http_is_answered_on_one_connection() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        let (all, s) = probes(&options(server.address(), Method::Http));
        assert_eq!((s.sent, s.lost), (50, 0));
        all.iter().for_each(in_order);
    }
}

/// Answers TLS handshakes and nothing after them.
fn tls_server(address: &str) -> SocketAddr {
    let certified = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client leaves as soon as it has the flight.
            let _ = tls.complete_io(&mut stream.unwrap());
        }
    });
    address
}

#[test]
fn tls_flights_are_probes() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut o = options(tls_server(address), Method::Tls);
        o.count = 10;
        for name in [None, Some("a.example".to_owned())] {
            o.server_name = name;
            let (all, s) = probes(&o);
            assert_eq!((s.sent, s.lost), (10, 0));
            all.iter().for_each(in_order);
        }
    }
    // Who closes, refuses, speaks something else, or nothing at all.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut o = options(listener.local_addr().unwrap(), Method::Tls);
    o.count = 1;
    let alert = b"\x15\x03\x03\x00\x02\x02\x46";
    for (answer, words) in [
        (&alert[..], "no TLS handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS handshake"),
        (b"", "lost"),
    ] {
        let listener = listener.try_clone().unwrap();
        let stranger = std::thread::spawn(move || {
            let (mut s, _) = listener.accept().unwrap();
            s.read_exact(&mut [0; 100]).unwrap();
            s.write_all(answer).unwrap();
        });
        let told = match run(&o, |_| true) {
            Ok(s) if s.lost == 1 => "lost".to_owned(),
            Ok(s) => panic!("{s:?}"),
            Err(e) => e.to_string(),
        };
        assert!(told.contains(words), "{told}");
        stranger.join().unwrap();
    }
    o.timeout = Duration::from_millis(50);
    let (_, s) = probes(&o);
    assert_eq!(s.lost, 1);
    o.server_name = Some("no name".to_owned());
    assert!(
        run(&o, |_| true)
            .unwrap_err()
            .to_string()
            .contains("not a host name")
    );
}

#[test]
fn handshakes_and_refusals_are_probes() {
    let open = TcpListener::bind(free_address()).unwrap();
    let (_, s) = probes(&options(open.local_addr().unwrap(), Method::Syn));
    assert_eq!((s.sent, s.lost), (50, 0));
    assert!(s.d_u_us.unwrap().median > 0.0 && s.d_k_us.is_some());

    let closed = open.local_addr().unwrap();
    let e = run(&options(closed, Method::Rst), |_| true).unwrap_err();
    assert!(matches!(&e, ProbeError::Target { .. }), "{e}");
    drop(open);
    let (_, s) = probes(&options(closed, Method::Rst));
    assert_eq!((s.sent, s.lost), (50, 0));
    let e = run(&options(closed, Method::Syn), |_| true).unwrap_err();
    assert!(e.to_string().contains("closed"), "{e}");
}

#[test]
fn echoes_are_answered_where_they_may_be_sent() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut options = options(address.parse().unwrap(), Method::Icmp);
        options.burst = 5;
        let mut all = Vec::new();
        match run(&options, |p| {
            all.push(*p);
            true
        }) {
            Err(ProbeError::Icmp(e)) => Need::Icmp.is_missing(e),
            Err(e) => panic!("{e}"),
            Ok(s) => {
                assert_eq!((s.sent, s.lost, s.duplicates), (50, 0, 0));
                all.iter().for_each(in_order);
            }
        }
    }
}

/// A burst whose answers, and transmit stamps, would not fit into a socket's usual room.
#[test]
fn a_burst_finds_room() {
    let server = server("127.0.0.1:0");
    let nobody = "127.0.0.1:0".parse().unwrap();
    for (method, target) in [(Method::Udp, server.address()), (Method::Icmp, nobody)] {
        let mut options = options(target, method);
        (options.count, options.burst) = (300, 300);
        options.timeout = Duration::from_secs(20);
        match run(&options, |_| true) {
            Err(ProbeError::Icmp(e)) => Need::Icmp.is_missing(e),
            Err(e) => panic!("{e}"),
            Ok(s) => assert_eq!((s.sent, s.lost), (300, 0), "{method:?}"),
        }
    }
}

/// Probes leave from the given address, or not at all.
#[test]
fn a_place_is_kept_to() {
    let server = server("127.0.0.1:0");
    for method in [Method::Udp, Method::Syn, Method::Http] {
        let mut options = options(server.address(), method);
        options.count = 2;
        options.warm_up = Some(Duration::from_millis(1));
        options.background = Some(Duration::from_millis(1));
        options.source = Some("127.0.0.9".parse().unwrap());
        let (all, s) = probes(&options);
        assert_eq!((s.sent, s.lost), (2, 0), "{method:?}");
        if method != Method::Udp {
            let from = |p: &Probe| p.local.unwrap().ip().to_string();
            assert!(all.iter().all(|p| from(p) == "127.0.0.9"), "{method:?}");
        }
        // Reserved for documentation: no host has it.
        options.source = Some("192.0.2.250".parse().unwrap());
        let e = run(&options, |_| true).unwrap_err();
        assert!(matches!(e, ProbeError::Place { .. }), "{e}");
        assert!(e.to_string().starts_with("192.0.2.250: "), "{e}");
        options.source = None;
        options.interface = Some("no-such-device".to_owned());
        let e = run(&options, |_| true).unwrap_err();
        assert!(e.to_string().starts_with("no-such-device: "), "{e}");
        options.source = Some("::1".parse().unwrap());
        let e = run(&options, |_| true).unwrap_err();
        assert!(e.to_string().contains("both be IPv4"), "{e}");
    }
}

/// Nobody answers: every probe is lost, none hangs. Nobody listens: the same.
#[test]
fn silence_is_loss() {
    let silent = UdpSocket::bind(free_address()).unwrap();
    let mut options = options(silent.local_addr().unwrap(), Method::Udp);
    options.count = 5;
    options.timeout = Duration::from_millis(50);
    let (all, s) = probes(&options);
    assert_eq!((s.sent, s.lost), (5, 5));
    assert!(all.iter().all(|p| p.lost && p.d_u_us.is_none()));
    drop(silent);
    let (_, s) = probes(&options);
    assert_eq!((s.sent, s.lost), (5, 5));
}

/// One who answers twice, and late ones first.
#[test]
fn doubled_and_reordered_answers_are_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut options = options(socket.local_addr().unwrap(), Method::Udp);
    options.count = 4;
    let thread = std::thread::spawn(move || {
        let mut held = Vec::new();
        let mut buffer = [0; 2000];
        for _ in 0..4 {
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            let mut answer = buffer[..n].to_vec();
            answer[5] = 1;
            held.push((answer, from));
        }
        for (answer, from) in held.iter().rev().chain(held.iter()) {
            socket.send_to(answer, from).unwrap();
        }
    });
    let mut options = Options {
        interval: Duration::from_millis(5),
        ..options
    };
    // A probe that is never answered keeps the run open until the doubled ones have come: far
    // longer than they take, also on a busy machine.
    options.count = 5;
    options.timeout = Duration::from_secs(3);
    let (_, s) = probes(&options);
    thread.join().unwrap();
    assert_eq!((s.sent, s.lost, s.duplicates, s.reordered), (5, 1, 4, 3));
}

/// Answers before, within and after the interval in which they are expected: none is missed.
#[test]
fn answers_are_taken_whenever_they_come() {
    const DELAYS_MS: [u64; 8] = [60, 1, 40, 0, 20, 0, 3, 10];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1000];
        for delay_ms in DELAYS_MS {
            let bytes = stream.read(&mut request).unwrap();
            assert!(request[..bytes].ends_with(b"\r\n\r\n"));
            std::thread::sleep(Duration::from_millis(delay_ms));
            let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(reply).unwrap();
        }
    });
    let mut options = options(target, Method::Http);
    options.count = DELAYS_MS.len() as u32;
    let (all, s) = probes(&options);
    answering.join().unwrap();
    assert_eq!((s.sent, s.lost), (DELAYS_MS.len() as u64, 0));
    for (probe, delay_ms) in all.iter().zip(DELAYS_MS) {
        assert!(probe.d_u_us.unwrap() >= delay_ms as f64 * 1e3, "{probe:?}");
        in_order(probe);
    }
}

#[test]
fn wake_up_packets_do_not_count() {
    let server = server("127.0.0.1:0");
    let mut options = options(server.address(), Method::Udp);
    options.count = 10;
    options.interval = Duration::from_millis(10);
    options.warm_up = Some(Duration::from_millis(2));
    options.background = Some(Duration::from_millis(1));
    let (all, s) = probes(&options);
    assert_eq!((s.sent, s.lost, s.duplicates), (10, 0, 0));
    all.iter().for_each(in_order);
}

#[test]
fn impossible_options_are_refused() {
    let target = "127.0.0.1:9".parse().unwrap();
    let wrong: [fn(&mut Options); 5] = [
        |o| o.interval = Duration::from_micros(999),
        |o| o.burst = 0,
        |o| o.size_bytes = 20,
        |o| o.timeout = Duration::ZERO,
        |o| o.background = Some(Duration::ZERO),
    ];
    for change in wrong {
        let mut options = options(target, Method::Udp);
        change(&mut options);
        assert!(matches!(
            run(&options, |_| true),
            Err(ProbeError::Option(_))
        ));
    }
}
