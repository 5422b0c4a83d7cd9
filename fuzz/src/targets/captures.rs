//! Targets for captures and logs: pcap, pcapng, btsnoop, PacketLogger, packet and processor logs.

use std::sync::OnceLock;

use mpbond_capture::bluetooth;
use mpbond_capture::delay::{
    add_rssi, phases, proxy_log, rfcomm_stream, tcp, tcp_transfer, wire_probes,
};
use mpbond_capture::energy::{EnergyOptions, Input, LinkUse, run};
use mpbond_capture::wifi::{Sniffer, Times, frame, merge, packets};
use mpbond_capture::{CpuLog, PacketLog, PowerLog, Reader, cpu_sampling, network};
use mpbond_radio::Profiles;

/// Every record of a capture with its headers, and the probes in it.
pub fn capture(octets: &[u8]) {
    if let Ok(seen) = wire_probes("x", octets, &[0x1234, 80].into()) {
        if let Some(reason) = &seen.incomplete {
            super::one_line(reason);
        }
        let probes = seen.numbered.values().chain(seen.pings.values());
        let answered = probes.filter(|p| p.times().is_some()).count() as u64;
        // A frame may carry several requests and answers.
        assert!(answered <= seen.records * 64, "more answers than packets");
    }
    let mut reader = match Reader::new("x", octets) {
        Ok(reader) => reader,
        Err(e) => return super::one_line(&e),
    };
    let mut end = 0;
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(record.offset >= end, "record offsets must rise");
                end = record.offset;
                if let Ok(packet) = network(&record) {
                    let _ = tcp(&packet);
                }
                if let Some(frame) = frame(&record) {
                    let _ = packets(&frame);
                }
            }
            Ok(None) => return,
            Err(e) => return super::one_line(&e),
        }
    }
}

/// A Bluetooth log and its report.
pub fn bluetooth(octets: &[u8]) {
    if let Err(e) = bluetooth::analyse("x", octets) {
        super::one_line(&e);
    }
    for received in [false, true] {
        let _ = rfcomm_stream("x", octets, received);
    }
}

/// Captures of two sniffers, concatenated.
pub fn wifi_merge(octets: &[u8]) {
    let half = octets.len() / 2;
    let (one, two) = octets.split_at(half);
    let sniffers: Vec<_> = [("a", one), ("b", two)]
        .into_iter()
        .filter_map(|(name, octets)| Sniffer::read(name, octets).ok())
        .collect();
    for times in [Times::Consensus, Times::Main] {
        match merge(&sniffers, times) {
            Ok(merged) => {
                let _ = merged.write(std::io::sink());
            }
            Err(e) => super::one_line(&e),
        }
    }
}

/// Input of the energy computation in any format.
pub fn energy(octets: &[u8]) {
    static PROFILES: OnceLock<Profiles> = OnceLock::new();
    let profiles = PROFILES.get_or_init(|| match Profiles::shipped() {
        Ok(profiles) => profiles,
        Err(e) => panic!("the shipped profiles: {e}"),
    });
    let mut options = EnergyOptions::with_profile("lte-2012");
    options.uses = ["a=phone.cellular", "b=watch.cellular:reversed"]
        .iter()
        .filter_map(|text| text.parse::<LinkUse>().ok())
        .collect();
    let input = Input {
        name: "x".to_owned(),
        from: octets,
    };
    match run(vec![input], &options, profiles) {
        Ok(_) => {}
        Err(e) => super::one_line(&e),
    }
}

/// The lab's packet log, a processor log, a power log, and a proxy's byte log.
pub fn logs(octets: &[u8]) {
    if let Ok(mut log) = PacketLog::new("x", octets) {
        while let Ok(Some(_)) = log.next() {}
    }
    if let Ok(mut log) = CpuLog::new("x", octets) {
        while let Ok(Some(_)) = log.next() {}
    }
    if let Ok(mut log) = PowerLog::new("x", octets) {
        while let Ok(Some(_)) = log.next() {}
    }
    if let Err(e) = proxy_log("x", octets) {
        super::one_line(&e);
    }
}

/// Search for a connection in a capture, alone and matching one of another capture.
pub fn transfer(octets: &[u8]) {
    match tcp_transfer("x", octets, None) {
        Ok(first) => {
            let _ = tcp_transfer("y", octets, Some(&first));
        }
        Err(e) => super::one_line(&e),
    }
}

/// A connectivity log and a byte log, separated by an empty line; the second part is also read as a
/// log of signal strengths.
pub fn handover_phases(octets: &[u8]) {
    let at = octets.windows(2).position(|w| w == b"\n\n");
    let (states, bytes) = octets.split_at(at.map_or(octets.len(), |at| at + 1));
    let bytes = bytes.get(1..).unwrap_or_default();
    match phases(("states", states), ("bytes", bytes)) {
        Ok(mut report) => {
            if let Err(e) = add_rssi(&mut report, "rssi", bytes) {
                super::one_line(&e);
            }
        }
        Err(e) => super::one_line(&e),
    }
}

/// Files of the kernel about processors and processes (proc(5)).
pub fn proc_files(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    let _ = cpu_sampling::parse_stat(text);
    let _ = cpu_sampling::parse_process(text);
}
