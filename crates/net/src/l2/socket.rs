//! Packet sockets (packet(7)).

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::str::FromStr;
use std::sync::Arc;

use mpbond_l2::ETHER_TYPE;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, bind};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmmsg};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::error::OpenError;

/// Octets of an Ethernet header: both addresses and the EtherType.
pub(super) const ETHERNET_BYTES: usize = 14;
/// Requested size of the receive buffer; the administrator may allow less (`net.core.rmem_max`).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// The kernel charges a frame of 1500 octets with up to 4 KiB, and doubles what is requested: an
/// octet of such a frame takes up to four of the buffer. A channel counts a shorter frame as 1 KiB
/// of the window.
const BUFFER_PER_OCTET: usize = 4;
/// ARPHRD_ETHER, also of WiFi.
const ETHERNET: u16 = 1;
/// Maximum number of old frames that are taken from a socket before it is used again: those of its
/// whole buffer.
const MAX_OLD_FRAMES: usize = 16_384;

/// Address of an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether it is that of one interface, and none of a group of them (broadcast).
    pub fn is_of_one(&self) -> bool {
        let Self([first, ..]) = self;
        first & 1 == 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no address of an interface.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an Ethernet address is six octets, such as 02:00:5e:00:53:01")]
pub struct ParseMacError;

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let mut octets = [0; 6];
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacError)?;
            let is_hex = part.bytes().all(|b| b.is_ascii_hexdigit());
            if part.len() != 2 || !is_hex {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(ParseMacError),
        }
    }
}

/// A socket for the frames of one channel on one interface.
#[derive(Debug)]
pub struct FrameSocket {
    socket: Arc<Socket>,
    interface: String,
    address: Mac,
}

impl FrameSocket {
    /// Opens a socket on the interface of this name.
    ///
    /// # Errors
    /// The reason for which the pipe has to use TCP.
    pub fn open(interface: &str, channel: u32) -> Result<Self, OpenError> {
        let failed = |error| OpenError::of(interface, error);
        let link = link(interface)?;
        let socket = packet_socket().map_err(failed)?;
        Self::bound(Arc::new(socket), &link, interface, channel).map_err(failed)
    }

    fn bound(
        socket: Arc<Socket>,
        link: &LinkAddr,
        interface: &str,
        channel: u32,
    ) -> io::Result<Self> {
        // Frames that arrive before the socket is bound may be another interface's or another
        // channel's. They are dropped by their tag.
        socket.attach_filter(&filter(channel))?;
        // From here on its end takes the filter away.
        let bound = Self {
            socket,
            interface: interface.to_owned(),
            address: Mac(link.addr().unwrap_or_default()),
        };
        // The address has no protocol: that of the socket stays.
        bind(bound.socket.as_raw_fd(), link).map_err(io::Error::from)?;
        bound.socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        Ok(bound)
    }

    /// Name that the interface had when the socket was opened.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Address of the interface.
    pub fn address(&self) -> Mac {
        self.address
    }

    /// Octets of a stream that the socket can hold until they are taken from it: no more may be
    /// under way.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn window_bytes(&self) -> io::Result<u32> {
        let window = self.socket.recv_buffer_size()? / BUFFER_PER_OCTET;
        Ok(u32::try_from(window).unwrap_or(u32::MAX))
    }

    /// The socket, shared.
    pub(super) fn shared(&self) -> Arc<Socket> {
        Arc::clone(&self.socket)
    }

    /// Another descriptor of the socket, for an event loop.
    pub(super) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Takes a frame with its Ethernet header; returns its length.
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let (length, _) = recv(&*self.socket, into, RecvFlags::DONTWAIT)?;
        Ok(length)
    }

    /// Sends a frame with its Ethernet header.
    pub(super) fn send_one(&self, frame: &[u8]) -> io::Result<()> {
        send(&*self.socket, frame, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Sends frames with their Ethernet headers by one call; returns the number of those that were
    /// sent, at least one.
    pub(super) fn send(&self, frames: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut none: Vec<_> = (frames.iter())
            .map(|_| SendAncillaryBuffer::default())
            .collect();
        let mut messages: Vec<_> = (frames.iter().zip(&mut none))
            .map(|(frame, none)| MMsgHdr::new(std::slice::from_ref(frame), none))
            .collect();
        Ok(sendmmsg(&*self.socket, &mut messages, SendFlags::DONTWAIT)?)
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for FrameSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Sockets for channels to come, opened while the process may: taking one needs no capability and
/// no new socket.
///
/// Until it is taken, and after its use, a socket receives nothing.
#[derive(Debug)]
pub struct FrameSockets {
    all: Vec<Arc<Socket>>,
}

impl FrameSockets {
    /// Opens as many sockets.
    ///
    /// # Errors
    /// The reason for which all pipes have to use TCP.
    pub fn open(count: usize) -> Result<Self, OpenError> {
        let open = || {
            let socket = packet_socket()?;
            socket.attach_filter(&NOTHING)?;
            Ok(Arc::new(socket))
        };
        let all: io::Result<_> = (0..count).map(|_| open()).collect();
        let all = all.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::NoCapability,
            _ if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                OpenError::NoFamily
            }
            _ => OpenError::NoSockets(error),
        })?;
        Ok(Self { all })
    }

    /// A socket for the frames of a channel on the interface of this name.
    ///
    /// # Errors
    /// The reason for which the pipe has to use TCP.
    pub fn take(&self, interface: &str, channel: u32) -> Result<FrameSocket, OpenError> {
        let failed = |error| OpenError::of(interface, error);
        let link = link(interface)?;
        let mut free = (self.all.iter()).filter(|socket| Arc::strong_count(socket) == 1);
        let socket = free.next().ok_or(OpenError::AllInUse(self.all.len()))?;
        // What an earlier channel has left: frames, and an error of its interface.
        for _ in 0..MAX_OLD_FRAMES {
            match recv(&**socket, &mut [0; 1], RecvFlags::DONTWAIT) {
                Err(e) if e == Errno::AGAIN => break,
                Ok(_) | Err(_) => {}
            }
        }
        FrameSocket::bound(Arc::clone(socket), &link, interface, channel).map_err(failed)
    }
}

impl Drop for FrameSocket {
    fn drop(&mut self) {
        // Of a socket that stays open. Without it, frames of this channel fill its buffer.
        let _ = self.socket.attach_filter(&NOTHING);
    }
}

/// A socket for frames of all channels on all interfaces.
fn packet_socket() -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(ETHER_TYPE.to_be()));
    let kind = Type::RAW.nonblocking().cloexec();
    Socket::new(Domain::PACKET, kind, Some(protocol))
}

/// Number and address of an interface.
fn link(interface: &str) -> Result<LinkAddr, OpenError> {
    let all = getifaddrs().map_err(|e| OpenError::of(interface, e.into()))?;
    let mut of_name = all.filter(|i| i.interface_name == interface).peekable();
    if of_name.peek().is_none() {
        return Err(OpenError::NoInterface(interface.to_owned()));
    }
    let mut links = of_name.filter_map(|i| i.address?.as_link_addr().copied());
    links
        .find(|link| link.hatype() == ETHERNET && link.halen() == 6)
        .ok_or_else(|| OpenError::NotEthernet(interface.to_owned()))
}

const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// A filter that passes no frame.
const NOTHING: [SockFilter; 1] = [SockFilter::new(RETURN, 0, 0, 0)];

/// A filter that passes the frames of a channel, so that the others cause no event.
fn filter(channel: u32) -> [SockFilter; 4] {
    const LOAD_WORD_AT: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const CHANNEL_AT: u32 = ETHERNET_BYTES as u32 + 4;
    [
        SockFilter::new(LOAD_WORD_AT, 0, 0, CHANNEL_AT),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, channel),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let mac = Mac([2, 0, 0x5e, 0, 0x53, 0xff]);
        assert_eq!(mac.to_string(), "02:00:5e:00:53:ff");
        assert_eq!(mac.to_string().parse(), Ok(mac));
        assert!(mac.is_of_one() && !Mac([0xff; 6]).is_of_one());
        for bad in [
            "",
            "02:00:5e:00:53",
            "02:00:5e:00:53:01:02",
            "2:0:5e:0:53:1",
            "+2:00:5e:00:53:01",
            "02-00-5e-00-53-01",
        ] {
            assert_eq!(bad.parse::<Mac>(), Err(ParseMacError), "{bad}");
        }
    }

    #[test]
    fn an_interface_without_frames_is_an_error_of_one_line() {
        let why = |name: &str| FrameSocket::open(name, 1).unwrap_err().to_string();
        assert_eq!(why("no-such-link"), "there is no interface no-such-link");
        assert_eq!(
            why("lo"),
            "lo is not an Ethernet or WiFi interface: its pipes use TCP"
        );
    }
}
