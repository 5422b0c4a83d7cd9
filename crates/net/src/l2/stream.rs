//! A port as a stream of tokio.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mpbond_l2::{Channel, Error, Read};
use mpbond_units::Timestamp;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::port::{Next, Port, PortConfig};
use super::socket::FrameSocket;

/// Time until a full queue of the interface is tried again: 12 KB at 100 Mbit/s.
const QUEUE_RETRY: Duration = Duration::from_millis(1);

/// A byte stream over Ethernet frames. A task of its own, which ends some time after the stream,
/// sends, receives and repeats frames.
///
/// Errors have the kinds of a TCP connection: `TimedOut` for a peer that is gone,
/// `ConnectionReset` for one that has given up.
pub struct L2Stream {
    shared: Arc<Shared>,
}

struct Shared {
    /// One thread uses a stream, so the lock is free.
    state: Mutex<State>,
    /// The application has done something.
    called: Notify,
    start: Instant,
}

struct State {
    port: Port,
    error: Option<(io::ErrorKind, String)>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The application has dropped the stream.
    is_dropped: bool,
}

impl L2Stream {
    /// Opens a channel on a socket. Needs a runtime of tokio.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn open(socket: FrameSocket, config: PortConfig) -> io::Result<Self> {
        let port = Port::new(Timestamp::ZERO, socket, config)?;
        let ready = register(port.socket().try_clone()?)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                port,
                error: None,
                reader: None,
                writer: None,
                is_dropped: false,
            }),
            called: Notify::new(),
            start: Instant::now(),
        });
        tokio::spawn(drive(shared.clone(), ready));
        Ok(Self { shared })
    }

    /// Calls `f` with the channel.
    pub fn with_channel<R>(&self, f: impl FnOnce(&mut Channel) -> R) -> R {
        f(self.shared.state().port.channel())
    }

    /// Frames that were dropped: of strangers, changed, or out of the window.
    pub fn refused(&self) -> u64 {
        self.shared.state().port.refused()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }
}

/// What the task does next.
enum Turn {
    /// The same again, after others.
    Again,
    /// Wait for one of these.
    Wait {
        next: Next,
        until: Option<Timestamp>,
    },
    Over,
}

impl State {
    fn turn(&mut self, now: Timestamp) -> io::Result<Turn> {
        let more = self.port.receive(now)?;
        if self.is_dropped {
            self.close();
        }
        let next = self.port.send(now)?;
        let channel = self.port.channel();
        if channel.is_over(now) {
            return Ok(Turn::Over);
        }
        Ok(match more {
            true => Turn::Again,
            false => Turn::Wait {
                next,
                until: channel.next_timeout(),
            },
        })
    }

    /// Ends a channel that has no application, as the kernel does: what was written is delivered,
    /// and what arrives is an error.
    fn close(&mut self) {
        let channel = self.port.channel();
        channel.finish();
        if channel.readable() > 0 || channel.is_acknowledged() && !channel.has_ended() {
            channel.reset();
        }
    }

    fn wake(&mut self) {
        let channel = self.port.channel();
        let has_failed = self.error.is_some() || channel.error().is_some();
        if (has_failed || channel.readable() > 0 || channel.has_ended())
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        if (has_failed || channel.room() > 0)
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
    }

    /// The error of the socket, if it has failed.
    fn failed(&self) -> io::Result<()> {
        match &self.error {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }
}

fn failure(error: Error) -> io::Error {
    let kind = match error {
        Error::Silent | Error::Stalled => io::ErrorKind::TimedOut,
        Error::Reset => io::ErrorKind::ConnectionReset,
        Error::Closed => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, error)
}

async fn drive(shared: Arc<Shared>, ready: AsyncFd<OwnedFd>) {
    loop {
        let turn = {
            let mut state = shared.state();
            let turn = state.turn(shared.now());
            if let Err(e) = &turn {
                let interface = state.port.socket().interface();
                let text = format!("Ethernet frames on {interface}: {e}");
                state.error = Some((e.kind(), text));
            }
            state.wake();
            turn
        };
        match turn {
            Err(_) | Ok(Turn::Over) => return,
            Ok(Turn::Again) => tokio::task::yield_now().await,
            Ok(Turn::Wait { next, until }) => {
                let now = shared.now();
                let retry = (next == Next::Queue).then(|| now + QUEUE_RETRY);
                let until = until.into_iter().chain(retry).min();
                let wait = until.map(|at| shared.start + at.since(Timestamp::ZERO));
                let room = next == Next::Room;
                tokio::select! {
                    biased;
                    () = readable(&ready) => {}
                    () = writable(&ready), if room => {}
                    () = shared.called.notified() => {}
                    () = sleep_until(wait.unwrap_or_else(Instant::now)), if wait.is_some() => {}
                }
            }
        }
    }
}

/// Registers a socket with the event loop.
// Deprecated because a type may give away its descriptor while it is registered, which this one,
// the only owner of it, does not. The successor is `unsafe`.
#[allow(deprecated)]
fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    AsyncFd::with_interest(socket, interest)
}

/// Waits for frames, or for an error: an interface that goes wakes nobody otherwise. All frames are
/// taken afterwards, so that the note of them is cleared before.
async fn readable(ready: &AsyncFd<OwnedFd>) {
    wait(ready, Interest::READABLE | Interest::ERROR).await;
}

async fn writable(ready: &AsyncFd<OwnedFd>) {
    wait(ready, Interest::WRITABLE).await;
}

async fn wait(ready: &AsyncFd<OwnedFd>, interest: Interest) {
    // An error is found again by the next call on the socket.
    if let Ok(mut guard) = ready.ready(interest).await {
        guard.clear_ready();
    }
}

impl AsyncRead for L2Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let now = self.shared.now();
        let mut state = self.shared.state();
        let read = state.port.channel().read(into.initialize_unfilled());
        match read {
            Ok(Read::Octets(count)) => {
                into.advance(count);
                if state.port.channel().is_ack_due(now) {
                    self.shared.called.notify_one();
                }
                Poll::Ready(Ok(()))
            }
            Ok(Read::End) => Poll::Ready(Ok(())),
            Ok(Read::Nothing) => {
                if into.remaining() == 0 {
                    return Poll::Ready(Ok(()));
                }
                state.failed()?;
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Err(e) => Poll::Ready(Err(failure(e))),
        }
    }
}

impl AsyncWrite for L2Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.shared.state();
        state.failed()?;
        match state.port.channel().write(octets) {
            Ok(0) if !octets.is_empty() => {
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(count) => {
                self.shared.called.notify_one();
                Poll::Ready(Ok(count))
            }
            Err(e) => Poll::Ready(Err(failure(e))),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.state().port.channel().finish();
        self.shared.called.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for L2Stream {
    fn drop(&mut self) {
        self.shared.state().is_dropped = true;
        self.shared.called.notify_one();
    }
}
