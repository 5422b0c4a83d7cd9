//! Accounts a million packets, beside a bare sum over the same packets.
//!
//! Prints, for each radio, the best and the median of several runs in ms, and
//! of the best ns a packet and the ratio to the bare sum.

// A bench may fail loudly.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use mpbond_radio::{Account, Collaboration, Packet, Placement, Profiles, Radio};
use mpbond_units::Timestamp;

const PACKETS: usize = 1_000_000;
const RUNS: usize = 15;

/// Bursts of data with acknowledgements, and a pause now and then.
fn packets() -> Vec<(Timestamp, Packet)> {
    let mut now = 3_600_000_000_000_u64;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    (0..PACKETS)
        .map(|i| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            now += if seed.is_multiple_of(10_000) {
                15_000_000_000
            } else {
                seed % 2_000_000
            };
            let packet = if i % 3 == 2 {
                Packet::up(52)
            } else {
                Packet::down(1500)
            };
            (Timestamp::from_nanos(now), packet)
        })
        .collect()
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
    let packets = packets();
    let profiles = Profiles::shipped().unwrap();
    let bare = time_ms(|| {
        let sum = packets.iter().fold((0_u64, 0_u64), |(bytes, ns), (at, p)| {
            (bytes + u64::from(p.bytes), ns.max(at.as_nanos()))
        });
        black_box(sum);
    });
    println!("{PACKETS} packets, best and median of {RUNS} runs");
    let row = |name: &str, (ms, median): (f64, f64)| {
        println!(
            "{name:24} {ms:8.2} ms (median {median:8.2}) {:7.1} ns/packet {:7.1} x bare sum",
            ms * 1e6 / PACKETS as f64,
            ms / bare.0
        );
    };
    row("bare sum", bare);
    for name in ["lte-2012", "umts-2012", "5g-sa-2020", "wifi-s4", "watch-bt"] {
        let profile = profiles.radio(name).unwrap();
        row(
            name,
            time_ms(|| {
                let mut radio = Radio::new(profile, Placement::Recorded);
                let mut sums = Account::default();
                for (at, packet) in &packets {
                    radio.packet(*at, *packet, &mut sums);
                }
                black_box(sums.summary());
            }),
        );
    }
    row(
        "lte-2012 with picture",
        time_ms(|| {
            let mut all = Collaboration::new(Placement::Recorded);
            let device = all.add_bare_device("phone");
            let id = all.add_interface(device, "cellular", profiles.radio("lte-2012").unwrap());
            for (at, packet) in &packets {
                all.packet(*at, id, *packet);
            }
            black_box(all.finish(Timestamp::ZERO).joules);
        }),
    );
}
