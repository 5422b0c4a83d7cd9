use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use mpbond_session::{Read, ResetCode, StreamId};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tracing::debug;

use crate::memory;

use super::turns::CALL;
use super::{Driver, Inner, MEMORY_AGAIN};

/// Octets of an application that one read(2) may take.
const BLOCK_BYTES: usize = 256 << 10;

/// Reads that bring less are copied out, so that they do not pin a block.
const COPY_BELOW: usize = 4 << 10;

/// Octets that wait here for an application's socket, at the least one write(2)'s worth; the rest
/// stays in the session, where it counts against the stream's window.
const PENDING_BYTES: usize = 256 << 10;

/// Pieces in one writev(2).
const IO_SLICES: usize = 64;

/// An application's connection.
pub trait AppSocket: AsyncRead + AsyncWrite + Unpin {
    /// Ends without a farewell: what an application sees when its destination resets.
    fn abort(self: Box<Self>);
}

/// A plain TCP connection: an origin, at a proxy.
pub struct Tcp(pub TcpStream);

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl AppSocket for Tcp {
    fn abort(self: Box<Self>) {
        reset_on_close(&self.0);
    }
}

/// An intercepted client: its reader knows where its request ends.
pub struct Client {
    reader: mpbond_intercept::ClientReader,
    writer: OwnedWriteHalf,
}

impl Client {
    /// Takes over a client that was told to go ahead.
    pub fn new(client: mpbond_intercept::Client) -> Self {
        let (reader, writer) = client.into_split();
        Self { reader, writer }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

impl AppSocket for Client {
    fn abort(self: Box<Self>) {
        reset_on_close(self.writer.as_ref());
        // Dropping the half would say a proper farewell first.
        self.writer.forget();
    }
}

impl AppSocket for tokio::io::DuplexStream {
    /// An end within this process sees an end.
    fn abort(self: Box<Self>) {}
}

fn reset_on_close(tcp: &TcpStream) {
    if let Err(e) = SockRef::from(tcp).set_linger(Some(Duration::ZERO)) {
        debug!(error = %e, "can't reset an application's connection");
    }
}

/// How the direction towards the application stands.
#[derive(Debug, PartialEq)]
enum Sink {
    /// Bytes may come.
    Open,
    /// All bytes are here; FIN follows when the socket has taken them.
    Finishing,
    /// FIN is written.
    Finished,
}

/// An application's connection and what waits for it.
pub(super) struct StreamIo {
    pub(super) socket: Option<Box<dyn AppSocket>>,
    /// Read from the session, not yet taken by the socket.
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    /// What of these the session counts.
    counted_bytes: usize,
    sink: Sink,
    /// The socket takes no more; the task waits until it does.
    blocked: bool,
    /// The application has finished writing, or nobody wants to hear more.
    read_over: bool,
    /// The session has forgotten the stream.
    pub(super) closed: bool,
    pub(super) waker: Option<Waker>,
}

impl StreamIo {
    pub(super) fn new(socket: Box<dyn AppSocket>) -> Self {
        Self {
            socket: Some(socket),
            pending: VecDeque::new(),
            pending_bytes: 0,
            counted_bytes: 0,
            sink: Sink::Open,
            blocked: false,
            read_over: false,
            closed: false,
            waker: None,
        }
    }

    /// Resets the application's connection.
    pub(super) fn abort(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.abort();
        }
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// The far end wants no more bytes.
    pub(super) fn stop_reading(&mut self, _code: ResetCode) {
        self.read_over = true;
    }

    fn done(&self) -> bool {
        self.socket.is_none() || (self.closed && self.pending.is_empty() && !self.waits_to_finish())
    }

    fn waits_to_finish(&self) -> bool {
        self.sink == Sink::Finishing
    }

    /// Writes what is pending; `Pending` when the socket takes no more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(socket) = &mut self.socket else {
            return Poll::Ready(Ok(()));
        };
        while !self.pending.is_empty() {
            let mut slices = [IoSlice::new(&[]); IO_SLICES];
            let mut n = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.pending) {
                *slice = IoSlice::new(bytes);
                n += 1;
            }
            let taken = match Pin::new(&mut *socket).poll_write_vectored(cx, &slices[..n]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => taken,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            };
            self.pending_bytes -= taken;
            let mut left = taken;
            while let Some(front) = self.pending.front_mut() {
                if front.len() > left {
                    front.advance(left);
                    break;
                }
                left -= front.len();
                self.pending.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Inner {
    /// Hands arrived bytes to the application, as far as its socket takes them.
    pub(super) fn deliver(&mut self, id: StreamId) {
        let mut cx = Context::from_waker(Waker::noop());
        let Some(io) = self.streams.get(&id) else {
            // Its destination is not reached yet.
            return;
        };
        if io.blocked {
            return;
        }
        self.pump_out(id, &mut cx);
        if let Some(io) = self.streams.get_mut(&id)
            && (io.blocked || io.sink != Sink::Open || io.socket.is_none())
            && let Some(w) = io.waker.take()
        {
            self.wake.push(w);
        }
    }

    /// Session to socket.
    fn pump_out(&mut self, id: StreamId, cx: &mut Context<'_>) {
        self.pump_out_uncounted(id, cx);
        self.count_pending(id);
    }

    /// Brings the sum of what waits for sockets up to date.
    fn count_pending(&mut self, id: StreamId) {
        if let Some(io) = self.streams.get_mut(&id) {
            self.pending = self.pending + io.pending_bytes as u64 - io.counted_bytes as u64;
            io.counted_bytes = io.pending_bytes;
        }
    }

    fn pump_out_uncounted(&mut self, id: StreamId, cx: &mut Context<'_>) {
        let now = self.clock.now();
        loop {
            let Some(io) = self.streams.get_mut(&id) else {
                return;
            };
            let mut ended = false;
            while io.pending_bytes < PENDING_BYTES && io.sink == Sink::Open {
                match self.session.read(now, id) {
                    Read::Data(bytes) => {
                        io.pending_bytes += bytes.len();
                        io.pending.push_back(bytes);
                    }
                    Read::Fin => io.sink = Sink::Finishing,
                    Read::Reset(code) => {
                        debug!(stream = %id, %code, "the far end reset the stream");
                        self.session.reset(now, id, code);
                        io.abort();
                        return;
                    }
                    Read::Pending => {
                        ended = true;
                        break;
                    }
                }
            }
            match io.poll_write(cx) {
                Poll::Ready(Ok(())) => io.blocked = false,
                Poll::Pending => {
                    io.blocked = true;
                    return;
                }
                Poll::Ready(Err(e)) => return self.app_failed(id, &e),
            }
            if io.sink == Sink::Finishing {
                if let Some(socket) = &mut io.socket
                    && let Poll::Ready(Err(e)) = Pin::new(socket).poll_shutdown(cx)
                {
                    debug!(stream = %id, error = %e, "can't finish an application's connection");
                }
                io.sink = Sink::Finished;
            }
            if ended || io.sink == Sink::Finished {
                return;
            }
        }
    }

    /// Socket to session; `Pending` when there is nothing to read, or no room for it.
    fn pump_in(&mut self, id: StreamId, cx: &mut Context<'_>) -> Poll<()> {
        let mut worked = false;
        loop {
            if self.turn.is_over(cx.waker(), worked) {
                return Poll::Pending;
            }
            worked = true;
            let Some(io) = self.streams.get_mut(&id) else {
                return Poll::Ready(());
            };
            if io.read_over {
                return Poll::Ready(());
            }
            let Some(socket) = &mut io.socket else {
                return Poll::Ready(());
            };
            let budget = self.session.send_budget(id) as usize;
            if budget == 0 {
                return Poll::Pending;
            }
            if self.block.capacity() - self.block.len() < COPY_BELOW * 2
                && !self.block.try_reclaim(BLOCK_BYTES)
            {
                self.block = bytes::BytesMut::with_capacity(BLOCK_BYTES);
            }
            let room = (self.block.capacity() - self.block.len())
                .min(budget)
                .min(self.account.room() as usize);
            if room == 0 {
                self.starve(cx.waker());
                return Poll::Pending;
            }
            let mut limited = bytes::BufMut::limit(&mut self.block, room);
            let read = std::pin::pin!(socket.read_buf(&mut limited));
            match std::future::Future::poll(read, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    io.read_over = true;
                    self.session.finish(id);
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(n)) => {
                    self.turn.spend(CALL + n as u64);
                    let bytes = if n < COPY_BELOW {
                        let copy = Bytes::copy_from_slice(&self.block);
                        self.block.clear();
                        copy
                    } else {
                        self.block.split_to(n).freeze()
                    };
                    self.session.write(id, bytes);
                    self.settle();
                }
                Poll::Ready(Err(e)) => {
                    self.app_failed(id, &e);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Lets an application's connection go, with what is kept for it here.
    pub(super) fn forget_stream(&mut self, id: StreamId) -> Option<StreamIo> {
        let io = self.streams.remove(&id)?;
        self.pending -= io.counted_bytes as u64;
        self.account.give_back(memory::STREAM);
        if self.streams.is_empty() {
            // An idle session keeps no buffers.
            self.block = bytes::BytesMut::new();
            self.record = Vec::new();
        }
        Some(io)
    }

    /// A stream waits for memory, which others give back without a word.
    fn starve(&mut self, waker: &Waker) {
        if !std::mem::replace(&mut self.memory_watched, true) {
            let shared = self.own.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(MEMORY_AGAIN).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let starved = {
                    let mut inner = shared.borrow_mut();
                    inner.memory_watched = false;
                    std::mem::take(&mut inner.starved)
                };
                starved.into_iter().for_each(Waker::wake);
            });
        }
        self.starved.push_back(waker.clone());
    }

    /// The application's connection broke: the far end sees a reset too.
    fn app_failed(&mut self, id: StreamId, e: &io::Error) {
        debug!(stream = %id, error = %e, "an application's connection broke");
        let now = self.clock.now();
        let code = match e.kind() {
            io::ErrorKind::TimedOut => ResetCode::TimedOut,
            _ => ResetCode::ConnectionReset,
        };
        self.session.reset(now, id, code);
        self.session.stop(now, id, code);
        if let Some(io) = self.streams.get_mut(&id) {
            io.abort();
        }
    }
}

/// Moves an application's bytes both ways; ends with the stream.
pub(super) async fn run(shared: Weak<RefCell<Inner>>, id: StreamId) {
    poll_fn(|cx| {
        let Some(shared) = shared.upgrade() else {
            return Poll::Ready(());
        };
        Driver { shared }.with(|inner| {
            let _ = inner.pump_in(id, cx);
            inner.pump_out(id, cx);
            let Some(io) = inner.streams.get_mut(&id) else {
                return Poll::Ready(());
            };
            if io.done() {
                inner.forget_stream(id);
                return Poll::Ready(());
            }
            io.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    })
    .await;
}
