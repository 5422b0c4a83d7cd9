//! A relay of one connection, to compare the ways in which a helper can move bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::file::PIPE_BYTES;
use super::{BUFFER_BYTES, Copies, Moved};
use crate::error::{Doing, Error, Result};

/// Maximum time of a connection attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOptions {
    /// Listening address.
    pub listen: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// `read` and `write`, or `splice`.
    pub copies: Copies,
    /// Bytes are moved at most once in this time, all that have arrived by then and those that
    /// arrive meanwhile: a sender faster than the relay keeps it from waiting. At once when absent.
    pub tick: Option<Duration>,
}

/// A socket that waits for one connection to relay.
pub struct Relay {
    listener: TcpListener,
    options: RelayOptions,
}

impl Relay {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the socket cannot be opened, or the interval is not 100 µs to 100 ms.
    pub fn open(options: RelayOptions) -> Result<Self> {
        options.check()?;
        let what = format_args!("cannot listen at {}", options.listen).to_string();
        let listener = TcpListener::bind(options.listen).doing(what)?;
        Ok(Self { listener, options })
    }

    /// Address of the socket.
    ///
    /// # Errors
    /// When the kernel does not know it.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().doing("no address of the socket")
    }

    /// Relays the bytes of one connection until its sender ends.
    ///
    /// # Errors
    /// When one of the two connections fails.
    pub fn relay(self) -> Result<Moved> {
        let (from, _) = self.listener.accept().doing("cannot accept a connection")?;
        let to = TcpStream::connect_timeout(&self.options.to, PATIENCE);
        let to = to.doing(format_args!("cannot connect to {}", self.options.to))?;
        let tick = self.options.tick;
        let moved = match self.options.copies {
            Copies::Two => {
                // One call suffices for most ticks.
                let bytes = tick.map_or(BUFFER_BYTES, |_| PIPE_BYTES);
                self.options.by(Buffer(vec![0; bytes]), &from, &to)
            }
            Copies::One => self.options.by(Pipe::new(tick)?, &from, &to),
        };
        moved.doing("the relay broke off")
    }
}

impl RelayOptions {
    /// Checks the interval.
    ///
    /// # Errors
    /// [`Error::Experiment`] that names the allowed intervals.
    pub fn check(&self) -> Result<()> {
        let tick = self.tick.map_or(1000, |tick| tick.as_micros());
        if (100..=100_000).contains(&tick) {
            return Ok(());
        }
        let why = "the interval of a relay is 100 us to 100 ms".to_owned();
        Err(Error::Experiment(why))
    }

    fn by(&self, mut way: impl Way, from: &TcpStream, to: &TcpStream) -> io::Result<Moved> {
        to.set_nodelay(true)?;
        let start = Instant::now();
        let mut bytes = 0;
        loop {
            let moved = way.pass(from, to)?;
            if moved == 0 {
                break;
            }
            bytes += moved as u64;
            if let Some(tick) = self.tick
                && !has_arrived(from)?
            {
                let tick_ns = tick.as_nanos().max(1);
                let into = start.elapsed().as_nanos() % tick_ns;
                let left = u64::try_from(tick_ns - into).unwrap_or_default();
                std::thread::sleep(Duration::from_nanos(left));
            }
        }
        to.shutdown(std::net::Shutdown::Write)?;
        Ok(Moved {
            bytes,
            seconds: start.elapsed().as_secs_f64(),
            lost_bytes: None,
        })
    }
}

/// Whether bytes, or the end, of a connection can be read.
fn has_arrived(from: &TcpStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut fds, PollTimeout::ZERO)? > 0)
}

/// Waits for bytes and moves some of those that have arrived, as many as have room; returns their
/// number, zero at the end.
trait Way {
    fn pass(&mut self, from: &TcpStream, to: &TcpStream) -> io::Result<usize>;
}

/// Through a buffer of the program.
struct Buffer(Vec<u8>);

impl Way for Buffer {
    fn pass(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<usize> {
        let read = from.read(&mut self.0)?;
        to.write_all(self.0.get(..read).unwrap_or_default())?;
        Ok(read)
    }
}

/// Through a pipe of the kernel.
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    fn new(tick: Option<Duration>) -> Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC).doing("cannot make a pipe")?;
        let sized = fcntl_setpipe_size(&into, PIPE_BYTES);
        // A smaller one works, too, with more calls: with a tick, those would be measured.
        if tick.is_some() {
            sized.doing("cannot make a pipe of 1 MiB (fs.pipe-max-size)")?;
        }
        Ok(Self { out, into })
    }
}

impl Way for Pipe {
    fn pass(&mut self, from: &TcpStream, to: &TcpStream) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE;
        let taken = splice(from, None, &self.into, None, PIPE_BYTES, flags)?;
        let mut left = taken;
        while left > 0 {
            let moved = splice(&self.out, None, to, None, left, flags)?;
            if moved == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left -= moved;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves one byte by a pass.
    struct Little;

    impl Way for Little {
        fn pass(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<usize> {
            let mut byte = [0];
            let read = from.read(&mut byte)?;
            to.write_all(&byte[..read])?;
            Ok(read)
        }
    }

    #[test]
    fn all_that_has_arrived_is_moved_in_one_tick() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let connected = || {
            let there = TcpStream::connect(at).unwrap();
            (there, listener.accept().unwrap().0)
        };
        let ((mut sender, from), (to, mut receiver)) = (connected(), connected());
        sender.write_all(&[7; 100]).unwrap();
        drop(sender);
        let options = RelayOptions {
            listen: at,
            to: at,
            copies: Copies::Two,
            tick: Some(Duration::from_millis(100)),
        };
        let moved = options.by(Little, &from, &to).unwrap();
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        assert_eq!((moved.bytes, received.len()), (100, 100));
        // One pass in a tick would take 99 of them.
        assert!(moved.seconds < 9.0, "{moved:?}");
    }
}
