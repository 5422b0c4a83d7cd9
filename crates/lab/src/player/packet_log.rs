//! Packet log: a CSV line for every packet that a link carried or dropped. docs/packet-log.md
//! describes the format.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mpbond_sim::link::DropReason;
use mpbond_units::Timestamp;

use super::background::{Entry, LogFile};
use crate::experiment::Direction;

/// The columns, in order.
const HEADER: &str =
    "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped\n";
/// A packet's line.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub enqueued: Timestamp,
    /// `None` for a packet that never left the queue.
    pub departed: Option<Timestamp>,
    pub link: Arc<str>,
    pub direction: Direction,
    pub bytes: u32,
    pub flow: Flow,
    pub dropped: Option<DropReason>,
}

/// 5-tuple of a packet; missing parts are zero or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    pub source: Option<IpAddr>,
    pub destination: Option<IpAddr>,
    pub protocol: u8,
    pub source_port: u16,
    pub destination_port: u16,
}

impl Flow {
    /// The 5-tuple of an IP packet; empty for other packets.
    pub fn of(packet: &[u8]) -> Self {
        Self::v4(packet)
            .or_else(|| Self::v6(packet))
            .unwrap_or_default()
    }

    fn v4(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        if first >> 4 != 4 {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(bytes).into())
        };
        let mut flow = Self {
            source: Some(address(12)?),
            destination: Some(address(16)?),
            protocol: *packet.get(9)?,
            ..Self::default()
        };
        let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
        if fragment == 0 {
            flow.read_ports(packet, usize::from(first & 0xf) * 4);
        }
        Some(flow)
    }

    fn v6(packet: &[u8]) -> Option<Self> {
        if packet.first()? >> 4 != 6 {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        };
        let mut flow = Self {
            source: Some(address(8)?),
            destination: Some(address(24)?),
            protocol: *packet.get(6)?,
            ..Self::default()
        };
        flow.read_ports(packet, 40);
        Some(flow)
    }

    fn read_ports(&mut self, packet: &[u8], at: usize) {
        const WITH_PORTS: [u8; 3] = [6, 17, 132]; // TCP, UDP, SCTP
        if !WITH_PORTS.contains(&self.protocol) {
            return;
        }
        if let Some([a, b, c, d]) = packet.get(at..at + 4) {
            self.source_port = u16::from_be_bytes([*a, *b]);
            self.destination_port = u16::from_be_bytes([*c, *d]);
        }
    }
}

impl Entry for Record {
    const HEADER: &'static [u8] = HEADER.as_bytes();
    const BATCH: usize = 1024;

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let direction = match self.direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        write!(out, "{},", self.enqueued.as_nanos())?;
        if let Some(departed) = self.departed {
            write!(out, "{}", departed.as_nanos())?;
        }
        write!(out, ",{},{direction},{},", self.link, self.bytes)?;
        if let Some(address) = self.flow.source {
            write!(out, "{address}")?;
        }
        out.write_all(b",")?;
        if let Some(address) = self.flow.destination {
            write!(out, "{address}")?;
        }
        let dropped = match self.dropped {
            None => "",
            Some(DropReason::QueueFull) => "queue",
            Some(DropReason::Loss) => "loss",
            Some(DropReason::Down) => "down",
        };
        writeln!(
            out,
            ",{},{},{},{dropped}",
            self.flow.protocol, self.flow.source_port, self.flow.destination_port
        )
    }
}

/// The packet log of all links.
pub(super) type PacketLog = LogFile<Record>;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Vec<u8> {
        let mut p = vec![0; 40];
        p[0] = 0x45;
        p[9] = 6;
        p[12..16].copy_from_slice(&[10, 77, 0, 1]);
        p[16..20].copy_from_slice(&[198, 51, 100, 1]);
        p[20..24].copy_from_slice(&[0x30, 0x39, 0, 80]);
        p
    }

    #[test]
    fn writes_the_documented_line() {
        let record = Record {
            enqueued: Timestamp::from_nanos(1000),
            departed: Some(Timestamp::from_nanos(2500)),
            link: "lte".into(),
            direction: Direction::Up,
            bytes: 40,
            flow: Flow::of(&packet()),
            dropped: None,
        };
        let mut line = Vec::new();
        record.write(&mut line).unwrap();
        let expected = "1000,2500,lte,up,40,10.77.0.1,198.51.100.1,6,12345,80,\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);

        let lost = Record {
            departed: None,
            dropped: Some(DropReason::QueueFull),
            ..record
        };
        let mut line = Vec::new();
        lost.write(&mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(
            line.starts_with("1000,,lte,") && line.ends_with(",queue\n"),
            "{line}"
        );
        assert_eq!(line.matches(',').count(), HEADER.matches(',').count());
    }

    #[test]
    fn any_bytes_are_accepted() {
        let whole = packet();
        for length in 0..whole.len() {
            Flow::of(&whole[..length]);
        }
        assert_eq!(Flow::of(&[]), Flow::default());
        assert_eq!(Flow::of(&[0x60; 44]).protocol, 0x60);
        let mut fragment = packet();
        fragment[7] = 1;
        assert_eq!(Flow::of(&fragment).source_port, 0);
    }
}
