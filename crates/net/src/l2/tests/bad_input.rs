//! A full queue of the interface, a full socket, frames of other EtherTypes, and a peer whose
//! interface has a smaller MTU.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use mpbond_l2::{ETHER_TYPE, Side};
use mpbond_testing::namespaces::{is_called_for, play, play_again, sh};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;

use super::{CHANNEL, elsewhere, end, pair, read, runtime, stream, write};
use crate::l2::{FrameSocket, L2Stream};

#[test]
fn a_full_queue_or_socket_stops_the_sender_and_loses_nothing() {
    let role = "l2::tests::bad_input::role_of_full_queues";
    play_again("-Urn", role, "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_full_queues() {
    if !is_called_for() {
        return;
    }
    // A queue of three frames, which refuses the next one; a socket of the least size, whose frames
    // wait in a queue that holds all of them.
    full(6_000, None, Errno::NOBUFS);
    full(10_000_000, Some(1), Errno::AGAIN);
}

/// A transfer at 20 Mbit/s, less than the sender could have, with a queue of so many octets, and a
/// send buffer of this size unless it is the kernel's default one.
fn full(queue_bytes: u32, send_buffer_bytes: Option<usize>, refusal: Errno) {
    const BYTES: u64 = 4_000_000;
    const DURATION: Duration = Duration::from_millis(1600);
    pair();
    sh(&format!(
        "tc qdisc add dev near root tbf rate 20mbit burst 2000 limit {queue_bytes}"
    ));
    let far = elsewhere(|| {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            let read = read(&mut stream).await.unwrap();
            drop(stream);
            // The task ends after the stream.
            tokio::time::sleep(Duration::from_secs(1)).await;
            read
        })
    });
    // The kernel refuses as is wanted here: frames of another channel.
    let other = FrameSocket::open("near", CHANNEL + 1).unwrap();
    if let Some(bytes) = send_buffer_bytes {
        other.shared().set_send_buffer_size(bytes).unwrap();
    }
    // Until the peer's interface is up, they are dropped.
    let deadline = Instant::now() + Duration::from_secs(10);
    let refused = loop {
        if let Err(e) = other.send_one(&[0; 1514]) {
            break e.raw_os_error();
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(refused, Some(refusal.raw_os_error()));
    drop(other);
    let dropped = |text: &str| -> u64 {
        let (_, after) = text.split_once("dropped ").unwrap();
        after.split_once(',').unwrap().0.parse().unwrap()
    };
    let statistics = || sh("tc -s qdisc show dev near");
    let before = dropped(&statistics());
    runtime().block_on(async {
        let (socket, config) = end("near", Side::Primary);
        if let Some(bytes) = send_buffer_bytes {
            socket.shared().set_send_buffer_size(bytes).unwrap();
        }
        let mut stream = L2Stream::open(socket, config).unwrap();
        let start = Instant::now();
        write(&mut stream, BYTES).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        let took = start.elapsed();
        let counts = stream.with_channel(|channel| channel.counts());
        let refused = dropped(&statistics()) - before;
        eprintln!("{BYTES} octets in {took:?}, {counts:?}, {refused} refused by the queue");
        // A frame that was refused is none that was lost.
        assert!(counts.repeated < counts.frames / 100, "{counts:?}");
        assert!(took > DURATION && took < 8 * DURATION, "{took:?}");
        match refusal {
            Errno::NOBUFS => assert!(refused > 100, "{refused}"),
            _ => assert_eq!(refused, 0),
        }
    });
    assert_eq!(far.join().unwrap(), BYTES);
    sh("ip link del near 2>/dev/null || true");
}

#[test]
fn frames_of_another_ether_type_are_not_seen() {
    play("-Urn", "l2::tests::bad_input::role_of_ether_types");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_ether_types() {
    if !is_called_for() {
        return;
    }
    pair();
    sh("ip link set far up");
    let near = FrameSocket::open("near", CHANNEL).unwrap();
    let far = FrameSocket::open("far", CHANNEL).unwrap();
    let send = |ether_type: u16, last: u8| {
        let mut frame = [0; 64];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame[18..22].copy_from_slice(&CHANNEL.to_be_bytes());
        frame[63] = last;
        near.send_one(&frame).unwrap();
    };
    // IPv4, IPv6, the other one for local experiments, a length of IEEE 802.3.
    for (ether_type, last) in [(0x0800, 1), (0x86dd, 2), (0x88b6, 3), (50, 4)] {
        send(ether_type, last);
    }
    send(ETHER_TYPE, 5);
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while seen.last() != Some(&5) {
        assert!(Instant::now() < deadline, "{seen:?}");
        let mut frame = [0; 100];
        match far.receive(&mut frame) {
            Ok(_) => seen.push(frame[63]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(seen, [5]);
}

#[test]
fn a_peer_with_a_smaller_mtu_is_an_error_within_five_seconds() {
    let role = "l2::tests::bad_input::role_of_a_narrow_peer";
    play_again("-Urn", role, "TimedOut");
}

#[test]
#[ignore = "a role, which the test above starts"]
fn role_of_a_narrow_peer() {
    if !is_called_for() {
        return;
    }
    pair();
    let far = elsewhere(|| {
        runtime().block_on(async {
            let mut stream = stream("far", Side::Helper);
            stream.read_exact(&mut [0; 100_000]).await.unwrap();
            // Frames of 1500 octets no longer pass; shorter ones do.
            let shrink = || sh("ip link set far mtu 1300");
            tokio::task::spawn_blocking(shrink).await.unwrap();
            let mut into = [0; 50_000];
            while stream.read(&mut into).await.is_ok() {}
        })
    });
    runtime().block_on(async {
        let mut stream = stream("near", Side::Primary);
        stream.opened().await.unwrap();
        let start = Instant::now();
        let error = write(&mut stream, 1_000_000_000).await.unwrap_err();
        let took = start.elapsed();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        let text = error.to_string();
        eprintln!("after {took:?}: {text}");
        assert!(text.ends_with(": TCP has to be used"), "{text}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
    // It may have heard of the end.
    sh("ip link del near 2>/dev/null || true");
    far.join().unwrap();
}
