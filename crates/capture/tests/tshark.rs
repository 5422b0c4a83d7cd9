//! The samples, read by tshark beside us, where that is installed. Where it is not, `facts.rs` and
//! `bluetooth.rs` hold what it said once.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpbond_capture::bluetooth::analyse;
use mpbond_capture::{LinkType, Reader, network, wifi};
use mpbond_testing::{Need, sample};

/// All samples of a kind that tshark reads as we do, in order; none where they or tshark are
/// missing.
fn samples(folder: &str) -> Vec<PathBuf> {
    let known = Command::new("tshark").arg("--version").output();
    match known {
        Ok(output) if output.status.success() => {}
        Err(e) if e.kind() != ErrorKind::NotFound => panic!("tshark: {e}"),
        _ => {
            Need::Tshark.is_missing("there is no tshark");
            return Vec::new();
        }
    }
    let Some(found) = sample(folder) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(found).unwrap();
    let ours = ["pcap", "pcapng", "gz", "log", "cfa", "pklg"];
    let mut all: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let kind = path.extension().and_then(|e| e.to_str());
            kind.is_some_and(|kind| ours.contains(&kind))
        })
        .collect();
    all.sort();
    assert!(!all.is_empty(), "{folder}");
    all
}

/// The first value of each field, of each frame that the filter lets pass.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    // Nothing is asked of name servers.
    command.arg("-n").arg("-r").arg(file);
    if !filter.is_empty() {
        command.args(["-Y", filter]);
    }
    command.args(["-T", "fields", "-E", "occurrence=f", "-E", "separator=,"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    // It ends with 2 where the last record is cut.
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 2)),
        "{}: {errors}",
        file.display()
    );
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(cells).collect()
}

/// tshark writes some numbers in hexadecimal.
fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

fn count(file: &Path, filter: &str) -> u64 {
    tshark(file, filter, &["frame.number"]).len() as u64
}

/// Records, and packets that are TCP, of every sample.
#[test]
fn frames_are_counted_alike() {
    for folder in ["btsnoop", "wifi", "tcp"] {
        for file in samples(folder) {
            let name = file.display().to_string();
            let from = std::fs::File::open(&file).unwrap();
            let mut records = 0;
            let mut tcp = 0;
            if folder == "btsnoop" {
                records = analyse(&name, from).unwrap().records;
            } else {
                let mut reader = Reader::new(&name, from).unwrap();
                while let Ok(Some(record)) = reader.next() {
                    records += 1;
                    let packet = network(&record).ok();
                    tcp +=
                        u64::from(packet.is_some_and(|p| p.flow.is_some_and(|f| f.protocol == 6)));
                }
            }
            assert_eq!(records, count(&file, ""), "{name}");
            if folder == "tcp" {
                // Not that in what an ICMP error quotes.
                assert_eq!(tcp, count(&file, "tcp && !icmp && !icmpv6"), "{name}");
            }
        }
    }
}

/// Mode changes with handle, mode and interval, commands and data of every Bluetooth log.
#[test]
fn bluetooth_logs_are_read_alike() {
    for file in samples("btsnoop") {
        let name = file.display().to_string();
        let ours = analyse(&name, std::fs::File::open(&file).unwrap()).unwrap();
        let changes = tshark(
            &file,
            "bthci_evt.code == 0x14 && bthci_evt.status == 0",
            &[
                "frame.time_relative",
                "bthci_evt.connection_handle",
                "bthci_evt.current_mode",
                "bthci_evt.interval",
            ],
        );
        assert_eq!(ours.mode_changes.len(), changes.len(), "{name}");
        for (our, its) in ours.mode_changes.iter().zip(&changes) {
            let at_s: f64 = its[0].parse().unwrap();
            assert!((our.time_s - at_s).abs() < 1e-5, "{name}: {its:?}");
            let mode = match number(&its[2]) {
                0 => "active",
                2 => "sniff",
                other => panic!("{name}: mode {other}"),
            };
            assert_eq!(
                (
                    u64::from(our.handle),
                    our.mode,
                    u64::from(our.interval_slots)
                ),
                (number(&its[1]), mode, number(&its[3])),
                "{name}"
            );
        }
        for (ours, opcode) in [
            (ours.commands.sniff, "0x0803"),
            (ours.commands.exit_sniff, "0x0804"),
        ] {
            let its = count(&file, &format!("bthci_cmd.opcode == {opcode}"));
            assert_eq!(ours, its, "{name}: {opcode}");
        }
        assert_eq!(ours.acl, count(&file, "bthci_acl"), "{name}");
        assert_eq!(ours.rfcomm, count(&file, "btrfcomm"), "{name}");
    }
}

/// How many frames of which type and subtype, in every 802.11 sample.
#[test]
fn frames_of_802_11_are_of_the_same_kinds() {
    for file in samples("wifi") {
        let name = file.display().to_string();
        let mut ours: BTreeMap<u64, u64> = BTreeMap::new();
        let mut reader = Reader::new(&name, std::fs::File::open(&file).unwrap()).unwrap();
        while let Ok(Some(record)) = reader.next() {
            let air = matches!(record.link_type, LinkType::IEEE802_11 | LinkType::RADIOTAP);
            // tshark looks into no frame that came damaged.
            let Some(frame) = wifi::frame(&record).filter(|f| air && !f.damaged) else {
                continue;
            };
            let control = u64::from(frame.data[0]);
            *ours.entry((control & 0xc) << 2 | control >> 4).or_default() += 1;
        }
        let mut its: BTreeMap<u64, u64> = BTreeMap::new();
        for line in tshark(&file, "wlan.fc", &["wlan.fc.type_subtype"]) {
            *its.entry(number(&line[0])).or_default() += 1;
        }
        assert_eq!(ours, its, "{name}");
    }
}
