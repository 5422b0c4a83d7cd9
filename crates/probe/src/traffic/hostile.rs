//! Entry point for tests with hostile input.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use mpbond_statistics::clock::ClockFit;

use super::client::{self, ClientOptions};
use super::connection::{Target, refused};
use super::hello::Hello;
use super::runs::{self, Receipt};
use super::wire::{Frame, Kind, sent_ns};
use super::{Flow, socks5};

/// Passes octets to a server, a client or a SOCKS5 client (selected by the first octet), as if from
/// the far end, without a connection. Returns the resulting message, if any; panics when an
/// invariant is violated.
pub fn hear(octets: &[u8]) -> Option<String> {
    let (who, octets) = octets.split_first()?;
    let heard = match who % 3 {
        0 => server(octets),
        1 => client(octets),
        _ => front(octets),
    };
    heard.err().map(|e| e.to_string())
}

fn server(mut octets: &[u8]) -> io::Result<()> {
    let mut payload = Vec::new();
    let first = Frame::read(&mut octets, &mut payload)?;
    if first.kind != Kind::Hello {
        return Ok(());
    }
    let hello = Hello::parse(&payload).map_err(io::Error::other)?;
    let again = hello.to_bytes();
    let again = again.get(super::wire::HEADER..).unwrap_or_default();
    assert_eq!(Hello::parse(again), Ok(hello), "written and read again");
    let mut run = runs::Run::new(&hello, Instant::now());
    loop {
        let frame = Frame::read(&mut octets, &mut payload)?;
        let receipt = Receipt {
            number: frame.number,
            at_ns: frame.stamp_ns,
            sent_ns: frame.stamp_ns,
        };
        match frame.kind {
            Kind::Start => drop(run.start(frame.number)),
            Kind::Data => drop(run.record(0, receipt)),
            _ => drop(run.receipts_from(frame.number)),
        }
    }
}

fn client(mut octets: &[u8]) -> io::Result<()> {
    let target = Target::Direct(([127, 0, 0, 1], 9).into());
    let mut options = ClientOptions::new(target);
    options.up = Some(Flow::bulk());
    options.down = Flow::chunks(100, Duration::from_millis(20)).ok();
    let mut run = client::Run::new(&options, |_| true);
    run.begin(ClockFit::new(1));
    let mut payload = Vec::new();
    let heard = loop {
        let frame = match Frame::read(&mut octets, &mut payload) {
            Ok(frame) if frame.kind == Kind::Refused => {
                break Err(io::Error::other(refused(&payload)));
            }
            Ok(frame) => frame,
            Err(e) => break Err(e),
        };
        let now_ns = frame.stamp_ns ^ frame.number;
        if let Err(e) = run.frame(frame, now_ns, sent_ns(&payload)) {
            break Err(io::Error::other(e));
        }
    };
    let summary = run.finish();
    for direction in [summary.down, summary.up].into_iter().flatten() {
        assert!(direction.gaps.list.len() as u64 <= direction.gaps.count);
    }
    heard
}

/// A SOCKS5 proxy with fixed answers that discards its input.
struct Front<'a>(&'a [u8]);

impl Read for Front<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Front<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn front(octets: &[u8]) -> io::Result<()> {
    socks5::connect(&mut Front(octets), "origin.test", 80)
}
