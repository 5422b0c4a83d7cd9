//! Tests of the link with real sockets. Time is virtual but for one test of the thread.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use mpbond_radio::Profiles;
use mpbond_radio::machine::{Band, BandUser, End};
use mpbond_radio::profile::Radios;
use mpbond_sim::link::Rfcomm;
use mpbond_units::Timestamp;
use socket2::{Domain, SockRef, Socket, Type};

use super::*;
use crate::player::{Clock, Emulated, Logs, Player};

fn radio(name: &str) -> BluetoothParameters {
    let profiles = Profiles::shipped().unwrap();
    match &profiles.radio(name).unwrap().radio {
        Radios::Bluetooth(p) => (**p).clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// A link between two sockets in a folder, and the phone's program.
struct Bench {
    folder: tempfile::TempDir,
    phone: UnixListener,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let phone = UnixListener::bind(folder.path().join("phone")).unwrap();
        phone.set_nonblocking(true).unwrap();
        Self { folder, phone }
    }

    fn link(&self, signal: &[(u64, f64)]) -> PlayedBluetooth {
        let signal = signal.iter();
        PlayedBluetooth {
            name: "bt".into(),
            listener: UnixListener::bind(self.folder.path().join("watch")).unwrap(),
            to: self.folder.path().join("phone"),
            wearable: radio("watch-bt"),
            phone: radio("phone-bt"),
            signal: signal
                .map(|(ms, dbm)| (Duration::from_millis(*ms), *dbm))
                .collect(),
        }
    }

    fn port(&self, signal: &[(u64, f64)]) -> Port {
        let mut port = Port::new(self.link(signal), 1).unwrap();
        port.restore(Timestamp::ZERO, None);
        port
    }

    /// A connection of the watch.
    fn connect(&self) -> UnixStream {
        prepared(UnixStream::connect(self.folder.path().join("watch")).unwrap())
    }

    /// The phone's end of a connection.
    fn accept(&self) -> UnixStream {
        let (phone, _) = self.phone.accept().unwrap();
        prepared(phone)
    }
}

/// A socket that does not block, with a send buffer as usual, whatever the system's default is.
fn prepared(socket: UnixStream) -> UnixStream {
    socket.set_nonblocking(true).unwrap();
    let buffer = SockRef::from(&socket);
    buffer.set_send_buffer_size(106_496).unwrap();
    socket
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// WiFi of the same antenna: a packet of 0.4 ms each 24 ms.
struct Wifi {
    band: Band,
    next: Timestamp,
}

impl Wifi {
    fn new() -> Self {
        Self {
            band: Band::of_one_antenna(),
            next: at(1),
        }
    }

    /// The band with the packets that begin by `now`.
    fn by(&mut self, now: Timestamp) -> &mut Band {
        while self.next <= now {
            let airtime = Duration::from_micros(400);
            self.band.packet(self.next, BandUser::Wifi, airtime);
            self.next += Duration::from_millis(24);
        }
        &mut self.band
    }
}

/// Plays all that happens by `until`, and returns what a socket reads meanwhile with the times.
fn play(port: &mut Port, until: Timestamp, into: &mut UnixStream) -> Vec<(Timestamp, Vec<u8>)> {
    play_beside(port, until, into, None)
}

/// The same beside WiFi.
fn play_beside(
    port: &mut Port,
    until: Timestamp,
    into: &mut UnixStream,
    mut wifi: Option<&mut Wifi>,
) -> Vec<(Timestamp, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(now) = port.next_event().filter(|now| *now <= until) {
        port.turn(now, wifi.as_mut().map(|wifi| wifi.by(now)));
        let read = read(into);
        if !read.is_empty() {
            all.push((now, read));
        }
    }
    port.turn(until, None);
    all
}

fn read(from: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(e) = from.read_to_end(&mut bytes) {
        assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}");
    }
    bytes
}

fn is_closed(socket: &mut UnixStream) -> bool {
    matches!(socket.read(&mut [0; 1]), Ok(0))
}

/// Waits until a socket that the link has closed reads as closed: a program that another test
/// starts meanwhile holds a copy of the link's descriptor from fork(2) to execve(2).
fn closes(socket: &mut UnixStream) -> bool {
    for _ in 0..5_000 {
        if is_closed(socket) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Closes a program's socket at once, whoever holds copies of its descriptor.
fn close(socket: UnixStream) {
    socket.shutdown(Shutdown::Both).unwrap();
}

/// Writes as much as the socket takes.
fn fill(socket: &mut UnixStream, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len()
        && let Ok(n) = socket.write(&bytes[written..])
    {
        written += n;
    }
    written
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// Each frame arrives at the instant at which it does in the simulator, Sniff and WiFi of the same
/// antenna included. Returns the last instant.
fn arrivals_are_those_of_the_model(beside_wifi: bool) -> Timestamp {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    let mut watch = bench.connect();
    port.turn(at(0), None);
    let mut phone = bench.accept();
    let sent = pattern(120_000);
    let written = fill(&mut phone, &sent);
    assert!(written > 100_000, "{written}");
    let mut wifi = beside_wifi.then(Wifi::new);
    port.turn(at(0), wifi.as_mut().map(|wifi| wifi.by(at(0))));
    let arrived = play_beside(&mut port, at(60_000), &mut watch, wifi.as_mut());

    let mut wifi = beside_wifi.then(Wifi::new);
    let mut model = Rfcomm::new(&radio("watch-bt"), &radio("phone-bt"), 1);
    let channel = model.open();
    let (mut expected, mut now, mut left) = (Vec::new(), at(0), written as u64);
    loop {
        let mut band = wifi.as_mut().map(|wifi| wifi.by(now));
        model.handle(now, band.as_deref_mut());
        let end = (channel, End::Wearable);
        let bytes = model.read(now, end, u64::MAX, band.as_deref_mut());
        if bytes > 0 {
            expected.push((now, bytes as usize));
        }
        left -= model.write(now, (channel, End::Phone), left, band);
        match model.next_event() {
            Some(next) if next <= at(60_000) => now = next,
            _ => break,
        }
    }
    let times: Vec<_> = arrived.iter().map(|(t, b)| (*t, b.len())).collect();
    assert_eq!(times, expected);
    let bytes: Vec<u8> = arrived.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert!(bytes == sent[..written]);
    expected.last().unwrap().0
}

#[test]
fn bytes_arrive_when_the_model_says_so() {
    let [alone, beside_wifi] = [false, true].map(arrivals_are_those_of_the_model);
    assert!(alone > at(1_500));
    // Some exchanges meet a packet of WiFi.
    assert!(beside_wifi > alone + Duration::from_millis(50));
}

#[test]
fn a_program_that_does_not_read_stops_the_other_and_nothing_wakes_the_player() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    let mut watch = bench.connect();
    port.turn(at(0), None);
    let mut phone = bench.accept();
    let (mut sent, mut now) = (0, at(0));
    while now < at(30_000) {
        sent += fill(&mut phone, &[7; 4096]);
        port.turn(now, None);
        now = port.next_event().map_or(now, |next| next.max(now)) + Duration::from_millis(1);
    }
    // The sockets of both programs, credits and the link's own buffer: 300 kB at most.
    assert!((50_000..300_000).contains(&sent), "{sent}");
    let mut fds = Vec::new();
    port.watch(&mut fds);
    let ready = nix::poll::poll(&mut fds, 0_u8).unwrap();
    assert_eq!(ready, 0, "of {} sockets", fds.len());
    drop(fds);
    let mut got = read(&mut watch).len();
    port.turn(now, None);
    got += play(&mut port, now + Duration::from_secs(20), &mut watch)
        .iter()
        .map(|(_, bytes)| bytes.len())
        .sum::<usize>();
    assert_eq!(got, sent);
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    let mut watch = bench.connect();
    watch.write_all(&pattern(20_000)).unwrap();
    close(watch);
    port.turn(at(0), None);
    let mut phone = bench.accept();
    let arrived = play(&mut port, at(10_000), &mut phone);
    let bytes: Vec<u8> = arrived.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert!(bytes == pattern(20_000));
    assert!(closes(&mut phone));
    assert_eq!(port.next_event().filter(|t| *t <= at(10_000)), None);
}

#[test]
fn a_link_that_is_down_for_a_while_loses_nothing_and_a_lost_one_ends_its_channels() {
    let bench = Bench::new();
    // Out of range from 1 s on for 10 s, and from 20 s on for good.
    let mut port = bench.port(&[(0, -60.0), (1_000, -95.0), (11_000, -60.0), (20_000, -95.0)]);
    let mut watch = bench.connect();
    port.turn(at(0), None);
    let mut phone = bench.accept();
    phone.write_all(&pattern(100_000)).unwrap();
    port.turn(at(0), None);
    let arrived = play(&mut port, at(19_000), &mut watch);
    let silent = arrived
        .iter()
        .any(|(t, _)| *t > at(1_000) && *t < at(11_000));
    assert!(!silent);
    let bytes: Vec<u8> = arrived.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert!(bytes == pattern(100_000));
    // Closed by the phone while nothing is heard: the watch learns it from the lost link, 20 s on.
    play(&mut port, at(21_000), &mut watch);
    close(phone);
    play(&mut port, at(39_999), &mut watch);
    assert!(!is_closed(&mut watch));
    play(&mut port, at(40_000), &mut watch);
    assert!(closes(&mut watch));
    // Refused while out of range; back in range, the next connection succeeds.
    let mut refused = bench.connect();
    port.turn(at(41_000), None);
    assert!(closes(&mut refused));
    port.restore(at(42_000), None);
    let _watch = bench.connect();
    port.turn(at(42_000), None);
    bench.accept();
}

/// A channel that both programs closed while bytes of both were on the way ends once the signal is
/// back, and so more connections succeed than a link has channels.
#[test]
fn channels_that_both_ends_close_in_silence_end_with_it() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    for round in 0..=30 {
        let now = at(round * 10_000);
        let mut watch = bench.connect();
        port.turn(now, None);
        let mut phone = bench.accept();
        port.set_up(now, false, true, None);
        watch.write_all(b"down").unwrap();
        phone.write_all(b"up").unwrap();
        port.turn(now + Duration::from_millis(1), None);
        close(watch);
        close(phone);
        port.turn(now + Duration::from_millis(2), None);
        port.set_up(now + Duration::from_secs(5), true, true, None);
        port.turn(now + Duration::from_secs(5), None);
        let mut fds = Vec::new();
        port.watch(&mut fds);
        assert_eq!(fds.len(), 1, "round {round}: the listener alone");
    }
}

/// A program that does not read holds up its own channel alone.
#[test]
fn credits_are_those_of_a_channel() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    let (_slow, mut fast) = (bench.connect(), bench.connect());
    port.turn(at(0), None);
    let (mut to_slow, mut to_fast) = (bench.accept(), bench.accept());
    let (mut written, mut arrived) = (0, 0);
    for now in (0..30_000).step_by(5).map(at) {
        written += fill(&mut to_slow, &[7; 4096]);
        fill(&mut to_fast, &[7; 4096]);
        port.turn(now, None);
        arrived += read(&mut fast).len();
    }
    // 30 s at about a megabit per second, of which the other channel had its buffers' worth.
    assert!(written < 1_000_000, "{written}");
    assert!(arrived > 2_000_000, "{arrived}");
}

#[test]
fn a_fault_that_hosts_see_ends_all_channels_at_once() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    let mut watches = [bench.connect(), bench.connect()];
    port.turn(at(0), None);
    let mut phones = [bench.accept(), bench.accept()];
    port.set_up(at(10), false, false, None);
    for socket in watches.iter_mut().chain(&mut phones) {
        assert!(closes(socket));
    }
    let mut refused = bench.connect();
    port.turn(at(20), None);
    assert!(closes(&mut refused));
    port.set_up(at(30), true, false, None);
    let mut watch = bench.connect();
    port.turn(at(30), None);
    watch.write_all(b"again").unwrap();
    port.turn(at(31), None);
    let arrived = play(&mut port, at(5_000), &mut bench.accept());
    assert_eq!(arrived[0].1, b"again");
}

#[test]
fn a_phone_that_does_not_listen_refuses() {
    let bench = Bench::new();
    let mut port = bench.port(&[]);
    std::fs::remove_file(bench.folder.path().join("phone")).unwrap();
    let mut watch = bench.connect();
    port.turn(at(0), None);
    assert!(closes(&mut watch));
}

/// As with a lack of descriptors: the listener is ready, and accept(2) fails.
#[test]
fn an_error_of_accept_is_followed_by_a_pause() {
    let bench = Bench::new();
    let mut link = bench.link(&[]);
    // Its accept(2) fails, since it does not listen.
    let bound = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    link.listener = UnixListener::from(bound);
    let mut port = Port::new(link, 1).unwrap();
    port.restore(at(0), None);
    for now in [at(0), at(100)] {
        port.turn(now, None);
        assert_eq!(port.next_event(), Some(now + Duration::from_millis(100)));
        let mut fds = Vec::new();
        port.watch(&mut fds);
        assert!(fds.is_empty());
    }
}

/// In real time nothing comes early: the first byte waits for the end of Sniff.
#[test]
fn the_thread_of_the_player_carries_bytes() {
    let bench = Bench::new();
    let links = Emulated {
        links: Vec::new(),
        bluetooth: vec![bench.link(&[])],
    };
    let player = Player::start(links, Clock::start(), 1, &Logs::default()).unwrap();
    player.begin(Vec::new()).unwrap();
    let mut watch = bench.connect();
    watch.set_nonblocking(false).unwrap();
    watch.write_all(b"hello").unwrap();
    bench.phone.set_nonblocking(false).unwrap();
    let (mut phone, _) = bench.phone.accept().unwrap();
    let mut got = [0; 5];
    phone.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    // The exit alone takes 0.3 s.
    assert!(player.now() > at(300), "{:?}", player.now());
    let passed = player.passed().unwrap();
    assert_eq!((passed.len(), passed[0].bytes, passed[0].link), (1, 5, 0));
    assert_eq!(player.links(), ["bt"]);
    let conditions = player.conditions().unwrap();
    assert!(conditions.packets > 0);
    player.stop().unwrap();
}
