//! Real captures, against facts that independent tools gave.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;

use flate2::read::MultiGzDecoder;
use mpbond_capture::energy::{EnergyOptions, Input, run};
use mpbond_capture::{CaptureError, LinkType, Reader, network};
use mpbond_radio::Profiles;

fn sample(name: &str) -> Option<Vec<u8>> {
    let path = mpbond_testing::sample(name)?;
    Some(std::fs::read(path).unwrap())
}

struct Facts {
    records: u64,
    span_s: f64,
    link: LinkType,
    flows: u64,
    bytes: u64,
}

fn facts(bytes: &[u8]) -> Result<Facts, CaptureError> {
    let mut reader = Reader::new("it", bytes)?;
    let mut f = Facts {
        records: 0,
        span_s: 0.0,
        link: LinkType(u32::MAX),
        flows: 0,
        bytes: 0,
    };
    let (mut first, mut last) = (None, 0);
    while let Some(record) = reader.next()? {
        f.records += 1;
        f.link = record.link_type;
        f.bytes += u64::from(record.original_bytes);
        let at = record.at.as_nanos();
        first.get_or_insert(at);
        last = at.max(last);
        if let Ok(packet) = network(&record) {
            f.flows += u64::from(packet.flow.is_some());
        }
    }
    f.span_s = (last - first.unwrap_or(last)) as f64 / 1e9;
    Ok(f)
}

#[test]
fn records_and_spans_agree_with_capinfos() {
    for (name, records, span_s, link) in [
        (
            "tcp/ndpi_443-firefox.pcap",
            667,
            8.439822,
            LinkType::ETHERNET,
        ),
        ("tcp/zeek_206_example_b.pcap", 1556, 0.0, LinkType::ETHERNET),
        (
            "tcp/tcpdump_mptcp-v0.pcap",
            264,
            9.065041,
            LinkType::ETHERNET,
        ),
        (
            "tcp/wireshark_dns+icmp.pcapng.gz",
            33,
            0.0,
            LinkType::ETHERNET,
        ),
        (
            "tcp/wireshark_dhcp-nanosecond.pcapng",
            4,
            0.070345,
            LinkType::ETHERNET,
        ),
        (
            "wifi/wltrace_trace.pcap",
            318,
            22.528129,
            LinkType::RADIOTAP,
        ),
        (
            "wifi/wltrace_non_radiotap.pcap",
            2001,
            0.0,
            LinkType::IEEE802_11,
        ),
        (
            "wifi/fryza_2024-03-07_pos1.pcap",
            13609,
            15971.050677,
            LinkType::RADIOTAP,
        ),
        (
            "wifi/wireshark_wpa-Induction.pcap.gz",
            1093,
            40.760153,
            LinkType::RADIOTAP,
        ),
        (
            "wifi/fragattacks_eapol-amsdu_BP-fromap.pcapng",
            258,
            0.0,
            LinkType::RADIOTAP,
        ),
        (
            "wifi/fragattacks_eapol-amsdu_BP-onclient.pcapng",
            42,
            0.0,
            LinkType::LINUX_SLL,
        ),
    ] {
        let Some(bytes) = sample(name) else { continue };
        let f = facts(&bytes).unwrap();
        assert_eq!(f.records, records, "{name}");
        assert_eq!(f.link, link, "{name}");
        if span_s > 0.0 {
            assert!((f.span_s - span_s).abs() < 1e-6, "{name}: {} s", f.span_s);
        }
        if link == LinkType::ETHERNET {
            assert!(
                f.flows * 10 >= records * 9,
                "{name}: {} IP packets",
                f.flows
            );
        }
    }
}

#[test]
fn a_sample_cut_anywhere_gives_what_is_whole_and_says_where_it_ends() {
    for name in [
        "tcp/tcpdump_mptcp-v0.pcap",
        "tcp/wireshark_dhcp-nanosecond.pcapng",
        "tcp/wireshark_dns+icmp.pcapng.gz",
    ] {
        let Some(mut bytes) = sample(name) else {
            continue;
        };
        if name.ends_with(".gz") {
            let mut plain = Vec::new();
            MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut plain)
                .unwrap();
            bytes = plain;
        }
        // The whole of a big file takes long in a debug build: its first part does.
        bytes.truncate(6000);
        let mut clean = 0;
        for length in 0..bytes.len() {
            match facts(&bytes[..length]) {
                Ok(_) => clean += 1,
                Err(e) => {
                    let line = e.to_string();
                    assert!(
                        line.starts_with("it: offset ") && !line.contains('\n'),
                        "{line}"
                    );
                }
            }
        }
        // Only a cut between two records looks whole.
        assert!(
            clean < bytes.len() / 16,
            "{name}: {clean} cuts went unnoticed"
        );
    }
}

#[test]
fn a_cut_gzip_file_is_noticed() {
    let Some(bytes) = sample("tcp/wireshark_dns+icmp.pcapng.gz") else {
        return;
    };
    for length in 0..bytes.len() {
        assert!(facts(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn energy_of_a_download() {
    let Some(bytes) = sample("tcp/ndpi_443-firefox.pcap") else {
        return;
    };
    let profiles = Profiles::shipped().unwrap();
    let input = |bytes: &[u8]| {
        vec![Input {
            name: "ndpi_443-firefox.pcap".to_owned(),
            from: std::io::Cursor::new(bytes.to_vec()),
        }]
    };
    let options = EnergyOptions::with_profile("lte-2012");
    let report = run(input(&bytes), &options, &profiles).unwrap();
    let interface = &report.devices[0].interfaces[0];
    let energy = &interface.energy;
    assert_eq!(energy.packets, 667, "{:?}", report.notes);
    assert!((report.seconds - 8.439822).abs() < 1e-6);
    assert!(report.incomplete.is_empty(), "{:?}", report.incomplete);
    // tshark: 429 kB of frames in 351 packets from the server.
    assert!(
        (energy.down_bytes as f64 / 429e3 - 1.0).abs() < 0.03,
        "{}",
        energy.down_bytes
    );
    assert!(energy.down_bytes > energy.up_bytes * 4);
    // Computed apart from the formulas of the reference.
    assert!(
        (energy.joules - 22.295_81).abs() < 1e-4,
        "{}",
        energy.joules
    );
    let without = energy.joules_without_last_tail;
    assert!((without - 9.845_51).abs() < 1e-4, "{without}");

    // Cut in the middle: counted up to there, and said.
    let cut = run(input(&bytes[..200_000]), &options, &profiles).unwrap();
    assert_eq!(cut.incomplete.len(), 1);
    assert!(
        cut.incomplete[0].contains("ndpi_443-firefox.pcap: offset "),
        "{:?}",
        cut.incomplete
    );
    assert!(cut.to_table().contains("INCOMPLETE: "));
    // Nothing whole: an error.
    assert!(run(input(&bytes[..30]), &options, &profiles).is_err());

    // The interface of a device must be known.
    let mut options = EnergyOptions::with_profile("pixel-2");
    let e = run(input(&bytes), &options, &profiles)
        .unwrap_err()
        .to_string();
    assert!(e.contains("--interface"), "{e}");
    options.interface = Some("wifi".to_owned());
    options.access_points = vec!["device".to_owned()];
    let report = run(input(&bytes), &options, &profiles).unwrap();
    assert_eq!(report.devices[0].interfaces[0].profile, "wifi-s4");
    assert!(report.joules_low < report.joules && report.joules < report.joules_high);
}

#[test]
fn frames_of_802_11_are_refused_by_the_energy_account() {
    let Some(bytes) = sample("wifi/wltrace_trace.pcap") else {
        return;
    };
    let input = vec![Input {
        name: "w.pcap".to_owned(),
        from: &bytes[..],
    }];
    let e = run(
        input,
        &EnergyOptions::with_profile("wifi-s4"),
        &Profiles::shipped().unwrap(),
    );
    let line = e.unwrap_err().to_string();
    assert!(
        line.starts_with("w.pcap: offset 24: unsupported link type 127"),
        "{line}"
    );
}
