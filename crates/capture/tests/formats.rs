//! Captures and logs made here: every byte order, resolution and link type.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use mpbond_capture::energy::{EnergyError, EnergyOptions, Input, LinkUse, run};
use mpbond_capture::{CPU_LOG_HEADER, CaptureError, CpuLog, LinkType, PacketLog, Reader, network};
use mpbond_radio::{EnergyReport, Profiles};
use proptest::prelude::*;

fn n16(n: u16, big: bool) -> [u8; 2] {
    if big {
        n.to_be_bytes()
    } else {
        n.to_le_bytes()
    }
}

fn n32(n: u32, big: bool) -> [u8; 4] {
    if big {
        n.to_be_bytes()
    } else {
        n.to_le_bytes()
    }
}

fn ipv4(source: [u8; 4], destination: [u8; 4], length: u16) -> Vec<u8> {
    let mut p = vec![0; usize::from(length)];
    p[0] = 0x45;
    p[2..4].copy_from_slice(&length.to_be_bytes());
    p[9] = 17;
    p[12..16].copy_from_slice(&source);
    p[16..20].copy_from_slice(&destination);
    p[20..24].copy_from_slice(&[0x12, 0x34, 0, 53]);
    p
}

const ME: [u8; 4] = [10, 0, 0, 2];
const YOU: [u8; 4] = [198, 51, 100, 1];

/// A capture of `(ns, frame)`.
fn pcap(big: bool, nanos: bool, link: u32, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file = n32(magic, big).to_vec();
    file.extend(n16(2, big));
    file.extend(n16(4, big));
    for field in [0, 0, 65535, link] {
        file.extend(n32(field, big));
    }
    for (ns, frame) in frames {
        let fraction = ns % 1_000_000_000 / if nanos { 1 } else { 1000 };
        for field in [
            ns / 1_000_000_000,
            fraction,
            frame.len() as u64,
            frame.len() as u64,
        ] {
            file.extend(n32(field as u32, big));
        }
        file.extend(frame);
    }
    file
}

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = n32((padded + 12) as u32, big);
    let mut b = n32(kind, big).to_vec();
    b.extend(length);
    b.extend(body);
    b.resize(8 + padded, 0);
    b.extend(length);
    b
}

fn section(big: bool) -> Vec<u8> {
    let mut body = n32(0x1a2b_3c4d, big).to_vec();
    body.extend(n16(1, big));
    body.extend(n16(0, big));
    body.extend([0xff; 8]);
    block(0x0a0d_0d0a, &body, big)
}

fn interface(big: bool, link: u16, name: &str, resolution: u8) -> Vec<u8> {
    let mut body = n16(link, big).to_vec();
    body.extend([0; 6]);
    for (code, value) in [(2, name.as_bytes()), (9, &[resolution][..]), (0, &[])] {
        body.extend(n16(code, big));
        body.extend(n16(value.len() as u16, big));
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(1, &body, big)
}

fn packet(big: bool, interface: u32, units: u64, frame: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let length = frame.len() as u32;
    for field in [
        interface,
        (units >> 32) as u32,
        units as u32,
        length,
        length,
    ] {
        body.extend(n32(field, big));
    }
    body.extend(frame);
    block(6, &body, big)
}

/// Time in ns, link type, interface and bytes.
type Kept = (u64, LinkType, u32, Vec<u8>);

fn read(file: &[u8]) -> Result<Vec<Kept>, CaptureError> {
    let mut reader = Reader::new("it", file)?;
    let mut all = Vec::new();
    while let Some(r) = reader.next()? {
        all.push((r.at.as_nanos(), r.link_type, r.interface, r.data.to_vec()));
    }
    Ok(all)
}

#[test]
fn both_byte_orders_and_resolutions() {
    let frames = vec![
        (5_000_001_000, vec![1, 2, 3]),
        (6_999_999_000, vec![]),
        (7_000_000_123, vec![9; 1500]),
    ];
    for big in [false, true] {
        for nanos in [false, true] {
            let got = read(&pcap(big, nanos, 101, &frames)).unwrap();
            assert_eq!(got.len(), 3);
            for ((ns, frame), (at, link, _, data)) in frames.iter().zip(&got) {
                let expect = if nanos { *ns } else { ns / 1000 * 1000 };
                assert_eq!(
                    (*at, *link, data),
                    (expect, LinkType::RAW, frame),
                    "{big} {nanos}"
                );
            }
        }
        let mut file = section(big);
        file.extend(interface(big, 1, "wlan0", 9));
        file.extend(interface(big, 101, "rmnet0", 6));
        file.extend(block(99, &[7; 20], big));
        file.extend(packet(big, 1, 5_000_000, &[1, 2, 3, 4, 5]));
        // A second section in the other byte order has another interface 0.
        file.extend(section(!big));
        file.extend(interface(!big, 113, "any", 0x80 | 20));
        file.extend(packet(!big, 0, 3 << 20, &[8]));
        let got = read(&file).unwrap();
        assert_eq!(
            got[0],
            (5_000_000_000, LinkType::RAW, 1, vec![1, 2, 3, 4, 5])
        );
        assert_eq!(got[1], (3_000_000_000, LinkType::LINUX_SLL, 2, vec![8]));
    }
}

#[test]
fn every_link_type_leads_to_the_ip_packet() {
    let ip = ipv4(ME, YOU, 60);
    let framed = |header: &[u8]| [header, &ip].concat();
    let mut ethernet = vec![0; 12];
    ethernet.extend([0x08, 0x00]);
    let mut vlan = vec![0; 12];
    vlan.extend([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0x00]);
    let mut sll = vec![0, 4];
    sll.extend([0; 12]);
    sll.extend([0x08, 0x00]);
    let mut sll2 = vec![0x08, 0x00];
    sll2.extend([0; 8]);
    sll2.extend([0; 10]);
    // An Ethernet frame is padded behind the packet.
    let padded = [framed(&ethernet), vec![0; 30]].concat();
    for (link, frame, outgoing) in [
        (1, framed(&ethernet), None),
        (1, padded, None),
        (1, framed(&vlan), None),
        (101, ip.clone(), None),
        (228, ip.clone(), None),
        (12, ip.clone(), None),
        (0, framed(&[2, 0, 0, 0]), None),
        (113, framed(&sll), Some(true)),
        (276, framed(&sll2), Some(false)),
    ] {
        let file = pcap(false, false, link, &[(0, frame)]);
        let mut reader = Reader::new("it", &file[..]).unwrap();
        let record = reader.next().unwrap().unwrap();
        let packet = network(&record).unwrap();
        let flow = packet.flow.unwrap();
        assert_eq!(packet.bytes, 60, "link type {link}");
        assert_eq!(packet.outgoing, outgoing, "link type {link}");
        assert_eq!((flow.source, flow.destination), (ME.into(), YOU.into()));
        assert_eq!(
            (flow.protocol, flow.source_port, flow.destination_port),
            (17, 0x1234, 53)
        );
    }
    let mut v6 = vec![0; 48];
    v6[0] = 0x60;
    v6[5] = 8;
    v6[6] = 17;
    v6[23] = 1;
    v6[39] = 2;
    v6[43] = 53;
    let file = pcap(false, false, 229, &[(0, v6)]);
    let mut reader = Reader::new("it", &file[..]).unwrap();
    let record = reader.next().unwrap().unwrap();
    let packet = network(&record).unwrap();
    assert_eq!(
        (packet.bytes, packet.flow.unwrap().destination_port),
        (48, 53)
    );
}

#[test]
fn damage_is_named_with_its_offset() {
    let whole = pcap(
        false,
        false,
        101,
        &[(1_000_000_000, vec![1; 100]), (2_000_000_000, vec![2; 100])],
    );
    let with = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let mut ng = section(false);
    ng.extend(interface(false, 1, "a", 6));
    let ng_with = |more: Vec<u8>| [ng.clone(), more].concat();
    let mut torn = block(6, &[0; 20], false);
    let end = torn.len() - 4;
    torn[end] = 1;
    for (file, expect) in [
        (vec![], "it: offset 0: the file is empty"),
        (
            b"GIF89a".to_vec(),
            "it: offset 0: neither a pcap, pcapng, btsnoop or PacketLogger capture nor a packet or processor log (begins with 47 49 46 38)",
        ),
        (
            whole[..20].to_vec(),
            "it: offset 0: file ends inside the file header (20 of 24 bytes)",
        ),
        (
            whole[..150].to_vec(),
            "it: offset 140: file ends inside a record header (10 of 16 bytes)",
        ),
        (
            whole[..170].to_vec(),
            "it: offset 140: file ends inside a record (14 of 100 bytes)",
        ),
        (
            with(148, &[0xff; 4]),
            "it: offset 140: record length of 4294967295 bytes exceeds the maximum: file is damaged",
        ),
        (
            with(145, &[0xff; 3]),
            "it: offset 140: packet timestamp out of range (4294967040 fractions of a second): file is damaged",
        ),
        (
            with(4, &[9, 0]),
            "it: offset 4: unsupported pcap version 9; only version 2 is supported",
        ),
        (
            ng_with(packet(false, 3, 0, &[])),
            "it: offset 68: packet of undefined interface 3",
        ),
        (
            ng_with(vec![6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0]),
            "it: offset 68: invalid block length of 13 bytes: file is damaged",
        ),
        (
            ng_with(torn),
            "it: offset 68: block lengths disagree: 32 bytes at its start, 1 at its end",
        ),
        (
            ng_with(vec![6, 0, 0, 0]),
            "it: offset 68: file ends inside a block header (4 of 12 bytes)",
        ),
    ] {
        assert_eq!(read(&file).unwrap_err().to_string(), expect);
    }
}

fn energy(
    files: Vec<(&str, Vec<u8>)>,
    options: &EnergyOptions,
) -> Result<EnergyReport, EnergyError> {
    let inputs = files
        .into_iter()
        .map(|(name, bytes)| Input {
            name: name.to_owned(),
            from: std::io::Cursor::new(bytes),
        })
        .collect();
    run(inputs, options, &Profiles::shipped().unwrap())
}

#[test]
fn time_that_goes_backwards_ends_the_account_and_is_said() {
    let at = |ms: u64| (ms * 1_000_000, ipv4(ME, YOU, 60));
    let options = EnergyOptions::with_profile("lte-2012");
    // A little disorder is usual.
    let file = pcap(false, true, 101, &[at(1000), at(1200), at(1150), at(1300)]);
    let report = energy(vec![("a.pcap", file)], &options).unwrap();
    assert_eq!(report.devices[0].interfaces[0].energy.packets, 4);
    assert!(report.incomplete.is_empty());
    let file = pcap(false, true, 101, &[at(5000), at(5200), at(2000), at(5300)]);
    let report = energy(vec![("a.pcap", file)], &options).unwrap();
    assert_eq!(report.devices[0].interfaces[0].energy.packets, 2);
    assert_eq!(
        report.incomplete,
        ["a.pcap: offset 176: time goes backwards by 3.200 s"]
    );
}

#[test]
fn a_first_packet_at_time_zero_has_its_promotion() {
    let file = pcap(false, true, 101, &[(0, ipv4(ME, YOU, 60))]);
    let report = energy(
        vec![("a.pcap", file)],
        &EnergyOptions::with_profile("lte-2012"),
    )
    .unwrap();
    assert!((report.joules - 12.765).abs() < 2e-3, "{}", report.joules);
}

#[test]
fn an_unknown_profile_is_named_with_those_there_are() {
    let file = pcap(false, true, 101, &[(0, ipv4(ME, YOU, 60))]);
    let e = energy(vec![("a.pcap", file)], &EnergyOptions::with_profile("lte")).unwrap_err();
    let line = e.to_string();
    assert!(
        line.starts_with("no profile is called \"lte\"; known ones are the radios 5g-lb-2020,"),
        "{line}"
    );
    assert!(line.contains("devices galaxy-note,"), "{line}");
}

#[test]
fn who_is_local() {
    let frames: Vec<(u64, Vec<u8>)> = (0..400_u64)
        .map(|i| {
            let other = [203, 0, 113, (i % 50) as u8];
            let (a, b) = if i % 4 == 0 { (ME, other) } else { (other, ME) };
            (i * 1_000_000, ipv4(a, b, 100))
        })
        .collect();
    let file = pcap(false, true, 101, &frames);
    let mut options = EnergyOptions::with_profile("wifi-2012");
    let report = energy(vec![("a.pcap", file.clone())], &options).unwrap();
    let sums = &report.devices[0].interfaces[0].energy;
    assert_eq!((sums.up_bytes, sums.down_bytes), (10_000, 30_000));
    assert!(
        report.notes[0].contains("assuming 10.0.0.2 to be the device's own address"),
        "{:?}",
        report.notes
    );
    options.local = vec!["203.0.113.0".parse().unwrap()];
    let report = energy(vec![("a.pcap", file)], &options).unwrap();
    let sums = &report.devices[0].interfaces[0].energy;
    assert_eq!(sums.up_bytes + sums.down_bytes, 800);
    assert!(
        report.notes[0].contains("392 packets between other devices"),
        "{:?}",
        report.notes
    );
}

#[test]
fn interfaces_of_a_pcapng_are_distinguished() {
    let mut file = section(false);
    file.extend(interface(false, 101, "wlan0", 9));
    file.extend(interface(false, 101, "rmnet_data0", 9));
    for i in 0..10 {
        file.extend(packet(
            false,
            i % 2,
            u64::from(i) * 1_000_000,
            &ipv4(ME, YOU, 100),
        ));
    }
    let report = energy(
        vec![("dir/x.pcapng", file)],
        &EnergyOptions::with_profile("pixel-2"),
    )
    .unwrap();
    let names: Vec<(&str, &str)> = report.devices[0]
        .interfaces
        .iter()
        .map(|i| (i.name.as_str(), i.profile.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("x:wlan0", "wifi-s4"),
            ("x:rmnet_data0", "lte-2020-verizon")
        ]
    );
}

/// Files joined by `cat`: the numbers of interfaces begin anew in each section (pcapng draft,
/// section 4.2).
#[test]
fn interfaces_of_joined_pcapng_files_are_distinguished() {
    let mut file = Vec::new();
    for (i, (name, resolution)) in [("wlan0", 9), ("rmnet0", 6), ("wlan0", 6)]
        .iter()
        .enumerate()
    {
        file.extend(section(false));
        file.extend(interface(false, 101, name, *resolution));
        let units = i as u64 * 1_000 * if *resolution == 9 { 1_000 } else { 1 };
        file.extend(packet(false, 0, units, &ipv4(ME, YOU, 100)));
    }
    let got = read(&file).unwrap();
    let numbers: Vec<_> = got
        .iter()
        .map(|(at, _, i, _)| (at / 1_000_000, *i))
        .collect();
    assert_eq!(numbers, [(0, 0), (1, 1), (2, 0)]);
    let options = EnergyOptions::with_profile("pixel-2");
    let report = energy(vec![("x.pcapng", file)], &options).unwrap();
    let interfaces = report.devices[0].interfaces.iter();
    let packets: Vec<_> = interfaces
        .map(|i| (i.name.as_str(), i.energy.packets))
        .collect();
    assert_eq!(packets, [("x:wlan0", 2), ("x:rmnet0", 1)]);
}

const LOG: &str = "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped\n\
    1000000,2000000,ps,down,1500,198.51.100.1,10.0.0.2,6,80,40000,\n\
    1000000,,ps,down,1500,198.51.100.1,10.0.0.2,6,80,40000,queue\n\
    1500000,3000000,hs,down,1500,198.51.100.1,10.0.0.3,6,80,40000,\n\
    3100000,4000000,pipe,down,1500,10.0.0.3,10.0.0.2,6,80,40000,\n\
    4100000,5000000,pipe,up,52,,,0,0,0,\n";

#[test]
fn a_packet_log_is_accounted_at_both_ends_of_every_link() {
    let mut options = EnergyOptions::with_profile("pixel-2");
    let log = || vec![("run.csv", LOG.as_bytes().to_vec())];
    let e = energy(log(), &options).unwrap_err().to_string();
    assert_eq!(
        e,
        "run.csv: line 2: the device of link \"ps\" is unknown: add --use ps=DEVICE.INTERFACE"
    );
    options.uses = [
        "ps=primary.cellular",
        "hs=helper.cellular",
        "pipe=primary.wifi",
        "pipe=helper.wifi:reversed",
    ]
    .map(|text| text.parse::<LinkUse>().unwrap())
    .to_vec();
    options.device_profiles = vec![("helper".to_owned(), "nexus-6p".to_owned())];
    options.access_points = vec!["primary".to_owned()];
    let report = energy(log(), &options).unwrap();
    let bytes = |device: usize, interface: usize| {
        let e = &report.devices[device].interfaces[interface].energy;
        (e.up_bytes, e.down_bytes)
    };
    assert_eq!(report.devices[0].name, "primary");
    assert_eq!(report.devices[1].profile.as_deref(), Some("nexus-6p"));
    assert_eq!((bytes(0, 0), bytes(0, 1)), ((0, 1500), (52, 1500)));
    assert_eq!((bytes(1, 0), bytes(1, 1)), ((0, 1500), (1500, 52)));
    assert!(report.devices[0].access_point.is_some());
    assert_eq!(
        report.notes,
        ["1 packets were dropped before they were sent"]
    );

    // With a radio's profile every link is one interface.
    let report = energy(log(), &EnergyOptions::with_profile("lte-2012")).unwrap();
    assert_eq!(report.devices[0].interfaces.len(), 3);
    // Far back on one link is damage; between links it is their delays.
    let back = LOG
        .replace("5000000,pipe,up", "1000000,pipe,up")
        .replace("4000000,pipe,down", "900000000,pipe,down");
    assert!(
        energy(vec![("run.csv", back.into_bytes())], &options)
            .unwrap()
            .incomplete
            .is_empty()
    );
    let back = LOG.to_owned()
        + "950000000,960000000,ps,down,40,,,0,0,0,\n10000000,20000000,ps,down,40,,,0,0,0,\n";
    let report = energy(vec![("run.csv", back.into_bytes())], &options).unwrap();
    assert_eq!(report.incomplete, ["run.csv: line 8: time goes backwards"]);
    // A link without traffic is left out.
    options.uses.truncate(1);
    let report = energy(log(), &options).unwrap();
    assert!(
        report
            .notes
            .iter()
            .any(|n| n.contains("\"hs\" has no --use")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_bad_line_of_a_log_is_named() {
    for (from, to, expect) in [
        (
            "2000000",
            "x",
            "it: line 2: depart_ns \"x\" is not a whole number",
        ),
        (
            "ps,down,1500",
            "ps,left,1500",
            "it: line 2: direction \"left\" is neither up nor down",
        ),
        (
            "ps,down,1500",
            "ps,down,-1",
            "it: line 2: bytes \"-1\" is not a whole number",
        ),
        (
            "ps,down,1500",
            "ps,down,99999999",
            "it: line 2: bytes 99999999 is more than 1048576",
        ),
        (
            "6,80,40000,\n",
            "6,80,40000\n",
            "it: line 2: expected 11 fields",
        ),
        (
            "10.0.0.2",
            "10.0.0",
            "it: line 2: \"10.0.0\" is not an address",
        ),
        (
            ",sport",
            ",port",
            "it: line 1: expected the columns enqueue_ns",
        ),
    ] {
        let text = LOG.replacen(from, to, 1);
        let got = (|| -> Result<(), CaptureError> {
            let mut log = PacketLog::new("it", text.as_bytes())?;
            while log.next()?.is_some() {}
            assert!(log.next()?.is_none());
            Ok(())
        })();
        let line = got.unwrap_err().to_string();
        assert!(line.starts_with(expect), "{line}");
    }
    let mut log = PacketLog::new("it", &LOG.as_bytes()[..LOG.len() - 3]).unwrap();
    let mut whole = 0;
    let e = loop {
        match log.next() {
            Ok(Some(_)) => whole += 1,
            Ok(None) => panic!("the cut went unnoticed"),
            Err(e) => break e.to_string(),
        }
    };
    assert_eq!(
        (whole, e.as_str()),
        (4, "it: line 6: file ends inside a line")
    );
}

#[test]
fn files_of_other_formats_are_no_logs() {
    let of_packets = |octets: &[u8]| PacketLog::new("it", octets).err().map(|e| e.to_string());
    let of_cpu = |octets: &[u8]| CpuLog::new("it", octets).err().map(|e| e.to_string());
    for other in [&b"GIF89a"[..], CPU_LOG_HEADER.as_bytes()] {
        let e = of_packets(other);
        assert_eq!(e.as_deref(), Some("it: offset 0: not a packet log"));
    }
    for other in [&b"GIF89a"[..], LOG.as_bytes()] {
        let e = of_cpu(other);
        assert_eq!(e.as_deref(), Some("it: offset 0: not a processor log"));
    }
    let e = of_cpu(b"");
    assert_eq!(e.as_deref(), Some("it: offset 0: the file is empty"));
}

#[test]
fn a_processor_log_is_accounted() {
    let text = "time_s,kind,name,mhz,utilisation\n\
        10.0,core,0,1900.8,1\n10.0,core,1,1900.8,0.5\n10.0,share,stack,,0.3\n\
        10.5,core,0,1900.8,1\n10.5,core,1,,0\n10.5,share,stack,,0.3\n";
    let mut log = CpuLog::new("it", text.as_bytes()).unwrap();
    let (at, cores) = log.next().unwrap().unwrap();
    assert_eq!((at.as_nanos(), cores.len()), (10_000_000_000, 2));
    assert_eq!(log.next().unwrap().unwrap().1[1].mhz, None);
    assert_eq!(log.next().unwrap(), None);

    let options = EnergyOptions::with_profile("pixel-2");
    let report = energy(vec![("cpu.csv", text.as_bytes().to_vec())], &options).unwrap();
    let cpu = report.devices[0].cpu.as_ref().unwrap();
    let expect = 0.5 * (3.8 * (17.757 + 6.478 + 31.671) - 150.2) / 1e3;
    assert!(
        (cpu.energy.joules - expect).abs() < 1e-9,
        "{}",
        cpu.energy.joules
    );

    let e = energy(
        vec![("cpu.csv", text.as_bytes().to_vec())],
        &EnergyOptions::with_profile("lte-2012"),
    );
    assert!(
        e.unwrap_err()
            .to_string()
            .contains("needs the profile of a device")
    );
    for (from, to, expect) in [
        (
            "10.5,core,1,,0",
            "10.5,core,1,,-1",
            "it: line 6: utilisation \"-1\" is not a number",
        ),
        (
            "10.5,core,0",
            "9.5,core,0",
            "it: line 5: time goes backwards",
        ),
        ("10.5,core,1", "10.5,disk,1", "it: line 6: kind \"disk\""),
        ("10.5,core,1", "nan,core,1", "it: line 6: time_s \"nan\""),
    ] {
        let text = text.replacen(from, to, 1);
        let mut log = CpuLog::new("it", text.as_bytes()).unwrap();
        let e = loop {
            match log.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("unnoticed: {to}"),
                Err(e) => break e.to_string(),
            }
        };
        assert!(e.starts_with(expect), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn flipped_bytes_never_panic(
        big in any::<bool>(),
        ng in any::<bool>(),
        flips in proptest::collection::vec((0_usize..2000, any::<u8>()), 0..8),
        cut in 0_usize..3000,
    ) {
        let mut file = if ng {
            let mut file = section(big);
            file.extend(interface(big, 1, "wlan0", 6));
            for i in 0..10 {
                let mut frame = vec![0; 12];
                frame.extend([8, 0]);
                frame.extend(ipv4(ME, YOU, 100));
                file.extend(packet(big, 0, i * 1000, &frame));
            }
            file
        } else {
            let frames: Vec<_> = (0..10).map(|i| (i * 1_000_000, ipv4(ME, YOU, 100))).collect();
            pcap(big, true, 101, &frames)
        };
        for (at, value) in flips {
            let at = at % file.len();
            file[at] = value;
        }
        file.truncate(cut);
        if let Err(e) = energy(vec![("it", file)], &EnergyOptions::with_profile("lte-2012")) {
            prop_assert!(!e.to_string().contains('\n'));
        }
    }
}
