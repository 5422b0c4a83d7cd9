//! What is encoded is decoded again, with optional fields of a later version in between.

use bytes::Bytes;
use proptest::prelude::*;

use super::later::{self, Unknown};
use super::strategies::frame;
use crate::wire::{Frame, MAX_RECORD_BYTES, WireError};

pub(super) fn parse_all(mut record: Bytes) -> Result<Vec<Frame>, WireError> {
    let mut frames = Vec::new();
    while !record.is_empty() {
        frames.push(Frame::parse(&mut record)?);
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn encoded_frames_are_decoded(frames in proptest::collection::vec(frame(), 1..6)) {
        let mut out = Vec::new();
        let mut ends = vec![0];
        for f in &frames {
            f.encode(&mut out);
            ends.push(out.len());
        }
        prop_assert!(out.len() <= MAX_RECORD_BYTES);
        prop_assert_eq!(&parse_all(Bytes::from(out.clone())), &Ok(frames.clone()));
        // A record that is cut anywhere but between frames is refused.
        for cut in 0..out.len() {
            let r = parse_all(Bytes::copy_from_slice(&out[..cut]));
            prop_assert_eq!(r.is_ok(), ends.contains(&cut), "cut at {}", cut);
        }
    }

    /// A peer of a later version adds fields to any frame but DATA, and this one skips them.
    #[test]
    fn unknown_fields_are_skipped(f in frame(), unknown in later::unknown_fields()) {
        let mut out = Vec::new();
        f.encode(&mut out);
        let longer = later::with_fields(&out, &unknown);
        let fits = longer.len() <= MAX_RECORD_BYTES;
        let read = parse_all(Bytes::from(longer));
        match f {
            Frame::Data { .. } | Frame::Extension { .. } => {}
            _ if fits => prop_assert_eq!(read, Ok(vec![f])),
            _ => {}
        }
    }

    /// Fields out of order are an error, whether or not they are known.
    #[test]
    fn disorder_of_fields_is_an_error(f in frame(), id in later::unknown_id()) {
        let mut out = Vec::new();
        f.encode(&mut out);
        if !matches!(f, Frame::Data { .. } | Frame::Extension { .. }) {
            let twice = [Unknown { id, value: vec![] }, Unknown { id, value: vec![1] }];
            let read = parse_all(later::with_fields(&out, &twice).into());
            let what = "order of optional fields";
            prop_assert_eq!(read, Err(WireError::Field { kind: f.kind(), what }));
        }
    }

    #[test]
    fn garbage_is_an_error_at_worst(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_all(Bytes::from(bytes));
    }

    /// A flipped octet gives other frames or an error, and what is decoded is encoded the same.
    #[test]
    fn flips_are_survived(f in frame(), at in any::<prop::sample::Index>(), x in 1..=255u8) {
        let mut out = Vec::new();
        f.encode(&mut out);
        let i = at.index(out.len());
        out[i] ^= x;
        if let Ok(frames) = parse_all(Bytes::from(out)) {
            let mut again = Vec::new();
            frames.iter().for_each(|f| f.encode(&mut again));
            prop_assert_eq!(parse_all(Bytes::from(again)), Ok(frames));
        }
    }
}
