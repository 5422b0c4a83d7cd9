//! Sizes of TLS records and of their parts (RFC 8446, section 5).

/// Maximum plaintext of a record in octets (RFC 8446, section 5.1).
pub const MAX_RECORD_PLAINTEXT_BYTES: usize = 1 << 14;
/// Overhead of a record in octets, the same for every record: header 5, content type 1, tag 16.
pub const RECORD_OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;

/// Octets of a record's header.
pub(super) const HEADER_BYTES: usize = 5;
/// Octets of the authentication tag behind the ciphertext.
pub(super) const TAG_BYTES: usize = 16;
/// Maximum octets after a record's header, padding included (RFC 8446, section 5.2).
pub(super) const MAX_BODY_BYTES: usize = MAX_RECORD_PLAINTEXT_BYTES + 256;
