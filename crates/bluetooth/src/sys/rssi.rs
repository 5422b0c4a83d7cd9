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
/// Least time-out of a socket: `struct timeval` has microseconds, and 0 is none.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);

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

/// The controller's figure for the signal of a connection, by a socket that is open for this alone:
/// no earlier answer, for this or another program, waits in it.
///
/// # Errors
/// When the connection or the adapter is gone, when the kernel does not admit the command, or when
/// the controller does not answer within 1 s.
pub(crate) fn rssi(adapter: u16, handle: u16) -> io::Result<i8> {
    let answer = open(adapter).and_then(|socket| ask(&socket, handle, WITHIN));
    answer.map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            let text = "the kernel does not admit Read RSSI from this process";
            io::Error::new(e.kind(), text)
        }
        _ => e,
    })
}

/// Sends the command, and waits for its answer.
fn ask(socket: &Socket, handle: u16, within: Duration) -> io::Result<i8> {
    let deadline = Instant::now() + within;
    let [low, high] = handle.to_le_bytes();
    let [command_low, command_high] = READ_RSSI;
    socket.send(&[COMMAND, command_low, command_high, 2, low, high])?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < LEAST_TIMEOUT {
            return Err(unanswered());
        }
        socket.set_read_timeout(Some(left))?;
        let mut event = [0; MAX_EVENT];
        let mut reader = socket;
        let octets = reader.read(&mut event).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => unanswered(),
            _ => e,
        })?;
        if let Some(answer) = answer(event.get(..octets).unwrap_or_default(), handle) {
            return answer;
        }
    }
}

fn unanswered() -> io::Error {
    let text = "the controller does not answer Read RSSI";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// A socket for Read RSSI to the adapter with this number.
fn open(adapter: u16) -> io::Result<Socket> {
    let domain = Domain::from(libc::AF_BLUETOOTH);
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(BTPROTO_HCI)))?;
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
    Ok(socket)
}

/// The figure, if an event is the answer about this connection; other programs may ask, too. An
/// error is the controller's refusal.
pub fn answer(event: &[u8], handle: u16) -> Option<io::Result<i8>> {
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
        // By volume 1, part F; 0x02 is a connection that is gone.
        _ => Err(io::Error::new(
            io::ErrorKind::NotConnected,
            format!("the controller refuses Read RSSI: status {status:#04x}"),
        )),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::thread;

    use super::*;

    const ANSWER: [u8; 10] = [4, 0x0e, 7, 1, 0x05, 0x14, 0, 0x2a, 0, 0xf4];

    #[test]
    fn structures_have_the_layout_of_the_kernel() {
        assert_eq!((size_of::<SockaddrHci>(), size_of::<HciFilter>()), (6, 16));
    }

    #[test]
    fn an_answer_is_that_about_the_connection() {
        let event = ANSWER;
        assert_eq!(answer(&event, 42).unwrap().unwrap(), -12);
        assert!(answer(&event, 43).is_none(), "another one's");
        let mut gone = event;
        gone[6] = 2;
        let error = answer(&gone, 42).unwrap().unwrap_err();
        assert!(error.to_string().ends_with("status 0x02"), "{error}");
        let mut other = event;
        other[4] = 6;
        assert!(answer(&other, 42).is_none(), "of another command");
        for length in 0..event.len() {
            assert!(answer(&event[..length], 42).is_none(), "{length}");
        }
    }

    #[test]
    fn answers_about_other_connections_are_read_past() {
        let (controller, socket) = UnixDatagram::pair().unwrap();
        let socket = socket.into();
        let mut other = ANSWER;
        (other[7], other[9]) = (43, 0);
        controller.send(&other).unwrap();
        controller.send(&ANSWER).unwrap();
        assert_eq!(ask(&socket, 42, WITHIN).unwrap(), -12);
        let mut command = [0; 8];
        let octets = controller.recv(&mut command).unwrap();
        assert_eq!(command[..octets], [1, 0x05, 0x14, 2, 42, 0]);
    }

    /// Also while those to other programs come.
    #[test]
    fn the_time_for_an_answer_is_limited() {
        let within = Duration::from_millis(400);
        for others in [0, 60] {
            let (controller, socket) = UnixDatagram::pair().unwrap();
            let controller = thread::spawn(move || {
                for _ in 0..others {
                    let mut other = ANSWER;
                    other[7] = 43;
                    controller.send(&other).unwrap_or_default();
                    thread::sleep(within / 20);
                }
                controller
            });
            let start = Instant::now();
            let error = ask(&socket.into(), 42, within).unwrap_err();
            let took = start.elapsed();
            assert_eq!(
                error.to_string(),
                "the controller does not answer Read RSSI"
            );
            assert!(took < within * 7 / 2, "{took:?}, {others} others");
            controller.join().unwrap();
        }
    }
}
