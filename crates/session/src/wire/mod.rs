//! Wire format: the contents of one TLS record of a subflow.
//!
//! A record holds whole frames, never parts of one. Each frame is a type octet, a varint length
//! and a body; every field is bounded. What a peer does not know it skips: optional fields at the
//! end of a body, and frame types from [`FrameType::EXTENSIONS`] on. `docs/protocol.md` describes
//! the format for implementers, and `docs/protocol-vectors.txt` gives examples octet by octet.

mod bounds;
mod capabilities;
mod decode;
mod destination;
mod encode;
mod error;
mod fields;
mod frame;
mod frame_type;
mod role;
mod secret;
mod varint;

pub use bounds::{
    MAX_ACK_COUNTS, MAX_FIELD_BYTES, MAX_FIELDS, MAX_HOST_BYTES, MAX_NAME_BYTES, MAX_REASON_BYTES,
    MAX_RECORD_BYTES, VERSION,
};
pub use capabilities::{Capabilities, Families, FrameTypes};
pub use destination::Destination;
pub(crate) use encode::{DATA_OVERHEAD_MAX, OPEN_BYTES_MAX, put_data_header};
pub use error::WireError;
pub use frame::{AckCount, Frame, Limits, PathLabel, PathReport};
pub use frame_type::FrameType;
pub use role::Role;
pub use secret::Secret;
pub use varint::{VARINT_MAX, varint_len};

#[cfg(test)]
pub(crate) use tests::later;

#[cfg(test)]
mod tests;
