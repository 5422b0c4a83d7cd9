//! The variances of the filter of Bluetooth's signal, fitted to a recording (ADR 0023).
#![allow(clippy::unwrap_used)] // of tests

use std::collections::BTreeMap;

use mpbond_manager::{SIGNAL_CHANGE, SIGNAL_NOISE};

const RECORDING: &str = "ble-rssi-straight_01_all_sensors.mbd";
/// Interval of the samples of a handover.
const EVERY_S: f64 = 0.2;

/// Log likelihood of the samples (s, dBm) of one receiver, if the signal changes by a random walk
/// of variance `change` in 0.2 s, and samples have the variance `noise`.
fn log_likelihood(samples: &[(f64, f64)], change: f64, noise: f64) -> f64 {
    let (mut at, mut x) = samples[0];
    let mut p = noise;
    let mut sum = 0.0;
    for (t, z) in &samples[1..] {
        p += change * (t - at) / EVERY_S;
        at = *t;
        let (variance, error) = (p + noise, z - x);
        sum -= 0.5 * (variance.ln() + error * error / variance);
        let gain = p / variance;
        x += gain * error;
        p *= 1.0 - gain;
    }
    sum
}

#[test]
fn the_filter_has_the_variances_of_the_recording() {
    let Some(path) = mpbond_testing::recording(RECORDING) else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut receivers: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let sample = (fields[0].parse().unwrap(), fields[3].parse().unwrap());
        receivers.entry(fields[1]).or_default().push(sample);
    }
    assert_eq!(receivers.len(), 12);
    let all = |change: f64, noise: f64| -> f64 {
        let each = receivers.values();
        each.map(|samples| log_likelihood(samples, change, noise))
            .sum()
    };
    let ours = all(SIGNAL_CHANGE, SIGNAL_NOISE);
    for change in [0.5, 0.9, 1.1, 2.0] {
        for noise in [0.5, 0.9, 1.0, 1.1, 2.0] {
            let other = all(SIGNAL_CHANGE * change, SIGNAL_NOISE * noise);
            assert!(other < ours + 0.05, "{change} {noise}: {other} > {ours}");
        }
    }
}
