//! From the bytes of a record to the IP packet in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::reader::{LinkType, Record};
use crate::source::{u16_at, u32_at};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad.
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// More tags than this are an attack or damage.
const MAX_TAGS: usize = 4;
/// Packet type of cooked captures: sent by us (`PACKET_OUTGOING`).
const COOKED_OUTGOING: u16 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Addresses and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Port at the source; 0 where there is none.
    pub source_port: u16,
    /// Port at the destination; 0 where there is none.
    pub destination_port: u16,
}

/// A network packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network<'a> {
    /// Bytes from the IP header on, as long as the packet was on the link.
    pub bytes: u32,
    /// Addresses and ports; `None` when it is not IP or its header is cut.
    pub flow: Option<Flow>,
    /// Whether this device sent it, where the link type tells.
    pub outgoing: Option<bool>,
    /// What was kept, from the IP header on.
    pub data: &'a [u8],
}

/// Why a record holds no network packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotNetwork {
    /// This link type is not read.
    LinkType(LinkType),
    /// The record is shorter than its link header.
    Short,
}

/// Finds the network packet in a record.
///
/// # Errors
/// When the link type is not read, or the record is too short for it.
pub fn network<'a>(record: &Record<'a>) -> Result<Network<'a>, NotNetwork> {
    let data = record.data;
    let (header, ethertype, outgoing) = match record.link_type {
        LinkType::ETHERNET => {
            let (header, ethertype) = ethernet(data)?;
            (header, Some(ethertype), None)
        }
        LinkType::LINUX_SLL => {
            let kind = field(data, 0)?;
            (16, Some(field(data, 14)?), Some(kind == COOKED_OUTGOING))
        }
        LinkType::LINUX_SLL2 => {
            let kind = u16::from(*data.get(10).ok_or(NotNetwork::Short)?);
            (20, Some(field(data, 0)?), Some(kind == COOKED_OUTGOING))
        }
        // Some systems wrote their own numbers for raw IP into files.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12 | 14) => (0, None, None),
        LinkType::NULL => (4, None, None),
        other => return Err(NotNetwork::LinkType(other)),
    };
    let data = data.get(header..).ok_or(NotNetwork::Short)?;
    let on_link = record.original_bytes.saturating_sub(header as u32);
    Ok(packet(data, ethertype, on_link, outgoing))
}

/// What follows a link's header of this EtherType; of none, it is IP.
pub(crate) fn packet(
    data: &[u8],
    ethertype: Option<u16>,
    on_link: u32,
    outgoing: Option<bool>,
) -> Network<'_> {
    let is_ip = ethertype.is_none_or(|e| e == ETHERTYPE_IPV4 || e == ETHERTYPE_IPV6);
    let ip = if is_ip { ip(data) } else { None };
    Network {
        // Short Ethernet frames are padded; packets joined by the network
        // card may say zero.
        bytes: match ip {
            Some((_, length)) if length > 0 => on_link.min(length),
            _ => on_link,
        },
        flow: ip.map(|(flow, _)| flow),
        outgoing,
        data,
    }
}

fn field(data: &[u8], at: usize) -> Result<u16, NotNetwork> {
    if data.len() < at + 2 {
        return Err(NotNetwork::Short);
    }
    Ok(u16_at(data, at, true))
}

/// Length of the header and what follows it.
fn ethernet(data: &[u8]) -> Result<(usize, u16), NotNetwork> {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let ethertype = field(data, at)?;
        if !VLAN_TAGS.contains(&ethertype) {
            return Ok((at + 2, ethertype));
        }
        at += 4;
    }
    Err(NotNetwork::Short)
}

/// Addresses and total length of an IP packet (RFC 791 section 3.1, RFC 8200 section 3).
fn ip(data: &[u8]) -> Option<(Flow, u32)> {
    let first = *data.first()?;
    let (source, destination, protocol, header, length): (IpAddr, IpAddr, _, _, _) =
        match first >> 4 {
            4 => {
                let whole = data.get(..20)?;
                let fragment = u16_at(whole, 6, true) & 0x1fff;
                let header = if fragment == 0 {
                    usize::from(first & 0xf) * 4
                } else {
                    usize::MAX
                };
                (
                    Ipv4Addr::from(u32_at(whole, 12, true)).into(),
                    Ipv4Addr::from(u32_at(whole, 16, true)).into(),
                    *whole.get(9)?,
                    header,
                    u32::from(u16_at(whole, 2, true)),
                )
            }
            6 => {
                let whole = data.get(..40)?;
                let address = |at: usize| -> Option<Ipv6Addr> {
                    let bytes: [u8; 16] = whole.get(at..at + 16)?.try_into().ok()?;
                    Some(Ipv6Addr::from(bytes))
                };
                let payload = u32::from(u16_at(whole, 4, true));
                (
                    address(8)?.into(),
                    address(24)?.into(),
                    *whole.get(6)?,
                    40,
                    if payload == 0 { 0 } else { payload + 40 },
                )
            }
            _ => return None,
        };
    let ports = match protocol {
        TCP | UDP | SCTP => data.get(header..).and_then(|rest| rest.get(..4)),
        _ => None,
    };
    let flow = Flow {
        source,
        destination,
        protocol,
        source_port: ports.map_or(0, |p| u16_at(p, 0, true)),
        destination_port: ports.map_or(0, |p| u16_at(p, 2, true)),
    };
    Some((flow, length))
}
