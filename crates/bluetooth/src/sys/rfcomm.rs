//! Sockets of RFCOMM: `struct sockaddr_rc`, BT_SECURITY, RFCOMM_CONNINFO.
#![allow(unsafe_code)]

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd as _;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::address::DeviceAddress;

/// `BTPROTO_RFCOMM` of the kernel's include/net/bluetooth/bluetooth.h.
const BTPROTO_RFCOMM: i32 = 3;
/// `SOL_BLUETOOTH`.
const SOL_BLUETOOTH: i32 = 274;
/// `BT_SECURITY`.
const BT_SECURITY: i32 = 4;

/// `struct sockaddr_rc` of include/net/bluetooth/rfcomm.h.
#[repr(C)]
struct SockaddrRc {
    family: libc::sa_family_t,
    device: [u8; 6],
    channel: u8,
}

/// `SOL_RFCOMM` and `RFCOMM_CONNINFO` of include/net/bluetooth/rfcomm.h.
const SOL_RFCOMM: i32 = 18;
const RFCOMM_CONNINFO: i32 = 2;

/// `struct rfcomm_conninfo`.
#[repr(C)]
#[derive(Default)]
struct RfcommConninfo {
    handle: u16,
    class: [u8; 3],
}

/// `struct bt_security`.
#[repr(C)]
struct BtSecurity {
    level: u8,
    key_size: u8,
}

/// Protection of a link, by `BT_SECURITY_LOW` and `BT_SECURITY_MEDIUM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Any device may connect.
    Any = 1,
    /// The devices are paired, and the link is encrypted.
    Encrypted = 2,
}

/// A new socket of RFCOMM, non-blocking.
///
/// # Errors
/// Without Bluetooth in the kernel EAFNOSUPPORT, without RFCOMM EPROTONOSUPPORT.
pub(crate) fn socket(security: Security) -> io::Result<Socket> {
    let domain = Domain::from(libc::AF_BLUETOOTH);
    let protocol = Protocol::from(BTPROTO_RFCOMM);
    let socket = Socket::new(domain, Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    let value = BtSecurity {
        level: security as u8,
        key_size: 0,
    };
    // SAFETY: the option's value is a structure of this size, which outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            SOL_BLUETOOTH,
            BT_SECURITY,
            (&raw const value).cast(),
            size_of::<BtSecurity>() as libc::socklen_t,
        )
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Address of a server channel at a device.
pub(crate) fn address(device: DeviceAddress, channel: u8) -> io::Result<SockAddr> {
    let value = SockaddrRc {
        family: libc::AF_BLUETOOTH as libc::sa_family_t,
        device: device.0,
        channel,
    };
    // SAFETY: the storage is larger than this structure, which begins with its family; the length
    // is that of the structure.
    let ((), address) = unsafe {
        SockAddr::try_init(|storage, length| {
            storage.cast::<SockaddrRc>().write(value);
            *length = size_of::<SockaddrRc>() as libc::socklen_t;
            Ok(())
        })
    }?;
    Ok(address)
}

/// Handle of the baseband's connection under one of RFCOMM.
///
/// # Errors
/// When the socket is not one of RFCOMM, or not connected any more.
pub(crate) fn handle(socket: &Socket) -> io::Result<u16> {
    let mut value = RfcommConninfo::default();
    let mut length = size_of::<RfcommConninfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` octets into the structure, which is so long.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_RFCOMM,
            RFCOMM_CONNINFO,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match got {
        0 => Ok(value.handle),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The device in an address that the kernel gave; `None` for an address of another family.
pub(crate) fn device(address: &SockAddr) -> Option<DeviceAddress> {
    let has_device = offset_of!(SockaddrRc, channel);
    if address.domain() != Domain::from(libc::AF_BLUETOOTH) || (address.len() as usize) < has_device
    {
        return None;
    }
    // SAFETY: the storage behind an address is larger than this structure, and initialised; any
    // octets are a value of it.
    let value = unsafe { address.as_ptr().cast::<SockaddrRc>().read() };
    Some(DeviceAddress(value.device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_layout_of_the_kernel() {
        assert_eq!((size_of::<SockaddrRc>(), size_of::<BtSecurity>()), (10, 2));
        assert_eq!(size_of::<RfcommConninfo>(), 6);
        let to: DeviceAddress = "00:1A:7D:DA:71:13".parse().unwrap();
        let address = address(to, 22).unwrap();
        assert_eq!((address.len(), address.family()), (10, 31));
        assert_eq!(device(&address), Some(to));
        let other = SockAddr::unix("/tmp/no-device").unwrap();
        assert_eq!(device(&other), None);
    }
}
