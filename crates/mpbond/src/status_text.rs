//! A status as JSON, made in parts: a primary may have thousands of streams, whose records and text
//! would take megabytes at once.

use std::vec;

use serde::Serialize;
use tracing::warn;

use crate::status::{Status, TransferStatus};

/// Streams of a part. A part of the text has some 100 kB.
pub(crate) const PART: usize = 256;

/// Streams in parts, none after the last one.
pub(crate) type Parts = Box<dyn FnMut() -> Option<Vec<TransferStatus>>>;

/// A status, and further streams, which follow those in it.
pub(crate) struct Report {
    pub(crate) status: Status,
    pub(crate) further: Parts,
}

impl From<Status> for Report {
    fn from(status: Status) -> Self {
        Self {
            status,
            further: Box::new(|| None),
        }
    }
}

/// The parts of the text.
pub(crate) struct Text {
    /// All but the streams and the end.
    head: Option<Vec<u8>>,
    streams: vec::IntoIter<TransferStatus>,
    /// Absent after the end.
    further: Option<Parts>,
    has_streams: bool,
}

impl Text {
    pub(crate) fn of(Report { status, further }: Report) -> Self {
        let mut status = status;
        let streams = std::mem::take(&mut status.transfers);
        let mut head = to_json(&status);
        // The end of the object.
        head.pop();
        Self {
            head: Some(head),
            streams: streams.into_iter(),
            further: Some(further),
            has_streams: false,
        }
    }

    fn next_streams(&mut self) -> Option<Vec<TransferStatus>> {
        let part: Vec<_> = self.streams.by_ref().take(PART).collect();
        match part.is_empty() {
            false => Some(part),
            true => self.further.as_mut()?(),
        }
    }
}

impl Iterator for Text {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        self.further.as_ref()?;
        while let Some(part) = self.next_streams() {
            let list = to_json(&part);
            let elements = list.get(1..list.len().saturating_sub(1));
            let Some(elements) = elements.filter(|elements| !elements.is_empty()) else {
                continue;
            };
            let before: &[u8] = match self.has_streams {
                true => b",",
                false => b",\"transfers\":[",
            };
            self.has_streams = true;
            return Some([before, elements].concat());
        }
        self.further = None;
        let end: &[u8] = match self.has_streams {
            true => b"]}",
            false => b"}",
        };
        Some(end.to_vec())
    }
}

/// The whole text.
pub(crate) fn whole(report: impl Into<Report>) -> Vec<u8> {
    let mut whole = Vec::new();
    Text::of(report.into()).for_each(|part| whole.extend(part));
    whole
}

/// JSON of an answer.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|e| {
        warn!(error = %e, "an answer does not serialise");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(numbers: std::ops::Range<u64>) -> Vec<TransferStatus> {
        let stream = |stream| TransferStatus {
            stream,
            ..TransferStatus::default()
        };
        numbers.map(stream).collect()
    }

    #[test]
    fn the_parts_are_the_status_with_all_streams_in_their_order() {
        for (own, further) in [
            (0..0, vec![]),
            (0..1, vec![]),
            (0..600, vec![]),
            (0..2, vec![2..5, 5..5, 5..6]),
            (0..0, vec![0..0, 0..300]),
        ] {
            let status = Status {
                role: "primary".to_owned(),
                notes: vec!["\"transfers\":[]}".to_owned()],
                ..Status::default()
            };
            let most = further.last().map_or(own.end, |last| last.end);
            let mut parts = further.into_iter();
            let report = Report {
                status: Status {
                    transfers: streams(own),
                    ..status.clone()
                },
                further: Box::new(move || parts.next().map(streams)),
            };
            let text = whole(report);
            let whole: Status = serde_json::from_slice(&text).unwrap();
            let expected = Status {
                transfers: streams(0..most),
                ..status
            };
            assert_eq!(whole, expected);
        }
    }

    #[test]
    fn a_part_has_256_streams_at_most_and_nothing_follows_the_end() {
        let mut text = Text::of(Report::from(Status {
            transfers: streams(0..600),
            ..Status::default()
        }));
        let parts: Vec<_> = text.by_ref().collect();
        assert_eq!(parts.len(), 5);
        assert_eq!(parts[1].iter().filter(|octet| **octet == b'{').count(), 256);
        assert_eq!(text.next(), None);
    }
}
