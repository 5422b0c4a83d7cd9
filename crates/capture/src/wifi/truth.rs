//! Synthetic captures with known truth, to judge merges: sniffers miss frames and have clocks of
//! their own ("Toward Accurate Network Delay Measurement on Android Phones", section 3).

use std::collections::HashMap;

use mpbond_statistics::Sample;

use super::merged::Merged;

/// Random numbers by xorshift64*, so that a seed gives the same captures everywhere.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A generator with a seed; 0 counts as 1.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number in [0, 1).
    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal variate (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }
}

/// Frames on the air: times in seconds, and octets.
#[derive(Debug, Clone)]
pub struct Air {
    /// Frames in the order of their times.
    pub frames: Vec<(f64, Vec<u8>)>,
}

const AP: [u8; 6] = [2, 0, 0, 0, 0, 1];
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Frame control of an ACK, which has no identity.
const ACK: u8 = 0xd4;
const RETRY: u8 = 8;

fn numbered(
    control: u8,
    retry: bool,
    addresses: [[u8; 6]; 2],
    sequence: u16,
    body: &[u8],
) -> Vec<u8> {
    let [from, to] = addresses;
    let mut f = vec![control, if retry { RETRY } else { 0 }, 0, 0];
    f.extend(to);
    f.extend(from);
    f.extend(AP);
    f.extend((sequence << 4).to_le_bytes());
    f.extend(body);
    f
}

impl Air {
    /// Generates beacons each 102.4 ms; data each few ms, each followed by an ACK; one in ten is
    /// retransmitted once, one in fifty twice, without an ACK of the first.
    pub fn generate(seconds: f64, dice: &mut Dice) -> Self {
        let mut frames = Vec::new();
        let mut beacon = 0_u32;
        while f64::from(beacon) * 0.1024 < seconds {
            let at = f64::from(beacon) * 0.1024 + 0.0001 * dice.share();
            let tsf = (at * 1e6) as u64 + 77_000_000;
            let body = tsf.to_le_bytes();
            frames.push((
                at,
                numbered(0x80, false, [AP, [255; 6]], beacon as u16, &body),
            ));
            beacon += 1;
        }
        let mut ack = vec![ACK, 0, 0, 0];
        ack.extend(STATION);
        let (mut at, mut number) = (0.001, 0_u32);
        while at < seconds {
            // Contents repeat occasionally, and numbers wrap: only time distinguishes these frames.
            let body = (number % 30_000).to_le_bytes();
            let data = |retry| numbered(0x08, retry, [STATION, AP], number as u16, &body);
            frames.push((at, data(false)));
            let chance = dice.share();
            let again = if chance < 0.02 {
                2
            } else {
                usize::from(chance < 0.1)
            };
            for _ in 0..again {
                at += 0.000_15 + 0.000_5 * dice.share();
                frames.push((at, data(true)));
            }
            frames.push((at + 0.000_044, ack.clone()));
            at += 0.002 + 0.004 * dice.share();
            number += 1;
        }
        frames.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { frames }
    }

    /// Whether a frame has no identity.
    pub fn is_anonymous(&self, index: usize) -> bool {
        let frame = self.frames.get(index);
        frame.is_some_and(|(_, f)| f.first() == Some(&ACK))
    }

    /// Capture of a sniffer that misses a share of `loss`, whose time stamps scatter by `jitter_us`
    /// (standard deviation), and whose clock shows `clock` of the true time, both in seconds.
    pub fn heard(
        &self,
        dice: &mut Dice,
        loss: f64,
        jitter_us: f64,
        clock: impl Fn(f64) -> f64,
    ) -> Heard {
        let mut capture = Vec::new();
        // Header of pcap: microseconds, version 2.4, link type 105 (802.11).
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 105] {
            capture.extend(field.to_le_bytes());
        }
        let mut frames = Vec::new();
        for (i, (at, data)) in self.frames.iter().enumerate() {
            if dice.share() < loss {
                continue;
            }
            let us =
                (clock(*at) * 1e6 + jitter_us * dice.normal()).round() as i64 + START_S * 1_000_000;
            let length = data.len() as u32;
            let second = (us / 1_000_000) as u32;
            for field in [second, (us % 1_000_000) as u32, length, length] {
                capture.extend(field.to_le_bytes());
            }
            capture.extend(data);
            frames.push(i);
        }
        Heard { capture, frames }
    }
}

/// Start of the captures, in seconds since 1970.
const START_S: i64 = 1_474_410_869;

/// A sniffer's capture, and the frames of the air that it contains.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Capture in pcap format.
    pub capture: Vec<u8>,
    /// Numbers of the frames on the air, in order.
    pub frames: Vec<usize>,
}

/// Judgement of a merge. Shares are of the numbered frames that any sniffer captured.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Frames that the merge contains once.
    pub exactly_once: f64,
    /// Frames that it contains more than once.
    pub twice: f64,
    /// Groups of two transmissions, recognized by an origin that did not capture the kept one.
    pub false_merges: f64,
    /// ACKs missing, duplicated or merged, as a share of the ACKs.
    pub anonymous_wrong: f64,
    /// Numbered frames on the air that the merge contains.
    pub complete: f64,
    /// Numbered frames that the main sniffer missed, another captured, and the merge contains.
    pub recovered: f64,
    /// Distance of time stamps from the truth, median, µs.
    pub error_median_us: f64,
    /// Distance of time stamps from the truth, 95th percentile, µs.
    pub error_p95_us: f64,
    /// Same percentile for frames that the main sniffer missed, µs.
    pub recovered_error_p95_us: f64,
}

/// Compares a merge with the air that `heard` was captured from; `main` is the main sniffer's
/// clock.
pub fn judge(
    merged: &Merged<'_>,
    air: &Air,
    heard: &[Heard],
    main: impl Fn(f64) -> f64,
) -> Verdict {
    let mut had: HashMap<usize, u64> = HashMap::new();
    for (who, h) in heard.iter().enumerate() {
        for i in &h.frames {
            *had.entry(*i).or_default() |= 1 << who;
        }
    }
    let mut times = vec![0_u32; air.frames.len()];
    let (mut wrong, mut wrong_anonymous, mut anonymous) = (0, 0, 0);
    let (mut errors, mut recovered_errors) = (Vec::new(), Vec::new());
    for frame in &merged.frames {
        let (who, index) = frame.copy;
        let truth = heard.get(who).and_then(|h| h.frames.get(index)).copied();
        let Some((truth, (at_s, _))) = truth.and_then(|t| Some((t, air.frames.get(t)?))) else {
            wrong += 1;
            continue;
        };
        if let Some(count) = times.get_mut(truth) {
            *count += 1;
        }
        let is_anonymous = air.is_anonymous(truth);
        anonymous += usize::from(is_anonymous);
        let by = had.get(&truth).copied().unwrap_or_default();
        if frame.origins & !by != 0 {
            wrong_anonymous += usize::from(is_anonymous);
            wrong += usize::from(!is_anonymous);
        }
        let at_us = frame.at.as_nanos() as f64 / 1e3 - START_S as f64 * 1e6;
        let error = (at_us - main(*at_s) * 1e6).abs();
        errors.push(error);
        if by & 1 == 0 {
            recovered_errors.push(error);
        }
    }
    let count = |i: &usize| times.get(*i).copied().unwrap_or_default();
    let by_any = had.keys().copied().filter(|i| !air.is_anonymous(*i));
    let numbered: Vec<usize> = by_any.collect();
    let on_air = (0..air.frames.len())
        .filter(|i| !air.is_anonymous(*i))
        .count();
    let missed: Vec<&usize> = numbered
        .iter()
        .filter(|i| had.get(i).is_some_and(|by| by & 1 == 0))
        .collect();
    for (i, _) in had.iter().filter(|(i, _)| air.is_anonymous(**i)) {
        wrong_anonymous += usize::from(count(i) != 1);
    }
    let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
    let there = numbered.iter().filter(|i| count(i) > 0).count();
    let (errors, recovered_errors) = (Sample::new(errors), Sample::new(recovered_errors));
    let quantile = |of: &Sample, share| of.quantile(share).unwrap_or_default();
    Verdict {
        exactly_once: share(
            numbered.iter().filter(|i| count(i) == 1).count(),
            numbered.len(),
        ),
        twice: share(
            numbered.iter().filter(|i| count(i) > 1).count(),
            numbered.len(),
        ),
        false_merges: share(wrong, numbered.len()),
        anonymous_wrong: share(wrong_anonymous, anonymous),
        complete: share(there, on_air),
        recovered: share(missed.iter().filter(|i| count(i) > 0).count(), missed.len()),
        error_median_us: quantile(&errors, 0.5),
        error_p95_us: quantile(&errors, 0.95),
        recovered_error_p95_us: quantile(&recovered_errors, 0.95),
    }
}
