//! One capture out of several: each transmission once, at its time by the main sniffer's clock.

use std::collections::HashMap;
use std::io::{Read, Write};

use mpbond_units::Timestamp;
use serde::Serialize;

use super::clock::{ClockFit, ClockRelation};
use super::frame::{FrameKind, frame};
use super::reference::compare;
use crate::error::CaptureError;
use crate::pcapng_write::PcapngWriter;
use crate::reader::{LinkType, Reader};

/// Origins are bits of a word.
const MAX_SNIFFERS: usize = 64;
/// Numbered frames that were not sent before have no second transmission: two of them so near are
/// one, whatever the stamps scatter.
const ONLY_ONCE_NS: f64 = 20e6;
/// No station sends the same frame again so soon: the first has to end, and its ACK to be missed.
const DUPLICATE_NS: f64 = 20e3;
/// What stamps may differ by at least, and at most before retransmissions run together.
const TOLERANCE_NS: (f64, f64) = (10e3, 2e6);
/// An ACK or CTS answers what came so long before.
const ANSWER_NS: f64 = 500e3;

/// One frame of one sniffer, as matching needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Since the capture's start.
    pub(super) at_ns: f64,
    pub(super) identity: u64,
    pub(super) kind: FrameKind,
    pub(super) retry: bool,
    /// Where its bytes lie, and how long it was.
    start: usize,
    kept: u32,
    original: u32,
    link_type: LinkType,
}

impl Seen {
    /// Whether it has a sequence number: identity tells it from all but its retransmissions.
    pub(super) fn numbered(&self) -> bool {
        !matches!(self.kind, FrameKind::Anonymous | FrameKind::Control)
    }
}

/// A sniffer's capture, in memory.
#[derive(Debug, Clone)]
pub struct Sniffer {
    file: String,
    start: Timestamp,
    seen: Vec<Seen>,
    /// Identities that also take the check sequence in.
    with_check: Option<Vec<u64>>,
    bytes: Vec<u8>,
    damaged: u64,
    others: u64,
    incomplete: Option<String>,
}

impl Sniffer {
    /// Reads a capture. What is whole before an error counts.
    ///
    /// # Errors
    /// When it is no capture, or has no 802.11 frames.
    pub fn read<R: Read>(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut reader = Reader::new(file, from)?;
        let mut all = Self {
            file: file.to_owned(),
            start: Timestamp::ZERO,
            seen: Vec::new(),
            with_check: Some(Vec::new()),
            bytes: Vec::new(),
            damaged: 0,
            others: 0,
            incomplete: None,
        };
        let mut link = None;
        loop {
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(e) if all.seen.is_empty() => return Err(e),
                Err(e) => {
                    all.incomplete = Some(e.to_string());
                    break;
                }
            };
            link.get_or_insert(record.link_type);
            let Some(frame) = frame(&record) else {
                all.others += 1;
                continue;
            };
            if frame.damaged {
                all.damaged += 1;
                continue;
            }
            if all.seen.is_empty() {
                all.start = record.at;
            }
            let at = i128::from(record.at.as_nanos()) - i128::from(all.start.as_nanos());
            match (&mut all.with_check, frame.check) {
                (Some(list), Some(_)) => list.push(frame.identity(true)),
                _ => all.with_check = None,
            }
            all.seen.push(Seen {
                at_ns: at as f64,
                identity: frame.identity(false),
                kind: frame.kind,
                retry: frame.retry,
                start: all.bytes.len(),
                kept: record.data.len() as u32,
                original: record.original_bytes,
                link_type: record.link_type,
            });
            all.bytes.extend_from_slice(record.data);
        }
        if all.seen.is_empty() {
            let reason = match link {
                Some(LinkType(n)) => format!("no 802.11 frames (link type {n})"),
                None => "no frames".to_owned(),
            };
            return Err(CaptureError {
                file: file.to_owned(),
                place: crate::error::Place::Offset(0),
                reason,
            });
        }
        Ok(all)
    }
}

/// Which clock stamps show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Times {
    /// The mean of what all sniffers that had a frame say, in the main clock: least jitter.
    #[default]
    Consensus,
    /// The main sniffer's own stamp where it has one, as the paper does.
    Main,
}

/// Why captures cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("at least two captures are needed, at most {MAX_SNIFFERS}")]
    Number,
    /// Clocks cannot be compared.
    #[error("{file}: no frames in common with {main}, or too few that agree on the time")]
    NothingCommon {
        /// The one whose clock is not known.
        file: String,
        /// The one that it was to be compared with, directly or through others.
        main: String,
    },
}

/// One capture in a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// Its name.
    pub file: String,
    /// Whole 802.11 frames.
    pub frames: u64,
    /// Frames whose check sequence is wrong, left out.
    pub damaged: u64,
    /// Records that are no 802.11 frames, left out.
    pub others: u64,
    /// Frames that the capture has twice, once left out.
    pub duplicates: u64,
    /// This clock minus the main one at the main capture's start, by the straight line.
    pub offset_us: f64,
    /// The median of this clock minus the main one.
    pub median_offset_us: f64,
    /// How much faster than the main clock, by the straight line.
    pub skew_ppm: f64,
    /// Distance of common frames from the clock relation, median.
    pub residual_median_us: f64,
    /// And the 95th percentile.
    pub residual_p95_us: f64,
    /// Lines that the clock relation is made of; 1 where the clocks go straight.
    pub clock_pieces: usize,
    /// Common frames that it rests on.
    pub reference_frames: usize,
    /// Share of numbered frames that it missed, estimated.
    pub loss: f64,
    /// Why reading it stopped early.
    pub incomplete: Option<String>,
}

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeReport {
    /// In the order given; the first is the main one.
    pub inputs: Vec<InputReport>,
    /// Transmissions, each once.
    pub merged_frames: u64,
    /// Of these, with a sequence number.
    pub numbered_frames: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// ACK and CTS, matched by time and what they follow.
    pub anonymous_frames: u64,
    /// Frames that the main capture did not have.
    pub recovered: u64,
    /// Estimated share of the numbered frames on the air that are here: capture-recapture, taking
    /// losses of sniffers to be independent.
    pub completeness: f64,
    /// Stamps of retransmissions that differ by more are two frames.
    pub tolerance_us: f64,
    /// Frames for which more than one transmission was near enough.
    pub ambiguous: u64,
}

/// One transmission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MergedFrame {
    /// When, by the main clock.
    pub at: Timestamp,
    /// Bit i: sniffer i had it.
    pub origins: u64,
    /// Whose copy is kept, and which of its frames.
    pub copy: (usize, usize),
}

/// A merged capture.
#[derive(Debug, Clone)]
pub struct Merged<'a> {
    /// What was done.
    pub report: MergeReport,
    /// By time.
    pub frames: Vec<MergedFrame>,
    sniffers: &'a [Sniffer],
}

/// Clocks of all, against the first.
struct Clocks(Vec<Option<Clock>>);

struct Clock {
    fit: Option<ClockFit>,
    /// The way to the main clock: a relation each step.
    steps: Vec<ClockRelation>,
    /// Over all steps.
    residual_p95_ns: f64,
}

impl Clock {
    fn to_main(&self, ns: f64) -> f64 {
        self.steps.iter().fold(ns, |ns, step| step.to_a(ns))
    }
}

impl Clocks {
    fn of(seen: &[Vec<Seen>]) -> Self {
        let mut clocks: Vec<Option<Clock>> = seen.iter().map(|_| None).collect();
        if let Some(main) = clocks.first_mut() {
            *main = Some(Clock {
                fit: None,
                steps: Vec::new(),
                residual_p95_ns: 0.0,
            });
        }
        // Directly where there are common frames, else through a sniffer that is known already.
        let mut known = vec![0];
        let mut next = 0;
        while let Some(over) = known.get(next).copied() {
            next += 1;
            for i in 1..seen.len() {
                if clocks.get(i).is_none_or(Option::is_some) {
                    continue;
                }
                let (Some(a), Some(b)) = (seen.get(over), seen.get(i)) else {
                    continue;
                };
                let Some(fit) = compare(a, b) else { continue };
                let mut steps = vec![fit.relation.clone()];
                let mut residual = fit.residual_p95_ns;
                if let Some(Some(via)) = clocks.get(over) {
                    steps.extend(via.steps.iter().cloned());
                    residual = residual.hypot(via.residual_p95_ns);
                }
                if let Some(slot) = clocks.get_mut(i) {
                    *slot = Some(Clock {
                        fit: Some(fit),
                        steps,
                        residual_p95_ns: residual,
                    });
                    known.push(i);
                }
            }
        }
        Self(clocks)
    }
}

/// Merges captures of the same channel; the first is the main one.
///
/// # Errors
/// [`MergeError`] when there are too few, or one has nothing in common with the others.
pub fn merge(sniffers: &[Sniffer], times: Times) -> Result<Merged<'_>, MergeError> {
    if !(2..=MAX_SNIFFERS).contains(&sniffers.len()) {
        return Err(MergeError::Number);
    }
    let with_check = sniffers.iter().all(|s| s.with_check.is_some());
    let seen: Vec<Vec<Seen>> = sniffers
        .iter()
        .map(|s| {
            let mut seen = s.seen.clone();
            if let (true, Some(identities)) = (with_check, &s.with_check) {
                for (seen, identity) in seen.iter_mut().zip(identities) {
                    seen.identity = *identity;
                }
            }
            seen
        })
        .collect();
    let clocks = Clocks::of(&seen);
    let main = sniffers.first().map_or("", |s| &s.file);
    let mut known = Vec::new();
    for (clock, sniffer) in clocks.0.into_iter().zip(sniffers) {
        known.push(clock.ok_or_else(|| MergeError::NothingCommon {
            file: sniffer.file.clone(),
            main: main.to_owned(),
        })?);
    }
    let widest = known.iter().map(|c| c.residual_p95_ns).fold(0.0, f64::max);
    let tolerance_ns = (6.0 * widest).clamp(TOLERANCE_NS.0, TOLERANCE_NS.1);
    let mut matching = Matching::new(&seen, tolerance_ns);
    let mut order: Vec<(f64, usize, usize)> = Vec::new();
    for (who, (frames, clock)) in seen.iter().zip(&known).enumerate() {
        let own = frames.iter().enumerate();
        order.extend(own.map(|(i, s)| (clock.to_main(s.at_ns), who, i)));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    for (at, who, i) in order {
        matching.take(at, who, i);
    }
    Ok(matching.finish(sniffers, &known, times))
}

/// One transmission while frames are matched.
struct Group {
    /// Of its first frame.
    at_ns: f64,
    origins: u64,
    copy: (usize, usize),
    /// Times by sniffer, in the main clock.
    stamps: Vec<(usize, f64)>,
    /// What an ACK or CTS follows.
    follows: Option<usize>,
}

struct Matching<'a> {
    seen: &'a [Vec<Seen>],
    tolerance_ns: f64,
    groups: Vec<Group>,
    /// The last transmissions of each identity.
    recent: HashMap<u64, Vec<usize>>,
    /// The group of the last frame that each sniffer had.
    last: Vec<Option<usize>>,
    duplicates: Vec<u64>,
    ambiguous: u64,
}

/// Transmissions of one identity that may still be joined.
const RECENT: usize = 16;

impl<'a> Matching<'a> {
    fn new(seen: &'a [Vec<Seen>], tolerance_ns: f64) -> Self {
        Self {
            seen,
            tolerance_ns,
            groups: Vec::new(),
            recent: HashMap::new(),
            last: vec![None; seen.len()],
            duplicates: vec![0; seen.len()],
            ambiguous: 0,
        }
    }

    fn take(&mut self, at_ns: f64, who: usize, index: usize) {
        let Some(frame) = self.seen.get(who).and_then(|s| s.get(index)) else {
            return;
        };
        let bit = 1_u64 << who;
        let once = frame.numbered() && !frame.retry;
        let (near, same) = if once {
            (ONLY_ONCE_NS, ONLY_ONCE_NS)
        } else {
            (self.tolerance_ns, DUPLICATE_NS)
        };
        let follows = (frame.kind == FrameKind::Anonymous)
            .then(|| self.last.get(who).copied().flatten())
            .flatten()
            .filter(|g| {
                let before = self.groups.get(*g).map(|g| g.at_ns);
                before.is_some_and(|before| at_ns - before <= ANSWER_NS)
            });
        let mut best: Option<(f64, usize)> = None;
        let mut candidates = 0;
        let recent = self.recent.entry(frame.identity).or_default();
        for g in recent.iter().rev() {
            let Some(group) = self.groups.get(*g) else {
                continue;
            };
            let away = (at_ns - group.at_ns).abs();
            if group.origins & bit != 0 {
                let own = group.stamps.iter().find(|(origin, _)| *origin == who);
                if own.is_some_and(|(_, at)| (at_ns - at).abs() <= same) {
                    if let Some(count) = self.duplicates.get_mut(who) {
                        *count += 1;
                    }
                    return;
                }
                continue;
            }
            if away > near {
                continue;
            }
            candidates += 1;
            // What follows different frames is a different answer, unless nothing else is near.
            let contradicts = matches!((follows, group.follows), (Some(a), Some(b)) if a != b);
            let cost = away + if contradicts { near } else { 0.0 };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, *g));
            }
        }
        self.ambiguous += u64::from(candidates > 1);
        let joined = best.and_then(|(_, g)| Some((g, self.groups.get_mut(g)?)));
        let group = match joined {
            Some((g, group)) => {
                group.origins |= bit;
                group.stamps.push((who, at_ns));
                group.follows = group.follows.or(follows);
                // The main capture's copy, else the longest.
                let kept = |copy: (usize, usize)| {
                    let seen = self.seen.get(copy.0).and_then(|s| s.get(copy.1));
                    seen.map_or(0, |s| s.kept)
                };
                if group.copy.0 != 0 && (who == 0 || frame.kept > kept(group.copy)) {
                    group.copy = (who, index);
                }
                g
            }
            None => {
                let g = self.groups.len();
                self.groups.push(Group {
                    at_ns,
                    origins: bit,
                    copy: (who, index),
                    stamps: vec![(who, at_ns)],
                    follows,
                });
                if recent.len() >= RECENT {
                    recent.remove(0);
                }
                recent.push(g);
                g
            }
        };
        if let Some(last) = self.last.get_mut(who) {
            *last = Some(group);
        }
    }

    fn finish<'s>(self, sniffers: &'s [Sniffer], clocks: &[Clock], times: Times) -> Merged<'s> {
        let start = sniffers.first().map_or(Timestamp::ZERO, |s| s.start);
        let weights = weights(clocks);
        let (mut numbered, mut anonymous, mut retransmissions, mut recovered) = (0, 0, 0, 0);
        let mut had = vec![0_u64; sniffers.len()];
        let mut frames = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let seen = self
                .seen
                .get(group.copy.0)
                .and_then(|s| s.get(group.copy.1));
            let Some(seen) = seen else { continue };
            if seen.numbered() {
                numbered += 1;
                retransmissions += u64::from(seen.retry);
                for (who, count) in had.iter_mut().enumerate() {
                    *count += group.origins >> who & 1;
                }
            }
            anonymous += u64::from(seen.kind == FrameKind::Anonymous);
            recovered += u64::from(group.origins & 1 == 0);
            let at_ns = match times {
                Times::Main if group.origins & 1 == 1 => {
                    let own = group.stamps.iter().find(|(who, _)| *who == 0);
                    own.map_or(group.at_ns, |(_, at)| *at)
                }
                _ => consensus(&group.stamps, &weights).unwrap_or(group.at_ns),
            };
            frames.push(MergedFrame {
                at: moved(start, at_ns),
                origins: group.origins,
                copy: group.copy,
            });
        }
        frames.sort_by_key(|f| (f.at, f.copy));
        let total = estimate(numbered, &had);
        let us = |ns: f64| ns.round() / 1e3;
        let inputs = sniffers.iter().enumerate().map(|(i, sniffer)| {
            let clock = clocks.get(i);
            let fit = clock.and_then(|c| c.fit.as_ref());
            // Through another sniffer, only the way as a whole means something to the reader.
            let to_main = |ns: f64| clock.map_or(ns, |c| c.to_main(ns));
            let apart =
                (i128::from(sniffer.start.as_nanos()) - i128::from(start.as_nanos())) as f64;
            let direct = clock.is_none_or(|c| c.steps.len() <= 1);
            let last = sniffer.seen.last().map_or(1e9, |s| s.at_ns.max(1e9));
            let (begin, end) = (to_main(0.0), to_main(last));
            let skew = last / (end - begin) - 1.0;
            let offset = match fit {
                Some(fit) if direct => fit.offset_ns,
                _ => -begin * (1.0 + skew),
            };
            InputReport {
                file: sniffer.file.clone(),
                frames: sniffer.seen.len() as u64,
                damaged: sniffer.damaged,
                others: sniffer.others,
                duplicates: self.duplicates.get(i).copied().unwrap_or_default(),
                offset_us: us(apart + offset),
                median_offset_us: us(apart
                    + match fit {
                        Some(fit) if direct => fit.median_offset_ns,
                        _ => last / 2.0 - to_main(last / 2.0),
                    }),
                skew_ppm: match fit {
                    Some(fit) if direct => fit.skew_ppm,
                    _ => skew * 1e6,
                },
                residual_median_us: us(fit.map_or(0.0, |f| f.residual_median_ns)),
                residual_p95_us: us(clock.map_or(0.0, |c| c.residual_p95_ns)),
                clock_pieces: fit.map_or(0, |f| f.relation.pieces()),
                reference_frames: fit.map_or(0, |f| f.frames),
                loss: 1.0 - had.get(i).copied().unwrap_or_default() as f64 / total.max(1.0),
                incomplete: sniffer.incomplete.clone(),
            }
        });
        let report = MergeReport {
            inputs: inputs.collect(),
            merged_frames: frames.len() as u64,
            numbered_frames: numbered,
            retransmissions,
            anonymous_frames: anonymous,
            recovered,
            completeness: if total > 0.0 {
                numbered as f64 / total
            } else {
                1.0
            },
            tolerance_us: us(self.tolerance_ns),
            ambiguous: self.ambiguous,
        };
        Merged {
            report,
            frames,
            sniffers,
        }
    }
}

fn moved(start: Timestamp, by_ns: f64) -> Timestamp {
    let ns = i128::from(start.as_nanos()) + by_ns.round() as i128;
    Timestamp::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}

/// How much each sniffer's stamps count. A residual holds both clocks' jitter, and which of the
/// two it is does not show: the main one counts as the best of the others.
fn weights(clocks: &[Clock]) -> Vec<f64> {
    // Stamps have whole microseconds.
    let of = |ns: f64| 1.0 / ns.max(1e3).powi(2);
    let others = clocks.iter().skip(1).map(|c| of(c.residual_p95_ns));
    let best = others.clone().fold(0.0, f64::max);
    std::iter::once(best).chain(others).collect()
}

fn consensus(stamps: &[(usize, f64)], weights: &[f64]) -> Option<f64> {
    let (_, base) = *stamps.first()?;
    let (mut sum, mut all) = (0.0, 0.0);
    for (who, at) in stamps {
        let weight = weights.get(*who)?;
        sum += weight * (at - base);
        all += weight;
    }
    Some(base + sum / all)
}

/// Frames that there were, when sniffers miss them independently: the N for which
/// `N (1 - Π (1 - n_i / N))` frames are seen by any.
fn estimate(seen: u64, had: &[u64]) -> f64 {
    let seen = seen as f64;
    let mut total = seen;
    for _ in 0..200 {
        let missed: f64 = had
            .iter()
            .map(|n| 1.0 - *n as f64 / total.max(1.0))
            .product();
        let next = seen / (1.0 - missed).max(1e-9);
        // Sniffers without a common frame say nothing about what all missed.
        if !next.is_finite() || (next - total).abs() < 1e-6 * total {
            break;
        }
        total = next;
    }
    total
}

impl Merged<'_> {
    /// Writes pcapng: an interface each sniffer, and in every packet's comment who had it.
    ///
    /// # Errors
    /// When `to` cannot be written.
    pub fn write<W: Write>(&self, to: W) -> std::io::Result<()> {
        let mut writer = PcapngWriter::new(to)?;
        let mut interfaces: HashMap<(usize, LinkType), u32> = HashMap::new();
        for frame in &self.frames {
            let (who, index) = frame.copy;
            let Some(sniffer) = self.sniffers.get(who) else {
                continue;
            };
            let Some(seen) = sniffer.seen.get(index) else {
                continue;
            };
            let interface = match interfaces.get(&(who, seen.link_type)) {
                Some(interface) => *interface,
                None => {
                    let number = writer.interface(seen.link_type, &sniffer.file)?;
                    interfaces.insert((who, seen.link_type), number);
                    number
                }
            };
            let had: Vec<String> = (0..self.sniffers.len())
                .filter(|i| frame.origins >> i & 1 == 1)
                .map(|i| (i + 1).to_string())
                .collect();
            let end = seen.start + seen.kept as usize;
            let data = sniffer.bytes.get(seen.start..end).unwrap_or_default();
            let comment = format!("origin={}", had.join("+"));
            writer.packet(interface, frame.at, data, seen.original, &comment)?;
        }
        writer.finish()
    }
}
