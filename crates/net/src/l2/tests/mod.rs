//! Streams over veth interfaces, in network namespaces.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond_l2::{Key, Side};
use mpbond_testing::namespaces::{is_called_for, play, play_again, sh};
use mpbond_units::Timestamp;
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::{CapabilitySet, capabilities, gettid, set_capabilities};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::{LINGER, State, Turn};
use super::{FrameSocket, FrameSockets, L2Stream, OpenError, Outcome, Port, PortConfig, outcome};
use crate::pipe::PipeStream;
use crate::relay::{Relay, RelayEnd, RelayOptions};

mod bad_input;

const CHANNEL: u32 = 0xc0ff_ee01;
const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn end(interface: &str, side: Side) -> (FrameSocket, PortConfig) {
    let socket = FrameSocket::open(interface, CHANNEL).unwrap();
    let config = PortConfig {
        channel: CHANNEL,
        key: Key::from_bytes([5; 16]),
        side,
        mtu: 1500,
        // Of the interfaces `far` and `near`.
        peer: match side {
            Side::Primary => FAR_MAC,
            Side::Helper => NEAR_MAC,
        }
        .parse()
        .unwrap(),
    };
    (socket, config)
}

fn stream(interface: &str, side: Side) -> L2Stream {
    let (socket, config) = end(interface, side);
    L2Stream::open(socket, config).unwrap()
}

fn octet(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes known octets, and ends the stream.
async fn write(stream: &mut L2Stream, bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(50_000);
        let octets: Vec<u8> = (at..at + count).map(octet).collect();
        stream.write_all(&octets).await?;
        at += count;
    }
    stream.shutdown().await
}

/// Reads to the end, and checks every octet.
async fn read(stream: &mut L2Stream) -> io::Result<u64> {
    let mut into = vec![0; 50_000];
    let mut at = 0;
    loop {
        let count = stream.read(&mut into).await?;
        if count == 0 {
            return Ok(at);
        }
        for (octet_read, offset) in into[..count].iter().zip(at..) {
            assert_eq!(*octet_read, octet(offset), "{offset}");
        }
        at += count as u64;
    }
}

/// Runs `work` on a thread in a network namespace of its own, to which the interface `far` is
/// moved.
fn elsewhere<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let (ready, is_ready) = mpsc::channel();
    let (moved, is_moved) = mpsc::channel();
    let thread = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        ready.send(gettid().as_raw_nonzero()).unwrap();
        is_moved.recv().unwrap();
        sh("ip link set far up");
        work()
    });
    let id = is_ready.recv().unwrap();
    sh(&format!("ip link set far netns {id}"));
    moved.send(()).unwrap();
    thread
}

/// Adds a pair of interfaces.
fn veth(near: &str, far: &str) {
    sh(&format!("ip link add {near} type veth peer name {far}"));
}

fn addresses() {
    sh(&format!(
        "ip link set near address {NEAR_MAC}; ip link set far address {FAR_MAC}"
    ));
}

fn pair() {
    veth("near", "far");
    addresses();
    sh("ip link set near up");
}

/// Passes frames on between two interfaces until it is dropped. One in a hundred is lost, and one
/// in fifty is followed by a copy in which an octet of the header differs.
struct Switch {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u64>>,
}

impl Switch {
    fn start(interfaces: [&str; 2]) -> Self {
        let sockets = interfaces.map(|name| FrameSocket::open(name, CHANNEL).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let thread = thread::spawn(move || {
            let (mut frames, mut lost) = (0_u64, 0);
            let mut frame = [0; 2000];
            while !end.load(Ordering::Relaxed) {
                let mut idle = true;
                for (from, to) in [(0, 1), (1, 0)] {
                    while let Ok(length) = sockets[from].receive(&mut frame) {
                        idle = false;
                        frames += 1;
                        if octet(frames) < 3 {
                            lost += 1;
                            continue;
                        }
                        let all = &mut frame[..length];
                        // An overflow is one more loss.
                        let _ = sockets[to].send(&[IoSlice::new(all)]);
                        if frames % 50 == 0 {
                            all[14 + (frames / 50 % 36) as usize] ^= 0x40;
                            let _ = sockets[to].send(&[IoSlice::new(all)]);
                        }
                    }
                }
                if idle {
                    thread::sleep(Duration::from_micros(100));
                }
            }
            lost
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Number of frames that were lost.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn a_hundred_megabytes_arrive_over_a_loss_of_one_per_cent_and_forged_frames() {
    play_again("-Urn", "l2::tests::role_of_a_transfer", "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_a_transfer() {
    const BYTES: u64 = 100_000_000;
    if !is_called_for() {
        return;
    }
    veth("near", "one");
    veth("two", "far");
    addresses();
    sh("for name in near one two; do ip link set $name up; done");
    let switch = Switch::start(["one", "two"]);
    let far = elsewhere(|| {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            let read = read(&mut stream).await.unwrap();
            write(&mut stream, 1_000_000).await.unwrap();
            let refused = stream.refused();
            drop(stream);
            // The task ends after the stream.
            tokio::time::sleep(Duration::from_secs(1)).await;
            (read, refused)
        })
    });
    let start = Instant::now();
    runtime().block_on(async {
        let mut stream = stream("near", Side::Primary);
        write(&mut stream, BYTES).await.unwrap();
        assert_eq!(read(&mut stream).await.unwrap(), 1_000_000);
        let counts = stream.with_channel(|channel| channel.counts());
        let share = counts.repeated as f64 / counts.frames as f64;
        eprintln!("{BYTES} octets in {:?}, {counts:?}", start.elapsed());
        assert!((0.008..0.05).contains(&share), "{share}");
    });
    let (read, refused) = far.join().unwrap();
    assert_eq!(read, BYTES);
    assert!(refused > 500, "{refused}");
    let lost = switch.end();
    assert!(lost > 500, "{lost}");
}

#[test]
fn a_receiver_of_many_frames_does_not_wake_for_each() {
    play_again("-Urn", "l2::tests::role_of_intervals", "Silent");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_intervals() {
    const FRAMES: usize = 2000;
    /// Of a frame.
    const BYTES: usize = 1000;
    /// A busy machine may pause the sender for longer than an interval.
    const ATTEMPTS: usize = 5;
    if !is_called_for() {
        return;
    }
    pair();
    let (tell, hear) = mpsc::channel();
    let far = elsewhere(move || {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            let mut into = vec![0; FRAMES * BYTES];
            loop {
                // The task of the channel runs in this thread.
                let usage = || getrusage(UsageWho::RUSAGE_THREAD).unwrap();
                let before = usage().voluntary_context_switches();
                if stream.read_exact(&mut into).await.is_err() {
                    return;
                }
                let _ = tell.send(usage().voluntary_context_switches() - before);
            }
        });
    });
    let (socket, config) = end("near", Side::Primary);
    let mut near = Port::new(Timestamp::ZERO, socket, config).unwrap();
    let start = Instant::now();
    let mut turn = |octets: &[u8]| {
        let now = Timestamp::ZERO + start.elapsed();
        while near.receive(now).unwrap() {}
        let written = near.channel().write(octets).unwrap();
        near.send(now).unwrap();
        thread::sleep(Duration::from_micros(100));
        written
    };
    let mut wakes = Vec::new();
    while wakes.len() < ATTEMPTS && wakes.iter().all(|count| *count > FRAMES as i64 / 3) {
        for _ in 0..FRAMES {
            let mut octets = &[7; BYTES][..];
            while !octets.is_empty() {
                octets = &octets[turn(octets)..];
            }
        }
        wakes.push(loop {
            if let Ok(count) = hear.try_recv() {
                break count;
            }
            turn(&[]);
        });
    }
    eprintln!("{wakes:?} of {FRAMES}");
    assert!(
        wakes.iter().any(|count| *count <= FRAMES as i64 / 3),
        "{wakes:?}"
    );
    near.channel().reset();
    near.send(Timestamp::ZERO + start.elapsed()).unwrap();
    far.join().unwrap();
}

#[test]
fn a_peer_that_dies_and_an_interface_that_goes_are_errors() {
    play_again("-Urn", "l2::tests::role_of_failures", "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_failures() {
    if !is_called_for() {
        return;
    }
    // The peer ends without a word: its task dies with the runtime.
    pair();
    let (over, is_over) = mpsc::channel();
    let far = elsewhere(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let mut stream = stream("far", Side::Helper);
            stream.read_exact(&mut [0; 100_000]).await.unwrap();
            // Without its end: the stream is not dropped before the task.
            std::mem::forget(stream);
        });
        drop(runtime);
        let died = Instant::now();
        // The interface goes with this thread.
        is_over.recv().unwrap();
        died
    });
    let mut kind = runtime().block_on(async {
        let mut stream = stream("near", Side::Primary);
        let error = write(&mut stream, 1_000_000_000).await.unwrap_err();
        // What was written has not arrived.
        let end = stream.shutdown().await.unwrap_err();
        assert_eq!(end.kind(), error.kind(), "{end}");
        error
    });
    let noticed = Instant::now();
    over.send(()).unwrap();
    let took = noticed - far.join().unwrap();
    assert_eq!(kind.kind(), io::ErrorKind::TimedOut, "{kind}");
    assert!(took < Duration::from_secs(5), "{took:?}");

    // The interface goes down.
    sh("ip link del near 2>/dev/null || true");
    pair();
    let far = elsewhere(|| {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            read(&mut stream).await.unwrap_err().kind()
        })
    });
    kind = runtime().block_on(async {
        let mut stream = stream("near", Side::Primary);
        stream.write_all(&[octet(0); 1]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        sh("ip link set near down");
        let error = write(&mut stream, 1_000_000_000).await.unwrap_err();
        let end = stream.shutdown().await.unwrap_err();
        assert_eq!(end.kind(), error.kind(), "{end}");
        error
    });
    assert_eq!(kind.kind(), io::ErrorKind::NetworkDown, "{kind}");
    let text = kind.to_string();
    assert!(text.starts_with("Ethernet frames on near: "), "{text}");
    // The peer's interface has no carrier, which is no error, as with TCP, until it is deleted.
    sh("ip link del near");
    assert_eq!(far.join().unwrap(), io::ErrorKind::NetworkDown);
}

#[test]
fn a_smaller_mtu_in_the_middle_of_a_transfer_is_adopted() {
    play_again("-Urn", "l2::tests::role_of_a_smaller_mtu", "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_a_smaller_mtu() {
    const BYTES: u64 = 20_000_000;
    if !is_called_for() {
        return;
    }
    pair();
    let far = elsewhere(|| {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            let read = read(&mut stream).await.unwrap();
            drop(stream);
            tokio::time::sleep(Duration::from_secs(1)).await;
            read
        })
    });
    runtime().block_on(async {
        let mut stream = stream("near", Side::Primary);
        let octets: Vec<u8> = (0..BYTES).map(octet).collect();
        let (first, rest) = octets.split_at(octets.len() / 2);
        stream.write_all(first).await.unwrap();
        sh("ip link set near mtu 1300");
        stream.write_all(rest).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        let counts = stream.with_channel(|channel| channel.counts());
        assert!(counts.repeated > 0, "{counts:?}");
    });
    assert_eq!(far.join().unwrap(), BYTES);
}

#[test]
fn a_stream_that_was_dropped_ends_within_ten_seconds() {
    play("-Urn", "l2::tests::role_of_a_drop");
}

/// Both ends in virtual time: the helper reads nothing, so that the primary has octets without
/// credit; and a helper that was dropped before its primary came.
#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_a_drop() {
    const TICK: Duration = Duration::from_millis(10);
    if !is_called_for() {
        return;
    }
    pair();
    sh("ip link set far up");
    let port = |name, side| {
        let (socket, config) = end(name, side);
        Port::new(Timestamp::ZERO, socket, config).unwrap()
    };
    let mut near = port("near", Side::Primary);
    let mut far = port("far", Side::Helper);
    let mut now = Timestamp::ZERO;
    let mut turn_far = |now| {
        while far.receive(now).unwrap() {}
        far.send(now).unwrap();
        far.channel().error()
    };
    // More than the window.
    let mut waits = 4 << 20;
    for _ in 0..100 {
        now += TICK;
        let count = near.channel().write(&vec![1; waits]).unwrap();
        waits -= count;
        while near.receive(now).unwrap() {}
        near.send(now).unwrap();
        assert_eq!(turn_far(now), None);
    }
    assert!(near.channel().room() == 0 && waits > 0, "{waits}");
    let mut state = State::new(near);
    let dropped = now;
    state.drop_stream(dropped);
    while state.turn(now).unwrap() != Turn::Over {
        assert!(now <= dropped + LINGER, "{now}");
        assert_eq!(turn_far(now), None);
        now += TICK;
    }
    assert!(now >= dropped + LINGER);
    assert_eq!(turn_far(now), Some(mpbond_l2::Error::Reset));

    let mut alone = State::new(port("far", Side::Helper));
    alone.drop_stream(Timestamp::ZERO);
    let mut now = Timestamp::ZERO;
    while alone.turn(now).unwrap() != Turn::Over {
        now += TICK;
        assert!(now <= Timestamp::ZERO + LINGER, "{now}");
    }
}

#[test]
fn sockets_are_taken_without_the_capability_and_used_again() {
    play("-Urn", "l2::tests::role_of_sockets");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_sockets() {
    if !is_called_for() {
        return;
    }
    pair();
    sh("ip link set far up");
    thread::spawn(|| {
        let sockets = FrameSockets::open(2).unwrap();
        drop_capability();
        let error = FrameSockets::open(1).unwrap_err();
        assert!(matches!(error, OpenError::NoCapability), "{error:?}");
        let send = |from: &FrameSocket, channel: u32, last: u8| {
            let mut frame = [0; 64];
            frame[12..14].copy_from_slice(&mpbond_l2::ETHER_TYPE.to_be_bytes());
            frame[18..22].copy_from_slice(&channel.to_be_bytes());
            frame[63] = last;
            from.send_one(&frame).unwrap();
        };
        let received = |by: &FrameSocket| {
            let mut frame = [0; 100];
            by.receive(&mut frame).ok().map(|_| frame[63])
        };
        let near = sockets.take("near", 1).unwrap();
        let far = sockets.take("far", 1).unwrap();
        let error = sockets.take("far", 1).unwrap_err();
        assert!(matches!(error, OpenError::AllInUse(2)), "{error:?}");
        // It takes a moment until the interface carries.
        let deadline = Instant::now() + Duration::from_secs(10);
        let first = loop {
            send(&near, 2, 7);
            send(&near, 1, 8);
            if let Some(last) = received(&far) {
                break last;
            }
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(first, 8, "frames of its channel alone");
        // A frame that nobody takes, those after the use, and the error of an interface.
        send(&near, 1, 9);
        drop(far);
        send(&near, 1, 10);
        sh("ip link set far down; ip link set far up");
        let far = sockets.take("far", 1).unwrap();
        assert_eq!(received(&far), None);
        // It takes a moment until the interface carries again.
        let deadline = Instant::now() + Duration::from_secs(10);
        while received(&far) != Some(11) {
            assert!(Instant::now() < deadline);
            send(&near, 1, 11);
            thread::sleep(Duration::from_millis(10));
        }
        drop(near);
        assert!(sockets.take("near", 3).is_ok());
        let error = sockets.take("no-such-link", 3).unwrap_err();
        assert!(matches!(error, OpenError::NoInterface(_)), "{error:?}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_relay_runs_over_a_channel_and_ends_with_it() {
    play_again("-Urn", "l2::tests::role_of_a_relay", "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_a_relay() {
    const BYTES: u64 = 20_000_000;
    if !is_called_for() {
        return;
    }
    pair();
    let (over, mut is_over) = tokio::sync::mpsc::channel(1);
    let (ready, is_ready) = mpsc::channel();
    let far = elsewhere(move || {
        sh("ip link set lo up");
        let all = octets(BYTES);
        runtime().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut proxy = tokio::net::TcpStream::connect(address).await.unwrap();
            let (hs, _) = listener.accept().await.unwrap();
            let pipe = PipeStream::L2(stream("far", Side::Helper));
            ready.send(()).unwrap();
            let relay = Relay::new(pipe, hs, RelayOptions::default()).unwrap();
            let handle = relay.handle();
            let relay = tokio::spawn(async move {
                let end = relay.run().await;
                // The error of its pipe is in no other output.
                eprintln!("{end:?}");
                end
            });
            let (mut from, mut to) = proxy.split();
            let (sent, ()) = tokio::join!(to.write_all(&all), expect(&mut from, BYTES));
            sent.unwrap();
            is_over.recv().await.unwrap();
            let stats = handle.stats().unwrap();
            assert_eq!((stats.bytes_down, stats.bytes_up), (BYTES, BYTES));
            assert_eq!(handle.pipe_kind(), Some("ethernet"));
            handle.stop();
            assert!(matches!(relay.await.unwrap(), RelayEnd::Stopped));
            // The RESET has to leave.
            tokio::time::sleep(Duration::from_millis(100)).await;
        });
    });
    is_ready.recv().unwrap();
    let all = octets(BYTES);
    runtime().block_on(async {
        let mut primary = stream("near", Side::Primary);
        primary.opened().await.unwrap();
        // Both ways at once, and each more than the windows.
        let (mut from, mut to) = tokio::io::split(&mut primary);
        let (sent, ()) = tokio::join!(to.write_all(&all), expect(&mut from, BYTES));
        sent.unwrap();
        over.send(()).await.unwrap();
        // The relay ends: a channel that is reset has not failed.
        let end = primary.end();
        let error = primary.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
        drop(primary);
        assert_eq!(outcome(end).await, Outcome::GivenUp);
    });
    far.join().unwrap();
}

fn octets(count: u64) -> Vec<u8> {
    (0..count).map(octet).collect()
}

/// Reads so many known octets.
async fn expect(from: &mut (impl tokio::io::AsyncRead + Unpin), count: u64) {
    let mut into = vec![0; 50_000];
    let mut at = 0;
    while at < count {
        let most = into.len().min((count - at) as usize);
        let read = from.read(&mut into[..most]).await.unwrap();
        assert!(read > 0, "the end after {at}");
        assert!(into[..read].iter().zip(at..).all(|(o, at)| *o == octet(at)));
        at += read as u64;
    }
}

#[test]
fn without_the_capability_the_error_says_so() {
    play("-Urn", "l2::tests::role_without_the_capability");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_without_the_capability() {
    if !is_called_for() {
        return;
    }
    pair();
    thread::spawn(|| {
        drop_capability();
        let error = FrameSocket::open("near", CHANNEL).unwrap_err();
        assert!(matches!(error, OpenError::NotPermitted(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "no Ethernet frames on near without CAP_NET_RAW: its pipes use TCP"
        );
    })
    .join()
    .unwrap();
}

/// Of this thread.
fn drop_capability() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::NET_RAW);
    sets.permitted.remove(CapabilitySet::NET_RAW);
    sets.inheritable.remove(CapabilitySet::NET_RAW);
    set_capabilities(None, sets).unwrap();
}
