//! The lab's packet log: one CSV line for every packet that an emulated link carried or dropped
//! (`docs/packet-log.md`).

use std::io::Read;
use std::net::IpAddr;

use mpbond_radio::Direction;
use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::network::Flow;
use crate::source::Source;
use crate::unpack::{Unpacked, unpack};

const HEADER: &str = "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped";
/// Beginning that identifies a packet log.
const HEADER_START: &[u8] = b"enqueue_ns,depart_ns,link,";

/// Whether a file begins like a packet log.
pub(crate) fn is(head: &[u8]) -> bool {
    head.starts_with(HEADER_START)
}

/// Packet of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedPacket<'a> {
    /// Time at which it was offered to the link.
    pub enqueued: Timestamp,
    /// Time at which its last bit left the queue; `None` when it was dropped there.
    pub departed: Option<Timestamp>,
    /// Name of the link.
    pub link: &'a str,
    /// Direction, as the experiment names the link's directions.
    pub direction: Direction,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// Addresses and ports, of IP packets.
    pub flow: Option<Flow>,
    /// Reason of the drop (`queue`, `loss`, `down`); empty when it was not dropped.
    pub dropped: &'a str,
}

/// Reader of a packet log, line by line.
pub struct PacketLog<R: Read> {
    lines: Lines<Unpacked<R>>,
    ended: bool,
}

impl<R: Read> PacketLog<R> {
    /// Opens a log; `file` names it in errors.
    ///
    /// # Errors
    /// When the file is not a packet log.
    pub fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut source = unpack(file, from)?;
        if !is(source.peek(HEADER_START.len())?) {
            return Err(source.error(0, "not a packet log"));
        }
        Self::of(source)
    }

    pub(crate) fn of(source: Source<Unpacked<R>>) -> Result<Self, CaptureError> {
        let mut lines = Lines::new(source);
        lines.advance()?;
        if lines.line() != HEADER {
            return Err(lines.error(format!("expected the columns {HEADER}")));
        }
        Ok(Self {
            lines,
            ended: false,
        })
    }

    /// An error at the last line read.
    pub(crate) fn error(&self, reason: impl Into<String>) -> CaptureError {
        self.lines.error(reason)
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// When a line is truncated or malformed; none follows.
    #[allow(clippy::should_implement_trait)] // a packet borrows from the log
    pub fn next(&mut self) -> Result<Option<LoggedPacket<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        if !self.lines.advance()? {
            return Ok(None);
        }
        let packet = parse(self.lines.line()).map_err(|reason| self.lines.error(reason))?;
        self.ended = false;
        Ok(Some(packet))
    }
}

fn parse(line: &str) -> Result<LoggedPacket<'_>, String> {
    let Some(f) = fields::<11>(line) else {
        return Err("expected 11 fields".to_owned());
    };
    let [
        enqueue,
        depart,
        link,
        direction,
        bytes,
        src,
        dst,
        proto,
        sport,
        dport,
        dropped,
    ] = f;
    let number = |name: &str, text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{name} \"{text}\" is not a whole number"))
    };
    let small = |name: &str, text: &str, max: u64| {
        let n = number(name, text)?;
        if n > max {
            return Err(format!("{name} {n} is more than {max}"));
        }
        Ok(n)
    };
    let departed = if depart.is_empty() {
        None
    } else {
        Some(Timestamp::from_nanos(number("depart_ns", depart)?))
    };
    let flow = if src.is_empty() || dst.is_empty() {
        None
    } else {
        let address = |text: &str| {
            text.parse::<IpAddr>()
                .map_err(|_| format!("\"{text}\" is not an address"))
        };
        Some(Flow {
            source: address(src)?,
            destination: address(dst)?,
            protocol: small("proto", proto, 255)? as u8,
            source_port: small("sport", sport, 65_535)? as u16,
            destination_port: small("dport", dport, 65_535)? as u16,
        })
    };
    Ok(LoggedPacket {
        enqueued: Timestamp::from_nanos(number("enqueue_ns", enqueue)?),
        departed,
        link,
        direction: match direction {
            "up" => Direction::Up,
            "down" => Direction::Down,
            other => return Err(format!("direction \"{other}\" is neither up nor down")),
        },
        bytes: small("bytes", bytes, 1 << 20)? as u32,
        flow,
        dropped,
    })
}
