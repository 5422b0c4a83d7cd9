//! Key of a channel over Ethernet frames, as control messages carry it.

use std::fmt;

use mpbond_l2::Key;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const BYTES: usize = 16;

/// Key of the tags of a channel's frames. A secret: never logged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChannelKey([u8; BYTES]);

impl ChannelKey {
    /// The key with these octets.
    pub const fn from_bytes(octets: [u8; BYTES]) -> Self {
        Self(octets)
    }

    /// The key as a channel uses it.
    pub fn key(&self) -> Key {
        Key::from_bytes(self.0)
    }
}

impl fmt::Debug for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelKey(..)")
    }
}

impl Serialize for ChannelKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{:032x}", u128::from_be_bytes(self.0)))
    }
}

impl<'de> Deserialize<'de> for ChannelKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let is_hex = text.len() == 2 * BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        let number = number.ok_or_else(|| {
            serde::de::Error::custom("the key of a channel must be 32 hexadecimal digits")
        })?;
        Ok(Self(number.to_be_bytes()))
    }
}
