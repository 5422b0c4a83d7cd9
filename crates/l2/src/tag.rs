//! Tags of frames: SipHash-2-4 with a key of the channel (Aumasson and Bernstein 2012).

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use subtle::ConstantTimeEq;

/// Key of one channel, which both ends have from their control connection.
#[derive(Clone, Copy)]
pub struct Key([u8; 16]);

impl Key {
    /// A key of random octets. Each channel needs its own: frames of another channel with the same
    /// key could be replayed.
    pub fn from_bytes(octets: [u8; 16]) -> Self {
        Self(octets)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// End of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The primary.
    Primary,
    /// The helper.
    Helper,
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Self {
        match self {
            Self::Primary => Self::Helper,
            Self::Helper => Self::Primary,
        }
    }

    /// Octet that separates the tags of both directions: no end accepts its own frames.
    fn octet(self) -> u8 {
        match self {
            Self::Primary => 1,
            Self::Helper => 2,
        }
    }
}

/// Tag of a frame that `sender` sends: over its header before the tag, and its ranges. The payload
/// is not covered, since it is ciphertext of TLS, which detects every change of it.
pub(crate) fn tag(key: &Key, sender: Side, header: &[u8], ranges: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(&key.0);
    hasher.write(&[sender.octet()]);
    hasher.write(header);
    hasher.write(ranges);
    hasher.finish().to_be_bytes()
}

/// Whether two tags are equal, in a time that does not depend on their content.
pub(crate) fn is_equal(a: &[u8; 8], b: &[u8; 8]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the appendix of the SipHash paper: key 00..0f, message 00..0e.
    #[test]
    fn the_hash_is_siphash_2_4() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let message: [u8; 15] = std::array::from_fn(|i| i as u8);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&message);
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn a_tag_depends_on_key_sender_header_and_ranges() {
        let key = Key::from_bytes([7; 16]);
        let own = tag(&key, Side::Primary, b"header", b"range");
        assert!(is_equal(
            &own,
            &tag(&key, Side::Primary, b"header", b"range")
        ));
        for other in [
            tag(
                &Key::from_bytes([8; 16]),
                Side::Primary,
                b"header",
                b"range",
            ),
            tag(&key, Side::Helper, b"header", b"range"),
            tag(&key, Side::Primary, b"hEader", b"range"),
            tag(&key, Side::Primary, b"header", b"rAnge"),
        ] {
            assert!(!is_equal(&own, &other));
        }
    }
}
