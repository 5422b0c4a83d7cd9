//! The relay of a helper: forwards bytes between the HS-Path and the pipe.
//!
//! The payload is ciphertext that the helper cannot read, so it need not enter user space: large
//! amounts are moved from socket to socket by splice(2), small ones are copied through one block of
//! user memory, which costs less for them. Bytes that the slower hop has not accepted are buffered
//! up to a bound (connection split with a buffer: MPBond section 4.2). The bound covers all buffers
//! of this host, from the receive buffer of one socket to the unsent part of the other's send
//! buffer. Below the bound the incoming side is read eagerly, so that the HS-Path runs ahead of the
//! pipe and no late window updates wake the helper's radio.
//!
//! Of what is held for one of several pipes over TCP to a helper, its socket gets as much as waits
//! for about 50 ms in front of the link ([`QueueBound`](mpbond_units::QueueBound), ADR 0053): a
//! longer queue would overflow after a change from another pipe, and the application would wait for
//! the repair. While the expresses of a pipe carry messages ([`PipeMessages`]), the others have
//! what waits for 10 ms, also where it is the only pipe (ADR 0072): messages wait behind it.
//! Where the link is lent at a rate ([`LentRate`]), less is read: receive buffers fill, and their
//! senders slow down.
//!
//! Half-close and reset are forwarded. An idle relay causes no wake-ups; a busy one looks for bytes
//! at intervals of 1 to 5 ms (ADR 0042).
//!
//! A pipe may be a Unix socket, or a channel over Ethernet frames. Bytes are then copied, and every
//! arrival causes a wake-up. Such a pipe has no half-close, and the death of its peer can look like
//! an end: when it has ended, what came up is delivered, and what is held for it or still comes
//! down is dropped. Two limitations (ADR 0037):
//!
//! - What comes down after its end is read and dropped until the proxy closes the HS-Path, at the
//!   cost of the helper's link and budget.
//! - When its peer is closed with unread bytes, the kernel reports a reset, which ends the relay at
//!   once: bytes that came up before and were not read yet are lost.

mod arrivals;
mod batching;
mod direction;
mod hop;
mod kernel_pipe;
mod lent_rate;
mod messages;
mod options;
mod ring;
mod sink_queue;
mod stats;
mod waits;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::pipe::PipeStream;
use crate::tcp;
pub use arrivals::Arrivals;
use direction::{Direction, End, Halt, Limits};
use hop::{Hop, Other};
pub use lent_rate::{LentRate, Pace};
pub use messages::PipeMessages;
use options::most_received_bytes;
pub use options::{DEFAULT_BOUND_BYTES, LONGEST_TICK, RelayOptions};
use sink_queue::SinkQueue;
pub use stats::{Budget, RelayHandle, RelayStats};
use stats::{Shared, Sockets};

/// Minimum bound in bytes: below it the fractions of the bound used as thresholds are smaller than
/// what one system call moves.
const MIN_BOUND_BYTES: u64 = 256 << 10;
/// Passes in a row before yielding to other tasks.
const PASSES: usize = 8;

/// One of a relay's two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    /// Primary to helper.
    Pipe,
    /// Helper to proxy.
    HsPath,
}

/// Outcome of a relay.
#[derive(Debug)]
pub enum RelayEnd {
    /// Both sides finished sending, and all bytes were delivered; except those for a pipe that was
    /// no TCP connection and had ended.
    Finished,
    /// One side failed; the other was reset.
    Failed {
        /// The side that failed.
        side: RelaySide,
        /// Error of the operating system.
        error: io::Error,
    },
    /// [`RelayHandle::stop`] was called; both sides were reset.
    Stopped,
    /// The budget was used up; both sides were reset.
    BudgetSpent,
}

/// A relay between a pipe and an HS-Path.
#[derive(Debug)]
pub struct Relay {
    sockets: Arc<Sockets>,
    shared: Arc<Shared>,
    options: RelayOptions,
}

impl Relay {
    /// A relay between two connected sockets; it moves no bytes before [`Relay::run`].
    ///
    /// # Errors
    /// When a socket option cannot be set.
    pub fn new(
        pipe: impl Into<PipeStream>,
        hs: TcpStream,
        mut options: RelayOptions,
    ) -> io::Result<Self> {
        let pipe = pipe.into();
        options.bound_bytes = options.bound_bytes.max(MIN_BOUND_BYTES);
        // An unlimited send buffer could hold more than the bound.
        let unsent = u32::try_from(options.most_unsent_bytes()).unwrap_or(u32::MAX);
        for socket in pipe.tcp().into_iter().chain([&hs]) {
            let s = SockRef::from(socket);
            s.set_tcp_nodelay(true)?;
            s.set_tcp_notsent_lowat(unsent)?;
            limit_receive_buffer(socket, most_received_bytes(options.bound_bytes))?;
        }
        Ok(Self {
            sockets: Arc::new(Sockets { pipe, hs }),
            shared: Arc::new(Shared::new(options.bound_bytes)),
            options,
        })
    }

    /// A handle that reads statistics of the relay and stops it.
    pub fn handle(&self) -> RelayHandle {
        RelayHandle {
            shared: self.shared.clone(),
            sockets: Arc::downgrade(&self.sockets),
        }
    }

    /// Moves bytes until both sides have finished, or the relay fails or is stopped.
    ///
    /// Requires a tokio runtime with timers. Dropping the future closes both connections.
    pub async fn run(self) -> RelayEnd {
        let end = self.carry().await;
        if !matches!(end, RelayEnd::Finished) {
            let Sockets { pipe, hs } = &*self.sockets;
            for socket in pipe.tcp().into_iter().chain([hs]) {
                // Closing then resets this side, as happened to the other.
                let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
            }
            if let PipeStream::L2(l2) = pipe {
                l2.reset();
            }
        }
        end
    }

    async fn carry(&self) -> RelayEnd {
        match &self.sockets.pipe {
            PipeStream::Tcp(pipe) => self.carry_over(pipe).await,
            PipeStream::Unix(pipe) => self.carry_over(&Other::Unix(pipe)).await,
            PipeStream::L2(pipe) => self.carry_over(&Other::L2(pipe)).await,
        }
    }

    async fn carry_over<P: Hop>(&self, pipe: &P) -> RelayEnd {
        let hs = &self.sockets.hs;
        let direction = || {
            let options = &self.options;
            Direction::new(options.bound_bytes, P::IS_TCP, options.longest_tick)
        };
        let (mut down, mut up) = (direction(), direction());
        if P::IS_TCP {
            down = down.with_short_queue(SinkQueue::new(&self.options));
        }
        let mut stop = pin!(self.shared.stop.notified());
        let mut pipe_failure = pin!(pipe.failed());
        let mut hs_failure = pin!(Hop::failed(hs));
        poll_fn(|cx| {
            #[cfg(test)]
            POLLS.with(|n| n.set(n.get() + 1));
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(RelayEnd::Stopped);
            }
            if let Poll::Ready(error) = pipe_failure.as_mut().poll(cx) {
                let side = RelaySide::Pipe;
                return Poll::Ready(RelayEnd::Failed { side, error });
            }
            if let Poll::Ready(error) = hs_failure.as_mut().poll(cx) {
                let side = RelaySide::HsPath;
                return Poll::Ready(RelayEnd::Failed { side, error });
            }
            self.poll_both(cx, pipe, &mut down, &mut up)
        })
        .await
    }

    fn poll_both<P: Hop>(
        &self,
        cx: &mut Context<'_>,
        pipe: &P,
        down: &mut Direction,
        up: &mut Direction,
    ) -> Poll<RelayEnd> {
        use RelaySide::{HsPath, Pipe};
        let hs = &self.sockets.hs;
        let budget = self.options.budget.as_deref();
        let lent = self.options.lent.as_deref();
        let limits = |pace| Limits { budget, pace };
        let shared = &*self.shared;
        for _ in 0..PASSES {
            let went_down = match down.poll_turn(cx, hs, pipe, limits(lent.map(|l| &l.down))) {
                Poll::Ready(Ok(moved)) => {
                    let before = shared.bytes_down.fetch_add(moved.written, Relaxed);
                    let is_express = self.options.is_express;
                    let messages = &self.options.messages;
                    messages.note(is_express, before, moved.written);
                    shared.held_down.store(down.held_bytes(), Relaxed);
                    if moved.read > 0 {
                        shared.hs_byte_came_down();
                    }
                    true
                }
                // Its peer has closed it; what came up is still to be read.
                Poll::Ready(Err(Halt::Failed(End::Sink, e)))
                    if !P::IS_TCP && e.kind() == io::ErrorKind::BrokenPipe =>
                {
                    down.discard();
                    shared.held_down.store(0, Relaxed);
                    true
                }
                Poll::Ready(Err(halt)) => return Poll::Ready(ended(halt, HsPath, Pipe)),
                Poll::Pending => false,
            };
            let went_up = match up.poll_turn(cx, pipe, hs, limits(lent.map(|l| &l.up))) {
                Poll::Ready(Ok(moved)) => {
                    shared.bytes_up.fetch_add(moved.written, Relaxed);
                    shared.held_up.store(up.held_bytes(), Relaxed);
                    if moved.written > 0 {
                        shared.hs_byte_went_up();
                    }
                    true
                }
                Poll::Ready(Err(halt)) => return Poll::Ready(ended(halt, Pipe, HsPath)),
                Poll::Pending => false,
            };
            if !P::IS_TCP && up.is_finished() {
                down.discard();
                shared.held_down.store(0, Relaxed);
            }
            if went_down || went_up {
                shared.stamp(pipe, hs);
                shared.set_ticks(down.tick(), up.tick());
                shared.set_waits(down.waits_for_pace(), up.waits_for_pace());
                lent.inspect(|lent| lent.touch());
            }
            if down.is_finished() && up.is_finished() {
                return Poll::Ready(RelayEnd::Finished);
            }
            if !went_down && !went_up {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Fixes the receive buffer at `bytes` if the system's limit allows. A smaller buffer would cost
/// throughput on long paths; in that case the kernel's autotuning stays on, and [`Direction`]
/// buffers less itself.
fn limit_receive_buffer(socket: &TcpStream, bytes: u64) -> io::Result<()> {
    let s = SockRef::from(socket);
    // The kernel doubles the value for its bookkeeping.
    let asked = u32::try_from(bytes / 2).unwrap_or(u32::MAX);
    if tcp::force_recv_buffer(socket, asked).is_err() {
        if u64::from(asked) > system_recv_buffer_limit() {
            return Ok(());
        }
        s.set_recv_buffer_size(asked as usize)?;
    }
    // An open connection otherwise keeps the window of its previous buffer.
    tcp::set_window_clamp(socket, u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// File with the largest receive buffer that may be requested without privileges; read at the start
/// of a relay.
pub const RECEIVE_BUFFER_LIMIT: &str = "/proc/sys/net/core/rmem_max";

/// The largest receive buffer in bytes that may be requested without privileges.
fn system_recv_buffer_limit() -> u64 {
    std::fs::read_to_string(RECEIVE_BUFFER_LIMIT)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn ended(halt: Halt, source: RelaySide, sink: RelaySide) -> RelayEnd {
    match halt {
        Halt::BudgetSpent => RelayEnd::BudgetSpent,
        Halt::Failed(End::Source, error) => RelayEnd::Failed {
            side: source,
            error,
        },
        Halt::Failed(End::Sink, error) => RelayEnd::Failed { side: sink, error },
    }
}

#[cfg(test)]
thread_local! {
    /// Number of polls of relays on this thread.
    static POLLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
