//! Bytes between two connected sockets, in both directions.

use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

use crate::activity::Activity;

/// Bytes that are read before they are written, in each direction: four frames of RFCOMM at a usual
/// MTU of 1 kB. What waits here can take no other path any more.
const BLOCK_BYTES: usize = 4 << 10;

/// Send buffer of each socket, which the kernel doubles for its overhead, for the same reason
/// (ADR 0037). RFCOMM's own default is 50 kB, 0.4 s at 1 Mbit/s.
const SEND_BUFFER_BYTES: usize = 8 << 10;

/// Receive buffer, which the kernel doubles: bytes after which an RFCOMM socket gives the other
/// device no more credits. Its own default is 50 kB. A Unix socket has none.
const RECEIVE_BUFFER_BYTES: usize = 8 << 10;

/// Time in which bytes of an end that has closed are delivered to the other. A primary sends what
/// it owed again over its other paths anyway.
const LINGER: Duration = Duration::from_secs(10);

/// Bytes carried from the first socket to the second, and from the second to the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried(pub u64, pub u64);

/// Bytes of one direction that have been read and not written.
struct Block {
    octets: [u8; BLOCK_BYTES],
    start: usize,
    end: usize,
    carried: u64,
}

/// Result of a read.
enum Read {
    Some,
    NothingYet,
    /// End of the stream, or an error of the socket.
    Ended,
}

impl Block {
    fn new() -> Self {
        Self {
            octets: [0; BLOCK_BYTES],
            start: 0,
            end: 0,
            carried: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads into an empty block.
    fn fill(&mut self, mut from: &Socket) -> Read {
        self.start = 0;
        self.end = 0;
        match from.read(&mut self.octets) {
            Ok(0) => Read::Ended,
            Ok(n) => {
                self.end = n;
                Read::Some
            }
            Err(e) if is_temporary(&e) => Read::NothingYet,
            Err(_) => Read::Ended,
        }
    }

    /// Writes as much as the socket takes.
    fn drain(&mut self, into: &Socket) -> io::Result<()> {
        while let Some(waiting) = self.octets.get(self.start..self.end)
            && !waiting.is_empty()
        {
            match into.send_with_flags(waiting, libc::MSG_NOSIGNAL) {
                Ok(n) => {
                    self.start += n;
                    self.carried += n as u64;
                }
                Err(e) if is_temporary(&e) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

fn is_temporary(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits for `events` at two sockets, for at most `limit`. Hang-up and errors are always reported.
fn wait(
    sockets: [&Socket; 2],
    events: [PollFlags; 2],
    limit: PollTimeout,
) -> io::Result<[PollFlags; 2]> {
    let mut ends = [0, 1].map(|i: usize| PollFd::new(sockets[i].as_fd(), events[i]));
    match poll(&mut ends, limit) {
        Ok(_) | Err(Errno::EINTR) => {
            Ok(ends.map(|end| end.revents().unwrap_or(PollFlags::empty())))
        }
        Err(e) => Err(e.into()),
    }
}

/// Time until `deadline`, as a limit of poll(2), rounded up.
pub(crate) fn until(deadline: Instant) -> PollTimeout {
    let left = deadline.saturating_duration_since(Instant::now());
    let ms = left.as_millis().saturating_add(1);
    PollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
}

/// Carries bytes between two sockets until one of them ends; the caller closes both.
///
/// The end of one direction is the end of the connection, as an RFCOMM socket cannot close one
/// direction alone: what one end sent before it closed is delivered, within [`LINGER`]; what it has
/// not read is dropped. A socket is read only when the bytes read before have been written, so that
/// an end that does not read stops the other one. `activity` is noted whenever bytes move.
///
/// # Errors
/// When the sockets cannot be set up or waited for.
pub(crate) fn carry(first: &Socket, second: &Socket, activity: &Activity) -> io::Result<Carried> {
    carry_with(first, second, activity, LINGER)
}

fn carry_with(
    first: &Socket,
    second: &Socket,
    activity: &Activity,
    linger: Duration,
) -> io::Result<Carried> {
    let ends = [first, second];
    for end in ends {
        end.set_nonblocking(true)?;
        end.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        end.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    }
    // From the first, and from the second.
    let mut blocks = [Block::new(), Block::new()];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    let ended = loop {
        let events = [0, 1].map(|end: usize| {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, blocks[end].is_empty());
            events.set(PollFlags::POLLOUT, !blocks[1 - end].is_empty());
            events
        });
        let found = wait(ends, events, PollTimeout::NONE)?;
        activity.note();
        if let Some(end) = step(ends, &mut blocks, found, gone) {
            break end;
        }
    };
    deliver(ends[ended], ends[1 - ended], &mut blocks[ended], linger)?;
    Ok(Carried(blocks[0].carried, blocks[1].carried))
}

/// Reads and writes as far as poll(2) says that it is possible; returns the index of an end that is
/// gone.
fn step(
    ends: [&Socket; 2],
    blocks: &mut [Block; 2],
    found: [PollFlags; 2],
    gone: PollFlags,
) -> Option<usize> {
    for end in [0, 1] {
        let other = 1 - end;
        if found[end].contains(PollFlags::POLLOUT) && blocks[other].drain(ends[end]).is_err() {
            return Some(end);
        }
        let is_gone = found[end].intersects(gone);
        if !is_gone && !found[end].contains(PollFlags::POLLIN) {
            continue;
        }
        if !blocks[end].is_empty() {
            // It is not asked for more; its end is reported all the same.
            if is_gone {
                return Some(end);
            }
            continue;
        }
        match blocks[end].fill(ends[end]) {
            Read::Some => {
                if blocks[end].drain(ends[other]).is_err() {
                    return Some(other);
                }
            }
            // RFCOMM reports the end of the stream as an error, once, and then as nothing to read.
            Read::NothingYet if is_gone => return Some(end),
            Read::NothingYet => {}
            Read::Ended => return Some(end),
        }
    }
    None
}

/// Delivers what `from` sent before it ended.
fn deliver(from: &Socket, into: &Socket, block: &mut Block, linger: Duration) -> io::Result<()> {
    let deadline = Instant::now() + linger;
    loop {
        if block.is_empty() && !matches!(block.fill(from), Read::Some) {
            return Ok(());
        }
        if block.drain(into).is_err() {
            return Ok(());
        }
        if block.is_empty() {
            continue;
        }
        if Instant::now() >= deadline {
            return Ok(());
        }
        let mut end = [PollFd::new(into.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut end, until(deadline)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests;
