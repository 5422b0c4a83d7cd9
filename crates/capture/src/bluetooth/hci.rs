//! HCI packet of a record (Bluetooth Core 5.4, volume 4, part E, section 5.4).

use crate::record::{LinkType, Record};
use crate::source::{u16_at, u32_at};

/// Type of an HCI packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HciKind {
    /// Command from host to controller.
    Command,
    /// Event from controller to host.
    Event,
    /// Data of an asynchronous link.
    Acl,
    /// Data of a synchronous link (voice).
    Sco,
    /// Data of an isochronous link.
    Iso,
    /// Message of the logger, vendor's packet, or unknown type.
    Other,
}

/// Packet between host and controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HciPacket<'a> {
    /// Type.
    pub kind: HciKind,
    /// Whether the host received it; `None` where the format does not say.
    pub received: Option<bool>,
    /// Controller of the host.
    pub adapter: u16,
    /// Packet without the octet of its type.
    pub data: &'a [u8],
    /// Whether the log has only its beginning.
    pub cut: bool,
}

/// HCI packet of a record; `None` when its link type is not Bluetooth HCI or the record is shorter
/// than its own header.
pub fn hci<'a>(record: &Record<'a>) -> Option<HciPacket<'a>> {
    let data = record.data;
    let flags = record.flags;
    let (kind, received, adapter, data) = match record.link_type {
        LinkType::BTSNOOP_H4 => h4(data, Some(flags & 1 == 1))?,
        LinkType::HCI_H4 => h4(data, None)?,
        LinkType::HCI_H4_WITH_DIRECTION => {
            h4(data.get(4..)?, Some(u32_at(data, 0, true) & 1 == 1))?
        }
        LinkType::BTSNOOP_H1 => {
            let received = flags & 1 == 1;
            let kind = match (flags & 2 == 2, received) {
                (true, true) => HciKind::Event,
                (true, false) => HciKind::Command,
                (false, _) => HciKind::Acl,
            };
            (kind, Some(received), 0, data)
        }
        LinkType::BTSNOOP_MONITOR => monitor((flags >> 16) as u16, flags as u16, data),
        LinkType::HCI_LINUX_MONITOR => {
            let rest = data.get(4..)?;
            monitor(u16_at(data, 0, true), u16_at(data, 2, true), rest)
        }
        LinkType::PACKET_LOGGER => {
            let (kind, received) = match flags {
                0 => (HciKind::Command, Some(false)),
                1 => (HciKind::Event, Some(true)),
                2 => (HciKind::Acl, Some(false)),
                3 => (HciKind::Acl, Some(true)),
                8 => (HciKind::Sco, Some(false)),
                9 => (HciKind::Sco, Some(true)),
                _ => (HciKind::Other, None),
            };
            (kind, received, 0, data)
        }
        _ => return None,
    };
    Some(HciPacket {
        kind,
        received,
        adapter,
        data,
        cut: record.data.len() < record.original_bytes as usize,
    })
}

type Parts<'a> = (HciKind, Option<bool>, u16, &'a [u8]);

/// UART transport layer: an octet gives the type of the packet (volume 4, part A, section 2).
fn h4(data: &[u8], received: Option<bool>) -> Option<Parts<'_>> {
    let (kind, rest) = data.split_first()?;
    let (kind, received) = match kind {
        1 => (HciKind::Command, Some(false)),
        2 => (HciKind::Acl, received),
        3 => (HciKind::Sco, received),
        4 => (HciKind::Event, Some(true)),
        5 => (HciKind::Iso, received),
        _ => (HciKind::Other, received),
    };
    Some((kind, received, 0, rest))
}

/// The kernel's monitor format (BlueZ, `doc/btmon` and `src/shared/btsnoop.h`).
fn monitor(adapter: u16, opcode: u16, data: &[u8]) -> Parts<'_> {
    let (kind, received) = match opcode {
        2 => (HciKind::Command, Some(false)),
        3 => (HciKind::Event, Some(true)),
        4 => (HciKind::Acl, Some(false)),
        5 => (HciKind::Acl, Some(true)),
        6 => (HciKind::Sco, Some(false)),
        7 => (HciKind::Sco, Some(true)),
        18 => (HciKind::Iso, Some(false)),
        19 => (HciKind::Iso, Some(true)),
        _ => (HciKind::Other, None),
    };
    (kind, received, adapter, data)
}
