//! Packet captures of any format, one record after another.

use std::io::{Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use mpbond_units::Timestamp;

use crate::btsnoop::{self, Btsnoop};
use crate::error::{CaptureError, Place};
use crate::packet_logger::{self, PacketLogger};
use crate::pcap::{self, Pcap};
use crate::pcapng::{self, Pcapng};
use crate::source::Source;

/// What the bytes of a record are; numbers as registered at tcpdump.org.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: four bytes of address family in host order.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IP without anything before it.
    pub const RAW: Self = Self(101);
    /// 802.11 without radio information.
    pub const IEEE802_11: Self = Self(105);
    /// Linux cooked, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// 802.11 behind a radiotap header.
    pub const RADIOTAP: Self = Self(127);
    /// IPv4 without anything before it.
    pub const IPV4: Self = Self(228);
    /// IPv6 without anything before it.
    pub const IPV6: Self = Self(229);
    /// Linux cooked, version 2.
    pub const LINUX_SLL2: Self = Self(276);
    /// Bluetooth HCI, each packet behind an octet that says what it is.
    pub const HCI_H4: Self = Self(187);
    /// The same behind four octets that say which way it went.
    pub const HCI_H4_WITH_DIRECTION: Self = Self(201);
    /// Bluetooth HCI as the kernel's monitor has it, in pcap files.
    pub const HCI_LINUX_MONITOR: Self = Self(254);
    /// Bluetooth HCI of btsnoop files without type octets. No registered number (those have 28
    /// bits), as with the next three.
    pub const BTSNOOP_H1: Self = Self(1 << 28 | 1001);
    /// Bluetooth HCI of btsnoop files with type octets.
    pub const BTSNOOP_H4: Self = Self(1 << 28 | 1002);
    /// Bluetooth HCI of btsnoop files from the kernel's monitor.
    pub const BTSNOOP_MONITOR: Self = Self(1 << 28 | 2001);
    /// Bluetooth HCI of PacketLogger files.
    pub const PACKET_LOGGER: Self = Self(1 << 28 | 1);
}

/// One captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, since the Unix epoch.
    pub at: Timestamp,
    /// What `data` is.
    pub link_type: LinkType,
    /// On which interface of the file; 0 where the format knows only one.
    pub interface: u32,
    /// What btsnoop and PacketLogger say of the packet besides; 0 elsewhere.
    pub flags: u32,
    /// What was kept of the packet.
    pub data: &'a [u8],
    /// How long the packet was, in bytes.
    pub original_bytes: u32,
    /// Where the record begins in the file.
    pub offset: u64,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic format: little or big endian, µs or ns.
    Pcap,
    /// pcapng.
    Pcapng,
    /// btsnoop, of any of its data links.
    Btsnoop,
    /// Apple's PacketLogger.
    PacketLogger,
    /// The lab's packet log.
    PacketLog,
    /// A log of the processor.
    CpuLog,
}

/// Bytes that a packed file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many bytes tell what a file is.
const HEAD: usize = 32;

type Rewound<R> = Chain<Cursor<Vec<u8>>, R>;

/// A file, unpacked if need be.
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

/// Unpacks gzip, and says what is inside.
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

/// Reads a capture of any format, gzipped or not, in constant memory.
pub struct Reader<R: Read> {
    source: Source<Unpacked<R>>,
    kind: Kind,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a capture; `file` is what errors call it.
    ///
    /// # Errors
    /// When it is no capture, or its header is cut or wrong.
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
    /// # Errors
    /// When the file is cut or wrong from here on. Records read before are
    /// whole; none follows.
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
                // Only now is the borrow handed out, so that it ends above.
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

    /// The name that the file gives to an interface, if it does.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        match &self.kind {
            Kind::Pcapng(pcapng) => pcapng.interface_name(interface),
            _ => None,
        }
    }

    /// Packets without a time (simple packet blocks), which were skipped.
    pub fn skipped(&self) -> u64 {
        match &self.kind {
            Kind::Pcapng(pcapng) => pcapng.without_time(),
            _ => 0,
        }
    }
}

/// A record whose bytes lie at the front of the source.
pub(crate) struct Found {
    pub at: Timestamp,
    pub link_type: LinkType,
    pub interface: u32,
    pub flags: u32,
    pub original_bytes: u32,
    pub offset: u64,
    /// Bytes before the data, the data, and bytes after it.
    pub before: usize,
    pub captured: usize,
    pub after: usize,
}

impl Found {
    fn record<R: Read>(self, source: &mut Source<R>) -> Result<Record<'_>, CaptureError> {
        let whole = self.before + self.captured + self.after;
        // The bytes are in the window: `take` only moves past them.
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
