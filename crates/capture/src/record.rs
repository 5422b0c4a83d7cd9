//! Records of captures: link type, packet, and position in the file.

use std::io::Read;

use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::source::Source;

/// Maximum packet length; longer ones mean a damaged file.
pub(crate) const MAX_PACKET: usize = 1 << 20;

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
    /// The record, whose octets are consumed.
    pub(crate) fn record<R: Read>(
        self,
        source: &mut Source<R>,
    ) -> Result<Record<'_>, CaptureError> {
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
