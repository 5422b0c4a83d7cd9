//! A sniffer's capture in memory, with the facts that matching needs.

use std::io::Read;

use mpbond_units::Timestamp;

use super::frame::{FrameKind, HASHED, frame};
use crate::error::CaptureError;
use crate::reader::Reader;
use crate::record::{LinkType, Record};

/// Frame of a sniffer, as needed for matching.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Time since the capture's start.
    pub(super) at_ns: f64,
    /// See [`Sniffer::identified`]; 0 before.
    pub(super) identity: u64,
    pub(super) kind: FrameKind,
    pub(super) retry: bool,
    /// Position of its octets, and original length.
    pub(super) start: usize,
    pub(super) kept: u32,
    pub(super) original: u32,
    pub(super) link_type: LinkType,
}

impl Seen {
    /// Whether it has a sequence number: its identity distinguishes it from all but its
    /// retransmissions.
    pub(super) fn numbered(&self) -> bool {
        !matches!(self.kind, FrameKind::Anonymous | FrameKind::Control)
    }
}

/// A sniffer's capture in memory.
#[derive(Debug, Clone)]
pub struct Sniffer {
    pub(super) file: String,
    pub(super) start: Timestamp,
    pub(super) seen: Vec<Seen>,
    /// Whether all frames have their check sequence.
    pub(super) with_check: bool,
    /// Number of octets that all numbered frames have, shorter ones on the air excepted; at most
    /// [`HASHED`].
    pub(super) kept_octets: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) damaged: u64,
    pub(super) others: u64,
    pub(super) incomplete: Option<String>,
}

impl Sniffer {
    /// Reads a capture. Records before an error count.
    ///
    /// # Errors
    /// When it is not a capture, or has no 802.11 frames.
    pub fn read<R: Read>(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut reader = Reader::new(file, from)?;
        let mut all = Self {
            file: file.to_owned(),
            start: Timestamp::ZERO,
            seen: Vec::new(),
            with_check: true,
            kept_octets: HASHED,
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
            all.with_check &= frame.check.is_some();
            if let (Some(_), Some(kept)) = (frame.sequence, frame.cut_to()) {
                all.kept_octets = all.kept_octets.min(kept);
            }
            all.seen.push(Seen {
                at_ns: at as f64,
                identity: 0,
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

    /// The frames with their identities by the first `octets` octets, and with the check sequence.
    pub(super) fn identified(&self, octets: usize, with_check: bool) -> Vec<Seen> {
        let identity = |seen: &Seen| {
            let end = seen.start + seen.kept as usize;
            let record = Record {
                at: self.start,
                link_type: seen.link_type,
                interface: 0,
                flags: 0,
                data: self.bytes.get(seen.start..end)?,
                original_bytes: seen.original,
                offset: 0,
            };
            Some(frame(&record)?.identity(octets, with_check))
        };
        let seen = self.seen.iter();
        seen.map(|seen| Seen {
            identity: identity(seen).unwrap_or_default(),
            ..*seen
        })
        .collect()
    }
}
