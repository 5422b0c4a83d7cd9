//! Reads a million frames, beside a bare sum over the same bytes.

// A bench may fail loudly.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use mpbond_capture::bluetooth::analyse;
use mpbond_capture::energy::{EnergyOptions, Input, run};
use mpbond_capture::{Reader, network};
use mpbond_radio::Profiles;

const FRAMES: u32 = 1_000_000;
const RUNS: usize = 9;

/// A classic capture of raw IP: bursts with acknowledgements, cut to 100 bytes.
fn capture() -> Vec<u8> {
    let mut file = Vec::with_capacity(FRAMES as usize * 116 + 24);
    for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 100, 101] {
        file.extend(field.to_le_bytes());
    }
    for i in 0..FRAMES {
        let length: u16 = if i % 3 == 2 { 52 } else { 1500 };
        let kept = u32::from(length.min(100));
        for field in [1000 + i / 1000, i % 1000 * 1000, kept, u32::from(length)] {
            file.extend(field.to_le_bytes());
        }
        let mut frame = [0_u8; 100];
        frame[0] = 0x45;
        frame[2..4].copy_from_slice(&length.to_be_bytes());
        frame[9] = 6;
        let (source, destination) = if i % 3 == 2 { (12, 16) } else { (16, 12) };
        frame[source..source + 4].copy_from_slice(&[10, 0, 0, 2]);
        frame[destination..destination + 4].copy_from_slice(&[198, 51, 100, 1]);
        file.extend(frame.get(..kept as usize).unwrap());
    }
    file
}

/// A Bluetooth log: a download over RFCOMM with the controller's counts.
fn bluetooth_log() -> Vec<u8> {
    let mut file = b"btsnoop\0\0\0\0\x01\0\0\x03\xea".to_vec();
    for i in 0..FRAMES {
        let mut packet = vec![2, 5, 0x20, 58, 0, 54, 0, 0x41, 0, 0x0b, 0xef, 101];
        packet.resize(62, 7);
        packet.push(0x9a);
        if i % 3 == 2 {
            packet = vec![4, 0x13, 5, 1, 5, 0, 2, 0];
        }
        let length = (packet.len() as u32).to_be_bytes();
        file.extend(length);
        file.extend(length);
        file.extend(1_u32.to_be_bytes());
        file.extend(0_u32.to_be_bytes());
        file.extend((0x00e1_e63d_0000_0000 + u64::from(i) * 500).to_be_bytes());
        file.extend(packet);
    }
    file
}

/// Best and median time of a pass in ms. On a busy machine the best is what
/// the code takes, the median what one waits.
fn time_ms(mut pass: impl FnMut()) -> (f64, f64) {
    pass();
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            pass();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[RUNS / 2])
}

fn main() {
    let file = capture();
    let profiles = Profiles::shipped().unwrap();
    let bare = time_ms(|| {
        black_box(file.iter().fold(0_u64, |sum, b| sum + u64::from(*b)));
    });
    println!(
        "{FRAMES} frames in {} MB, best and median of {RUNS} runs",
        file.len() / 1_000_000
    );
    let row = |name: &str, (ms, median): (f64, f64)| {
        println!(
            "{name:24} {ms:8.2} ms (median {median:8.2}) {:6.1} million frames/s {:7.1} x bare sum",
            f64::from(FRAMES) / ms / 1e3,
            ms / bare.0
        );
    };
    row("bare sum of bytes", bare);
    row(
        "records",
        time_ms(|| {
            let mut reader = Reader::new("it", &file[..]).unwrap();
            while let Some(record) = reader.next().unwrap() {
                black_box(record.original_bytes);
            }
        }),
    );
    row(
        "records to IP",
        time_ms(|| {
            let mut reader = Reader::new("it", &file[..]).unwrap();
            while let Some(record) = reader.next().unwrap() {
                black_box(network(&record).unwrap().bytes);
            }
        }),
    );
    row(
        "energy, lte-2012",
        time_ms(|| {
            let input = Input {
                name: "it".to_owned(),
                from: &file[..],
            };
            let options = EnergyOptions::with_profile("lte-2012");
            black_box(run(vec![input], &options, &profiles).unwrap().joules);
        }),
    );
    let log = bluetooth_log();
    row(
        "btsnoop, records",
        time_ms(|| {
            let mut reader = Reader::new("it", &log[..]).unwrap();
            while let Some(record) = reader.next().unwrap() {
                black_box(record.original_bytes);
            }
        }),
    );
    row(
        "btsnoop, analysis",
        time_ms(|| {
            let report = analyse("it", &log[..]).unwrap();
            assert_eq!(
                report.rfcomm_by_form + report.completed_packets,
                u64::from(FRAMES)
            );
        }),
    );
}
