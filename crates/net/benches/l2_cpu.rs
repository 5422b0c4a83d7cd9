//! CPU time per byte of a pipe over Ethernet frames beside one over TCP, at 100 Mbit/s over a veth
//! pair between two fresh network namespaces; and of the same channel in UDP datagrams that pass
//! the kernel many at a time (GSO and GRO).
//!
//! `cargo bench -p mpbond-net --bench l2_cpu`, as root or as a user who may create user namespaces.
//! Both ends move what is due at each tick, as a helper's relay does, and count with their
//! processor time, that of softirqs which run in their calls included. Both kinds run alternately;
//! the ratio's interval is the 95 % t-interval of the pairs' log ratios.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_l2::{Channel, Config, Key, Read as Taken, Side};
use mpbond_net::l2::{FrameSocket, L2Stream, Port, PortConfig, outcome};
use mpbond_statistics::Sample;
use mpbond_units::Timestamp;
use nix::sys::socket::sockopt::UdpGroSegment;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg, setsockopt,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STAGE: &str = "L2_CPU_STAGE";
const CHANNEL: u32 = 1;
const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";
const FAR: &str = "10.99.0.2:5000";
const FAR_UDP: &str = "10.99.0.2:5001";
/// Payload of a datagram: an Ethernet frame of 1500 octets without the headers of IPv4 and UDP.
const DATAGRAM: u16 = 1472;
const BYTES_PER_S: f64 = 100e6 / 8.0;
/// Interval of sending in place of a tick: a frame or two at a time.
const SPACE: Duration = Duration::from_micros(100);
const PAIRS: usize = 5;
const SECONDS: f64 = 3.0;
/// Limit of the issue: L2 at most 0.75 times TCP.
const TARGET: f64 = 0.75;

fn main() {
    match std::env::var(STAGE).as_deref() {
        Ok("near") => near(),
        Ok("far") => far(),
        _ => {
            // `cargo test --benches` requests only a list or a quick check.
            if std::env::args().any(|a| a == "--list" || a == "--test") {
                return;
            }
            let status = stage("near", "-Urn").status().unwrap();
            assert!(status.success(), "{status}");
        }
    }
}

/// This program again, in namespaces of its own.
fn stage(name: &str, namespaces: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args([namespaces, "--kill-child"]);
    command.arg(std::env::current_exe().unwrap());
    command.env(STAGE, name);
    command
}

fn sh(line: &str) {
    let status = Command::new("sh").args(["-ec", line]).status().unwrap();
    assert!(status.success(), "{line}");
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The far end: a process that receives one transfer after another, by lines of its input.
struct Far(Child, BufReader<std::process::ChildStdout>);

impl Far {
    fn tell(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

fn near() {
    let mut child = stage("far", "-n")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut far = Far(child, lines);
    let id = far.hear();
    sh(&format!(
        "ip link add near type veth peer name far
        ip link set far address {FAR_MAC} netns {id}
        ip link set near address {NEAR_MAC}
        ip addr add 10.99.0.1/24 dev near; ip link set near up"
    ));
    far.tell("go");
    assert_eq!(far.hear(), "up");
    // Until the link is usable.
    std::thread::sleep(Duration::from_secs(1));
    spaced(&mut far);
    for (name, setup) in [
        ("with offloads", "true"),
        ("packets of 1500 octets", "ip link set near gso_max_segs 1"),
    ] {
        sh(setup);
        for tick_ms in [1, 5] {
            compare(&mut far, name, tick_ms, "l2");
            compare(&mut far, name, tick_ms, "udp");
        }
    }
}

/// Processor time of a daemon's end, which is woken by frames: of the receiver alone, for frames
/// that come one or two at a time, as over a link at that rate.
fn spaced(far: &mut Far) {
    let costs: Sample = (0..PAIRS)
        .map(|_| {
            far.tell("stream 0");
            assert_eq!(far.hear(), "ready");
            let bytes = send(&mut port("near", Side::Primary), SPACE);
            let far = far.hear();
            let (received, theirs) = far.split_once(' ').unwrap();
            assert_eq!(received.parse::<u64>().unwrap(), bytes);
            theirs.parse::<f64>().unwrap() / bytes as f64 * 1e9
        })
        .collect();
    let (low, high) = costs.mean_interval().unwrap();
    let mean = costs.mean().unwrap();
    println!("stream, frames each {SPACE:?}: receiver {mean:.2} s/GB ({low:.2} to {high:.2})");
}

fn compare(far: &mut Far, name: &str, tick_ms: u64, other: &str) {
    let tick = Duration::from_millis(tick_ms);
    let (mut logs, mut sums) = (Vec::new(), [0.0; 2]);
    for _ in 0..PAIRS {
        let costs = ["tcp", other].map(|kind| {
            far.tell(&format!("{kind} {tick_ms}"));
            assert_eq!(far.hear(), "ready");
            let before = cpu();
            let bytes = match kind {
                "tcp" => send_tcp(tick),
                "udp" => send(&mut udp("10.99.0.1:5001", FAR_UDP, Side::Primary), tick),
                _ => send(&mut port("near", Side::Primary), tick),
            };
            let own = cpu() - before;
            let far = far.hear();
            let (received, theirs) = far.split_once(' ').unwrap();
            assert_eq!(received.parse::<u64>().unwrap(), bytes, "{kind}");
            (own + theirs.parse::<f64>().unwrap()) / bytes as f64 * 1e9
        });
        logs.push((costs[1] / costs[0]).ln());
        sums = [sums[0] + costs[0], sums[1] + costs[1]];
    }
    let [tcp, l2] = sums.map(|sum| sum / PAIRS as f64);
    let sample = Sample::new(logs);
    let (low, high) = sample.mean_interval().unwrap();
    let [low, ratio, high] = [low, sample.mean().unwrap(), high].map(f64::exp);
    let verdict = match (low > TARGET, high <= TARGET) {
        (true, _) => "MISSED",
        (_, true) => "reached",
        _ => "inconclusive",
    };
    println!(
        "{name}, tick {tick_ms} ms: TCP {tcp:.2} s/GB, {other} {l2:.2} s/GB, ratio {ratio:.2} \
        ({low:.2} to {high:.2})   target {TARGET}   {verdict}"
    );
}

/// Calls `give` with the octets that are due at each tick, for the time of a transfer.
fn at_rate(tick: Duration, mut give: impl FnMut(&[u8])) -> u64 {
    let octets = vec![0x5a; 1 << 20];
    let start = Instant::now();
    let mut sent = 0_u64;
    let all = (BYTES_PER_S * SECONDS) as u64;
    while sent < all {
        std::thread::sleep(tick);
        let due = (start.elapsed().as_secs_f64() * BYTES_PER_S) as u64;
        let count = (due.min(all) - sent).min(octets.len() as u64);
        give(&octets[..count as usize]);
        sent += count;
    }
    sent
}

fn send_tcp(tick: Duration) -> u64 {
    let mut to = TcpStream::connect(FAR).unwrap();
    to.set_nodelay(true).unwrap();
    at_rate(tick, |octets| to.write_all(octets).unwrap())
}

fn end(interface: &str, side: Side) -> (FrameSocket, PortConfig) {
    let socket = FrameSocket::open(interface, CHANNEL).unwrap();
    let config = PortConfig {
        channel: CHANNEL,
        key: Key::from_bytes([5; 16]),
        side,
        mtu: 1500,
        peer: match side {
            Side::Primary => FAR_MAC,
            Side::Helper => NEAR_MAC,
        }
        .parse()
        .unwrap(),
    };
    (socket, config)
}

fn port(interface: &str, side: Side) -> Port {
    let (socket, config) = end(interface, side);
    Port::new(Timestamp::ZERO, socket, config).unwrap()
}

/// A channel with its socket.
trait Pipe {
    /// Takes frames; returns whether there may be more.
    fn receive(&mut self, now: Timestamp) -> bool;
    fn send(&mut self, now: Timestamp);
    fn channel(&mut self) -> &mut Channel;
}

impl Pipe for Port {
    fn receive(&mut self, now: Timestamp) -> bool {
        Port::receive(self, now).unwrap()
    }

    fn send(&mut self, now: Timestamp) {
        Port::send(self, now).unwrap();
    }

    fn channel(&mut self) -> &mut Channel {
        Port::channel(self)
    }
}

/// A channel whose frames are the payload of datagrams.
struct Udp {
    socket: UdpSocket,
    channel: Channel,
    octets: Vec<u8>,
}

fn udp(own: &str, to: &str, side: Side) -> Udp {
    let socket = UdpSocket::bind(own).unwrap();
    socket.connect(to).unwrap();
    setsockopt(&socket, UdpGroSegment, &true).unwrap();
    let config = Config {
        channel: CHANNEL,
        key: Key::from_bytes([5; 16]),
        side,
        mtu: DATAGRAM,
        // As that of frames with the default limit of receive buffers.
        window_bytes: 104 << 10,
    };
    Udp {
        socket,
        channel: Channel::new(Timestamp::ZERO, config),
        octets: vec![0; 64 << 10],
    }
}

impl Pipe for Udp {
    fn receive(&mut self, now: Timestamp) -> bool {
        let (bytes, segment) = {
            let mut room = nix::cmsg_space!(i32);
            let mut into = [IoSliceMut::new(&mut self.octets)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let of = self.socket.as_raw_fd();
            let message = match recvmsg::<()>(of, &mut into, Some(&mut room), flags) {
                Ok(message) => message,
                // The other end has not bound its socket yet.
                Err(nix::Error::EAGAIN | nix::Error::ECONNREFUSED) => return false,
                Err(e) => panic!("{e}"),
            };
            let segment = message.cmsgs().unwrap().find_map(|c| match c {
                ControlMessageOwned::UdpGroSegments(bytes) => Some(bytes as usize),
                _ => None,
            });
            (message.bytes, segment)
        };
        for frame in self.octets[..bytes].chunks(segment.unwrap_or(bytes).max(1)) {
            let _ = self.channel.handle_frame(now, frame);
        }
        true
    }

    fn send(&mut self, now: Timestamp) {
        self.channel.handle_timeout(now);
        let one = usize::from(DATAGRAM);
        loop {
            let mut bytes = 0;
            // Segments have one length; the last one may be shorter.
            while bytes % one == 0 && bytes < 40 * one {
                let frame = &mut self.octets[bytes..bytes + one];
                let Some(length) = self.channel.poll_frame(now, frame) else {
                    break;
                };
                bytes += length;
            }
            if bytes == 0 {
                return;
            }
            let octets = [IoSlice::new(&self.octets[..bytes])];
            let cut = [ControlMessage::UdpGsoSegments(&DATAGRAM)];
            let cut = if bytes > one { &cut[..] } else { &[] };
            let flags = MsgFlags::empty();
            match sendmsg::<()>(self.socket.as_raw_fd(), &octets, cut, flags, None) {
                Ok(_) | Err(nix::Error::ECONNREFUSED) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

fn send(port: &mut dyn Pipe, tick: Duration) -> u64 {
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let turn = |port: &mut dyn Pipe| {
        while port.receive(now()) {}
        port.send(now());
        let error = port.channel().error();
        assert!(error.is_none(), "{error:?}");
    };
    let sent = at_rate(tick, |mut octets| {
        loop {
            let count = port.channel().write(octets).unwrap();
            octets = &octets[count..];
            turn(port);
            if octets.is_empty() {
                break;
            }
            std::thread::sleep(tick);
        }
    });
    port.channel().finish();
    while !port.channel().is_acknowledged() {
        turn(port);
        std::thread::sleep(tick);
    }
    sent
}

fn far() {
    println!("{}", std::process::id());
    let mut lines = std::io::stdin().lines();
    lines.next().unwrap().unwrap();
    sh("ip addr add 10.99.0.2/24 dev far; ip link set far up");
    println!("up");
    let listener = TcpListener::bind(FAR).unwrap();
    for line in lines {
        let line = line.unwrap();
        let (kind, tick) = line.split_once(' ').unwrap();
        let tick = Duration::from_millis(tick.parse().unwrap());
        let (bytes, took) = match kind {
            "tcp" => {
                println!("ready");
                let before = cpu();
                (receive_tcp(&listener, tick), cpu() - before)
            }
            "stream" => {
                let before = cpu();
                (receive_stream(), cpu() - before)
            }
            _ => {
                let mut pipe: Box<dyn Pipe> = match kind {
                    "udp" => Box::new(udp(FAR_UDP, "10.99.0.1:5001", Side::Helper)),
                    _ => Box::new(port("far", Side::Helper)),
                };
                println!("ready");
                let before = cpu();
                (receive(&mut *pipe, tick), cpu() - before)
            }
        };
        println!("{bytes} {took}");
    }
}

fn receive_tcp(listener: &TcpListener, tick: Duration) -> u64 {
    let (mut from, _) = listener.accept().unwrap();
    from.set_nonblocking(true).unwrap();
    let mut into = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        match from.read(&mut into) {
            Ok(0) => return bytes,
            Ok(count) => bytes += count as u64,
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(tick),
            Err(e) => panic!("{e}"),
        }
    }
}

fn receive_stream() -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let (socket, config) = end("far", Side::Helper);
        let mut stream = L2Stream::open(socket, config).unwrap();
        println!("ready");
        let mut into = vec![0; 64 << 10];
        let mut bytes = 0;
        loop {
            match stream.read(&mut into).await.unwrap() {
                0 => break,
                count => bytes += count as u64,
            }
        }
        stream.shutdown().await.unwrap();
        outcome(stream.end()).await;
        bytes
    })
}

fn receive(port: &mut dyn Pipe, tick: Duration) -> u64 {
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let mut into = vec![0; 64 << 10];
    let mut bytes = 0;
    let mut has_ended = false;
    while !port.channel().is_over(now()) {
        while port.receive(now()) {}
        while !has_ended {
            match port.channel().read(&mut into).unwrap() {
                Taken::Octets(count) => bytes += count as u64,
                Taken::Nothing => break,
                Taken::End => has_ended = true,
            }
        }
        if has_ended {
            port.channel().finish();
        }
        port.send(now());
        if has_ended {
            return bytes;
        }
        std::thread::sleep(tick);
    }
    panic!("the channel ended early");
}
