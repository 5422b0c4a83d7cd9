//! A channel with its socket.

use std::io::{self, IoSlice};

use mpbond_l2::{Channel, Config, ETHER_TYPE, Key, MAX_WINDOW_BYTES, MIN_MTU, Side};
use mpbond_units::Timestamp;
use rustix::io::Errno;

use super::socket::{ETHERNET_BYTES, FrameSocket, Mac};

/// Maximum number of frames that one call sends, and that are taken before others get a turn.
const BATCH: usize = 64;
/// Largest MTU that is used.
const MAX_MTU: u16 = 9000;
/// MTUs below that of Ethernet, of which the next smaller one is tried where frames are too long
/// (compare RFC 1191, section 7.1).
const SMALLER_MTUS: [u16; 6] = [1500, 1492, 1400, 1280, 1000, 576];

/// Parameters of a port.
#[derive(Debug, Clone, Copy)]
pub struct PortConfig {
    /// Number of the channel.
    pub channel: u32,
    /// Key of the channel.
    pub key: Key,
    /// This end.
    pub side: Side,
    /// The smaller MTU of both ends' interfaces.
    pub mtu: u16,
    /// Address of the other end. The tag does not cover it.
    pub peer: Mac,
}

/// What a port waits for after it has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Frames, calls of the application, or the time.
    Anything,
    /// Room in the socket: too many frames wait for the interface.
    Room,
    /// Room in the interface's queue, which nothing announces: a millisecond.
    Queue,
}

/// A channel with its socket, without an event loop.
pub struct Port {
    socket: FrameSocket,
    channel: Channel,
    mtu: u16,
    peer: Mac,
    incoming: Vec<u8>,
    outgoing: Outgoing,
    window_bytes: u32,
    taken: u64,
    refused: u64,
}

/// Frames to be sent, in slots of equal size.
struct Outgoing {
    octets: Vec<u8>,
    slot_bytes: usize,
    lengths: Vec<usize>,
    /// Number of those that were sent.
    sent: usize,
}

impl Port {
    /// Opens a channel on a socket.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn new(now: Timestamp, socket: FrameSocket, config: PortConfig) -> io::Result<Self> {
        let mtu = config.mtu.clamp(MIN_MTU, MAX_MTU);
        let slot_bytes = ETHERNET_BYTES + usize::from(mtu);
        let window_bytes = socket.window_bytes()?.min(MAX_WINDOW_BYTES);
        let channel = Channel::new(
            now,
            Config {
                channel: config.channel,
                key: config.key,
                side: config.side,
                mtu,
                window_bytes,
            },
        );
        Ok(Self {
            socket,
            channel,
            mtu,
            peer: config.peer,
            incoming: vec![0; ETHERNET_BYTES + usize::from(MAX_MTU)],
            outgoing: Outgoing {
                octets: vec![0; BATCH * slot_bytes],
                slot_bytes,
                lengths: Vec::with_capacity(BATCH),
                sent: 0,
            },
            window_bytes,
            taken: 0,
            refused: 0,
        })
    }

    /// The channel, for the application's calls.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// The socket.
    pub fn socket(&self) -> &FrameSocket {
        &self.socket
    }

    /// Octets that may be under way to this end.
    pub(super) fn window_bytes(&self) -> u32 {
        self.window_bytes
    }

    /// Frames that have arrived.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Frames that were dropped: of strangers, changed, or out of the window.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes frames from the socket; returns whether there may be more.
    ///
    /// # Errors
    /// Errors of the kernel: the interface is down or gone.
    pub fn receive(&mut self, now: Timestamp) -> io::Result<bool> {
        for _ in 0..BATCH {
            let length = match self.socket.receive(&mut self.incoming) {
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
                Err(e) => return Err(e),
            };
            self.taken += 1;
            let frame = self.incoming.get(..length).unwrap_or_default();
            let Some((header, frame)) = frame.split_at_checked(ETHERNET_BYTES) else {
                continue;
            };
            let (to, from) = header.split_at(6);
            // The interface may hear frames to others.
            let is_ours = to == self.socket.address().0 && from.starts_with(&self.peer.0);
            if !is_ours || self.channel.handle_frame(now, frame).is_err() {
                self.refused += 1;
            }
        }
        Ok(true)
    }

    /// Applies the passing of time, and sends what is due. Frames that have arrived are to be taken
    /// before. Frames that wait for the interface go first: no time-out counts them as lost that
    /// can leave now.
    ///
    /// # Errors
    /// Errors of the kernel: the interface is down or gone.
    pub fn send(&mut self, now: Timestamp) -> io::Result<Next> {
        let mut next = self.flush()?;
        self.channel.handle_timeout(now);
        while next == Next::Anything {
            let own = self.socket.address();
            self.outgoing.fill(now, &mut self.channel, self.peer, own);
            if self.outgoing.is_empty() {
                break;
            }
            next = self.flush()?;
        }
        Ok(next)
    }

    /// Sends the frames that wait.
    fn flush(&mut self) -> io::Result<Next> {
        while !self.outgoing.is_empty() {
            match self.outgoing.send(&self.socket) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Room),
                Err(e) if is(&e, Errno::NOBUFS) => return Ok(Next::Queue),
                Err(e) if is(&e, Errno::INTR) => {}
                Err(e) if is(&e, Errno::MSGSIZE) => self.shrink(e)?,
                Err(e) => return Err(e),
            }
        }
        Ok(Next::Anything)
    }

    /// Goes on with the next smaller MTU: that of the interface has changed. What was to be sent
    /// is lost, and sent again.
    fn shrink(&mut self, e: io::Error) -> io::Result<()> {
        let smaller = SMALLER_MTUS.into_iter().find(|mtu| *mtu < self.mtu);
        self.mtu = smaller.ok_or(e)?;
        self.channel.set_mtu(self.mtu);
        self.outgoing.lengths.clear();
        self.outgoing.sent = 0;
        Ok(())
    }
}

fn is(e: &io::Error, errno: Errno) -> bool {
    e.raw_os_error() == Some(errno.raw_os_error())
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.sent >= self.lengths.len()
    }

    /// Takes frames from the channel.
    fn fill(&mut self, now: Timestamp, channel: &mut Channel, to: Mac, from: Mac) {
        self.lengths.clear();
        self.sent = 0;
        for slot in self.octets.chunks_exact_mut(self.slot_bytes) {
            let Some((header, frame)) = slot.split_at_mut_checked(ETHERNET_BYTES) else {
                break;
            };
            let Some(length) = channel.poll_frame(now, frame) else {
                break;
            };
            for (place, octet) in header.iter_mut().zip(
                (to.0.into_iter())
                    .chain(from.0)
                    .chain(ETHER_TYPE.to_be_bytes()),
            ) {
                *place = octet;
            }
            self.lengths.push(ETHERNET_BYTES + length);
        }
    }

    /// Sends the frames that were not sent yet, or some of them.
    fn send(&mut self, socket: &FrameSocket) -> io::Result<()> {
        let slots = self.octets.chunks_exact(self.slot_bytes);
        let mut frames = (slots.zip(&self.lengths).skip(self.sent))
            .filter_map(|(slot, length)| slot.get(..*length));
        if self.lengths.len() - self.sent == 1
            && let Some(frame) = frames.next()
        {
            socket.send_one(frame)?;
            self.sent += 1;
            return Ok(());
        }
        let frames: Vec<_> = frames.map(IoSlice::new).collect();
        self.sent += socket.send(&frames)?;
        Ok(())
    }
}
