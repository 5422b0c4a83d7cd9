//! Probes in made captures, whose delays are known, and in a recorded one.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::net::SocketAddr;

use mpbond_capture::delay::{OnWire, Protocol, WireClock, WireProbes, wire_probes};
use mpbond_testing::sample;

const RAW: u32 = 101;
const RADIOTAP: u32 = 127;
const PHONE: [u8; 4] = [10, 0, 0, 2];
const SERVER: [u8; 4] = [198, 51, 100, 1];
const RUN: u64 = 0x0123_4567_89ab_cdef;

/// A classic capture, with times in µs.
struct Pcap {
    link: u32,
    records: Vec<(u64, Vec<u8>)>,
}

impl Pcap {
    fn new(link: u32) -> Self {
        let records = Vec::new();
        Self { link, records }
    }

    fn push(&mut self, at_us: u64, data: Vec<u8>) {
        self.records.push((at_us, data));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, self.link] {
            file.extend(field.to_le_bytes());
        }
        for (at, data) in &self.records {
            let length = data.len() as u32;
            let (s, us) = (1_700_000_000 + at / 1_000_000, at % 1_000_000);
            for field in [s as u32, us as u32, length, length] {
                file.extend(field.to_le_bytes());
            }
            file.extend(data);
        }
        file
    }

    fn read(&self, ports: &[u16]) -> WireProbes {
        let ports: HashSet<u16> = ports.iter().copied().collect();
        wire_probes("x", &self.bytes()[..], &ports).unwrap()
    }
}

/// An IPv4 packet from the phone to the server, or back.
fn ip(protocol: u8, out: bool, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    p.extend(if out { PHONE } else { SERVER });
    p.extend(if out { SERVER } else { PHONE });
    p.extend(body);
    let length = (p.len() as u16).to_be_bytes();
    p[2..4].copy_from_slice(&length);
    p
}

/// As `mpbond probe` and `mpbond probe-server` write them (`probe::message`).
fn message(seq: u32, answer: bool) -> Vec<u8> {
    let mut m = b"mpbP\x01".to_vec();
    m.extend([u8::from(answer), 0, 0]);
    m.extend(RUN.to_be_bytes());
    m.extend(seq.to_be_bytes());
    m.resize(56, 0);
    m
}

fn udp(seq: u32, out: bool) -> Vec<u8> {
    let (from, to) = if out {
        (40_000_u16, 7007_u16)
    } else {
        (7007, 40_000)
    };
    let body = message(seq, !out);
    let mut d = [from.to_be_bytes(), to.to_be_bytes()].concat();
    d.extend((body.len() as u16 + 8).to_be_bytes());
    d.extend([0, 0]);
    d.extend(body);
    ip(17, out, &d)
}

fn echo(identifier: u16, seq: u16, out: bool, payload: &[u8]) -> Vec<u8> {
    let mut m = vec![if out { 8 } else { 0 }, 0, 0, 0];
    m.extend(identifier.to_be_bytes());
    m.extend(seq.to_be_bytes());
    m.extend(payload);
    ip(1, out, &m)
}

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn tcp(port: u16, out: bool, (sequence, ack): (u32, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = if out { (port, 80) } else { (80, port) };
    let mut s = [from.to_be_bytes(), to.to_be_bytes()].concat();
    s.extend(sequence.to_be_bytes());
    s.extend(ack.to_be_bytes());
    s.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    s.extend(payload);
    ip(6, out, &s)
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((PHONE, port))
}

fn delay_us(seen: &OnWire) -> f64 {
    let times = seen.times().unwrap();
    // Too many for a float before they are subtracted.
    (times.in_ns - times.out_ns) as f64 / 1e3
}

#[test]
fn datagrams_by_run_and_number() {
    let mut p = Pcap::new(RAW);
    for seq in 0..5_u32 {
        let at = u64::from(seq) * 10_000;
        p.push(at, udp(seq, true));
        // ICMP with the same run: another method's probes.
        p.push(at + 10, echo(7, seq as u16, true, &message(seq, false)));
        p.push(at + 20, echo(9, seq as u16, true, b"somebody's ping"));
        p.push(at + 3_000 + u64::from(seq), udp(seq, false));
        if seq != 3 {
            p.push(at + 4_010, echo(7, seq as u16, false, &message(seq, false)));
        }
        p.push(at + 5_020, echo(9, seq as u16, false, b"somebody's ping"));
    }
    // A second answer is no first one.
    p.push(60_000, udp(4, false));
    let seen = p.read(&[]);
    for seq in 0..5 {
        let udp = seen.numbered[&(Protocol::Udp, RUN, seq)];
        assert_eq!(delay_us(&udp), 3_000.0 + f64::from(seq));
        assert_eq!(udp.times().unwrap().clock, WireClock::Capture);
        assert_eq!(udp.answers, if seq == 4 { 2 } else { 1 });
        let icmp = seen.numbered[&(Protocol::Icmp, RUN, seq)];
        match seq {
            3 => assert_eq!((icmp.times(), icmp.questions), (None, 1)),
            _ => assert_eq!(delay_us(&icmp), 4_000.0),
        }
        let ping = seen.pings[&(PHONE.into(), SERVER.into(), 9, seq as u16)];
        assert_eq!(delay_us(&ping), 5_000.0);
    }
    assert_eq!((seen.numbered.len(), seen.pings.len()), (10, 5));
}

#[test]
fn handshakes_and_requests_by_port_and_order() {
    let mut p = Pcap::new(RAW);
    // Open: the SYN is sent again after a second, and counts from its first.
    p.push(0, tcp(5001, true, (100, 0), SYN, b""));
    p.push(1_000_000, tcp(5001, true, (100, 0), SYN, b""));
    p.push(1_020_000, tcp(5001, false, (900, 101), SYN | ACK, b""));
    // Refused, twice from the same port.
    for (i, took) in [(0_u32, 300), (1, 400)] {
        let at = 2_000_000 + u64::from(i) * 100_000;
        let sequence = u32::MAX - i;
        p.push(at, tcp(5002, true, (sequence, 0), SYN, b""));
        p.push(
            at + took,
            tcp(5002, false, (0, sequence.wrapping_add(1)), RST | ACK, b""),
        );
    }
    // Requests on one connection, whose numbers begin again; the reply comes in two segments, and
    // before it an acknowledgement without any.
    let get = b"GET / HTTP/1.1\r\n\r\n";
    let mut sequence = u32::MAX - 20;
    for i in 0..3_u32 {
        let at = 3_000_000 + u64::from(i) * 100_000;
        let next = sequence.wrapping_add(get.len() as u32);
        p.push(at, tcp(5003, true, (sequence, 1), ACK, get));
        p.push(at + 500, tcp(5003, false, (1, next), ACK, b""));
        p.push(
            at + 700 + u64::from(i),
            tcp(5003, false, (1, next), ACK, b"HTTP/1.1 2"),
        );
        p.push(
            at + 900,
            tcp(5003, false, (11, next), ACK, b"04 No Content\r\n\r\n"),
        );
        sequence = next;
    }
    // Not a probe: no request went to this port.
    p.push(4_000_000, tcp(6000, true, (5, 0), SYN, b""));
    let seen = p.read(&[5001, 5002, 5003]);
    let open = seen.handshake(local(5001), 0).unwrap();
    assert_eq!((delay_us(&open), open.questions), (1_020_000.0, 2));
    assert_eq!(delay_us(&seen.handshake(local(5002), 0).unwrap()), 300.0);
    assert_eq!(delay_us(&seen.handshake(local(5002), 1).unwrap()), 400.0);
    assert_eq!(seen.handshake(local(5002), 2), None);
    for i in 0..3 {
        let request = seen.request(local(5003), i).unwrap();
        assert_eq!(delay_us(&request), 700.0 + i as f64);
        assert_eq!((request.questions, request.answers), (1, 1));
    }
    assert_eq!(seen.handshake(local(6000), 0), None);
    // Behind address translation, or known by its port only.
    for other in ["0.0.0.0:5001", "192.168.1.7:5001", "[::]:5001"] {
        let found = seen.handshake(other.parse().unwrap(), 0);
        assert_eq!(found, Some(open), "{other}");
    }
}

/// ClientHello to the end of the server's flight, in three segments; the second is sent again last.
#[test]
fn tls_handshakes_end_with_the_flight() {
    let hello = [&[22, 3, 1, 0, 100, 1][..], &[0; 99]].concat();
    let port = 5004;
    let mut p = Pcap::new(RAW);
    let begin = u32::MAX - 50;
    let after = begin.wrapping_add(hello.len() as u32);
    p.push(0, tcp(port, true, (begin - 1, 0), SYN, b""));
    p.push(20_000, tcp(port, false, (900, begin), SYN | ACK, b""));
    p.push(20_500, tcp(port, true, (begin, 901), ACK, &hello));
    // Sent again, and acknowledged without anything: neither is the answer.
    p.push(21_000, tcp(port, true, (begin, 901), ACK, &hello));
    p.push(40_000, tcp(port, false, (901, after), ACK, b""));
    p.push(41_000, tcp(port, false, (901, after), ACK, &[22; 100]));
    p.push(41_100, tcp(port, false, (1001, after), ACK, &[22; 100]));
    p.push(41_200, tcp(port, false, (1101, after), ACK, &[22; 50]));
    p.push(62_000, tcp(port, false, (1001, after), ACK, &[22; 100]));
    let without_end = p.read(&[port]);
    p.push(62_100, tcp(port, true, (after, 1151), RST | ACK, b""));
    // What the server sent before it heard of that.
    p.push(70_000, tcp(port, false, (1151, after), ACK, &[23; 20]));
    for seen in [without_end, p.read(&[port])] {
        let tls = seen.hello(local(port), 0).unwrap();
        assert_eq!(delay_us(&tls), 41_500.0);
        assert_eq!((tls.questions, tls.answers), (2, 2));
        assert_eq!(delay_us(&seen.handshake(local(port), 0).unwrap()), 20_000.0);
        assert_eq!(seen.hello(local(port), 1), None);
        assert_eq!(seen.request(local(port), 0), None);
    }
}

const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
const POINT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// A frame of 802.11 with QoS, behind radiotap with the sniffer's clock and flags.
struct Air {
    tsft_us: u64,
    radiotap_flags: u8,
    /// To the access point.
    up: bool,
    transmitter: [u8; 6],
    sequence: u16,
    /// Of the second octet: retry, protected.
    flags: u8,
    qos: u8,
}

impl Air {
    fn frame(&self, body: &[u8]) -> Vec<u8> {
        let mut f = vec![0, 0, 17, 0, 3, 0, 0, 0];
        f.extend(self.tsft_us.to_le_bytes());
        f.push(self.radiotap_flags);
        let receiver = if self.up { POINT } else { STATION };
        f.extend([0x88, self.flags | if self.up { 1 } else { 2 }, 0, 0]);
        f.extend([receiver, self.transmitter, OTHER].concat());
        f.extend((self.sequence << 4).to_le_bytes());
        f.extend([self.qos, 0]);
        f.extend(body);
        f
    }
}

fn snap(packet: &[u8]) -> Vec<u8> {
    [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], packet].concat()
}

const RETRY: u8 = 8;
const PROTECTED: u8 = 0x40;

#[test]
fn frames_on_the_air_count_from_the_first_to_the_last_transmission() {
    let mut p = Pcap::new(RADIOTAP);
    let mut sequence = 0;
    let mut air = |p: &mut Pcap, at: u64, up, transmitter, again: bool, packet: &[u8]| {
        sequence += u16::from(!again);
        let air = Air {
            tsft_us: 5_000_000 + at,
            radiotap_flags: 0,
            up,
            transmitter,
            sequence,
            flags: if again { RETRY } else { 0 },
            qos: 0,
        };
        // The sniffer's host stamps them a little later, by another amount each time.
        p.push(at + 100 + at % 77, air.frame(&snap(packet)));
    };
    // 0: plainly. 1: both are repeated.
    air(&mut p, 0, true, STATION, false, &udp(0, true));
    air(&mut p, 20_000, false, POINT, false, &udp(0, false));
    air(&mut p, 30_000, true, STATION, false, &udp(1, true));
    air(&mut p, 30_400, true, STATION, true, &udp(1, true));
    air(&mut p, 50_000, false, POINT, false, &udp(1, false));
    air(&mut p, 50_300, false, POINT, true, &udp(1, false));
    air(&mut p, 50_800, false, POINT, true, &udp(1, false));
    // 2: the server is a station, too: the access point passes both on.
    air(&mut p, 60_000, true, STATION, false, &udp(2, true));
    air(&mut p, 60_500, false, POINT, false, &udp(2, true));
    air(&mut p, 61_000, true, OTHER, false, &udp(2, false));
    air(&mut p, 61_700, false, POINT, false, &udp(2, false));
    // The server answers 0 a second time, much later.
    air(&mut p, 90_000, false, POINT, false, &udp(0, false));
    // Encrypted; damaged; no data in it.
    let one = |flags, radiotap_flags, qos| Air {
        tsft_us: 6_000_000,
        radiotap_flags,
        up: true,
        transmitter: STATION,
        sequence: 900,
        flags,
        qos,
    };
    p.push(95_000, one(PROTECTED, 0, 0).frame(&snap(&udp(3, true))));
    p.push(95_100, one(0, 0x40, 0).frame(&snap(&udp(4, true))));
    // Two in one frame (A-MSDU), the first padded.
    let mut aggregate = Vec::new();
    for seq in [5, 6] {
        let inner = snap(&[udp(seq, true), vec![0; 1]].concat());
        aggregate.extend([POINT, STATION].concat());
        aggregate.extend((inner.len() as u16).to_be_bytes());
        aggregate.extend(&inner);
        aggregate.resize(aggregate.len().next_multiple_of(4), 0);
    }
    p.push(96_000, one(0, 0, 0x80).frame(&aggregate));
    let seen = p.read(&[]);
    let of = |seq: u32| seen.numbered.get(&(Protocol::Udp, RUN, seq));
    for (seq, delay, questions, answers) in
        [(0, 20_000.0, 1, 2), (1, 20_800.0, 2, 3), (2, 1_700.0, 2, 2)]
    {
        let probe = of(seq).unwrap();
        assert_eq!(probe.times().unwrap().clock, WireClock::Tsft, "{seq}");
        assert_eq!(delay_us(probe), delay, "{seq}");
        assert_eq!((probe.questions, probe.answers), (questions, answers));
    }
    assert_eq!((of(3), of(4)), (None, None));
    assert_eq!((seen.sealed, seen.damaged), (1, 1));
    for seq in [5, 6] {
        assert_eq!(of(seq).unwrap().questions, 1, "{seq}");
    }
}

#[test]
fn cut_captures_say_so_and_keep_what_was_whole() {
    let mut p = Pcap::new(RAW);
    for seq in 0..3 {
        p.push(u64::from(seq) * 1000, udp(seq, true));
        p.push(u64::from(seq) * 1000 + 500, udp(seq, false));
    }
    let whole = p.bytes();
    for end in 0..whole.len() {
        let Ok(seen) = wire_probes("x", &whole[..end], &HashSet::new()) else {
            assert!(end < 24, "{end}");
            continue;
        };
        let answered = seen.numbered.values().filter(|p| p.times().is_some());
        let record = 16 + udp(0, true).len();
        assert_eq!(answered.count(), (end - 24) / record / 2, "{end}");
        let at_a_border = (end - 24) % record == 0;
        assert_eq!(seen.incomplete.is_none(), at_a_border, "{end}");
    }
}

#[test]
fn pings_of_a_recorded_capture() {
    let Some(path) = sample("tcp/wireshark_dns+icmp.pcapng.gz") else {
        return;
    };
    let file = std::fs::File::open(path).unwrap();
    let seen = wire_probes("x", file, &HashSet::new()).unwrap();
    // 33 packets, 12 echo requests (README of the samples).
    assert_eq!(seen.records, 33);
    let requests: u32 = seen.pings.values().map(|p| p.questions).sum();
    assert_eq!(requests, 12);
    let delays: Vec<f64> = seen
        .pings
        .values()
        .filter(|p| p.times().is_some())
        .map(delay_us)
        .collect();
    assert!(!delays.is_empty());
    assert!(delays.iter().all(|d| (0.0..2e6).contains(d)), "{delays:?}");
}

/// Recorded 802.11: one echo request in an aggregate (A-MSDU), twice on the air and once at the
/// client; nobody answers it. Counts are those of a reader of its own, made for this.
#[test]
fn frames_of_recorded_802_11() {
    let Some(folder) = sample("wifi") else {
        return;
    };
    for (name, records, sealed, requests) in [
        ("fragattacks_eapol-amsdu_BP-fromap.pcapng", 258, 92, Some(2)),
        ("fragattacks_eapol-amsdu_BP-onclient.pcapng", 42, 0, Some(1)),
        ("wltrace_trace.pcap", 318, 23, None),
        ("wltrace_non_radiotap.pcap", 2001, 0, None),
        ("wireshark_wpa-Induction.pcap.gz", 1093, 280, None),
    ] {
        let file = std::fs::File::open(folder.join(name)).unwrap();
        let seen = wire_probes(name, file, &HashSet::new()).unwrap();
        assert_eq!((seen.records, seen.sealed), (records, sealed), "{name}");
        let pings: Vec<&OnWire> = seen.pings.values().collect();
        assert_eq!(pings.first().map(|p| p.questions), requests, "{name}");
        assert!(pings.len() <= 1 && seen.numbered.is_empty(), "{name}");
        assert!(pings.iter().all(|p| p.times().is_none()), "{name}");
        assert_eq!(seen.incomplete, None, "{name}");
    }
}

/// A recorded TLS handshake: packets 4 (ClientHello) and 8 (the last of the server's flight, before
/// the client goes on), read off by hand.
#[test]
fn a_recorded_tls_handshake() {
    let Some(path) = sample("tcp/ndpi_443-firefox.pcap") else {
        return;
    };
    let file = std::fs::File::open(path).unwrap();
    let seen = wire_probes("x", file, &HashSet::from([53_096])).unwrap();
    let client: SocketAddr = "192.168.1.13:53096".parse().unwrap();
    let tls = seen.hello(client, 0).unwrap();
    assert_eq!(
        (delay_us(&tls), tls.questions, tls.answers),
        (42_270.0, 1, 1)
    );
    assert_eq!(delay_us(&seen.handshake(client, 0).unwrap()), 38_504.0);
    assert_eq!(seen.hello(client, 1), None);
}
