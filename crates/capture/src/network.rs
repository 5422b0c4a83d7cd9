//! IP packet of a record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::record::{LinkType, Record};
use crate::source::{u16_at, u32_at};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad.
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Maximum number of VLAN tags; more are damage or an attack.
const MAX_TAGS: usize = 4;
/// Hardware type of the loopback interface in cooked captures (`ARPHRD_LOOPBACK`).
const COOKED_LOOPBACK: u16 = 772;
/// Packet type of cooked captures: sent by this host (`PACKET_OUTGOING`).
const COOKED_OUTGOING: u16 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Addresses and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Source port; 0 where there is none.
    pub source_port: u16,
    /// Destination port; 0 where there is none.
    pub destination_port: u16,
}

/// A network packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network<'a> {
    /// Length on the link, from the IP header on.
    pub bytes: u32,
    /// Addresses and ports; `None` when it is not IP or its header is truncated.
    pub flow: Option<Flow>,
    /// Whether this device sent it, where the link type says.
    pub outgoing: Option<bool>,
    /// Whether it was captured at the loopback interface, where the link type says.
    pub loopback: bool,
    /// Captured part, from the IP header on.
    pub data: &'a [u8],
}

/// Reason why a record holds no network packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotNetwork {
    /// Unsupported link type.
    LinkType(LinkType),
    /// The record is shorter than its link header.
    Short,
}

/// Network packet of a record.
///
/// # Errors
/// When the link type is not supported, or the record is too short for it.
pub fn network<'a>(record: &Record<'a>) -> Result<Network<'a>, NotNetwork> {
    let data = record.data;
    let mut hardware = None;
    let (header, ethertype, outgoing) = match record.link_type {
        LinkType::ETHERNET => {
            let (header, ethertype) = ethernet(data)?;
            (header, Some(ethertype), None)
        }
        LinkType::LINUX_SLL => {
            let kind = field(data, 0)?;
            hardware = Some(field(data, 2)?);
            (16, Some(field(data, 14)?), Some(kind == COOKED_OUTGOING))
        }
        LinkType::LINUX_SLL2 => {
            let kind = u16::from(*data.get(10).ok_or(NotNetwork::Short)?);
            hardware = Some(field(data, 8)?);
            (20, Some(field(data, 0)?), Some(kind == COOKED_OUTGOING))
        }
        // Some systems wrote their own numbers for raw IP.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12 | 14) => (0, None, None),
        LinkType::NULL => (4, None, None),
        other => return Err(NotNetwork::LinkType(other)),
    };
    let data = data.get(header..).ok_or(NotNetwork::Short)?;
    let on_link = record.original_bytes.saturating_sub(header as u32);
    Ok(Network {
        loopback: hardware == Some(COOKED_LOOPBACK),
        ..packet(data, ethertype, on_link, outgoing)
    })
}

/// Packet after a link header with this EtherType; `None` stands for IP.
pub(crate) fn packet(
    data: &[u8],
    ethertype: Option<u16>,
    on_link: u32,
    outgoing: Option<bool>,
) -> Network<'_> {
    let is_ip = ethertype.is_none_or(|e| e == ETHERTYPE_IPV4 || e == ETHERTYPE_IPV6);
    let ip = if is_ip { ip(data) } else { None };
    Network {
        // Short Ethernet frames are padded; packets merged by the network card may have length
        // zero.
        bytes: match ip {
            Some((_, length)) if length > 0 => on_link.min(length),
            _ => on_link,
        },
        flow: ip.map(|(flow, _)| flow),
        outgoing,
        loopback: false,
        data,
    }
}

fn field(data: &[u8], at: usize) -> Result<u16, NotNetwork> {
    if data.len() < at + 2 {
        return Err(NotNetwork::Short);
    }
    Ok(u16_at(data, at, true))
}

/// Length of the link header, and EtherType of its payload.
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

/// Addresses and total length of an IP packet (RFC 791, section 3.1; RFC 8200, section 3).
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
