//! Device ids and their text form with check characters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Base 32 alphabet of RFC 4648, section 6: without 0, 1, 8 and 9, so that text read aloud or typed
/// from a screen is unambiguous.
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// 32 octets are 52 characters of 5 bits (the last carries 1 bit).
const BASE32_CHARS: usize = 52;
/// Payload characters covered by one check character.
const BLOCK_CHARS: usize = 13;
/// Characters between dashes; two groups are one block with its check character.
const GROUP_CHARS: usize = 7;
/// Least length of the beginning of an id by which a person may call a device.
const LEAST_BEGINNING: usize = 4;
const TEXT_CHARS: usize = BASE32_CHARS / BLOCK_CHARS * (BLOCK_CHARS + 1);

/// Identifier of a device in all trust decisions: the SHA-256 of its certificate.
///
/// Written as eight groups of seven letters and digits; the last character of every second group is
/// a check character, which detects and locates a mistyped or swapped character. Parsing ignores
/// case, spaces and dashes, and takes 0, 1 and 8 for O, I and B.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId([u8; 32]);

impl DeviceId {
    /// An id from its hash.
    pub const fn from_bytes(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// The hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The id of the device with this certificate (DER).
    pub fn of_certificate(der: &[u8]) -> Self {
        let mut hash = [0; 32];
        let digest = ring::digest::digest(&ring::digest::SHA256, der);
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }

    /// The first group: distinguishes a person's devices in a log; too short for trust decisions.
    pub fn short(&self) -> String {
        self.to_string().chars().take(GROUP_CHARS).collect()
    }

    /// Whether a person may mean this id by its beginning: at least four characters, as a slip of
    /// the finger is shorter. Case and dashes do not matter.
    pub fn begins_with(&self, text: &str) -> bool {
        let plain = |text: &str| text.replace('-', "").to_ascii_uppercase();
        let beginning = plain(text);
        beginning.len() >= LEAST_BEGINNING && plain(&self.to_string()).starts_with(&beginning)
    }

    fn symbols(&self) -> [u8; BASE32_CHARS] {
        let mut out = [0; BASE32_CHARS];
        let mut bits = 0_u32;
        let mut held = 0;
        let mut bytes = self.0.iter();
        for symbol in &mut out {
            if held < 5 {
                bits = (bits << 8) | u32::from(bytes.next().copied().unwrap_or(0));
                held += 8;
            }
            held -= 5;
            *symbol = (bits >> held) as u8 & 31;
        }
        out
    }
}

/// Check symbol of a block: the polynomial with the symbols as coefficients, evaluated at x over
/// GF(32) modulo x^5 + x^2 + 1.
///
/// x generates the multiplicative group, so within 31 positions every single wrong symbol and every
/// swap of two different symbols changes the result.
fn check_symbol(block: &[u8]) -> u8 {
    block.iter().fold(0, |acc, &s| times_x(acc ^ s))
}

fn times_x(a: u8) -> u8 {
    let shifted = a << 1;
    if shifted & 32 == 0 {
        shifted
    } else {
        (shifted ^ 0b10_0101) & 31
    }
}

fn letter(symbol: u8) -> char {
    ALPHABET
        .get(usize::from(symbol))
        .copied()
        .map_or('?', char::from)
}

fn symbol_of(c: char) -> Option<u8> {
    let c = match c.to_ascii_uppercase() {
        '0' => 'O',
        '1' => 'I',
        '8' => 'B',
        other => other,
    };
    let at = ALPHABET.iter().position(|&a| char::from(a) == c)?;
    u8::try_from(at).ok()
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(TEXT_CHARS + TEXT_CHARS / GROUP_CHARS);
        let mut written = 0;
        for block in self.symbols().chunks(BLOCK_CHARS) {
            let check = check_symbol(block);
            for &symbol in block.iter().chain([&check]) {
                if written > 0 && written % GROUP_CHARS == 0 {
                    text.push('-');
                }
                text.push(letter(symbol));
                written += 1;
            }
        }
        f.pad(&text)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of parsing a [`DeviceId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDeviceIdError {
    /// Too few or too many characters.
    #[error("a device id has {TEXT_CHARS} letters and digits in groups of {GROUP_CHARS}, not {0}")]
    Length(usize),
    /// A character outside the alphabet.
    #[error("'{0}' does not occur in a device id (letters A-Z and digits 2-7)")]
    Character(char),
    /// A check character does not match.
    #[error("a mistyped character between \"{first}\" and \"{last}\"")]
    Check {
        /// First group of the block that failed its check.
        first: String,
        /// Second group of the block.
        last: String,
    },
    /// The unused bits at the end are not zero.
    #[error("the last group is mistyped: no device id ends like this")]
    Tail,
}

impl FromStr for DeviceId {
    type Err = ParseDeviceIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut symbols = Vec::with_capacity(TEXT_CHARS);
        let mut count = 0;
        for c in s.chars().filter(|c| !c.is_whitespace() && *c != '-') {
            let symbol = symbol_of(c).ok_or(ParseDeviceIdError::Character(c))?;
            count += 1;
            if count <= TEXT_CHARS {
                symbols.push(symbol);
            }
        }
        if count != TEXT_CHARS {
            return Err(ParseDeviceIdError::Length(count));
        }
        let mut hash = Vec::with_capacity(33);
        let mut bits = 0_u32;
        let mut held = 0;
        for block in symbols.chunks(BLOCK_CHARS + 1) {
            let (payload, check) = block.split_at(BLOCK_CHARS);
            if check.first() != Some(&check_symbol(payload)) {
                let written: String = block.iter().map(|&s| letter(s)).collect();
                let (first, last) = written.split_at(GROUP_CHARS);
                return Err(ParseDeviceIdError::Check {
                    first: first.to_owned(),
                    last: last.to_owned(),
                });
            }
            for &symbol in payload {
                bits = (bits << 5) | u32::from(symbol);
                held += 5;
                if held >= 8 {
                    held -= 8;
                    hash.push((bits >> held) as u8);
                    bits &= (1 << held) - 1;
                }
            }
        }
        if bits != 0 {
            return Err(ParseDeviceIdError::Tail);
        }
        let hash = <[u8; 32]>::try_from(hash).map_err(|_| ParseDeviceIdError::Length(count))?;
        Ok(Self(hash))
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
