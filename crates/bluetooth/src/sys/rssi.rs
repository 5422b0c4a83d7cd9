//! Command Read RSSI of the HCI: `struct sockaddr_hci`, HCI_FILTER.
#![allow(unsafe_code)]

use std::io::{self, Read as _};
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::hci::BTPROTO_HCI;

/// `SOL_HCI` and `HCI_FILTER` of the kernel's include/net/bluetooth/hci_sock.h.
const SOL_HCI: i32 = 0;
const HCI_FILTER: i32 = 2;
/// Packet types: command, event.
const COMMAND: u8 = 1;
const EVENT: u8 = 4;
/// Event Command Complete (Bluetooth Core Specification, volume 4, part E, section 7.7.14).
const COMMAND_COMPLETE: u8 = 0x0e;
/// Read RSSI: group 5, command 5 (section 7.5.4).
const READ_RSSI: [u8; 2] = [0x05, 0x14];
/// Longest packet of an event: its type, code and length, and 255 octets.
const MAX_EVENT: usize = 258;
/// Time for an answer.
const WITHIN: Duration = Duration::from_secs(1);

/// `struct sockaddr_hci`.
#[repr(C)]
struct SockaddrHci {
    family: libc::sa_family_t,
    device: u16,
    channel: u16,
}

/// `struct hci_ufilter`.
#[repr(C)]
struct HciFilter {
    types: u32,
    events: [u32; 2],
    opcode: u16,
}

/// Commands to an adapter. The kernel lets any user read the strength of a signal.
#[derive(Debug)]
pub(crate) struct Commands(Socket);

impl Commands {
    /// Commands to the adapter with this number.
    ///
    /// # Errors
    /// When there is no such adapter.
    pub fn of(adapter: u16) -> io::Result<Self> {
        let domain = Domain::from(libc::AF_BLUETOOTH);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(BTPROTO_HCI)))?;
        socket.set_read_timeout(Some(WITHIN))?;
        let filter = HciFilter {
            types: 1 << EVENT,
            events: [1 << COMMAND_COMPLETE, 0],
            opcode: u16::from_le_bytes(READ_RSSI).to_le(),
        };
        // SAFETY: the option's value is a structure of this size, which outlives the call.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                SOL_HCI,
                HCI_FILTER,
                (&raw const filter).cast(),
                size_of::<HciFilter>() as libc::socklen_t,
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the storage is larger than this structure, which begins with its family; the
        // length is that of the structure.
        let ((), address) = unsafe {
            SockAddr::try_init(|storage, length| {
                storage.cast::<SockaddrHci>().write(SockaddrHci {
                    family: libc::AF_BLUETOOTH as libc::sa_family_t,
                    device: adapter,
                    channel: 0,
                });
                *length = size_of::<SockaddrHci>() as libc::socklen_t;
                Ok(())
            })
        }?;
        socket.bind(&address)?;
        Ok(Self(socket))
    }

    /// The controller's figure for the signal of a connection.
    ///
    /// # Errors
    /// When the connection is gone, or the adapter does not answer within 1 s.
    pub fn rssi(&self, handle: u16) -> io::Result<i8> {
        let deadline = Instant::now() + WITHIN;
        let [low, high] = handle.to_le_bytes();
        let [command_low, command_high] = READ_RSSI;
        self.0
            .send(&[COMMAND, command_low, command_high, 2, low, high])?;
        while Instant::now() < deadline {
            let mut event = [0; MAX_EVENT];
            let octets = (&self.0).read(&mut event)?;
            if let Some(answer) = answer(event.get(..octets).unwrap_or_default(), handle) {
                return answer;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// The figure, if an event is the answer about this connection; other programs may ask, too.
fn answer(event: &[u8], handle: u16) -> Option<io::Result<i8>> {
    // Type, event, length, number of further commands, command, status, handle, figure.
    let [EVENT, COMMAND_COMPLETE, _, _, low, high, status, rest @ ..] = event else {
        return None;
    };
    if [*low, *high] != READ_RSSI {
        return None;
    }
    let [of_low, of_high, rssi, ..] = rest else {
        return None;
    };
    if u16::from_le_bytes([*of_low, *of_high]) != handle {
        return None;
    }
    Some(match status {
        0 => Ok(i8::from_le_bytes([*rssi])),
        _ => Err(io::ErrorKind::NotConnected.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_kernel() {
        assert_eq!((size_of::<SockaddrHci>(), size_of::<HciFilter>()), (6, 16));
    }

    #[test]
    fn an_answer_is_that_about_the_connection() {
        let event = [4, 0x0e, 7, 1, 0x05, 0x14, 0, 0x2a, 0, 0xf4];
        assert_eq!(answer(&event, 42).unwrap().unwrap(), -12);
        assert!(answer(&event, 43).is_none(), "another one's");
        let mut gone = event;
        gone[6] = 2;
        let error = answer(&gone, 42).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        let mut other = event;
        other[4] = 6;
        assert!(answer(&other, 42).is_none(), "of another command");
        for length in 0..event.len() {
            assert!(answer(&event[..length], 42).is_none(), "{length}");
        }
    }
}
