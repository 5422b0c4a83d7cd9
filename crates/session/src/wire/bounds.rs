//! Version and limits of the wire format.

/// Version of the session protocol that this crate speaks.
pub const VERSION: u16 = 2;

/// Maximum plaintext octets of one TLS 1.3 record (RFC 8446, section 5.1).
pub const MAX_RECORD_BYTES: usize = 16_384;

/// Maximum octets of a destination's host name (RFC 1035, section 2.3.4).
pub const MAX_HOST_BYTES: usize = 255;

/// Maximum octets of a path's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Maximum octets of a human-readable reason.
pub const MAX_REASON_BYTES: usize = 256;

/// Maximum number of subflows whose counts one ACK frame carries.
pub const MAX_ACK_COUNTS: usize = 64;

/// Maximum number of optional fields in one frame.
pub const MAX_FIELDS: usize = 32;

/// Maximum octets of an optional field's value.
pub const MAX_FIELD_BYTES: usize = 1_024;
