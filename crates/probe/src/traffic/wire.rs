//! Protocol of `mpbond traffic` over TCP: frames of 24 octets, some with a payload, big-endian
//! (docs/measurement.md, "Traffic").

use std::io::{self, Read};
use std::time::Duration;

use super::flow::Flow;

/// Length of a frame without payload.
pub(crate) const HEADER: usize = 24;
/// Maximum length of a record, header included.
pub(crate) const MAX_RECORD: usize = 64 * 1024;
/// Maximum length of a refusal's reason, in octets.
const MAX_REASON: usize = 200;
const HELLO: usize = 64;
const RECEIPT: usize = 8;
const MAGIC: [u8; 3] = *b"mT\x01";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Client: its request and progress. Payload: [`Hello`].
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

fn eight(from: &[u8], at: usize) -> u64 {
    let bytes = from.get(at..at + 8).and_then(|b| b.try_into().ok());
    u64::from_be_bytes(bytes.unwrap_or_default())
}

fn four(from: &[u8], at: usize) -> u32 {
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

/// A client's request and progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Identifier of the run, over all of its connections.
    pub(crate) run: [u8; 16],
    pub(crate) duration: Duration,
    pub(crate) down: Option<Flow>,
    pub(crate) up: Option<Flow>,
    /// First record that the client lacks.
    pub(crate) down_next: u64,
    /// First record whose receipt the client lacks.
    pub(crate) receipts_next: u64,
}

/// Maximum duration of a run: a day.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(86_400);

impl Hello {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let flow = |flow: Option<Flow>| {
            let (bytes, ns) = flow.map_or((0, 0), |f| (f.record_bytes, f.interval.as_nanos()));
            [bytes.to_be_bytes(), (ns as u32).to_be_bytes()].concat()
        };
        let frame = Frame {
            length: HELLO,
            ..Frame::bare(Kind::Hello, 0, 0)
        };
        [
            &frame.to_bytes()[..],
            &self.run,
            &(self.duration.as_millis() as u64).to_be_bytes(),
            &flow(self.down),
            &flow(self.up),
            &self.down_next.to_be_bytes(),
            &self.receipts_next.to_be_bytes(),
            &[0; 8],
        ]
        .concat()
    }

    /// Parses a hello; the error is one line that names the invalid field.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, String> {
        let run = payload.get(..16).and_then(|b| b.try_into().ok());
        let flow = |at: usize| {
            let record_bytes = four(payload, at);
            if record_bytes == 0 {
                return Ok(None);
            }
            let flow = Flow {
                record_bytes,
                interval: Duration::from_nanos(four(payload, at + 4).into()),
            };
            flow.check().map(|()| Some(flow))
        };
        let hello = Self {
            run: run.unwrap_or_default(),
            duration: Duration::from_millis(eight(payload, 16)),
            down: flow(24)?,
            up: flow(32)?,
            down_next: eight(payload, 40),
            receipts_next: eight(payload, 48),
        };
        if hello.down.is_none() && hello.up.is_none() {
            return Err("a run needs at least one direction".to_owned());
        }
        if hello.duration.is_zero() || hello.duration > MAX_DURATION {
            return Err("the duration of a run must be above 0 and at most a day".to_owned());
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            run: [7; 16],
            duration: Duration::from_millis(12_345),
            down: Some(Flow::chunks(3000, Duration::from_millis(160)).unwrap()),
            up: Some(Flow::bulk()),
            down_next: 17,
            receipts_next: 1 << 40,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = hello().to_bytes();
        let mut payload = Vec::new();
        let frame = Frame::read(&mut &bytes[..], &mut payload).unwrap();
        assert_eq!((frame.kind, payload.len()), (Kind::Hello, HELLO));
        assert_eq!(Hello::parse(&payload), Ok(hello()));
        for end in 0..bytes.len() {
            assert!(Frame::read(&mut &bytes[..end], &mut payload).is_err());
        }
    }

    #[test]
    fn wishes_that_cannot_be_are_refused() {
        type Change = fn(&mut Hello);
        let cases: [(Change, &str); 5] = [
            (|h| (h.down, h.up) = (None, None), "direction"),
            (|h| h.duration = Duration::ZERO, "duration"),
            (|h| h.duration = MAX_DURATION * 2, "duration"),
            (
                |h| {
                    h.up = Some(Flow {
                        record_bytes: 10,
                        ..Flow::bulk()
                    })
                },
                "record",
            ),
            (
                |h| {
                    let interval = Duration::from_nanos(1);
                    h.up = Some(Flow {
                        interval,
                        ..Flow::bulk()
                    });
                },
                "interval",
            ),
        ];
        for (change, words) in cases {
            let mut h = hello();
            change(&mut h);
            let e = Hello::parse(&h.to_bytes()[HEADER..]).unwrap_err();
            assert!(e.contains(words), "{e}");
        }
    }

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
            let _ = Hello::parse(&rest);
        }

        #[test]
        fn frames_come_back(number: u64, stamp_ns: u64, length in 0..MAX_RECORD - HEADER) {
            let frame = Frame { length, ..Frame::bare(Kind::Data, number, stamp_ns) };
            prop_assert_eq!(Frame::parse(&frame.to_bytes()).unwrap(), frame);
        }
    }
}
