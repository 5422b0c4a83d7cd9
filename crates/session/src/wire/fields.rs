//! Optional fields: the end of every frame's body but DATA's.
//!
//! A field is its id (varint), the length of its value (varint) and the value. Fields stand in
//! ascending order of their ids, and a reader skips those that it does not know.

use bytes::{Buf, Bytes};

use super::bounds::{MAX_FIELD_BYTES, MAX_FIELDS};
use super::error::WireError;
use super::frame_type::FrameType;
use super::varint;

/// Id of an optional field; the same in every frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FieldId(pub(super) u64);

impl FieldId {
    /// MP_CAPABLE, MP_OK: address families that the sender reaches.
    pub(super) const FAMILIES: Self = Self(0x01);
    /// MP_CAPABLE, MP_OK: frame types that the sender reads.
    pub(super) const FRAME_TYPES: Self = Self(0x02);
    /// MP_OK: services of the sender.
    pub(super) const SERVICES: Self = Self(0x03);
    /// MP_CAPABLE, MP_JOIN: number of the subflow's path.
    pub(super) const PATH_NUMBER: Self = Self(0x04);
    /// MP_CAPABLE, MP_JOIN: label of the device whose link the subflow uses behind a pipe.
    pub(super) const LENDER: Self = Self(0x05);
    /// PATH_REPORT: how long the last byte that left the helper had been there.
    pub(super) const SOJOURN: Self = Self(0x10);
    /// OPEN: the primary asks for CONNECTED; no value.
    pub(super) const CONFIRM: Self = Self(0x11);
    /// SUBFLOW_ROLE: step of the subflow's cost.
    pub(super) const COST: Self = Self(0x12);
    /// PATH_REPORT: own traffic of the helper holds bytes back; no value.
    pub(super) const HELD_BACK: Self = Self(0x13);
    /// OPEN, CLASS: paths that may carry the stream.
    pub(super) const PATHS: Self = Self(0x20);
    /// OPEN, CLASS: order among streams that would be served in turn.
    pub(super) const PRIORITY: Self = Self(0x21);

    /// All ids that this crate reads, with their names in `docs/protocol.md`.
    #[cfg(test)]
    pub(super) const KNOWN: [(Self, &str); 11] = [
        (Self::FAMILIES, "families"),
        (Self::FRAME_TYPES, "frame_types"),
        (Self::SERVICES, "services"),
        (Self::PATH_NUMBER, "path_number"),
        (Self::LENDER, "lender"),
        (Self::SOJOURN, "sojourn"),
        (Self::CONFIRM, "confirm"),
        (Self::COST, "cost"),
        (Self::HELD_BACK, "held_back"),
        (Self::PATHS, "paths"),
        (Self::PRIORITY, "priority"),
    ];
}

/// Appends a field. Fields are appended in ascending order of their ids.
pub(super) fn put(out: &mut Vec<u8>, id: FieldId, value: &[u8]) {
    debug_assert!(value.len() <= MAX_FIELD_BYTES);
    varint::put(out, id.0);
    varint::put(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a field that holds one varint.
pub(super) fn put_varint(out: &mut Vec<u8>, id: FieldId, value: u64) {
    varint::put(out, id.0);
    varint::put(out, varint::varint_len(value) as u64);
    varint::put(out, value);
}

/// The optional fields of one frame, read one by one.
pub(super) struct Fields {
    kind: FrameType,
    rest: Bytes,
    last: Option<FieldId>,
    number: usize,
}

impl Fields {
    pub(super) fn new(kind: FrameType, rest: Bytes) -> Self {
        Self {
            kind,
            rest,
            last: None,
            number: 0,
        }
    }

    /// Takes the next field; `None` at the end.
    ///
    /// # Errors
    /// Too many fields, a value too long or cut short, or an id out of order.
    pub(super) fn take(&mut self) -> Result<Option<(FieldId, Bytes)>, WireError> {
        if !self.rest.has_remaining() {
            return Ok(None);
        }
        let bad = |what| WireError::Field {
            kind: self.kind,
            what,
        };
        if self.number == MAX_FIELDS {
            return Err(bad("number of optional fields"));
        }
        self.number += 1;
        let cut = WireError::Truncated(self.kind);
        let id = FieldId(varint::take(&mut self.rest).ok_or(cut)?);
        if self.last.is_some_and(|last| last >= id) {
            return Err(bad("order of optional fields"));
        }
        self.last = Some(id);
        let len = varint::take(&mut self.rest).ok_or(cut)?;
        if len > MAX_FIELD_BYTES as u64 {
            return Err(bad("length of an optional field"));
        }
        let len = len as usize;
        if self.rest.remaining() < len {
            return Err(cut);
        }
        Ok(Some((id, self.rest.split_to(len))))
    }
}
