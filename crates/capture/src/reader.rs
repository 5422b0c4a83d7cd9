//! Reader of packet captures of any format, record by record.

use std::io::{Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use mpbond_units::Timestamp;

use crate::btsnoop::{self, Btsnoop};
use crate::error::{CaptureError, Place};
use crate::packet_logger::{self, PacketLogger};
use crate::pcap::{self, Pcap};
use crate::pcapng::{self, Pcapng};
use crate::source::Source;

/// Link type of a record, as registered at tcpdump.org.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: four octets of address family in host order.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IP without a link header.
    pub const RAW: Self = Self(101);
    /// 802.11 without radio information.
    pub const IEEE802_11: Self = Self(105);
    /// Linux cooked, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// 802.11 with a radiotap header.
    pub const RADIOTAP: Self = Self(127);
    /// IPv4 without a link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link header.
    pub const IPV6: Self = Self(229);
    /// Linux cooked, version 2.
    pub const LINUX_SLL2: Self = Self(276);
    /// Bluetooth HCI, each packet with an octet of its type.
    pub const HCI_H4: Self = Self(187);
    /// Bluetooth HCI as in [`Self::HCI_H4`], with four octets of its direction before it.
    pub const HCI_H4_WITH_DIRECTION: Self = Self(201);
    /// Bluetooth HCI in the format of the kernel's monitor, in pcap files.
    pub const HCI_LINUX_MONITOR: Self = Self(254);
    /// Bluetooth HCI of btsnoop files without type octets. Not a registered number (those have 28
    /// bits), as the next three.
    pub const BTSNOOP_H1: Self = Self(1 << 28 | 1001);
    /// Bluetooth HCI of btsnoop files with type octets.
    pub const BTSNOOP_H4: Self = Self(1 << 28 | 1002);
    /// Bluetooth HCI of btsnoop files from the kernel's monitor.
    pub const BTSNOOP_MONITOR: Self = Self(1 << 28 | 2001);
    /// Bluetooth HCI of PacketLogger files.
    pub const PACKET_LOGGER: Self = Self(1 << 28 | 1);
}

/// Captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture, since the Unix epoch.
    pub at: Timestamp,
    /// Link type of `data`.
    pub link_type: LinkType,
    /// Interface of the file, counted over all its sections; 0 where the format has only one.
    pub interface: u32,
    /// Flags of btsnoop and PacketLogger; 0 elsewhere.
    pub flags: u32,
    /// Captured part of the packet.
    pub data: &'a [u8],
    /// Original length of the packet in bytes.
    pub original_bytes: u32,
    /// Offset of the record in the file.
    pub offset: u64,
}

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap: little or big endian, µs or ns.
    Pcap,
    /// pcapng.
    Pcapng,
    /// btsnoop with any of its data links.
    Btsnoop,
    /// Apple's PacketLogger.
    PacketLogger,
    /// The lab's packet log.
    PacketLog,
    /// Processor log.
    CpuLog,
}

/// First octets of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Number of octets that identify a format.
const HEAD: usize = 32;

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

/// Decompresses gzip and identifies the format.
pub(crate) fn open<R: Read>(
    file: &str,
    mut from: R,
) -> Result<(Source<Unpacked<R>>, Format), CaptureError> {
    let mut head = Vec::with_capacity(GZIP.len());
    let fail = |reason: String| CaptureError {
        file: file.to_owned(),
        place: Place::Offset(0),
        reason,
    };
    from.by_ref()
        .take(GZIP.len() as u64)
        .read_to_end(&mut head)
        .map_err(|e| fail(format!("cannot be read: {e}")))?;
    let packed = head == GZIP;
    let rewound = Cursor::new(head).chain(from);
    let unpacked = if packed {
        Unpacked::Gzip(Box::new(MultiGzDecoder::new(rewound)))
    } else {
        Unpacked::Plain(rewound)
    };
    let mut source = Source::new(file, unpacked);
    let head = source.peek(HEAD)?;
    let format = if head.is_empty() {
        return Err(fail("the file is empty".to_owned()));
    } else if pcapng::is(head) {
        Format::Pcapng
    } else if pcap::is(head) {
        Format::Pcap
    } else if head.starts_with(crate::packet_log::HEADER_START) {
        Format::PacketLog
    } else if head.starts_with(crate::cpu_log::HEADER_START) {
        Format::CpuLog
    } else if btsnoop::is(head) {
        Format::Btsnoop
    } else if packet_logger::is(head) {
        Format::PacketLogger
    } else {
        let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return Err(fail(format!(
            "neither a pcap, pcapng, btsnoop or PacketLogger capture nor a packet or processor log \
             (begins with {})",
            shown.join(" ")
        )));
    };
    Ok((source, format))
}

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

/// Position of a record whose octets are at the front of the source.
pub(crate) struct Found {
    pub at: Timestamp,
    pub link_type: LinkType,
    pub interface: u32,
    pub flags: u32,
    pub original_bytes: u32,
    pub offset: u64,
    /// Octets before the data, of the data, and after it.
    pub before: usize,
    pub captured: usize,
    pub after: usize,
}

impl Found {
    fn record<R: Read>(self, source: &mut Source<R>) -> Result<Record<'_>, CaptureError> {
        let whole = self.before + self.captured + self.after;
        // The octets are in the window: `take` only moves past them.
        source.peek(whole)?;
        source.take(whole);
        let data = source.taken(whole);
        Ok(Record {
            at: self.at,
            link_type: self.link_type,
            interface: self.interface,
            flags: self.flags,
            data: data
                .get(self.before..self.before + self.captured)
                .unwrap_or_default(),
            original_bytes: self.original_bytes,
            offset: self.offset,
        })
    }
}
