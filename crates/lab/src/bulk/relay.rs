//! A relay of one connection, to compare the ways in which a helper can move bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use mpbond_net::l2::{L2Stream, outcome};
use mpbond_net::pipe::PipeStream;
use mpbond_net::relay as helper;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::file::PIPE_BYTES;
use super::options::Transport;
use super::{BUFFER_BYTES, Copies, Moved, SHORTEST_TICK, frames};
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
    /// Transport from the sender, TCP or frames; to the receiver it is TCP.
    pub transport: Transport,
    /// What moves the bytes.
    pub by: RelayBy,
}

/// What moves the bytes of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayBy {
    /// A loop of calls.
    Calls {
        /// `read` and `write`, or `splice`.
        copies: Copies,
        /// Bytes are moved at most once in this time, all that have arrived by then and those that
        /// arrive meanwhile: a sender faster than the relay keeps it from waiting. At once when
        /// absent.
        tick: Option<Duration>,
    },
    /// The relay of a helper's daemon: over TCP towards the primary, over frames from it.
    Helper {
        /// Longest interval at which it looks for bytes; zero to look at every arrival.
        longest_tick: Duration,
    },
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
    /// When the socket cannot be opened, or [`RelayOptions::check`] fails.
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
        let moved = match self.options.by {
            RelayBy::Helper { longest_tick } if self.options.transport == Transport::L2 => {
                frames_as_a_helper(longest_tick, from, to)
            }
            RelayBy::Calls { copies, tick } => match copies {
                Copies::Two => {
                    // One call suffices for most ticks.
                    let bytes = tick.map_or(BUFFER_BYTES, |_| PIPE_BYTES);
                    pass_all(Buffer(vec![0; bytes]), tick, &from, &to)
                }
                Copies::One => pass_all(Pipe::new(tick)?, tick, &from, &to),
            },
            RelayBy::Helper { longest_tick } => as_a_helper(longest_tick, from, to),
        };
        moved.doing("the relay broke off")
    }
}

impl RelayOptions {
    /// Checks the transport and the interval.
    ///
    /// # Errors
    /// [`Error::Experiment`] that names what is allowed.
    pub fn check(&self) -> Result<()> {
        let wrong = |why: &str| Err(Error::Experiment(why.to_owned()));
        match (self.transport, self.by) {
            (Transport::Udp(_), _) => return wrong("a relay needs the transport tcp or l2"),
            (Transport::L2, RelayBy::Calls { .. }) => {
                return wrong("frames need the relay of a helper: give its longest interval");
            }
            _ => {}
        }
        match self.by {
            RelayBy::Calls { tick, .. } => {
                let tick = tick.map_or(1000, |tick| tick.as_micros());
                match (100..=100_000).contains(&tick) {
                    true => Ok(()),
                    false => wrong("the interval of a relay is 100 us to 100 ms"),
                }
            }
            RelayBy::Helper { longest_tick } => {
                let may_be = longest_tick.is_zero()
                    || (SHORTEST_TICK..=helper::LONGEST_TICK).contains(&longest_tick);
                match may_be {
                    true => Ok(()),
                    false => wrong("the longest interval of a helper's relay is 0, or 1 to 5 ms"),
                }
            }
        }
    }
}

/// Moves all bytes of a connection, at most once in a tick.
fn pass_all(
    mut way: impl Way,
    tick: Option<Duration>,
    from: &TcpStream,
    to: &TcpStream,
) -> io::Result<Moved> {
    to.set_nodelay(true)?;
    let start = Instant::now();
    let mut bytes = 0;
    loop {
        let moved = way.pass(from, to)?;
        if moved == 0 {
            break;
        }
        bytes += moved as u64;
        if let Some(tick) = tick
            && !has_arrived(from)?
        {
            let tick_ns = tick.as_nanos().max(1);
            let into = start.elapsed().as_nanos() % tick_ns;
            let left = u64::try_from(tick_ns - into).unwrap_or_default();
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
    to.shutdown(std::net::Shutdown::Write)?;
    Ok(moved(bytes, start))
}

/// Moves all bytes as a helper does from the proxy to the primary.
fn as_a_helper(longest_tick: Duration, from: TcpStream, to: TcpStream) -> io::Result<Moved> {
    runtime()?.block_on(async {
        let start = Instant::now();
        let (down, _) = carry(longest_tick, tokio_of(to)?, tokio_of(from)?).await?;
        Ok(moved(down, start))
    })
}

/// Moves all bytes of a channel as a helper does from the primary to the proxy. The sender offers
/// the channel on its connection, which stays open as long.
fn frames_as_a_helper(
    longest_tick: Duration,
    mut from: TcpStream,
    to: TcpStream,
) -> io::Result<Moved> {
    from.set_read_timeout(Some(PATIENCE))?;
    let (socket, config) = frames::accept(&mut from)?;
    runtime()?.block_on(async {
        let start = Instant::now();
        let pipe = L2Stream::open(socket, config)?;
        let end = pipe.end();
        let (_, up) = carry(longest_tick, PipeStream::L2(pipe), tokio_of(to)?).await?;
        let moved = moved(up, start);
        // The sender has to know that all has arrived.
        outcome(end).await;
        Ok(moved)
    })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn tokio_of(tcp: TcpStream) -> io::Result<tokio::net::TcpStream> {
    tcp.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(tcp)
}

/// Runs the relay of a helper; bytes down and up.
async fn carry(
    longest_tick: Duration,
    pipe: impl Into<PipeStream>,
    hs: tokio::net::TcpStream,
) -> io::Result<(u64, u64)> {
    let options = helper::RelayOptions {
        longest_tick,
        ..helper::RelayOptions::default()
    };
    let relay = helper::Relay::new(pipe, hs, options)?;
    let handle = relay.handle();
    match relay.run().await {
        helper::RelayEnd::Finished => Ok(handle.moved()),
        helper::RelayEnd::Failed { error, .. } => Err(error),
        // Nothing stops it, and it has no budget.
        end => Err(io::Error::other(format!("{end:?}"))),
    }
}

fn moved(bytes: u64, start: Instant) -> Moved {
    Moved {
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        lost_bytes: None,
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
        let tick = Some(Duration::from_millis(100));
        let moved = pass_all(Little, tick, &from, &to).unwrap();
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        assert_eq!((moved.bytes, received.len()), (100, 100));
        // One pass in a tick would take 99 of them.
        assert!(moved.seconds < 9.0, "{moved:?}");
    }

    #[test]
    fn a_helpers_relay_moves_all_bytes_and_the_end() {
        let sink = TcpListener::bind("127.0.0.1:0").unwrap();
        for longest_ms in [0, 1, 5] {
            let relay = Relay::open(RelayOptions {
                listen: "127.0.0.1:0".parse().unwrap(),
                to: sink.local_addr().unwrap(),
                transport: Transport::Tcp,
                by: RelayBy::Helper {
                    longest_tick: Duration::from_millis(longest_ms),
                },
            });
            let relay = relay.unwrap();
            let at = relay.address().unwrap();
            let [moved, received] = std::thread::scope(|scope| {
                let relay = scope.spawn(|| relay.relay().unwrap().bytes);
                let mut sender = TcpStream::connect(at).unwrap();
                let mut receiver = sink.accept().unwrap().0;
                let reader = scope.spawn(move || {
                    let mut all = Vec::new();
                    receiver.read_to_end(&mut all).unwrap();
                    all.len() as u64
                });
                sender.write_all(&[7; 3_000_000]).unwrap();
                drop(sender);
                [relay.join().unwrap(), reader.join().unwrap()]
            });
            assert_eq!((moved, received), (3_000_000, 3_000_000), "{longest_ms}");
        }
    }

    #[test]
    fn intervals_that_a_helper_has_not_are_refused() {
        let of = |us| RelayOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            to: "127.0.0.1:9".parse().unwrap(),
            transport: Transport::Tcp,
            by: RelayBy::Helper {
                longest_tick: Duration::from_micros(us),
            },
        };
        assert!(
            [0, 1_000, 5_000]
                .into_iter()
                .all(|us| of(us).check().is_ok())
        );
        for us in [1, 999, 5_001] {
            let why = of(us).check().unwrap_err().to_string();
            assert!(why.contains("0, or 1 to 5 ms"), "{why}");
        }
    }

    #[test]
    fn only_a_helpers_relay_takes_frames() {
        let why = |transport: &str, by| {
            let options = RelayOptions {
                listen: "127.0.0.1:0".parse().unwrap(),
                to: "127.0.0.1:9".parse().unwrap(),
                transport: transport.parse().unwrap(),
                by,
            };
            options.check().unwrap_err().to_string()
        };
        let calls = RelayBy::Calls {
            copies: Copies::Two,
            tick: None,
        };
        let longest_tick = Duration::from_millis(5);
        let udp = why("udp:1472", RelayBy::Helper { longest_tick });
        assert!(udp.contains("tcp or l2"), "{udp}");
        let of_calls = why("l2", calls);
        assert!(of_calls.contains("give its longest interval"), "{of_calls}");
    }
}
