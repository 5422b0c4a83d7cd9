//! Two sockets with a link in each direction.

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::{Config, Info, Segment, Socket};
use crate::link::{Link, LinkChange, LinkConfig};

/// One end of a [`Channel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The end that connects.
    A,
    /// The end that listens.
    B,
}

impl End {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A connection with a link of its own in each direction.
///
/// Call [`Channel::handle`] after any other call, and when [`Channel::next_event`] is due.
#[derive(Debug)]
pub struct Channel {
    a: Socket,
    b: Socket,
    from_a: Link<Segment>,
    from_b: Link<Segment>,
}

impl Channel {
    /// A connection that begins with a handshake.
    pub fn connect(config: Config, from_a: LinkConfig, from_b: LinkConfig, seed: u64) -> Self {
        let sockets = (Socket::connect(config), Socket::listen(config));
        Self::over(sockets, from_a, from_b, seed)
    }

    /// An established connection.
    pub fn established(config: Config, from_a: LinkConfig, from_b: LinkConfig, seed: u64) -> Self {
        Self::over(Socket::pair(config, config), from_a, from_b, seed)
    }

    /// Two given sockets over two given links.
    pub fn over(
        (a, b): (Socket, Socket),
        from_a: LinkConfig,
        from_b: LinkConfig,
        seed: u64,
    ) -> Self {
        Self {
            a,
            b,
            from_a: Link::new(from_a, seed),
            // Other random numbers for the other direction.
            from_b: Link::new(from_b, !seed),
        }
    }

    /// Time of the next call of [`Channel::handle`].
    pub fn next_event(&self) -> Option<Timestamp> {
        let events = [
            self.from_a.next_event(),
            self.from_b.next_event(),
            self.a.next_timeout(),
            self.b.next_timeout(),
        ];
        events.into_iter().flatten().min()
    }

    /// Handles everything that is due by `now`: arrivals, timers, transmissions.
    pub fn handle(&mut self, now: Timestamp) {
        self.a.handle_timeout(now);
        self.b.handle_timeout(now);
        loop {
            transmit(now, &mut self.a, &mut self.from_a);
            transmit(now, &mut self.b, &mut self.from_b);
            // One arrival at a time, so that each is answered on its own.
            if let Some(arrival) = self.from_a.poll(now) {
                self.b.handle_segment(now, arrival.packet);
            } else if let Some(arrival) = self.from_b.poll(now) {
                self.a.handle_segment(now, arrival.packet);
            } else {
                return;
            }
        }
    }

    /// The socket of one end.
    pub fn socket(&self, end: End) -> &Socket {
        match end {
            End::A => &self.a,
            End::B => &self.b,
        }
    }

    /// The socket of one end, to read, write, finish or abort; call [`Channel::handle`] afterwards.
    pub fn socket_mut(&mut self, end: End) -> &mut Socket {
        match end {
            End::A => &mut self.a,
            End::B => &mut self.b,
        }
    }

    /// The link on which an end sends.
    pub fn link_from(&self, end: End) -> &Link<Segment> {
        match end {
            End::A => &self.from_a,
            End::B => &self.from_b,
        }
    }

    /// Takes bytes to send, and sends as many as possible.
    pub fn write(&mut self, now: Timestamp, end: End, data: &[u8]) -> usize {
        let taken = self.socket_mut(end).write(data);
        self.handle(now);
        taken
    }

    /// The next bytes in order, at most `max`.
    pub fn read(&mut self, now: Timestamp, end: End, max: usize) -> Option<Bytes> {
        let bytes = self.socket_mut(end).read(max)?;
        self.handle(now);
        Some(bytes)
    }

    /// The kernel's view of one end.
    pub fn info(&self, end: End) -> Info {
        self.socket(end).info()
    }

    /// Changes the link on which an end sends.
    pub fn apply(&mut self, now: Timestamp, from: End, change: &LinkChange) {
        match from {
            End::A => self.from_a.apply(now, change),
            End::B => self.from_b.apply(now, change),
        }
    }

    /// Takes both links down silently, or up.
    pub fn set_up(&mut self, now: Timestamp, up: bool) {
        let change = LinkChange {
            up: Some(up),
            ..LinkChange::default()
        };
        self.apply(now, End::A, &change);
        self.apply(now, End::B, &change);
    }

    /// Resets the connection at both ends at once, as a device between them may.
    pub fn kill(&mut self, now: Timestamp) {
        self.a.abort();
        self.b.abort();
        self.handle(now);
    }
}

fn transmit(now: Timestamp, socket: &mut Socket, link: &mut Link<Segment>) {
    while let Some(segment) = socket.poll_transmit(now) {
        // A packet that the link refuses is lost, as on a real one.
        let _ = link.enqueue(now, segment.ip_bytes(), segment);
    }
}
