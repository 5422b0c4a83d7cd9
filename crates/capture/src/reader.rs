//! Reader of packet captures of any format, record by record.

use std::io::Read;

use crate::btsnoop::Btsnoop;
use crate::error::CaptureError;
use crate::format::{Format, open};
use crate::packet_logger::PacketLogger;
use crate::pcap::Pcap;
use crate::pcapng::Pcapng;
use crate::record::Record;
use crate::source::Source;
use crate::unpack::Unpacked;

enum Kind {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Btsnoop(Btsnoop),
    PacketLogger(PacketLogger),
}

/// Reader of a capture of any format, gzipped or not, in constant memory.
pub struct Reader<R: Read> {
    source: Source<Unpacked<R>>,
    kind: Kind,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a capture; `file` names it in errors.
    ///
    /// # Errors
    /// When it is not a capture, or its header is truncated or invalid.
    pub fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let (source, format) = open(file, from)?;
        Self::of(source, format)
    }

    pub(crate) fn of(
        mut source: Source<Unpacked<R>>,
        format: Format,
    ) -> Result<Self, CaptureError> {
        let kind = match format {
            Format::Pcap => Kind::Pcap(Pcap::open(&mut source)?),
            Format::Pcapng => Kind::Pcapng(Pcapng::default()),
            Format::Btsnoop => Kind::Btsnoop(Btsnoop::open(&mut source)?),
            Format::PacketLogger => Kind::PacketLogger(PacketLogger::open(&mut source)?),
            Format::PacketLog | Format::CpuLog => {
                return Err(source.error(0, "a log, not a capture"));
            }
        };
        Ok(Self {
            source,
            kind,
            ended: false,
        })
    }

    /// The next record; `None` at the end.
    ///
    /// When the file is truncated or malformed from here on. Records read before are complete; none
    /// follows.
    #[allow(clippy::should_implement_trait)] // a record borrows from the reader
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.kind {
            Kind::Pcap(pcap) => pcap.next(&mut self.source),
            Kind::Pcapng(pcapng) => pcapng.next(&mut self.source),
            Kind::Btsnoop(btsnoop) => btsnoop.next(&mut self.source),
            Kind::PacketLogger(logger) => logger.next(&mut self.source),
        };
        match found {
            Ok(Some(at)) => {
                // The borrow is created last, so that the one above has ended.
                at.record(&mut self.source).map(Some)
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(e) => {
                self.ended = true;
                Err(e)
            }
        }
    }

    /// Name of an interface, if the file has one.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        match &self.kind {
            Kind::Pcapng(pcapng) => pcapng.interface_name(interface),
            _ => None,
        }
    }

    /// Number of packets without a time (simple packet blocks), which were skipped.
    pub fn skipped(&self) -> u64 {
        match &self.kind {
            Kind::Pcapng(pcapng) => pcapng.without_time(),
            _ => 0,
        }
    }
}
