//! Adapters of this machine: HCIGETDEVLIST and HCIGETDEVINFO.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd as _;

use nix::request_code_read;
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::DeviceAddress;

/// `BTPROTO_HCI` of the kernel's include/net/bluetooth/bluetooth.h.
pub(super) const BTPROTO_HCI: i32 = 1;
/// `HCI_UP`, a bit of the flags.
const HCI_UP: u32 = 0;
/// Adapters that are asked for; `HCI_MAX_DEV` of the kernel.
const MAX_ADAPTERS: usize = 16;

/// `struct hci_dev_req` of include/net/bluetooth/hci_sock.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct HciDevReq {
    id: u16,
    flags: u32,
}

/// `struct hci_dev_list_req` with room for [`MAX_ADAPTERS`].
#[repr(C)]
struct HciDevListReq {
    count: u16,
    adapters: [HciDevReq; MAX_ADAPTERS],
}

/// `struct hci_dev_info`.
#[repr(C)]
#[derive(Default)]
struct HciDevInfo {
    id: u16,
    name: [u8; 8],
    address: [u8; 6],
    flags: u32,
    kind: u8,
    features: [u8; 8],
    packet_types: u32,
    link_policy: u32,
    link_mode: u32,
    mtus_and_packets: [u16; 4],
    statistics: [u32; 10],
}

nix::ioctl_read_bad!(
    hci_get_dev_list,
    request_code_read!(b'H', 210, size_of::<libc::c_int>()),
    HciDevListReq
);
nix::ioctl_read_bad!(
    hci_get_dev_info,
    request_code_read!(b'H', 211, size_of::<libc::c_int>()),
    HciDevInfo
);

/// An adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    /// Number.
    pub number: u16,
    /// Name, such as `hci0`.
    pub name: String,
    /// Its address.
    pub address: DeviceAddress,
    /// Whether it is switched on.
    pub is_up: bool,
}

/// The adapters of this machine. Any user may ask.
///
/// # Errors
/// Without Bluetooth in the kernel EAFNOSUPPORT.
pub(crate) fn adapters() -> io::Result<Vec<Adapter>> {
    let domain = Domain::from(libc::AF_BLUETOOTH);
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(BTPROTO_HCI)))?;
    let mut list = HciDevListReq {
        count: MAX_ADAPTERS as u16,
        adapters: [HciDevReq::default(); MAX_ADAPTERS],
    };
    // SAFETY: the list has room for `count` entries, more than which the kernel does not write.
    unsafe { hci_get_dev_list(socket.as_raw_fd(), &raw mut list) }?;
    let mut adapters = Vec::new();
    for entry in list.adapters.iter().take(usize::from(list.count)) {
        let mut info = HciDevInfo {
            id: entry.id,
            ..HciDevInfo::default()
        };
        // SAFETY: the structure is that of the kernel; it reads the number, and writes the others.
        let found = unsafe { hci_get_dev_info(socket.as_raw_fd(), &raw mut info) };
        // One that has just been removed is left out.
        if found.is_ok() {
            adapters.push(Adapter {
                number: info.id,
                name: format!("hci{}", info.id),
                address: DeviceAddress(info.address),
                is_up: info.flags >> HCI_UP & 1 == 1,
            });
        }
    }
    Ok(adapters)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_kernel() {
        assert_eq!(size_of::<HciDevReq>(), 8);
        assert_eq!(offset_of!(HciDevListReq, adapters), 4);
        assert_eq!(offset_of!(HciDevInfo, address), 10);
        assert_eq!(offset_of!(HciDevInfo, flags), 16);
        assert_eq!(offset_of!(HciDevInfo, packet_types), 32);
        assert_eq!(offset_of!(HciDevInfo, statistics), 52);
        assert_eq!(size_of::<HciDevInfo>(), 92);
    }
}
