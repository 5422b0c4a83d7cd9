//! A port as a stream of tokio.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use mpbond_l2::{Channel, Error, Read};
use mpbond_units::Timestamp;
use socket2::Socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::events::Events;
use super::looks::Looks;
use super::port::{Next, Port, PortConfig};
use super::socket::FrameSocket;

/// Time after which a stream that was dropped is given up, delivered or not: as long as a pause of
/// the peer's application may last, and two full send buffers at 2 Mbit/s take.
pub(super) const LINGER: Duration = Duration::from_secs(10);
/// Time until a full queue of the interface is tried again: 12 KB at 100 Mbit/s.
const QUEUE_RETRY: Duration = Duration::from_millis(1);

/// A byte stream over Ethernet frames. A task of its own, which ends within 10 s after the stream
/// was dropped, sends, receives and repeats frames. What it has not delivered by then, and what
/// waits when the process ends, is lost.
///
/// Errors have the kinds of a TCP connection: `TimedOut` for a peer that is gone,
/// `ConnectionReset` for one that has given up.
pub struct L2Stream {
    shared: Arc<Shared>,
    /// That of the channel: octets of the stream do not go through it as such.
    socket: Arc<Socket>,
}

/// Ends a channel, wherever its stream is.
#[derive(Clone)]
pub struct L2Handle(Weak<Shared>);

impl L2Handle {
    /// Ends both directions at once, as an application does.
    pub fn reset(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.reset();
        }
    }
}

/// How a channel has ended, once it has.
pub type ChannelEnd = watch::Receiver<Option<Outcome>>;

/// The end of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both ends have everything.
    Complete,
    /// An end has given it up, or was left without its peer after that: this says nothing of the
    /// link.
    GivenUp,
    /// The link does not carry it, with the reason.
    Failed(String),
}

/// Waits for the end of a channel.
pub async fn outcome(mut end: ChannelEnd) -> Outcome {
    let end = end.wait_for(Option::is_some).await;
    let end = end.ok().and_then(|end| end.clone());
    end.unwrap_or(Outcome::GivenUp)
}

struct Shared {
    /// Locked for single calls, by the stream and by its task.
    state: Mutex<State>,
    /// The application has done something.
    called: Notify,
    start: Instant,
    end: watch::Sender<Option<Outcome>>,
}

pub(super) struct State {
    port: Port,
    error: Option<(io::ErrorKind, String)>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Waits for the first frame of the peer.
    opener: Option<Waker>,
    /// Waits for a failure.
    watcher: Option<Waker>,
    /// Instant at which the application has dropped the stream.
    dropped_at: Option<Timestamp>,
}

impl L2Stream {
    /// Opens a channel on a socket. Needs a runtime of tokio.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn open(socket: FrameSocket, config: PortConfig) -> io::Result<Self> {
        let port = Port::new(Timestamp::ZERO, socket, config)?;
        let events = Events::register(port.socket().try_clone()?)?;
        let socket = port.socket().shared();
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(port)),
            called: Notify::new(),
            start: Instant::now(),
            end: watch::Sender::new(None),
        });
        tokio::spawn(drive(shared.clone(), events));
        Ok(Self { shared, socket })
    }

    /// Has the channel fail where more than 1 % of its frames are lost.
    pub fn fail_at_loss(&self) {
        self.shared.state().port.channel().fail_at_loss();
    }

    /// Waits for the first frame of the peer. No octet leaves before.
    ///
    /// # Errors
    /// The channel has failed: the peer does not answer.
    pub async fn opened(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let mut state = self.shared.state();
            state.failed()?;
            let channel = state.port.channel();
            if let Some(error) = channel.error() {
                return Poll::Ready(Err(error_of(error)));
            }
            if channel.is_open() {
                return Poll::Ready(Ok(()));
            }
            state.opener = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// How the channel ends, be the stream dropped by then or not.
    pub fn end(&self) -> ChannelEnd {
        self.shared.end.subscribe()
    }

    /// A handle that ends the channel.
    pub fn handle(&self) -> L2Handle {
        L2Handle(Arc::downgrade(&self.shared))
    }

    /// Ends both directions at once: the peer discards what it holds.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Waits until the channel has failed; its error.
    pub(crate) async fn failed(&self) -> io::Error {
        poll_fn(|cx| {
            let mut state = self.shared.state();
            if let Err(e) = state.failed() {
                return Poll::Ready(e);
            }
            if let Some(error) = state.port.channel().error() {
                return Poll::Ready(error_of(error));
            }
            state.watcher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ready when a read does not have to wait.
    pub(crate) fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.state();
        if state.is_readable() {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready when a write does not have to wait.
    pub(crate) fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.state();
        if state.is_writable() {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Reads octets; 0 at the end, `WouldBlock` when there is nothing yet.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let now = self.shared.now();
        let mut state = self.shared.state();
        match state.port.channel().read(into) {
            Ok(Read::Octets(count)) => {
                if state.port.channel().is_ack_due(now) {
                    self.shared.called.notify_one();
                }
                Ok(count)
            }
            Ok(Read::End) => Ok(0),
            Ok(Read::Nothing) => {
                state.failed()?;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(e) => Err(error_of(e)),
        }
    }

    /// Writes octets, as many as there is room for; `WouldBlock` when there is none.
    pub(crate) fn send(&self, octets: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.state();
        state.failed()?;
        match state.port.channel().write(octets) {
            Ok(0) if !octets.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            Ok(count) => {
                self.shared.called.notify_one();
                Ok(count)
            }
            Err(e) => Err(error_of(e)),
        }
    }

    /// Ends this direction after what was written.
    pub(crate) fn end_write(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        state.failed()?;
        let channel = state.port.channel();
        if let Some(error) = channel.error() {
            return Err(error_of(error));
        }
        channel.finish();
        self.shared.called.notify_one();
        Ok(())
    }

    /// Calls `f` with the channel.
    pub fn with_channel<R>(&self, f: impl FnOnce(&Channel) -> R) -> R {
        f(self.shared.state().port.channel())
    }

    /// Name of the interface at the start.
    pub fn interface(&self) -> String {
        self.shared.state().port.socket().interface().to_owned()
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

    fn reset(&self) {
        self.state().port.channel().reset();
        self.called.notify_one();
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }
}

/// What the task does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The same again, after others.
    Again,
    /// Wait for one of these.
    Wait {
        is_full: bool,
        until: Option<Timestamp>,
    },
    Over,
}

impl State {
    pub(super) fn new(port: Port) -> Self {
        Self {
            port,
            error: None,
            reader: None,
            writer: None,
            opener: None,
            watcher: None,
            dropped_at: None,
        }
    }

    /// The application has dropped the stream.
    pub(super) fn drop_stream(&mut self, now: Timestamp) {
        self.dropped_at = Some(now);
    }

    pub(super) fn turn(&mut self, now: Timestamp) -> io::Result<Turn> {
        let more = self.port.receive(now)?;
        let given_up_at = self.dropped_at.map(|at| at + LINGER);
        if let Some(at) = given_up_at {
            self.close(now >= at);
        }
        let next = self.port.send(now)?;
        let channel = self.port.channel();
        // The RESET may wait behind frames that never leave.
        if channel.is_over(now) || given_up_at.is_some_and(|at| now >= at) {
            return Ok(Turn::Over);
        }
        let until = wait_until(now, next, channel.next_timeout());
        Ok(match more {
            true => Turn::Again,
            false => Turn::Wait {
                is_full: next == Next::Room,
                until: until.into_iter().chain(given_up_at).min(),
            },
        })
    }

    /// Ends a channel that has no application, as the kernel does: what was written is delivered,
    /// and what arrives is an error; so is what takes too long.
    fn close(&mut self, is_late: bool) {
        let channel = self.port.channel();
        channel.finish();
        if is_late || channel.readable() > 0 || channel.is_acknowledged() && !channel.has_ended() {
            channel.reset();
        }
    }

    fn has_failed(&mut self) -> bool {
        self.error.is_some() || self.port.channel().error().is_some()
    }

    fn is_readable(&mut self) -> bool {
        let channel = self.port.channel();
        channel.readable() > 0 || channel.has_ended() || self.has_failed()
    }

    fn is_writable(&mut self) -> bool {
        self.port.channel().room() > 0 || self.has_failed()
    }

    fn wake(&mut self) {
        let has_failed = self.has_failed();
        let wake = |waker: &mut Option<Waker>| waker.take().into_iter().for_each(Waker::wake);
        if self.is_readable() {
            wake(&mut self.reader);
        }
        if self.is_writable() {
            wake(&mut self.writer);
        }
        if has_failed || self.port.channel().is_open() {
            wake(&mut self.opener);
        }
        if has_failed {
            wake(&mut self.watcher);
        }
    }

    /// How the channel has ended.
    fn outcome(&mut self) -> Outcome {
        let is_dropped = self.dropped_at.is_some();
        if let Err(e) = self.failed() {
            return Outcome::Failed(e.to_string());
        }
        match self.port.channel().error() {
            None => Outcome::Complete,
            Some(Error::Closed | Error::Reset) => Outcome::GivenUp,
            Some(Error::Silent | Error::Stalled) if is_dropped => Outcome::GivenUp,
            Some(error) => Outcome::Failed(error.to_string()),
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

/// Instant at which the task goes on without frames or room. While frames wait for the interface,
/// what is due waits behind them: its instant may have passed.
fn wait_until(now: Timestamp, next: Next, due: Option<Timestamp>) -> Option<Timestamp> {
    let retry = now + QUEUE_RETRY;
    match next {
        Next::Anything => due,
        Next::Room => due.map(|at| at.max(retry)),
        Next::Queue => Some(retry),
    }
}

fn error_of(error: Error) -> io::Error {
    let kind = match error {
        Error::Silent | Error::Stalled => io::ErrorKind::TimedOut,
        Error::Lossy => io::ErrorKind::ConnectionAborted,
        Error::Reset => io::ErrorKind::ConnectionReset,
        Error::Closed => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, error)
}

async fn drive(shared: Arc<Shared>, mut events: Events) {
    let mut looks = Looks::new(shared.state().port.window_bytes());
    loop {
        let (turn, look) = {
            let mut state = shared.state();
            let (now, before) = (shared.now(), state.port.taken());
            let turn = state.turn(now);
            let frames = state.port.taken() - before;
            let sends = state.port.channel().unacknowledged() > 0
                || matches!(turn, Ok(Turn::Wait { is_full: true, .. }));
            let look = looks.after(now, frames, sends);
            let turn = turn.and_then(|turn| match turn {
                // Nothing is waited for, so that no failure may change how the channel has ended.
                Turn::Over => Ok(turn),
                _ => events.wake(look.is_none()).map(|()| turn),
            });
            if let Err(e) = &turn {
                let interface = state.port.socket().interface();
                let text = format!("Ethernet frames on {interface}: {e}");
                state.error = Some((e.kind(), text));
            }
            state.wake();
            (turn, look)
        };
        match turn {
            Err(_) | Ok(Turn::Over) => {
                let outcome = shared.state().outcome();
                shared.end.send_replace(Some(outcome));
                return;
            }
            Ok(Turn::Again) => tokio::task::yield_now().await,
            Ok(Turn::Wait { is_full, until }) => {
                let until = until.into_iter().chain(look).min();
                let wait = until.map(|at| shared.start + at.since(Timestamp::ZERO));
                tokio::select! {
                    biased;
                    () = events.readable() => {}
                    () = events.writable(), if is_full => {}
                    () = shared.called.notified() => {}
                    () = sleep_until(wait.unwrap_or_else(Instant::now)), if wait.is_some() => {}
                }
            }
        }
    }
}

impl AsyncRead for L2Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_readable(cx));
        let count = self.receive(into.initialize_unfilled())?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for L2Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.send(octets) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx));
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end_write())
    }
}

impl AsFd for L2Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for L2Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("L2Stream(..)")
    }
}

impl Drop for L2Stream {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.state().drop_stream(now);
        self.shared.called.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_waits_while_the_queue_is_full() {
        let ms = Timestamp::from_millis;
        let at = |next, due| wait_until(ms(10), next, due);
        assert_eq!(at(Next::Anything, Some(ms(3))), Some(ms(3)));
        assert_eq!(at(Next::Room, Some(ms(3))), Some(ms(11)));
        assert_eq!(at(Next::Room, Some(ms(30))), Some(ms(30)));
        assert_eq!(at(Next::Room, None), None);
        for due in [None, Some(ms(3)), Some(ms(30))] {
            assert_eq!(at(Next::Queue, due), Some(ms(11)));
        }
    }
}
