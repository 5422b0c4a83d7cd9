//! The frames of a peer of a later version, made of octets.

use proptest::prelude::*;

use crate::wire::varint;

/// An optional field that this version does not know.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    pub(crate) id: u64,
    pub(crate) value: Vec<u8>,
}

/// An id above all that this version knows.
pub(super) fn unknown_id() -> impl Strategy<Value = u64> {
    prop_oneof![0x30..0x60u64, 0x3fff..0x4002u64, 0x30..varint::VARINT_MAX]
}

/// Up to as many fields as a frame has room for beside known ones, in order.
pub(super) fn unknown_fields() -> impl Strategy<Value = Vec<Unknown>> {
    let value = proptest::collection::vec(any::<u8>(), 0..=64);
    proptest::collection::btree_map(unknown_id(), value, 0..=30).prop_map(|fields| {
        let unknown = |(id, value)| Unknown { id, value };
        fields.into_iter().map(unknown).collect()
    })
}

/// One frame's octets, with more fields at its end.
pub(crate) fn with_fields(frame: &[u8], fields: &[Unknown]) -> Vec<u8> {
    let mut body = &frame[1..];
    let length = varint::take(&mut body).expect("length");
    assert_eq!(length, body.len() as u64);
    let mut longer = body.to_vec();
    for field in fields {
        varint::put(&mut longer, field.id);
        varint::put(&mut longer, field.value.len() as u64);
        longer.extend_from_slice(&field.value);
    }
    let mut out = vec![frame[0]];
    varint::put(&mut out, longer.len() as u64);
    out.extend(longer);
    out
}
