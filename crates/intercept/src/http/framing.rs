//! Framing of request bodies: Content-Length and the chunked coding.

/// Maximum length of a chunk-size line in bytes, without its CRLF. Extensions (RFC 9112, section
/// 7.1.1) are rarely used and short.
const MAX_SIZE_LINE_BYTES: usize = 256;

/// Maximum length of a trailer section in bytes.
const MAX_TRAILER_BYTES: usize = 8 * 1024;

/// Finds the end of a request's body without modifying it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Remaining bytes of a body with Content-Length (RFC 9112, section 6.2); zero at the end.
    Length(u64),
    /// The chunked coding (RFC 9112, section 7.1).
    Chunked(Chunked),
}

/// Error in the chunked coding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChunk {
    /// A character other than a hexadecimal digit in a chunk size.
    #[error("a chunk's size is not a hexadecimal number")]
    Size,
    /// Larger than 2^60 bytes.
    #[error("a chunk's size is too large")]
    TooLarge,
    /// A line that does not end in CRLF, or has a control character.
    #[error("invalid line in the chunked coding")]
    Line,
    /// A size line or a trailer section above its limit.
    #[error("a line or the trailer of the chunked coding is too long")]
    TooLong,
}

/// State of the chunked coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunked {
    at: At,
    /// Size of the current chunk while it is parsed, then its remaining bytes.
    size: u64,
    /// Bytes of the current line or trailer section.
    line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    SizeStart,
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    End,
}

impl Framing {
    /// A body in the chunked coding, from its first byte.
    pub fn chunked() -> Self {
        Self::Chunked(Chunked {
            at: At::SizeStart,
            size: 0,
            line: 0,
        })
    }

    /// Consumes the next bytes of the connection and returns how many belong to the request. Fewer
    /// than all means that the request is complete.
    ///
    /// # Errors
    /// [`BadChunk`] when the chunked coding is invalid.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |n| n.min(bytes.len()));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunked) => chunked.take(bytes),
        }
    }

    /// Whether the request is complete.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.at == At::End,
        }
    }
}

impl Chunked {
    fn take(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut rest = bytes;
        while self.at != At::End {
            if self.at == At::Data {
                let n = usize::try_from(self.size).map_or(rest.len(), |n| n.min(rest.len()));
                self.size -= n as u64;
                rest = rest.get(n..).unwrap_or_default();
                if self.size == 0 {
                    self.at = At::DataCr;
                }
            }
            let Some((&byte, tail)) = rest.split_first() else {
                break;
            };
            self.at = self.step(byte)?;
            rest = tail;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Parses one byte that is not chunk data.
    fn step(&mut self, byte: u8) -> Result<At, BadChunk> {
        self.line += 1;
        Ok(match (self.at, byte) {
            (At::SizeStart, _) => {
                self.size = 0;
                self.line = 1;
                self.digit(byte)?;
                At::Size
            }
            (At::Size, b'\r') | (At::Extension, b'\r') => At::SizeLf,
            (At::Size, b';') => At::Extension,
            (At::Size, _) => {
                self.digit(byte)?;
                At::Size
            }
            (At::Extension, _) => {
                self.text(byte, MAX_SIZE_LINE_BYTES)?;
                At::Extension
            }
            (At::SizeLf, b'\n') if self.size == 0 => {
                self.line = 0;
                At::TrailerStart
            }
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::SizeStart,
            (At::TrailerStart, b'\r') => At::LastLf,
            // A line that continues the one before (obs-fold).
            (At::TrailerStart, b' ' | b'\t') => return Err(BadChunk::Line),
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerStart | At::Trailer, _) => {
                self.text(byte, MAX_TRAILER_BYTES)?;
                At::Trailer
            }
            (At::TrailerLf, b'\n') => At::TrailerStart,
            (At::LastLf, b'\n') => At::End,
            _ => return Err(BadChunk::Line),
        })
    }

    fn digit(&mut self, byte: u8) -> Result<(), BadChunk> {
        let digit = char::from(byte).to_digit(16).ok_or(BadChunk::Size)?;
        if self.size >= 1 << 56 {
            return Err(BadChunk::TooLarge);
        }
        if self.line > MAX_SIZE_LINE_BYTES {
            return Err(BadChunk::TooLong);
        }
        self.size = self.size * 16 + u64::from(digit);
        Ok(())
    }

    fn text(&self, byte: u8, max_bytes: usize) -> Result<(), BadChunk> {
        if byte != b'\t' && (byte < 0x20 || byte == 0x7f) {
            return Err(BadChunk::Line);
        }
        if self.line > max_bytes {
            return Err(BadChunk::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn lengths() {
        let mut f = Framing::Length(5);
        assert_eq!(f.take(b"abc"), Ok(3));
        assert!(!f.is_complete());
        assert_eq!(f.take(b"deGET"), Ok(2));
        assert!(f.is_complete());
        assert_eq!(f.take(b"x"), Ok(0));
    }

    #[test]
    fn chunks() {
        for (whole, belongs) in [
            (&b"0\r\n\r\nGET"[..], 5),
            (b"3\r\nabc\r\n0\r\n\r\nX", 13),
            (
                b"A;x=\"y\"\r\n0123456789\r\n00\r\nT: 1\r\nU: 2\r\n\r\nX",
                39,
            ),
        ] {
            let mut f = Framing::chunked();
            assert_eq!(f.take(whole), Ok(belongs), "{whole:?}");
            assert!(f.is_complete());
        }
    }

    #[test]
    fn broken_chunks() {
        for (body, want) in [
            (&b"\r\n"[..], BadChunk::Size),
            (b" 3\r\n", BadChunk::Size),
            (b"-3\r\n", BadChunk::Size),
            (b"0x3\r\n", BadChunk::Size),
            (b"3\nabc", BadChunk::Size),
            (b"3\rabc", BadChunk::Line),
            (b"3;a\nb", BadChunk::Line),
            (b"3\r\nabcd", BadChunk::Line),
            (b"3\r\nabc\n", BadChunk::Line),
            (b"0\r\nT: 1\nU: 2", BadChunk::Line),
            (b"0\r\nT: 1\r\n U", BadChunk::Line),
            (b"0\r\nT: \0", BadChunk::Line),
            (b"fffffffffffffffff", BadChunk::TooLarge),
            (&[b'0'; 300], BadChunk::TooLong),
            (&[&b"1;"[..], &[b'a'; 300]].concat(), BadChunk::TooLong),
            (&[&b"0\r\n"[..], &[b'a'; 9000]].concat(), BadChunk::TooLong),
        ] {
            assert_eq!(Framing::chunked().take(body), Err(want), "{body:?}");
        }
    }

    proptest! {
        /// The end of a chunked body does not depend on how it is split.
        #[test]
        fn ends_where_it_ends(
            chunks in vec(vec(any::<u8>(), 1..40), 0..6),
            after in vec(any::<u8>(), 0..20),
            cuts in vec(1usize..16, 1..8),
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                body.extend(chunk);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            let want = body.len();
            body.extend(&after);
            let mut framing = Framing::chunked();
            let (mut taken, mut rest) = (0, &body[..]);
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let n = (*cuts.next().unwrap()).min(rest.len());
                taken += framing.take(&rest[..n]).unwrap();
                rest = &rest[n..];
            }
            prop_assert!(framing.is_complete());
            prop_assert_eq!(taken, want);
        }
    }
}
