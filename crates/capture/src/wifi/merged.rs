//! Merged capture: transmissions with their times, and the report.

use std::collections::HashMap;
use std::io::Write;

use mpbond_units::Timestamp;

use super::alignment::Clock;
use super::estimate::{consensus, estimate, weights};
use super::frame::FrameKind;
use super::matching::Matching;
use super::report::{InputReport, MergeReport};
use super::sniffer::Sniffer;
use crate::pcapng_write::PcapngWriter;
use crate::record::LinkType;

/// Time of a merged frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Times {
    /// Mean over all sniffers that captured it, in the main clock: least jitter.
    #[default]
    Consensus,
    /// The main sniffer's own time stamp where it has one, as in "Toward Accurate Network Delay
    /// Measurement on Android Phones", section 3.2.
    Main,
}

/// One transmission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MergedFrame {
    /// Time, by the main clock.
    pub at: Timestamp,
    /// Sniffers that captured it: bit i is sniffer i.
    pub origins: u64,
    /// Sniffer and frame number of the copy that is kept.
    pub copy: (usize, usize),
}

/// A merged capture.
#[derive(Debug, Clone)]
pub struct Merged<'a> {
    /// Report.
    pub report: MergeReport,
    /// Frames in the order of time.
    pub frames: Vec<MergedFrame>,
    sniffers: &'a [Sniffer],
}

impl Matching<'_> {
    /// Assembles the result of matching.
    pub(super) fn finish<'s>(
        self,
        sniffers: &'s [Sniffer],
        clocks: &[Clock],
        times: Times,
    ) -> Merged<'s> {
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
            // Through another sniffer, only the whole path is meaningful to the reader.
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
                reference_frames: fit.map_or(0, |f| f.references.len()),
                outliers: fit.map_or(0, |f| f.outliers),
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

impl Merged<'_> {
    /// Writes pcapng: one interface for each sniffer, and in every packet's comment the sniffers
    /// that captured it.
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
