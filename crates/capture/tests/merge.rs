//! Merging sniffers' captures, against generated truth and real captures.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use mpbond_capture::wifi::truth::{Air, Dice, Heard, judge};
use mpbond_capture::wifi::{
    Bridging, MergeError, MergeReport, Merged, Sniffer, Times, merge, merge_by,
};
use mpbond_capture::{LinkType, Reader};

fn sniffer(name: &str) -> Option<Sniffer> {
    let path = mpbond_testing::sample(&format!("wifi/{name}"))?;
    let bytes = std::fs::read(path).unwrap();
    Some(Sniffer::read(name, &bytes[..]).unwrap())
}

fn air(seconds: f64, dice: &mut Dice) -> Air {
    Air::generate(seconds, dice)
}

fn hear(
    air: &Air,
    dice: &mut Dice,
    loss: f64,
    jitter_us: f64,
    clock: impl Fn(f64) -> f64,
) -> Heard {
    air.heard(dice, loss, jitter_us, clock)
}

fn read(heard: &[Heard]) -> Vec<Sniffer> {
    let names = ["a", "b", "c"];
    let both = heard.iter().zip(names);
    both.map(|(h, name)| Sniffer::read(name, &h.capture[..]).unwrap())
        .collect()
}

fn fit(report: &MergeReport, i: usize, offset_us: f64, skew_ppm: f64) {
    let input = &report.inputs[i];
    assert!((input.skew_ppm - skew_ppm).abs() < 0.2, "{input:?}");
    assert!((input.offset_us - offset_us).abs() < 5.0, "{input:?}");
}

/// The paper's: three sniffers, 7.3 % loss each, skews of 15 and 9 ppm, jitter of 4 us.
#[test]
fn three_sniffers_make_one_capture() {
    for seed in [1, 2, 3] {
        let mut dice = Dice::new(seed * 0x9e37_79b9);
        let air = air(90.0, &mut dice);
        let heard = [
            hear(&air, &mut dice, 0.073, 4.0, |t| t),
            hear(&air, &mut dice, 0.073, 4.0, |t| t * (1.0 + 15e-6) + 1.25),
            hear(&air, &mut dice, 0.073, 4.0, |t| t * (1.0 + 9e-6) - 3.5),
        ];
        let sniffers = read(&heard);
        let merged = merge(&sniffers, Times::Consensus).unwrap();
        let v = judge(&merged, &air, &heard, |t| t);
        assert!(v.exactly_once >= 0.999, "{v:?}");
        assert!(v.twice <= 0.001 && v.false_merges <= 0.001, "{v:?}");
        assert!(v.anonymous_wrong <= 0.001, "{v:?}");
        assert!(v.error_p95_us <= 6.0, "{v:?}");
        let r = &merged.report;
        fit(r, 1, 1.25e6, 15.0);
        fit(r, 2, -3.5e6, 9.0);
        assert!(
            r.completeness > 0.99 && r.completeness <= 1.0,
            "{}",
            r.completeness
        );
        for input in &r.inputs {
            assert!((input.loss - 0.073).abs() < 0.01, "{input:?}");
            assert!(input.clock_pieces <= 1, "{input:?}");
        }
        // With the main sniffer's own stamps its jitter stays: the figure above can fail.
        let own = merge(&sniffers, Times::Main).unwrap();
        let of_own = judge(&own, &air, &heard, |t| t);
        assert!(of_own.error_p95_us > 6.0, "{of_own:?}");
        // The paper's bridging finds the same frames, with the jitter of beacons in their times.
        for bridging in [Bridging::Nearest, Bridging::NearestSkew] {
            let bridged = merge_by(&sniffers, Times::Consensus, bridging).unwrap();
            let b = judge(&bridged, &air, &heard, |t| t);
            assert!(b.exactly_once >= 0.999 && b.false_merges <= 0.001, "{b:?}");
            assert!(b.recovered_error_p95_us > v.recovered_error_p95_us, "{b:?}");
            assert!(b.recovered_error_p95_us <= 20.0, "{b:?}");
        }
    }
}

/// Clocks that change their rate by the minute: a line would be off by milliseconds.
#[test]
fn wandering_clocks_are_followed() {
    let mut dice = Dice::new(77);
    let air = air(600.0, &mut dice);
    let wander = |t: f64| t * (1.0 + 15e-6) + 0.001 * (t / 60.0).sin();
    let heard = [
        hear(&air, &mut dice, 0.073, 4.0, |t| t),
        hear(&air, &mut dice, 0.073, 4.0, wander),
    ];
    let sniffers = read(&heard);
    let merged = merge(&sniffers, Times::Consensus).unwrap();
    let v = judge(&merged, &air, &heard, |t| t);
    assert!(
        merged.report.inputs[1].clock_pieces > 8,
        "{:?}",
        merged.report
    );
    assert!(v.exactly_once >= 0.999 && v.false_merges <= 0.001, "{v:?}");
    assert!(v.error_p95_us <= 8.0, "{v:?}");
}

#[test]
fn duplicates_go_and_retransmissions_stay() {
    let mut dice = Dice::new(5);
    let air = air(20.0, &mut dice);
    let mut heard = [
        hear(&air, &mut dice, 0.0, 0.0, |t| t),
        hear(&air, &mut dice, 0.0, 0.0, |t| t + 1.0),
    ];
    // The second sniffer's driver hands every frame up twice.
    let mut twice = heard[1].capture[..24].to_vec();
    let mut at = 24;
    while at < heard[1].capture.len() {
        let kept = u32::from_le_bytes(heard[1].capture[at + 8..at + 12].try_into().unwrap());
        let end = at + 16 + kept as usize;
        for _ in 0..2 {
            twice.extend_from_slice(&heard[1].capture[at..end]);
        }
        at = end;
    }
    heard[1].capture = twice;
    let sniffers = read(&heard);
    let merged = merge(&sniffers, Times::Main).unwrap();
    let r = &merged.report;
    assert_eq!(r.merged_frames, air.frames.len() as u64);
    assert_eq!(r.inputs[1].duplicates, air.frames.len() as u64);
    let retries = air.frames.iter().filter(|(_, f)| f[1] == 8).count();
    assert_eq!(r.retransmissions, retries as u64);
}

/// A capture as by a sniffer with this snap length, in which contents of 200 octets are added to
/// every numbered frame.
fn snapped(heard: &Heard, snap: usize) -> Heard {
    let mut capture = heard.capture[..24].to_vec();
    let mut at = 24;
    while at < heard.capture.len() {
        let length = u32::from_le_bytes(heard.capture[at + 8..at + 12].try_into().unwrap());
        let end = at + 16 + length as usize;
        let mut frame = heard.capture[at + 16..end].to_vec();
        if frame.len() >= 24 {
            frame.resize(frame.len() + 200, 7);
        }
        capture.extend_from_slice(&heard.capture[at..at + 8]);
        capture.extend((frame.len().min(snap) as u32).to_le_bytes());
        capture.extend((frame.len() as u32).to_le_bytes());
        capture.extend_from_slice(&frame[..frame.len().min(snap)]);
        at = end;
    }
    let frames = heard.frames.clone();
    Heard { capture, frames }
}

/// The longest snap length has whole frames, the shortest little more than their headers.
#[test]
fn sniffers_with_different_snap_lengths_agree() {
    let mut dice = Dice::new(13);
    let air = air(30.0, &mut dice);
    for snaps in [[65_535, 100, 64], [64, 65_535, 100]] {
        let heard = snaps.map(|snap| {
            let whole = hear(&air, &mut dice, 0.073, 4.0, |t| t);
            snapped(&whole, snap)
        });
        let sniffers = read(&heard);
        let merged = merge(&sniffers, Times::Consensus).unwrap();
        let v = judge(&merged, &air, &heard, |t| t);
        assert!(
            v.exactly_once >= 0.999 && v.twice <= 0.001,
            "{snaps:?} {v:?}"
        );
        assert!(v.false_merges <= 0.001, "{snaps:?} {v:?}");
    }
}

/// Every tenth beacon of a sniffer is stamped half a second late.
#[test]
fn discarded_common_frames_are_counted() {
    let mut dice = Dice::new(17);
    let air = air(60.0, &mut dice);
    let late = |t: f64| {
        t + if (t / 0.1024) as u32 % 10 == 3 {
            0.5
        } else {
            0.0
        }
    };
    for (outliers, clock) in [(0..=2, (|t| t) as fn(f64) -> f64), (50..=62, late)] {
        let heard = [
            hear(&air, &mut dice, 0.0, 1.0, |t| t),
            hear(&air, &mut dice, 0.0, 1.0, clock),
        ];
        let sniffers = read(&heard);
        let merged = merge(&sniffers, Times::Consensus).unwrap();
        let input = &merged.report.inputs[1];
        let json = serde_json::to_value(input).unwrap();
        let count = json["outliers"].as_u64();
        assert!(count.is_some_and(|n| outliers.contains(&n)), "{json}");
    }
}

/// What is written can be read: frames, order, times, who had them.
#[test]
fn the_result_is_a_capture() {
    let mut dice = Dice::new(9);
    let air = air(5.0, &mut dice);
    let heard = [
        hear(&air, &mut dice, 0.2, 1.0, |t| t),
        hear(&air, &mut dice, 0.2, 1.0, |t| t + 2.0),
    ];
    let sniffers = read(&heard);
    let merged = merge(&sniffers, Times::Consensus).unwrap();
    let mut file = Vec::new();
    merged.write(&mut file).unwrap();
    let mut reader = Reader::new("it", &file[..]).unwrap();
    let mut count = 0;
    let mut interfaces = [0; 2];
    while let Some(record) = reader.next().unwrap() {
        let frame = &merged.frames[count];
        assert_eq!(
            (record.at, record.link_type),
            (frame.at, LinkType::IEEE802_11)
        );
        let (who, index) = frame.copy;
        assert_eq!(record.data, &air.frames[heard[who].frames[index]].1[..]);
        interfaces[record.interface as usize] += 1;
        count += 1;
    }
    assert_eq!(count, merged.frames.len());
    assert!(interfaces[0] > interfaces[1] && interfaces[1] > 0);
    let text = String::from_utf8_lossy(&file).into_owned();
    for origin in ["origin=1", "origin=2", "origin=1+2"] {
        assert!(text.contains(origin));
    }
}

/// Two sniffers' beacons of one real trace, if the samples are there.
fn beacon_sets() -> Option<[Sniffer; 2]> {
    Some([
        sniffer("derived_wltrace_s0.pcap")?,
        sniffer("derived_wltrace_s1.pcap")?,
    ])
}

#[test]
fn derived_beacon_sets_agree_with_their_truth() {
    let Some(both) = beacon_sets() else {
        return;
    };
    let merged = merge(&both, Times::Consensus).unwrap();
    let r = &merged.report;
    assert_eq!((r.inputs[0].frames, r.inputs[1].frames), (282, 247));
    let b = &r.inputs[1];
    assert_eq!(b.reference_frames, 147, "beacons in common");
    // Plain least squares: 1,734,218.3 us, 18.467 ppm, median 2.8 us.
    assert!((b.offset_us - 1_734_218.3).abs() < 0.5, "{b:?}");
    assert!((b.skew_ppm - 18.467).abs() < 0.05, "{b:?}");
    assert!(b.residual_median_us < 2.85, "{b:?}");
    assert_eq!(r.merged_frames, 313, "{r:?}");
}

/// Bridging by the nearest beacon against the fit, on beacons of a real trace: the same
/// transmissions, and times that differ by the scatter of the beacons.
#[test]
fn both_relations_of_clocks_agree_on_real_beacons() {
    let Some(both) = beacon_sets() else {
        return;
    };
    let fitted = merge(&both, Times::Main).unwrap();
    let times = |merged: &Merged<'_>| {
        let frames = merged.frames.iter().map(|f| (f.copy, (f.at, f.origins)));
        frames.collect::<BTreeMap<_, _>>()
    };
    let by_fit = times(&fitted);
    for bridging in [Bridging::Nearest, Bridging::NearestSkew] {
        let bridged = merge_by(&both, Times::Main, bridging).unwrap();
        assert_eq!(bridged.report.inputs, fitted.report.inputs);
        let by_beacon = times(&bridged);
        assert_eq!(by_beacon.len(), by_fit.len());
        let mut apart = Vec::new();
        for (copy, (at, origins)) in &by_fit {
            let (other, same) = by_beacon[copy];
            assert_eq!(same, *origins);
            if origins & 1 == 1 {
                assert_eq!(other, *at, "the main sniffer's own time stays");
            } else {
                let ns = i128::from(other.as_nanos()) - i128::from(at.as_nanos());
                apart.push(ns.unsigned_abs() as f64 / 1e3);
            }
        }
        apart.sort_by(f64::total_cmp);
        let (median, most) = (apart[apart.len() / 2], apart[apart.len() - 1]);
        assert_eq!(apart.len() as u64, fitted.report.recovered);
        assert!(
            median > 0.0 && median < 10.0 && most < 50.0,
            "{median} {most}"
        );
    }
}

/// A real pair over hours; the README's figures are of a straight line.
#[test]
fn a_real_pair_agrees_with_the_readme() {
    for (day, offset_s, skew, median_ms) in [
        ("2024-03-07", -0.6897, -5.42, 0.171),
        ("2024-02-15", -0.0209, -5.61, 0.091),
    ] {
        let name = |i: u32| format!("fryza_{day}_pos{i}.pcap");
        let (Some(a), Some(b)) = (sniffer(&name(1)), sniffer(&name(2))) else {
            return;
        };
        let both = [a, b];
        let merged = merge(&both, Times::Main).unwrap();
        let b = &merged.report.inputs[1];
        // The offset moves by 86 ms meanwhile: its median depends on which frames are taken.
        assert!((b.median_offset_us / 1e6 - offset_s).abs() < 0.005, "{b:?}");
        assert!((b.skew_ppm - skew).abs() < 0.1, "{b:?}");
        assert!(b.residual_median_us <= median_ms * 1e3, "{b:?}");
    }
}

#[test]
fn captures_without_common_frames_are_refused() {
    let (mut one, mut two) = (Dice::new(1), Dice::new(2));
    let (first, mut second) = (air(3.0, &mut one), air(3.0, &mut two));
    for (_, f) in &mut second.frames {
        f[9] = 99;
    }
    let heard = [
        hear(&first, &mut one, 0.0, 0.0, |t| t),
        hear(&second, &mut two, 0.0, 0.0, |t| t),
    ];
    let sniffers = read(&heard);
    let refused = merge(&sniffers, Times::Main).unwrap_err();
    assert!(matches!(&refused, MergeError::NothingCommon { .. }));
    assert_eq!(
        merge(&sniffers[..1], Times::Main).unwrap_err(),
        MergeError::Number
    );
    let not_wifi = Sniffer::read(
        "it",
        &b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0"[..],
    );
    assert_eq!(not_wifi.unwrap_err().to_string(), "it: offset 0: no frames");
}

/// Cut at every byte, and with flipped bits: whole frames count, nothing panics.
#[test]
fn sniffers_captures_survive_damage() {
    let mut dice = Dice::new(11);
    let air = air(1.0, &mut dice);
    let heard = hear(&air, &mut dice, 0.0, 0.0, |t| t);
    let mut files = vec![heard.capture];
    for name in [
        "wltrace_trace.pcap",
        "fragattacks_eapol-amsdu_BP-fromap.pcapng",
    ] {
        let path = mpbond_testing::sample(&format!("wifi/{name}"));
        files.extend(path.map(|p| std::fs::read(p).unwrap()));
    }
    for file in &files {
        let mut last = 0;
        for end in 0..file.len().min(2500) {
            let frames = match Sniffer::read("it", &file[..end]) {
                Ok(cut) => {
                    merge(&[cut.clone(), cut], Times::Main).map_or(last, |m| m.report.merged_frames)
                }
                Err(e) => {
                    assert!(e.to_string().starts_with("it: offset "), "{e}");
                    0
                }
            };
            assert!(frames >= last, "{frames} after {last}, cut at {end}");
            last = frames;
        }
        for _ in 0..150 {
            let mut bad = file[..file.len().min(20_000)].to_vec();
            for _ in 0..8 {
                let at = (dice.share() * bad.len() as f64) as usize;
                bad[at] ^= 1 << (dice.share() * 8.0) as u32;
            }
            if let Ok(read) = Sniffer::read("it", &bad[..]) {
                let both = [read.clone(), read];
                if let Ok(merged) = merge(&both, Times::Consensus) {
                    merged.write(std::io::sink()).unwrap();
                }
            }
        }
    }
}
