//! Byte counts as text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A byte count, written `"10 MiB"`, `"512 KiB"`, `"4 MB"`, or as a bare
/// number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, unit) = UNITS
            .iter()
            .take(6)
            .find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit))
            .unwrap_or(&("B", 1));
        write!(f, "{} {name}", self.0 / unit)
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (name, unit) = UNITS.iter().find(|(name, _)| text.ends_with(name))?;
    let number = text.strip_suffix(name)?.trim();
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a byte count such as \"10 MiB\", \"512 KiB\" or \"4 MB\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                parse(text)
                    .map(Size)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(bytes), &self))
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, bytes) in [
            ("10 MiB", 10 << 20),
            ("512 KiB", 512 << 10),
            ("4 MB", 4_000_000),
            ("1448 B", 1448),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
            assert_eq!(parse(&Size(bytes).to_string()), Some(bytes));
        }
        for bad in ["", "10", "MiB", "-1 MiB", "1.5 MiB", "99999999999 GiB"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
