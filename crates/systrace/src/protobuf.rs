//! Iterator over the fields of a protobuf message, in place (protobuf encoding documentation).
//!
//! Not generated from the schema: most messages of a trace are only counted, and iterating in place
//! needs neither allocation nor a code generator in the build.

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Value<'a> {
    pub(crate) fn int(self) -> u64 {
        match self {
            Self::Varint(v) | Self::Fixed64(v) => v,
            Self::Fixed32(v) => u64::from(v),
            Self::Bytes(_) => 0,
        }
    }

    /// Value of a pid or counter field; out-of-range values become `u32::MAX`.
    pub(crate) fn u32(self) -> u32 {
        u32::try_from(self.int()).unwrap_or(u32::MAX)
    }

    /// Value of an `int32` field, which is sign-extended to 64 bits.
    pub(crate) fn i32(self) -> i32 {
        self.int() as i32
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(b) => b,
            _ => &[],
        }
    }
}

/// Reason why iteration ended before the end of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// The bytes end inside a field.
    Cut,
    /// The bytes are not valid protobuf.
    Damaged,
}

/// Fields of one message, in storage order.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    broken: Option<Break>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            broken: None,
        }
    }

    /// Reason of an early end, if any.
    pub(crate) fn broken(&self) -> Option<Break> {
        self.broken
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Break> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Break::Cut)?;
        self.rest = tail;
        Ok(head)
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Break> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| Break::Damaged)?;
        if number == 0 {
            return Err(Break::Damaged);
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(array(self.take(8)?))),
            2 => {
                let len = varint(&mut self.rest)?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| Break::Damaged)?)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(array(self.take(4)?))),
            _ => return Err(Break::Damaged),
        };
        Ok((number, value))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.broken.is_some() {
            return None;
        }
        match self.field() {
            Ok(f) => Some(f),
            Err(b) => {
                self.broken = Some(b);
                None
            }
        }
    }
}

/// Removes one varint from the front.
#[inline]
pub(crate) fn varint(bytes: &mut &[u8]) -> Result<u64, Break> {
    let mut value = 0u64;
    for (i, b) in bytes.iter().take(10).enumerate() {
        value |= u64::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            *bytes = bytes.get(i + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(if bytes.len() < 10 {
        Break::Cut
    } else {
        Break::Damaged
    })
}

/// Appends the values of a repeated integer field, packed or not.
pub(crate) fn repeated(value: Value<'_>, out: &mut Vec<u64>) -> Result<(), Break> {
    match value {
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                out.push(varint(&mut packed)?);
            }
        }
        single => out.push(single.int()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_walk() {
        // 1: 150, 2: "ab", 3: fixed32 1, 4: fixed64 2
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0,
        ];
        let mut walk = Fields::new(&bytes);
        let all: Vec<_> = walk.by_ref().collect();
        assert_eq!(walk.broken(), None);
        assert_eq!(
            all,
            vec![
                (1, Value::Varint(150)),
                (2, Value::Bytes(b"ab")),
                (3, Value::Fixed32(1)),
                (4, Value::Fixed64(2)),
            ]
        );
        for n in 1..bytes.len() {
            let mut walk = Fields::new(&bytes[..n]);
            let whole = walk.by_ref().count();
            assert!(whole < 4);
            assert!(walk.broken().is_none_or(|b| b == Break::Cut));
        }
    }

    #[test]
    fn damage_and_truncation_are_distinguished() {
        let mut walk = Fields::new(&[0x0b, 0, 0]);
        assert_eq!(walk.next(), None);
        assert_eq!(walk.broken(), Some(Break::Damaged));
        let mut long = Fields::new(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(long.next(), None);
        assert_eq!(long.broken(), Some(Break::Damaged));
        assert_eq!(Value::Varint(u64::MAX).i32(), -1);
    }
}
