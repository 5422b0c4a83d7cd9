//! Matches frames of several sniffers to transmissions.

use std::collections::HashMap;

use super::frame::FrameKind;
use super::sniffer::Seen;

/// Maximum scatter of time stamps of one numbered frame without retry bit: it has only one
/// transmission.
const ONLY_ONCE_NS: f64 = 20e6;
/// Minimum interval between transmissions of the same frame: the first has to end, and its ACK to
/// be missed.
const DUPLICATE_NS: f64 = 20e3;
/// Maximum interval between a frame and the ACK or CTS that answers it.
const ANSWER_NS: f64 = 500e3;

/// One transmission during matching.
pub(super) struct Group {
    /// Time of its first frame.
    pub(super) at_ns: f64,
    pub(super) origins: u64,
    pub(super) copy: (usize, usize),
    /// Times by sniffer, in the main clock.
    pub(super) stamps: Vec<(usize, f64)>,
    /// Frame that an ACK or CTS answers.
    follows: Option<usize>,
}

/// Matches frames, given in the order of their times.
pub(super) struct Matching<'a> {
    pub(super) seen: &'a [Vec<Seen>],
    pub(super) tolerance_ns: f64,
    pub(super) groups: Vec<Group>,
    /// Recent transmissions of each identity.
    recent: HashMap<u64, Vec<usize>>,
    /// Group of each sniffer's last frame.
    last: Vec<Option<usize>>,
    pub(super) duplicates: Vec<u64>,
    pub(super) ambiguous: u64,
}

/// Number of transmissions of one identity that may still be joined.
const RECENT: usize = 16;

impl<'a> Matching<'a> {
    pub(super) fn new(seen: &'a [Vec<Seen>], tolerance_ns: f64) -> Self {
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

    pub(super) fn take(&mut self, at_ns: f64, who: usize, index: usize) {
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
            // Answers to different frames are different, unless nothing else is near.
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
}
