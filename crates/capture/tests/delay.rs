//! The split of one-way delays, against made captures whose delays are known.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use mpbond_capture::delay::{OwdError, Places, one_way, proxy_log, rfcomm_stream, tcp_transfer};

const EPOCH_US: u64 = 1_700_000_000_000_000;
/// The stream's numbers begin again after some packets.
const ISN: u32 = u32::MAX - 20_000;
const SEGMENT: u32 = 1000;
const SEGMENTS: u32 = 60;

/// A classic capture of raw IP.
struct Pcap(Vec<(u64, Vec<u8>)>);

impl Pcap {
    /// From the server, or back.
    fn push(&mut self, at_us: u64, down: bool, sequence: u32, ack: u32, flags: u8, bytes: u32) {
        let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
        let (server, phone) = ([198, 51, 100, 1], [10, 0, 0, 2]);
        p.extend(if down { server } else { phone });
        p.extend(if down { phone } else { server });
        let (from, to) = if down {
            (443_u16, 50_000_u16)
        } else {
            (50_000, 443)
        };
        p.extend(from.to_be_bytes());
        p.extend(to.to_be_bytes());
        p.extend(sequence.to_be_bytes());
        p.extend(ack.to_be_bytes());
        p.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        p.resize(40 + bytes as usize, 7);
        let length = (p.len() as u16).to_be_bytes();
        p[2..4].copy_from_slice(&length);
        self.0.push((EPOCH_US + at_us, p));
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.0.sort_by_key(|(at, _)| *at);
        let mut file = Vec::new();
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 101] {
            file.extend(field.to_le_bytes());
        }
        for (at, p) in &self.0 {
            let length = p.len() as u32;
            for field in [
                (at / 1_000_000) as u32,
                (at % 1_000_000) as u32,
                length,
                length,
            ] {
                file.extend(field.to_le_bytes());
            }
            file.extend(p);
        }
        file
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment each 10 ms, 20 ms to the phone, whose clock is `skew_us` ahead; ACKs take 20 ms back.
/// Segment 5 is lost and sent again after 100 ms; 11 overtakes 10.
fn captures(skew_us: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut server, mut phone) = (Pcap(Vec::new()), Pcap(Vec::new()));
    server.push(0, true, ISN, 0, SYN | ACK, 0);
    phone.push(20_000 + skew_us, true, ISN, 0, SYN | ACK, 0);
    for i in 0..SEGMENTS {
        let sequence = ISN.wrapping_add(1 + i * SEGMENT);
        let sent = u64::from(i) * 10_000 + 50_000;
        server.push(sent, true, sequence, 1, ACK, SEGMENT);
        let mut came = sent + 20_000;
        match i {
            5 => {
                server.push(sent + 100_000, true, sequence, 1, ACK, SEGMENT);
                came = sent + 120_000;
            }
            10 => came += 15_000,
            _ => {}
        }
        phone.push(came + skew_us, true, sequence, 1, ACK, SEGMENT);
        let next = sequence.wrapping_add(SEGMENT);
        phone.push(came + skew_us + 1, false, 1, next, ACK, 0);
        server.push(came + 20_001, false, 1, next, ACK, 0);
    }
    (server.bytes(), phone.bytes())
}

/// The proxy has all 300 ms after the phone's kernel, and holds it for 50 ms.
fn proxy(skew_us: u64) -> String {
    let mut log = "time_s,event,bytes\n".to_owned();
    for i in 0..SEGMENTS {
        let read = EPOCH_US + skew_us + u64::from(i) * 10_000 + 70_000 + 300_000;
        for (at, event) in [(read, "read"), (read + 50_000, "sent")] {
            log += &format!("{}.{:06},{event},1000\n", at / 1_000_000, at % 1_000_000);
        }
    }
    log
}

/// RFCOMM on the watch: 40 ms after the proxy gave it to Bluetooth, in frames of 250 bytes.
fn watch(skew_us: u64) -> Vec<u8> {
    let mut log = b"btsnoop\0\0\0\0\x01\0\0\x03\xea".to_vec();
    for i in 0..SEGMENTS * 4 {
        let at = EPOCH_US + skew_us + u64::from(i / 4) * 10_000 + 460_000;
        // Two octets of length, and the check sequence of address 0x0b, control 0xef.
        let mut frame = vec![0x0b, 0xef, (250_u16 << 1) as u8, 250 >> 7];
        frame.extend([9; 250]);
        frame.push(0x9a);
        let l2cap = (frame.len() as u16).to_le_bytes();
        let mut packet = vec![2, 5, 0x20];
        packet.extend((frame.len() as u16 + 4).to_le_bytes());
        packet.extend(l2cap);
        packet.extend([0x41, 0]);
        packet.extend(frame);
        let length = (packet.len() as u32).to_be_bytes();
        log.extend(length);
        log.extend(length);
        log.extend(1_u32.to_be_bytes());
        log.extend(0_u32.to_be_bytes());
        log.extend((at + 0x00dc_ddb3_0f2f_8000).to_be_bytes());
        log.extend(packet);
    }
    log
}

#[test]
fn delays_are_split_over_the_places() {
    let skew_us = 3_600_000_000;
    let (server, phone) = captures(skew_us);
    let server = tcp_transfer("server", &server[..], None).unwrap();
    let phone = tcp_transfer("phone", &phone[..], Some(&server)).unwrap();
    assert_eq!(server.arrivals.bytes(), u64::from(SEGMENTS * SEGMENT));
    assert_eq!(
        (server.retransmitted_bytes, phone.retransmitted_bytes),
        (1000, 0)
    );
    let log = proxy(skew_us);
    let (read, sent) = proxy_log("proxy", log.as_bytes()).unwrap();
    let (watch, incomplete) = rfcomm_stream("watch", &watch(skew_us)[..], true).unwrap();
    assert_eq!(incomplete, None);
    assert_eq!(watch.bytes(), u64::from(SEGMENTS * SEGMENT));
    let report = one_way(&Places {
        server: Some(server),
        phone: Some(phone),
        proxy_read: Some(read),
        proxy_sent: Some(sent),
        watch: Some(watch),
    })
    .unwrap();
    let near = |is: f64, should: f64| assert!((is - should).abs() < 2e-5, "{is}, not {should}");
    let s = &report.segments;
    // The clocks' hour apart is found out: both ways take the same.
    let clock = report.clock.unwrap();
    near(clock.offset_us.unwrap() / 1e6, skew_us as f64 / 1e6);
    near(clock.offset_error_us.unwrap() / 1e6, 0.02);
    assert!(!clock.drifted && clock.crossed == 0);
    let d1 = s.d1.as_ref().unwrap();
    near(d1.median_s, 0.02);
    // The lost segment counts from when it was first sent.
    near(d1.max_s, 0.12);
    assert_eq!(d1.bytes, u64::from(SEGMENTS * SEGMENT));
    near(s.d2.as_ref().unwrap().median_s, 0.3);
    near(s.d2.as_ref().unwrap().min_s, 0.2);
    near(s.d3.as_ref().unwrap().median_s, 0.05);
    near(s.d4.as_ref().unwrap().median_s, 0.04);
    near(report.total.unwrap().median_s, 0.41);
    let json = serde_json::to_value(&report.segments).unwrap();
    assert!(json["d2"]["median_s"].is_number());
}

/// A segment each 100 ms for 40 s, 20 ms to the phone, whose clock loses 150 ppm, 6 ms in all; ACKs
/// take 20 ms back. With `step_us`, the phone's clock is set forward after 20 s.
fn long_captures(step_us: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut server, mut phone) = (Pcap(Vec::new()), Pcap(Vec::new()));
    let by_phone = |at: u64| at - at * 150 / 1_000_000 + if at > 20_000_000 { step_us } else { 0 };
    for i in 0..400 {
        let (sequence, next) = (1 + i * SEGMENT, 1 + (i + 1) * SEGMENT);
        let sent = u64::from(i) * 100_000 + 50_000;
        server.push(sent, true, sequence, 1, ACK, SEGMENT);
        phone.push(by_phone(sent + 20_000), true, sequence, 1, ACK, SEGMENT);
        phone.push(by_phone(sent + 20_000), false, 1, next, ACK, 0);
        server.push(sent + 40_000, false, 1, next, ACK, 0);
    }
    (server.bytes(), phone.bytes())
}

fn one_way_of((server, phone): (Vec<u8>, Vec<u8>)) -> mpbond_capture::delay::DelayReport {
    let server = tcp_transfer("server", &server[..], None).unwrap();
    let phone = tcp_transfer("phone", &phone[..], Some(&server)).unwrap();
    let places = Places {
        server: Some(server),
        phone: Some(phone),
        ..Places::default()
    };
    one_way(&places).unwrap()
}

/// With one offset for all, d1 went from 17 to 23 ms, beyond its error.
#[test]
fn a_skew_of_150_ppm_is_taken_off_d1() {
    let report = one_way_of(long_captures(0));
    let clock = report.clock.unwrap();
    assert!(!clock.drifted && clock.crossed == 0, "{clock:?}");
    let error_us = clock.offset_error_us.unwrap();
    assert_eq!(Some(error_us), report.clock_error_us);
    // Both directions: the receiver's clock minus the sender's.
    let (out, back) = (clock.segments[0].out, clock.segments[0].back);
    assert_eq!(out.offset_us, -back.offset_us);
    assert_eq!(Some(out.skew_ppm), clock.skew_ppm);
    assert_eq!(out.offset_error_us, back.offset_error_us);
    assert!((20_000.0..20_100.0).contains(&error_us), "{clock:?}");
    let d1 = report.segments.d1.unwrap();
    for delay_s in [d1.min_s, d1.max_s] {
        assert!((delay_s - 0.02).abs() * 1e6 <= error_us + 5.0, "{d1:?}");
    }
}

#[test]
fn a_clock_that_is_set_parts_the_capture() {
    let report = one_way_of(long_captures(3_600_000_000));
    let clock = report.clock.unwrap();
    assert!(clock.drifted, "{clock:?}");
    assert_eq!((clock.offset_us, clock.segments.len()), (None, 2));
    let d1 = report.segments.d1.unwrap();
    assert!(d1.max_s < 0.05 && d1.min_s > -0.01, "{d1:?}");
    // The segment on its way meanwhile has none.
    assert_eq!(d1.bytes, 399 * u64::from(SEGMENT));
    assert!(report.notes.iter().any(|n| n.contains("no line relates")));
}

#[test]
fn exchanged_captures_are_reported() {
    let (server, phone) = long_captures(0);
    let report = one_way_of((phone, server));
    let exchanged = |n: &String| n.contains("are exchanged");
    assert!(report.notes.iter().any(exchanged), "{:?}", report.notes);
    let report = one_way_of(long_captures(0));
    assert!(!report.notes.iter().any(exchanged), "{:?}", report.notes);
}

#[test]
fn what_is_missing_is_left_out() {
    let (server, phone) = captures(0);
    let server = tcp_transfer("server", &server[..], None).unwrap();
    let phone = tcp_transfer("phone", &phone[..], Some(&server)).unwrap();
    let alone = Places {
        server: Some(server.clone()),
        ..Places::default()
    };
    assert_eq!(one_way(&alone).unwrap_err(), OwdError::OnePlace);
    let two = Places {
        phone: Some(phone),
        ..alone
    };
    let report = one_way(&two).unwrap();
    assert!(report.segments.d1.is_some() && report.segments.d2.is_none());
}

#[test]
fn bad_input_is_named() {
    let (server, _) = captures(0);
    let server = tcp_transfer("server", &server[..], None).unwrap();
    let mut other = Pcap(Vec::new());
    other.push(0, true, 5, 0, SYN | ACK, 0);
    let e = tcp_transfer("phone", &other.bytes()[..], Some(&server)).unwrap_err();
    assert!(e.to_string().contains("no TCP connection in common"), "{e}");
    let e = tcp_transfer("it", &Pcap(Vec::new()).bytes()[..], None).unwrap_err();
    assert!(e.to_string().contains("no TCP connection with data"), "{e}");
    for (log, words) in [
        ("x\n", "line 1"),
        ("time_s,event,bytes\n1.0,gone,5\n", "line 2: `gone`"),
        (
            "time_s,event,bytes\n-1,read,5\n",
            "line 2: `-1` is not a time",
        ),
        (
            "time_s,event,bytes\n1,read,99999999999999\n",
            "line 2: not a plausible number of bytes",
        ),
        ("time_s,event,bytes\n1,read\n", "line 2: not three fields"),
    ] {
        let e = proxy_log("it", log.as_bytes()).unwrap_err().to_string();
        assert!(e.contains(words), "{e}");
    }
}

/// A real download with losses: 842 packets with 1,172,508 bytes of payload, of which a count byte
/// by byte finds 1,023,578 distinct.
#[test]
fn a_real_download_is_followed() {
    let Some(path) = mpbond_testing::sample("tcp/zeek_206_example_b.pcap") else {
        return;
    };
    let bytes = std::fs::read(path).unwrap();
    let found = tcp_transfer("it", &bytes[..], None).unwrap();
    assert_eq!(found.arrivals.bytes(), 1_023_578);
    assert_eq!(found.retransmitted_bytes, 1_172_508 - 1_023_578);
}
