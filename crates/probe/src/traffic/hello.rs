//! Payload of a client's first frame: its request and progress.

use std::time::Duration;

use super::flow::Flow;
use super::wire::{Frame, HELLO, Kind, eight, four};

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

    use super::super::wire::HEADER;
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

    proptest! {
        #[test]
        fn anything_is_survived(payload: Vec<u8>) {
            let _ = Hello::parse(&payload);
        }
    }
}
