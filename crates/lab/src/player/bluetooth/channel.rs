//! A channel of a Bluetooth link, between two sockets.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use mpbond_radio::machine::{Band, End};
use mpbond_sim::link::{Rfcomm, RfcommChannel, SOCKET_BYTES};
use mpbond_units::Timestamp;
use nix::poll::{PollFd, PollFlags};

/// Both ends, in the order of [`Channel::sockets`].
const ENDS: [End; 2] = [End::Wearable, End::Phone];

pub(super) struct Channel {
    id: RfcommChannel,
    sockets: [Socket; 2],
}

/// The connection to the program of one end.
struct Socket {
    stream: UnixStream,
    /// Bytes that the program has sent and the other one does not have yet: a socket's and credits'
    /// worth at most.
    held: VecDeque<u8>,
    /// Nothing more comes from the program.
    ended: bool,
    /// The program takes nothing more.
    refuses: bool,
    /// Bytes have arrived for which the stream had no room.
    blocked: bool,
}

impl Channel {
    /// A channel between two sockets that do not block.
    pub fn new(id: RfcommChannel, wearable: UnixStream, phone: UnixStream) -> Self {
        let socket = |stream| Socket {
            stream,
            held: VecDeque::new(),
            ended: false,
            refuses: false,
            blocked: false,
        };
        Self {
            id,
            sockets: [wearable, phone].map(socket),
        }
    }

    pub fn id(&self) -> RfcommChannel {
        self.id
    }

    /// Whether one end has closed it, and the other has got all that it sent or takes no more.
    pub fn is_finished(&self) -> bool {
        let [a, b] = &self.sockets;
        let is_closed = |by: &Socket, other: &Socket| {
            by.ended && (by.held.is_empty() || other.ended || other.refuses)
        };
        is_closed(a, b) || is_closed(b, a) || (a.refuses && b.refuses)
    }

    /// Moves bytes from the sockets to the link, and from the link to the sockets; adds those that
    /// arrived to `arrived`, by their senders.
    pub fn turn(
        &mut self,
        now: Timestamp,
        rfcomm: &mut Rfcomm,
        arrived: &mut [u64; 2],
        mut band: Option<&mut Band>,
    ) {
        loop {
            let mut moved = false;
            for (from, sum) in arrived.iter_mut().enumerate() {
                moved |= self.take(now, rfcomm, from, band.as_deref_mut());
                let bytes = self.give(now, rfcomm, from, band.as_deref_mut());
                moved |= bytes > 0;
                *sum += bytes;
            }
            if !moved {
                break;
            }
        }
    }

    /// Gives the link what a program has sent, as far as it has room.
    fn take(
        &mut self,
        now: Timestamp,
        rfcomm: &mut Rfcomm,
        from: usize,
        band: Option<&mut Band>,
    ) -> bool {
        let Socket {
            stream,
            held,
            ended,
            ..
        } = &mut self.sockets[from];
        let room = rfcomm.room(self.id, ENDS[from]) as usize;
        if *ended || room == 0 {
            return false;
        }
        let mut buffer = [0; SOCKET_BYTES as usize];
        match stream.read(&mut buffer[..room]) {
            Ok(0) => {
                *ended = true;
                false
            }
            Ok(bytes) => {
                held.extend(&buffer[..bytes]);
                rfcomm.write(now, (self.id, ENDS[from]), bytes as u64, band);
                true
            }
            Err(e) if is_passing(e.kind()) => false,
            // Closed with bytes unread: they are lost, those that it sent have been read before.
            Err(_) => {
                *ended = true;
                false
            }
        }
    }

    /// Gives a program what has arrived for it; returns the number of bytes.
    fn give(
        &mut self,
        now: Timestamp,
        rfcomm: &mut Rfcomm,
        from: usize,
        band: Option<&mut Band>,
    ) -> u64 {
        let to = 1 - from;
        let [a, b] = &mut self.sockets;
        let (from, into) = if from == 0 { (a, b) } else { (b, a) };
        into.blocked = false;
        let ready = rfcomm.readable(self.id, ENDS[to]) as usize;
        if ready == 0 || into.ended || into.refuses {
            return 0;
        }
        let (first, _) = from.held.as_slices();
        let bytes = match into.stream.write(&first[..ready.min(first.len())]) {
            Ok(bytes) => bytes,
            Err(e) if is_passing(e.kind()) => {
                into.blocked = true;
                return 0;
            }
            Err(_) => {
                into.refuses = true;
                return 0;
            }
        };
        from.held.drain(..bytes);
        rfcomm.read(now, (self.id, ENDS[to]), bytes as u64, band);
        bytes as u64
    }

    /// Adds the sockets whose state can change something. A socket that is closed at its other end
    /// is always ready, so it is left out while nothing follows from that.
    pub fn watch<'a>(&'a self, rfcomm: &Rfcomm, fds: &mut Vec<PollFd<'a>>) {
        for (end, socket) in ENDS.into_iter().zip(&self.sockets) {
            let mut events = PollFlags::empty();
            if !socket.ended && rfcomm.room(self.id, end) > 0 {
                events |= PollFlags::POLLIN;
            }
            if socket.blocked {
                events |= PollFlags::POLLOUT;
            }
            if !events.is_empty() {
                fds.push(PollFd::new(socket.stream.as_fd(), events));
            }
        }
    }
}

pub(super) fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
