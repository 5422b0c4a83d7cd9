//! What the samples' README says of 802.11 and TCP captures, by tools that are not ours, and that
//! no other test holds.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use mpbond_capture::wifi::{FrameKind, frame};
use mpbond_capture::{Reader, network};

fn sample(name: &str) -> Option<Vec<u8>> {
    let path = mpbond_testing::sample(name)?;
    Some(std::fs::read(path).unwrap())
}

/// Of an 802.11 capture: frames by the first octet of frame control, senders of beacons, and frames
/// that carry the sniffer's own clock.
#[derive(Default)]
struct Air {
    frames: u64,
    by_control: BTreeMap<u8, u64>,
    beacons: u64,
    beacon_senders: BTreeSet<[u8; 6]>,
    anonymous: u64,
    with_clock: u64,
    first_ns: u64,
}

fn air(bytes: &[u8]) -> Air {
    let mut reader = Reader::new("it", bytes).unwrap();
    let mut a = Air::default();
    while let Some(record) = reader.next().unwrap() {
        if a.frames == 0 {
            a.first_ns = record.at.as_nanos();
        }
        a.frames += 1;
        let Some(f) = frame(&record) else { continue };
        *a.by_control.entry(f.data[0]).or_default() += 1;
        a.with_clock += u64::from(f.tsft_us.is_some());
        a.anonymous += u64::from(f.kind == FrameKind::Anonymous);
        if f.kind == FrameKind::Beacon {
            a.beacons += 1;
            a.beacon_senders.extend(f.transmitter);
        }
    }
    a
}

/// Frame control's first octet: type and subtype.
const ACK: u8 = 0xd4;
const CTS: u8 = 0xc4;
const DATA: u8 = 0x08;
const QOS_DATA: u8 = 0x88;
const QOS_NULL: u8 = 0xc8;

#[test]
fn frames_by_kind_agree_with_tshark() {
    type Count = (u8, u64);
    let files: [(&str, u64, u64, &[Count]); 8] = [
        ("wltrace_trace.pcap", 318, 213, &[(ACK, 41), (QOS_DATA, 24)]),
        (
            "wltrace_non_radiotap.pcap",
            2001,
            17,
            &[(ACK, 987), (QOS_DATA, 534), (QOS_NULL, 459)],
        ),
        (
            "wireshark_wpa-Induction.pcap.gz",
            1093,
            398,
            &[(ACK, 191), (CTS, 165), (DATA, 285)],
        ),
        ("fragattacks_eapol-amsdu_BP-fromap.pcapng", 258, 79, &[]),
        ("fryza_2024-03-07_pos1.pcap", 13_609, 0, &[]),
        ("fryza_2024-03-07_pos2.pcap", 15_631, 0, &[]),
        ("fryza_2024-02-15_pos1.pcap", 14_390, 0, &[]),
        ("fryza_2024-02-15_pos2.pcap", 15_860, 0, &[]),
    ];
    for (name, frames, beacons, counts) in files {
        let Some(bytes) = sample(&format!("wifi/{name}")) else {
            continue;
        };
        let a = air(&bytes);
        assert_eq!((a.frames, a.beacons), (frames, beacons), "{name}");
        for (control, count) in counts {
            let found = a.by_control.get(control).copied().unwrap_or_default();
            assert_eq!(found, *count, "{name}: {control:#x} in {:?}", a.by_control);
        }
        match name {
            "wltrace_trace.pcap" => {
                assert_eq!((a.beacon_senders.len(), a.with_clock), (1, 318));
            }
            "wireshark_wpa-Induction.pcap.gz" => {
                assert_eq!((a.beacon_senders.len(), a.with_clock), (1, 0));
                assert_eq!(a.anonymous, 191 + 165);
            }
            "fragattacks_eapol-amsdu_BP-fromap.pcapng" => assert_eq!(a.with_clock, 138),
            _ => {}
        }
    }
}

/// Another clock and another link type: the client's side of the same test.
#[test]
fn two_sides_of_a_test_begin_apart() {
    let name = |side: &str| format!("wifi/fragattacks_eapol-amsdu_BP-{side}.pcapng");
    let (Some(access_point), Some(client)) = (sample(&name("fromap")), sample(&name("onclient")))
    else {
        return;
    };
    let (a, b) = (air(&access_point), air(&client));
    assert_eq!(b.frames, 42);
    let apart = (b.first_ns - a.first_ns) as f64 / 1e9;
    assert!((apart - 2.899).abs() < 0.001, "{apart}");
}

#[test]
fn a_format_that_is_not_read_is_refused_with_its_place() {
    let Some(bytes) = sample("wifi/wltrace_trace_peektagged.pkt") else {
        return;
    };
    let e = Reader::new("trace.pkt", &bytes[..]).err().unwrap();
    assert!(e.to_string().starts_with("trace.pkt: offset 0"), "{e}");
}

/// The transport header of an IP packet, without options of IPv6.
fn transport(ip: &[u8]) -> Option<&[u8]> {
    match ip.first()? >> 4 {
        4 => ip.get(usize::from(ip[0] & 15) * 4..),
        _ => ip.get(40..),
    }
}

#[test]
fn handshakes_and_echoes_agree_with_tshark() {
    for (name, packets, syns, echoes) in [
        ("tcp/tcpdump_mptcp-v0.pcap", 264, 2, 0),
        ("tcp/wireshark_dns+icmp.pcapng.gz", 33, 0, 12),
    ] {
        let Some(bytes) = sample(name) else { continue };
        let mut reader = Reader::new("it", &bytes[..]).unwrap();
        let (mut all, mut found_syns, mut found_echoes) = (0, 0, 0);
        while let Some(record) = reader.next().unwrap() {
            all += 1;
            let Ok(packet) = network(&record) else {
                continue;
            };
            let Some((flow, head)) = packet.flow.zip(transport(packet.data)) else {
                continue;
            };
            match flow.protocol {
                6 => found_syns += u64::from(head[13] & 0x12 == 0x02),
                1 => found_echoes += u64::from(head[0] == 8),
                _ => {}
            }
        }
        assert_eq!(
            (all, found_syns, found_echoes),
            (packets, syns, echoes),
            "{name}"
        );
    }
}

/// tshark: 1,217 kB of frames from the server in 82.3 s.
#[test]
fn the_slow_download_agrees_with_tshark() {
    let Some(bytes) = sample("tcp/zeek_206_example_b.pcap") else {
        return;
    };
    let mut reader = Reader::new("it", &bytes[..]).unwrap();
    let mut flows: BTreeMap<_, (u64, u64, u64)> = BTreeMap::new();
    while let Some(record) = reader.next().unwrap() {
        let Some(flow) = network(&record).ok().and_then(|p| p.flow) else {
            continue;
        };
        let key = (
            flow.source,
            flow.source_port,
            flow.destination,
            flow.destination_port,
        );
        let at = record.at.as_nanos();
        let entry = flows.entry(key).or_insert((0, at, at));
        entry.0 += u64::from(record.original_bytes);
        entry.2 = entry.2.max(at);
    }
    let (bytes, first, last) = flows.values().max().copied().unwrap();
    assert!((bytes as f64 / 1217e3 - 1.0).abs() < 0.03, "{bytes}");
    let span_s = (last - first) as f64 / 1e9;
    assert!((span_s - 82.3).abs() < 0.5, "{span_s}");
}
