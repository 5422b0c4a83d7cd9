//! Traffic over loopback: both ways, through losses of the connection and of the server, and with
//! clients that say anything.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpbond_probe::traffic::{
    ClientOptions, Direction, Event, Flow, Server, ServerOptions, Summary, Target, run,
};
use mpbond_testing::free_address;

fn server(address: &str) -> Server {
    Server::start(ServerOptions::new(address.parse().unwrap())).unwrap()
}

fn options(to: SocketAddr) -> ClientOptions {
    ClientOptions {
        duration: Duration::from_millis(600),
        ..ClientOptions::new(Target::Direct(to))
    }
}

fn chunks(every_ms: u64) -> Option<Flow> {
    Some(Flow::chunks(3000, Duration::from_millis(every_ms)).unwrap())
}

/// Runs the client, and checks that each record is reported once and in order.
fn records(options: &ClientOptions) -> Summary {
    let mut next = [0, 0];
    let summary = run(options, |event| {
        if let Event::Record {
            direction, number, ..
        } = event
        {
            let next = &mut next[usize::from(*direction == Direction::Up)];
            assert_eq!(number, next);
            *next += 1;
        }
        true
    });
    let s = summary.unwrap();
    for (d, n) in [(&s.down, next[0]), (&s.up, next[1])] {
        assert_eq!(d.as_ref().map_or(0, |d| d.records), n);
    }
    s
}

#[test]
fn chunks_go_both_ways_when_they_are_due() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        let mut o = options(server.address());
        (o.down, o.up) = (chunks(10), chunks(20));
        let s = records(&o);
        assert!(s.complete(), "{s:?}");
        let (down, up) = (s.down.unwrap(), s.up.unwrap());
        assert_eq!((down.records, up.records), (60, 30));
        assert_eq!((down.bytes, up.bytes), (180_000, 90_000));
        // Both ends have the same clock here: nothing is early, but by the clocks' doubt.
        let clock = s.clock.unwrap();
        let (offset_us, error_us) = (clock.offset_us.unwrap(), clock.offset_error_us.unwrap());
        assert!(offset_us.abs() <= error_us + 0.001, "{clock:?}");
        for d in [down, up] {
            let delay = d.delay_ms.unwrap();
            assert!(delay.min * 1e3 >= -error_us, "{delay:?} {clock:?}");
            assert_eq!(d.unstamped, 0);
        }
        assert_eq!((s.connections, s.losses.len()), (1, 0));
    }
}

#[test]
fn bulk_ends_with_its_time() {
    let server = server("127.0.0.1:0");
    let mut o = options(server.address());
    o.up = Some(Flow::bulk());
    o.duration = Duration::from_millis(300);
    let s = records(&o);
    assert!(s.complete(), "{s:?}");
    for d in [s.down.unwrap(), s.up.unwrap()] {
        assert!(d.records > 100, "{}", d.records);
        assert_eq!(d.bytes, d.records * 4096);
        assert_eq!(d.bytes, d.bins_bytes.iter().sum::<u64>());
    }
}

/// The server is down for a second, and has no state of the run after that.
#[test]
fn a_server_that_is_restarted_loses_nothing() {
    // No other test's connection gets this port meanwhile.
    let address = free_address();
    let first = server(&address.to_string());
    let mut o = options(address);
    o.duration = Duration::from_millis(1500);
    (o.down, o.up) = (chunks(10), chunks(10));
    o.gap = Duration::from_millis(300);
    let (killed, kill) = channel::<()>();
    let operator = std::thread::spawn(move || {
        kill.recv().unwrap();
        drop(first);
        std::thread::sleep(Duration::from_millis(1_000));
        server(&address.to_string())
    });
    let (mut events, mut told) = (Vec::new(), 0);
    let s = run(&o, |event| {
        match event {
            Event::Record { .. } => {
                told += 1;
                if told == 40 {
                    killed.send(()).unwrap();
                }
            }
            other => events.push(format!("{other:?}")),
        }
        true
    });
    let s = s.unwrap();
    drop(operator.join().unwrap());
    assert!(s.complete(), "{s:?}");
    assert_eq!(
        (s.connections, s.losses.len(), events.len()),
        (2, 1, 3),
        "{events:?}"
    );
    let loss = &s.losses[0];
    assert!(loss.back_s.unwrap() - loss.lost_s >= 0.4, "{loss:?}");
    for d in [s.down.unwrap(), s.up.unwrap()] {
        assert_eq!((d.records, d.missing, d.unstamped), (150, Some(0), 0));
        let gap = d.gaps.list.iter().find(|g| g.reconnected).unwrap();
        assert!(gap.length_s >= 0.4 && !gap.open, "{gap:?}");
        assert!(d.gaps.longest_s >= gap.length_s);
        // What was due in the gap waited for its end.
        assert!(d.delay_ms.unwrap().max > 300.0);
    }
}

/// A relay that cuts its connections, or swallows what goes over those that there are.
#[derive(Clone)]
struct Relay {
    address: SocketAddr,
    /// Connections so far; those below `silent` pass nothing on.
    count: Arc<AtomicU64>,
    silent: Arc<AtomicU64>,
    current: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            count: Arc::default(),
            silent: Arc::default(),
            current: Arc::default(),
        };
        let it = relay.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let far = TcpStream::connect(to).unwrap();
                let number = it.count.fetch_add(1, SeqCst);
                let both = [&near, &far].map(|s| s.try_clone().unwrap());
                it.current.lock().unwrap().extend(both);
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far, near),
                ] {
                    let silent = Arc::clone(&it.silent);
                    std::thread::spawn(move || {
                        let mut buffer = [0; 4096];
                        while let Ok(n @ 1..) = from.read(&mut buffer) {
                            let passes = number >= silent.load(SeqCst);
                            if passes && to.write_all(&buffer[..n]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        relay
    }

    fn go_silent(&self) {
        self.silent.store(self.count.load(SeqCst), SeqCst);
    }

    fn cut(&self) {
        for s in self.current.lock().unwrap().drain(..) {
            let _ = s.shutdown(Shutdown::Both);
        }
    }
}

/// Connections are cut, five times where the machine is not too slow for that; the server remembers
/// the run, and when records came whose receipts were lost.
#[test]
fn cut_connections_are_made_again() {
    let server = server("127.0.0.1:0");
    let relay = Relay::start(server.address());
    let mut o = options(relay.address);
    o.duration = Duration::from_millis(1000);
    (o.down, o.up) = (chunks(5), chunks(5));
    // Records in all, and since the last connection was made: more may come of one that is cut
    // already.
    let (mut all, mut told, mut cuts) = (0, 0, 0);
    let s = run(&o, |event| {
        match event {
            Event::Connected { .. } => told = 0,
            Event::Record { .. } => {
                (all, told) = (all + 1, told + 1);
                if told == 40 && cuts < 5 && all < 350 {
                    cuts += 1;
                    relay.cut();
                }
            }
            Event::Lost { .. } => {}
        }
        true
    });
    let s = s.unwrap();
    assert!(s.complete(), "{s:?}");
    assert!(cuts > 1, "{cuts} cuts");
    assert_eq!(s.losses.len(), cuts, "{:?}", s.losses);
    assert_eq!(s.connections, cuts as u64 + 1);
    for d in [s.down.unwrap(), s.up.unwrap()] {
        assert_eq!((d.records, d.unstamped), (200, 0));
    }
}

/// No packet passes any more, and no error is reported: the client detects it by itself.
#[test]
fn silence_is_noticed() {
    let server = server("127.0.0.1:0");
    let relay = Relay::start(server.address());
    let mut o = options(relay.address);
    (o.down, o.up) = (chunks(10), None);
    o.duration = Duration::from_millis(800);
    o.stall = Duration::from_millis(10);
    let mut told = 0;
    let s = run(&o, |event| {
        told += u32::from(matches!(event, Event::Record { .. }));
        if told == 20 {
            told += 1;
            relay.go_silent();
        }
        true
    });
    let s = s.unwrap();
    assert!(s.complete(), "{s:?}");
    assert_eq!(s.losses.len(), 1);
    assert!(s.losses[0].reason.contains("no data for"), "{s:?}");
    let gap = s.down.unwrap().gaps.list[0];
    // As patient as pings need, each second.
    assert!(gap.reconnected && gap.length_s > 1.0, "{gap:?}");
}

#[test]
fn what_does_not_come_back_is_missing() {
    let server = server("127.0.0.1:0");
    let mut o = options(server.address());
    (o.down, o.up) = (chunks(10), None);
    o.drain = Duration::from_millis(200);
    let mut server = Some(server);
    let s = run(&o, |event| {
        if matches!(event, Event::Record { number: 9, .. }) {
            server.take();
        }
        true
    });
    let s = s.unwrap();
    assert!(!s.complete());
    let down = s.down.as_ref().unwrap();
    assert_eq!(down.records + down.missing.unwrap(), 60);
    // How many depends on how soon the server is gone.
    assert!(down.missing.unwrap() > 0 && down.gaps.list.last().unwrap().open);
    let svg = s.to_svg("a <run>");
    assert!(svg.contains("fill=\"#f4c7c3\"") && svg.contains("stroke-dasharray=\"4 3\""));
    assert!(svg.contains("a &lt;run&gt;"));
    let e = run(&options("127.0.0.1:1".parse().unwrap()), |_| true).unwrap_err();
    assert!(e.to_string().contains("refused"), "{e}");
}

/// What strangers send is refused in words, or closed; the next run goes on as ever.
#[test]
fn hostile_clients_are_refused() {
    let with_patience = |patience| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions {
            patience,
            ..ServerOptions::new(listen)
        };
        Server::start(options).unwrap()
    };
    // One that waits longer than any of the clients needs on a busy machine, and one that does not.
    let server = with_patience(Duration::from_secs(60));
    let quick = with_patience(Duration::from_millis(100));
    let frame = |kind: u8, length: u32| {
        let mut f = [b"mT\x01".as_slice(), &[kind], &length.to_be_bytes()].concat();
        f.resize(24, 0);
        f
    };
    let cases: [(Vec<u8>, &str); 6] = [
        (
            b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
            "does not speak",
        ),
        (frame(1, u32::MAX), "length"),
        (frame(4, 100), "hello"),
        (frame(77, 0), "kind"),
        ([frame(1, 64), vec![0; 64]].concat(), "direction"),
        // Says nothing at all, and a little of something.
        (frame(1, 64), "no hello in time"),
    ];
    for (bytes, words) in cases {
        let to = match words {
            "no hello in time" => quick.address(),
            _ => server.address(),
        };
        let mut s = TcpStream::connect(to).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let begun = Instant::now();
        // Whole frames only: with more unread, closing would take the answer with it.
        let first = if words == "hello" { 124 } else { bytes.len() };
        let mut bytes = bytes;
        bytes.resize(first.max(bytes.len()), 0);
        if words == "does not speak" {
            bytes.truncate(24);
        }
        s.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        s.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.contains(words), "{text:?} instead of {words}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    let mut o = options(server.address());
    o.down = chunks(10);
    assert!(records(&o).complete());
}

/// Whoever has the whole of the connections keeps others out, and nothing else.
#[test]
fn connections_are_bounded() {
    let server = server("127.0.0.1:0");
    let all: Vec<TcpStream> = (0..64)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    let mut o = options(server.address());
    o.down = chunks(10);
    let deadline = Instant::now() + Duration::from_secs(60);
    while run(&o, |_| true).is_ok() {
        assert!(Instant::now() < deadline, "nobody is kept out");
    }
    drop(all);
    while run(&o, |_| true).is_err() {
        assert!(Instant::now() < deadline, "room is not given back");
    }
}

/// A server that sends what was not asked for costs its connection.
#[test]
fn hostile_servers_are_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for answer in [
        b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n".to_vec(),
        [b"mT\x01\x04\xff\xff\xff\xff".as_slice(), &[0; 16]].concat(),
        [b"mT\x01\x09\0\0\0\x04".as_slice(), &[0; 16], b"no\x1b!"].concat(),
    ] {
        let listener = listener.try_clone().unwrap();
        let stranger = std::thread::spawn(move || {
            let (mut s, _) = listener.accept().unwrap();
            s.write_all(&answer).unwrap();
            let _ = s.read_to_end(&mut Vec::new());
        });
        let e = run(&options(address), |_| true).unwrap_err().to_string();
        assert!(e.starts_with("the traffic server: "), "{e}");
        assert!(!e.contains('\x1b'), "{e}");
        stranger.join().unwrap();
    }
}
