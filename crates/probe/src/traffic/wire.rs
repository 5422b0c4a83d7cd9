//! Protocol of `mpbond traffic` over TCP: frames of 24 octets, some with a payload, big-endian
//! (docs/measurement.md, "Traffic").

use std::io::{self, Read};

/// Length of a frame without payload.
pub(crate) const HEADER: usize = 24;
/// Maximum length of a record, header included.
pub(crate) const MAX_RECORD: usize = 64 * 1024;
/// Maximum length of a refusal's reason, in octets.
const MAX_REASON: usize = 200;
/// Length of the payload of a hello.
pub(super) const HELLO: usize = 64;
const RECEIPT: usize = 8;
const MAGIC: [u8; 3] = *b"mT\x01";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Client: its request and progress. Payload: [`super::hello::Hello`].
    Hello = 1,
    /// Server: `number` is the first record that it expects.
    Welcome = 2,
    /// Client: data may follow. `number` is the age of the run, in ns.
    Start = 3,
    /// Record with its number and its due time, in ns since the Unix epoch by its sender.
    Data = 4,
    /// Server: arrival time of record `number`, by the server's clock. Payload: the record's time
    /// stamp.
    Receipt = 5,
    /// Client: its own time as the number.
    Ping = 6,
    /// Server: the ping's number, and its arrival time.
    Pong = 7,
    /// All `number` records were sent.
    End = 8,
    /// Server: refusal, with a reason.
    Refused = 9,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Length of the payload.
    pub(crate) length: usize,
    pub(crate) number: u64,
    pub(crate) stamp_ns: u64,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

pub(super) fn eight(from: &[u8], at: usize) -> u64 {
    let bytes = from.get(at..at + 8).and_then(|b| b.try_into().ok());
    u64::from_be_bytes(bytes.unwrap_or_default())
}

pub(super) fn four(from: &[u8], at: usize) -> u32 {
    let bytes = from.get(at..at + 4).and_then(|b| b.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

impl Frame {
    /// A frame without payload.
    pub(crate) fn bare(kind: Kind, number: u64, stamp_ns: u64) -> Self {
        Self {
            kind,
            length: 0,
            number,
            stamp_ns,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut all = [0; HEADER];
        let length = (self.length as u32).to_be_bytes();
        let parts: [&[u8]; 5] = [
            &MAGIC,
            &[self.kind as u8],
            &length,
            &self.number.to_be_bytes(),
            &self.stamp_ns.to_be_bytes(),
        ];
        for (to, from) in all.iter_mut().zip(parts.concat()) {
            *to = from;
        }
        all
    }

    /// Parses a frame header; rejects unknown kinds, and lengths invalid for the kind.
    pub(crate) fn parse(from: &[u8; HEADER]) -> io::Result<Self> {
        if !from.starts_with(&MAGIC) {
            return Err(bad("does not speak mpbond traffic, version 1"));
        }
        let kind = match from.get(3) {
            Some(1) => Kind::Hello,
            Some(2) => Kind::Welcome,
            Some(3) => Kind::Start,
            Some(4) => Kind::Data,
            Some(5) => Kind::Receipt,
            Some(6) => Kind::Ping,
            Some(7) => Kind::Pong,
            Some(8) => Kind::End,
            Some(9) => Kind::Refused,
            _ => return Err(bad("unknown kind of frame")),
        };
        let length = four(from, 4) as usize;
        let fits = match kind {
            Kind::Hello => length == HELLO,
            Kind::Data => length <= MAX_RECORD - HEADER,
            Kind::Refused => length <= MAX_REASON,
            Kind::Receipt => length == RECEIPT,
            _ => length == 0,
        };
        if !fits {
            return Err(bad("invalid length of a frame"));
        }
        Ok(Self {
            kind,
            length,
            number: eight(from, 8),
            stamp_ns: eight(from, 16),
        })
    }

    /// Reads the next frame; `payload` receives its payload.
    pub(crate) fn read(from: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Self> {
        let mut header = [0; HEADER];
        from.read_exact(&mut header)?;
        let frame = Self::parse(&header)?;
        payload.resize(frame.length, 0);
        from.read_exact(payload)?;
        Ok(frame)
    }
}

/// Receipt of record `number`, stamped `sent_ns`, received at `at_ns`.
pub(crate) fn receipt(number: u64, at_ns: u64, sent_ns: u64) -> Vec<u8> {
    let frame = Frame {
        length: RECEIPT,
        ..Frame::bare(Kind::Receipt, number, at_ns)
    };
    [&frame.to_bytes()[..], &sent_ns.to_be_bytes()].concat()
}

/// Time stamp of the record that a receipt is for.
pub(crate) fn sent_ns(payload: &[u8]) -> u64 {
    eight(payload, 0)
}

/// Refusal with a reason.
pub(crate) fn refusal(reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(MAX_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let text = reason.get(..end).unwrap_or_default().as_bytes();
    let frame = Frame {
        length: text.len(),
        ..Frame::bare(Kind::Refused, 0, 0)
    };
    [&frame.to_bytes()[..], text].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refusals_are_cut_at_a_character() {
        let bytes = refusal(&"ä".repeat(300));
        let mut payload = Vec::new();
        let frame = Frame::read(&mut &bytes[..], &mut payload).unwrap();
        assert_eq!(frame.kind, Kind::Refused);
        assert_eq!(String::from_utf8(payload).unwrap(), "ä".repeat(100));
    }

    proptest! {
        #[test]
        fn anything_is_survived(header: [u8; HEADER], kind in 0_u8..12, rest: Vec<u8>) {
            let mut almost = header;
            almost[..3].copy_from_slice(&MAGIC);
            almost[3] = kind;
            for header in [header, almost] {
                let mut payload = Vec::new();
                let _ = Frame::read(&mut [&header[..], &rest].concat().as_slice(), &mut payload);
                // Nobody makes us hold more than a record.
                prop_assert!(payload.capacity() <= 2 * MAX_RECORD);
            }
        }

        #[test]
        fn frames_come_back(number: u64, stamp_ns: u64, length in 0..MAX_RECORD - HEADER) {
            let frame = Frame { length, ..Frame::bare(Kind::Data, number, stamp_ns) };
            prop_assert_eq!(Frame::parse(&frame.to_bytes()).unwrap(), frame);
        }
    }
}
