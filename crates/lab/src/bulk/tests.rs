//! Transfers over the loopback interface.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mpbond_testing::namespaces::{is_called_for, play_again};
use mpbond_units::BitRate;
use sha2::{Digest, Sha256};

use super::*;
use crate::network::cable::{self, Cable, Units};
use crate::network::host::Host;
use crate::network::wiring::counters;

fn sending(to: SocketAddr, transport: &str) -> SendOptions {
    SendOptions {
        to,
        transport: transport.parse().unwrap(),
        datagrams: Datagrams::Single,
        file: None,
        rate: None,
        tick: Duration::from_millis(1),
        bytes: Some(1_000_000),
        duration: None,
    }
}

fn receiving(transport: &str) -> ReceiveOptions {
    ReceiveOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        transport: transport.parse().unwrap(),
        datagrams: Datagrams::Single,
        file: None,
    }
}

fn file(path: &Path, copies: Copies) -> Option<Files> {
    Some(Files {
        path: path.to_owned(),
        copies,
        ring_bytes: None,
    })
}

/// Runs one transfer: its sender's and its receiver's result.
fn transfer(from: impl FnOnce(SocketAddr) -> SendOptions, to: &ReceiveOptions) -> [Moved; 2] {
    let receiver = Receiver::open(to).unwrap();
    let options = from(receiver.address().unwrap());
    let sender = std::thread::spawn(move || send(&options).unwrap());
    let received = receiver.receive().unwrap();
    [sender.join().unwrap(), received]
}

#[test]
fn files_arrive_whole_by_one_and_by_two_copies() {
    let folder = tempfile::tempdir().unwrap();
    let (source, sink) = (folder.path().join("source"), folder.path().join("sink"));
    let content: Vec<u8> = (0..700_001_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    // The file is sent again from its beginning until 1 MB.
    let expect: Vec<u8> = content.iter().copied().cycle().take(1_000_000).collect();
    for copies in [Copies::Two, Copies::One] {
        let mut to = receiving("tcp");
        to.file = file(&sink, copies);
        let from = |address| SendOptions {
            file: file(&source, copies),
            ..sending(address, "tcp")
        };
        let [sent, received] = transfer(from, &to);
        assert_eq!((sent.bytes, received.bytes), (1_000_000, 1_000_000));
        assert!(std::fs::read(&sink).unwrap() == expect, "{copies:?}");
        // Into a ring.
        to.file.as_mut().unwrap().ring_bytes = Some(300_000);
        let [_, received] = transfer(from, &to);
        assert_eq!(received.bytes, 1_000_000);
        let kept = std::fs::read(&sink).unwrap();
        assert_eq!(kept.len(), 300_000);
        assert!(kept[..100_000] == expect[900_000..], "{copies:?}");
        assert!(kept[100_000..] == expect[700_000..900_000], "{copies:?}");
    }
}

/// 2 Mbit/s are little enough that no queue overflows.
#[test]
fn datagrams_are_counted() {
    for (transport, datagrams) in [
        ("udp:1472", Datagrams::Single),
        ("udp:1472", Datagrams::Sendmmsg),
        ("udp:1472", Datagrams::Gso),
        ("udp:20000", Datagrams::Single),
    ] {
        let mut to = receiving(transport);
        if datagrams == Datagrams::Gso {
            to.datagrams = datagrams;
        }
        let from = |address| SendOptions {
            datagrams,
            rate: Some(BitRate::from_mbps(2.0)),
            tick: Duration::from_millis(20),
            bytes: Some(100_000),
            ..sending(address, transport)
        };
        let [sent, received] = transfer(from, &to);
        // Whole datagrams only.
        assert!((80_000..=100_000).contains(&sent.bytes), "{sent:?}");
        assert_eq!(received.lost_bytes, Some(sent.bytes - received.bytes));
        assert_eq!(received.lost_bytes, Some(0), "{transport} {datagrams:?}");
    }
}

/// How much is sent at each instant is tested in `pace`.
#[test]
fn a_transfer_with_a_rate_ends_when_its_time_is_over() {
    let from = |address| SendOptions {
        rate: Some(BitRate::from_mbps(8.0)),
        bytes: None,
        duration: Some(Duration::from_millis(500)),
        ..sending(address, "tcp")
    };
    let [sent, received] = transfer(from, &receiving("tcp"));
    assert_eq!(sent.bytes, received.bytes);
    assert!(sent.seconds >= 0.5, "{sent:?}");
}

#[test]
fn a_file_arrives_whole_over_ethernet_frames() {
    play_again("-Urn", "bulk::tests::role_of_frames", "Silent");
}

#[test]
#[ignore = "run by the test above"]
fn role_of_frames() {
    if !is_called_for() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [source, sink] = ["source", "sink"].map(|name| folder.path().join(name));
    let content: Vec<u8> = (0..700_001_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    let cable = Cable::new(Units::Large).unwrap();
    for (bytes, rate) in [(20_000_000, None), (500_000, Some(BitRate::from_mbps(8.0)))] {
        let to = ReceiveOptions {
            listen: SocketAddr::new(cable::FAR, 0),
            file: file(&sink, Copies::Two),
            ..receiving("l2")
        };
        let frames = |host: &Host| host.enter(|| counters(host.name()).unwrap().received_packets);
        let before = frames(&cable.far).unwrap();
        let (tell, hear) = std::sync::mpsc::channel();
        let [sent, received] = std::thread::scope(|scope| {
            let far = scope.spawn(|| {
                let receive = move || {
                    let receiver = Receiver::open(&to).unwrap();
                    tell.send(receiver.address().unwrap()).unwrap();
                    receiver.receive().unwrap()
                };
                cable.far.enter(receive).unwrap()
            });
            let options = SendOptions {
                file: file(&source, Copies::Two),
                rate,
                bytes: Some(bytes),
                ..sending(hear.recv().unwrap(), "l2")
            };
            let sent = cable.near.enter(|| send(&options).unwrap()).unwrap();
            [sent, far.join().unwrap()]
        });
        assert_eq!((sent.bytes, received.bytes), (bytes, bytes));
        let expect: Vec<u8> = content
            .iter()
            .copied()
            .cycle()
            .take(bytes as usize)
            .collect();
        let digest = |octets: &[u8]| format!("{:x}", Sha256::digest(octets));
        let arrived = std::fs::read(&sink).unwrap();
        assert_eq!(digest(&arrived), digest(&expect));
        // TCP would pass in larger segments through the cable.
        let count = frames(&cable.far).unwrap() - before;
        assert!(count > bytes / 1500, "{count} frames");
        if let Some(rate) = rate {
            let least = bytes as f64 * 8.0 / rate.bps() as f64;
            assert!(sent.seconds > 0.9 * least, "{sent:?}");
        }
    }
}

#[test]
fn an_end_that_cannot_use_frames_is_named() {
    let to = receiving("l2");
    let receiver = Receiver::open(&to).unwrap();
    let options = sending(receiver.address().unwrap(), "l2");
    let why = send(&options).unwrap_err().to_string();
    let words = "127.0.0.1 is not on a link of this device: frames go no further";
    assert!(why.ends_with(words), "{why}");
    let why = receiver.receive().unwrap_err().to_string();
    assert!(why.starts_with("the transfer broke off"), "{why}");
    // A sender over TCP.
    let receiver = Receiver::open(&to).unwrap();
    let mut plain = std::net::TcpStream::connect(receiver.address().unwrap()).unwrap();
    plain.write_all(&[0x5a; 100]).unwrap();
    let why = receiver.receive().unwrap_err().to_string();
    let words = "the sender offers no frames: start it with the same --transport";
    assert!(why.ends_with(words), "{why}");
    // A connection without an offer.
    let mut silent = Receiver::open(&to).unwrap();
    silent.patience = Duration::from_millis(50);
    let _open = std::net::TcpStream::connect(silent.address().unwrap()).unwrap();
    let why = silent.receive().unwrap_err().to_string();
    assert!(
        why.ends_with("nothing arrived for 0.05 s: is the sender running?"),
        "{why}"
    );
}

#[test]
fn datagrams_of_others_do_not_count() {
    let [receiver, sender, other] =
        [(); 3].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = receiver.local_addr().unwrap();
    sender.send_to(&[0; 100], to).unwrap();
    // The first one has arrived; the others wait behind it.
    receiver.peek(&mut [0]).unwrap();
    other.send_to(&[0; 100], to).unwrap();
    other.send_to(&end_of(100), to).unwrap();
    sender.send_to(&end_of(200), to).unwrap();
    let patience = Some(Duration::from_secs(60));
    let received = receive::datagrams(&receiver, &mut file::Sink::Nowhere, patience).unwrap();
    assert_eq!((received.bytes, received.lost_bytes), (100, Some(100)));
}

#[test]
fn silence_of_the_other_end_is_named() {
    let patience = Duration::from_millis(50);
    for transport in ["tcp", "udp:1472"] {
        let mut receiver = Receiver::open(&receiving(transport)).unwrap();
        receiver.patience = patience;
        let to = receiver.address().unwrap();
        // A connection stays open until the error.
        let _open = match transport {
            "tcp" => Some(std::net::TcpStream::connect(to).unwrap()),
            _ => {
                let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.send_to(b"data", to).unwrap();
                None
            }
        };
        let why = receiver.receive().unwrap_err().to_string();
        let words = "nothing arrived for 0.05 s: is the sender running?";
        assert!(why.ends_with(words), "{why}");
    }
    // The kernel completes the handshake and takes what its buffers can hold.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = SendOptions {
        bytes: None,
        duration: Some(Duration::from_secs(600)),
        ..sending(silent.local_addr().unwrap(), "tcp")
    };
    let why = send::send_within(&options, patience).unwrap_err();
    let words = "the receiver took nothing for 0.05 s: is it still running?";
    assert!(why.to_string().ends_with(words), "{why}");
}

#[test]
fn wrong_options_are_refused() {
    let to = SocketAddr::from(([127, 0, 0, 1], 9));
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let none = folder.path().join("none");
    let udp = sending(to, "udp:1472");
    let gso = Datagrams::Gso;
    for (options, words) in [
        (
            SendOptions {
                bytes: None,
                ..udp.clone()
            },
            "a number of bytes or a time",
        ),
        (
            SendOptions {
                tick: Duration::ZERO,
                ..udp.clone()
            },
            "100 us to 1 s",
        ),
        (
            SendOptions {
                file: file(&empty, Copies::One),
                ..udp.clone()
            },
            "one copy needs",
        ),
        (
            SendOptions {
                datagrams: gso,
                ..sending(to, "tcp")
            },
            "need the transport udp",
        ),
        (
            SendOptions {
                datagrams: gso,
                ..sending(to, "l2")
            },
            "need the transport udp",
        ),
        (
            SendOptions {
                file: file(&empty, Copies::One),
                ..sending(to, "l2")
            },
            "one copy needs",
        ),
        (
            SendOptions {
                datagrams: gso,
                ..sending(to, "udp:40000")
            },
            "at most 32000",
        ),
        (
            SendOptions {
                file: file(&empty, Copies::Two),
                ..udp.clone()
            },
            "the file is empty",
        ),
        (
            SendOptions {
                file: file(&none, Copies::Two),
                ..udp
            },
            "No such file",
        ),
    ] {
        let why = send(&options).unwrap_err().to_string();
        assert!(why.contains(words), "{why}");
    }
    for bad in [
        "sctp",
        "udp",
        "udp:24",
        "udp:65508",
        "udp:-1",
        "tcp:1",
        "l2:1",
    ] {
        assert!(bad.parse::<Transport>().is_err(), "{bad}");
    }
    assert_eq!(
        "udp:1472".parse::<Transport>().unwrap().to_string(),
        "udp:1472"
    );
}

#[test]
fn a_relay_passes_everything_on() {
    let ticks = [None, Some(Duration::from_millis(5))];
    for (copies, tick) in [Copies::Two, Copies::One]
        .into_iter()
        .flat_map(|copies| ticks.map(|tick| (copies, tick)))
    {
        let folder = tempfile::tempdir().unwrap();
        let [source, sink] = ["source", "sink"].map(|name| folder.path().join(name));
        let content: Vec<u8> = (0..900_001_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&source, &content).unwrap();
        let mut to = receiving("tcp");
        to.file = file(&sink, Copies::Two);
        let receiver = Receiver::open(&to).unwrap();
        let relay = Relay::open(RelayOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to: receiver.address().unwrap(),
            transport: Transport::Tcp,
            by: RelayBy::Calls { copies, tick },
        });
        let relay = relay.unwrap();
        let options = SendOptions {
            file: file(&source, Copies::Two),
            bytes: Some(content.len() as u64),
            ..sending(relay.address().unwrap(), "tcp")
        };
        let relay = std::thread::spawn(move || relay.relay().unwrap());
        let sender = std::thread::spawn(move || send(&options).unwrap());
        let received = receiver.receive().unwrap();
        sender.join().unwrap();
        assert_eq!(relay.join().unwrap().bytes, 900_001);
        assert_eq!(received.bytes, 900_001);
        assert!(
            std::fs::read(&sink).unwrap() == content,
            "{copies:?} {tick:?}"
        );
    }
    let slow = Relay::open(RelayOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        to: SocketAddr::from(([127, 0, 0, 1], 9)),
        transport: Transport::Tcp,
        by: RelayBy::Calls {
            copies: Copies::One,
            tick: Some(Duration::from_secs(1)),
        },
    });
    let why = slow.err().unwrap().to_string();
    assert!(why.contains("100 us to 100 ms"), "{why}");
}

#[test]
fn a_helpers_relay_passes_on_what_comes_over_frames() {
    play_again("-Urn", "bulk::tests::role_of_a_relay_of_frames", "Silent");
}

#[test]
#[ignore = "run by the test above"]
fn role_of_a_relay_of_frames() {
    if !is_called_for() {
        return;
    }
    const BYTES: u64 = 5_000_000;
    let folder = tempfile::tempdir().unwrap();
    let [source, sink] = ["source", "sink"].map(|name| folder.path().join(name));
    let content: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    let cable = Cable::new(Units::Packets).unwrap();
    let listen = SocketAddr::new(cable::FAR, 0);
    let frames = || {
        cable
            .far
            .enter(|| counters(cable.far.name()).unwrap().received_packets)
    };
    let before = frames().unwrap();
    let to = ReceiveOptions {
        listen,
        file: file(&sink, Copies::Two),
        ..receiving("tcp")
    };
    let mut receiver = cable.far.enter(|| Receiver::open(&to).unwrap()).unwrap();
    receiver.begins_within = Some(Duration::from_secs(10));
    let relay = RelayOptions {
        listen,
        to: receiver.address().unwrap(),
        transport: Transport::L2,
        by: RelayBy::Helper {
            longest_tick: Duration::from_millis(5),
        },
    };
    let relay = cable.far.enter(|| Relay::open(relay).unwrap()).unwrap();
    let options = SendOptions {
        file: file(&source, Copies::Two),
        bytes: Some(BYTES),
        ..sending(relay.address().unwrap(), "l2")
    };
    let [sent, relayed, received] = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver.receive().unwrap());
        let relay = scope.spawn(|| cable.far.enter(|| relay.relay().unwrap()).unwrap());
        let sent = cable.near.enter(|| send(&options).unwrap()).unwrap();
        [sent, relay.join().unwrap(), receiver.join().unwrap()]
    });
    assert_eq!([sent.bytes, relayed.bytes, received.bytes], [BYTES; 3]);
    assert!(std::fs::read(&sink).unwrap() == content);
    // All came over the cable as frames of at most 1500 octets.
    let count = frames().unwrap() - before;
    assert!(count > BYTES / 1500, "{count} frames");
}
