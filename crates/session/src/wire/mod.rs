//! The wire format: what stands inside one TLS record of a subflow.
//!
//! A record holds whole frames, never parts of one. Each frame is a type
//! octet, a varint length and a body; every field is bounded. The format is
//! described for implementers in `docs/protocol.md`.

mod frame;
mod varint;

pub use frame::{AckCount, Destination, Frame, Limits, PathLabel, PathReport, WireError};
pub(crate) use frame::{DATA_OVERHEAD_MAX, put_data_header};
pub use varint::{VARINT_MAX, varint_len};

/// Version of the session protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// Most plaintext octets in one TLS 1.3 record (RFC 8446, section 5.1).
pub const MAX_RECORD_BYTES: usize = 16_384;

/// Most octets of a destination host name (RFC 1035, section 2.3.4).
pub const MAX_HOST_BYTES: usize = 255;

/// Most octets of a path's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Most octets of a human-readable reason.
pub const MAX_REASON_BYTES: usize = 256;

/// Most subflows whose counts one ACK frame may carry.
pub const MAX_ACK_COUNTS: usize = 64;
