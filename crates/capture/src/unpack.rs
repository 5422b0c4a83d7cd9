//! Decompression of gzipped files.

use std::io::{Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;

use crate::error::{CaptureError, Place};
use crate::source::Source;

/// First octets of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

type Rewound<R> = Chain<Cursor<Vec<u8>>, R>;

/// A file, decompressed if necessary.
pub(crate) enum Unpacked<R: Read> {
    Plain(Rewound<R>),
    Gzip(Box<MultiGzDecoder<Rewound<R>>>),
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(from) => from.read(to),
            Self::Gzip(from) => from.read(to),
        }
    }
}

/// Decompresses a file that is gzipped. An empty one is an error.
pub(crate) fn unpack<R: Read>(
    file: &str,
    mut from: R,
) -> Result<Source<Unpacked<R>>, CaptureError> {
    let mut head = Vec::with_capacity(GZIP.len());
    from.by_ref()
        .take(GZIP.len() as u64)
        .read_to_end(&mut head)
        .map_err(|e| CaptureError {
            file: file.to_owned(),
            place: Place::Offset(0),
            reason: format!("cannot be read: {e}"),
        })?;
    let packed = head == GZIP;
    let rewound = Cursor::new(head).chain(from);
    let unpacked = if packed {
        Unpacked::Gzip(Box::new(MultiGzDecoder::new(rewound)))
    } else {
        Unpacked::Plain(rewound)
    };
    let mut source = Source::new(file, unpacked);
    if source.peek(1)?.is_empty() {
        return Err(source.error(0, "the file is empty"));
    }
    Ok(source)
}
