//! Sockets of applications: intercepted clients, origins, and ends within this process.

use std::any::Any;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tracing::debug;

use mpbond_intercept::Refusal;
use mpbond_session::{ResetCode, StreamClass};
use mpbond_units::Timestamp;

use super::budget::Budget;
use super::class_watch::ClassWatch;

/// Idle time after which the kernel asks whether an origin is still there, and the pause between
/// its three attempts: an origin that has vanished keeps its stream for four minutes.
const KEEPALIVE: Duration = Duration::from_secs(120);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(40);

/// An application's connection.
pub trait AppSocket: AsyncRead + AsyncWrite + Unpin {
    /// Closes it by a reset, as the application would see one of its destination. A client that can
    /// still be told is told the reason instead.
    fn abort(self: Box<Self>, reason: Option<ResetCode>);

    /// Class of the application's traffic, if it was looked at. Called after bytes have moved.
    fn class(&mut self, _now: Timestamp) -> Option<StreamClass> {
        None
    }

    /// Its class is looked at no more: it was set otherwise.
    fn fix_class(&mut self) {}
}

/// A plain TCP connection: an origin, at a proxy.
pub struct Tcp(TcpStream);

impl Tcp {
    /// A connection to an origin, which the kernel tries out when it is idle.
    pub fn new(tcp: TcpStream) -> Self {
        keep_alive(&tcp);
        Self(tcp)
    }
}

/// Has the kernel find out that the origin of an idle connection has vanished.
pub fn keep_alive(tcp: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_PAUSE)
        .with_retries(3);
    if let Err(e) = SockRef::from(tcp).set_tcp_keepalive(&keepalive) {
        debug!(error = %e, "cannot switch keep-alive on");
    }
}

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
    fn abort(self: Box<Self>, _: Option<ResetCode>) {
        reset_on_close(&self.0);
    }
}

/// An intercepted client. Its reader knows the end of its request.
pub struct Client {
    reader: mpbond_intercept::ClientReader,
    writer: OwnedWriteHalf,
    /// Bytes of the destination were written.
    answered: bool,
    /// Look-ups of its class, if it can change.
    class: Option<ClassWatch>,
    /// Bytes that the connections of its rule may move, if it has a budget.
    budget: Option<Rc<Budget>>,
    /// Returned when the connection is over.
    share: Box<dyn Any>,
}

impl Client {
    /// A client whose connection was confirmed, with its share of a limit.
    pub fn new(
        client: mpbond_intercept::Client,
        class: Option<ClassWatch>,
        budget: Option<Rc<Budget>>,
        share: impl Any,
    ) -> Self {
        let (reader, writer) = client.into_split();
        Self {
            reader,
            writer,
            answered: false,
            class,
            budget,
            share: Box::new(share),
        }
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(budget) = self.budget.clone() else {
            return Pin::new(&mut self.reader).poll_read(cx, buf);
        };
        budget.check()?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        budget.moved(buf.filled().len() - before);
        read
    }
}

impl Client {
    /// Writes to the application, if the budget of its rule is not used up.
    fn write(
        &mut self,
        write: impl FnOnce(&mut Self) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Some(budget) = self.budget.clone() else {
            return write(self);
        };
        budget.check()?;
        let written = write(self);
        if let Poll::Ready(Ok(bytes)) = &written {
            budget.moved(*bytes);
        }
        written
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answered = true;
        self.write(|client| Pin::new(&mut client.writer).poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answered = true;
        self.write(|client| Pin::new(&mut client.writer).poll_write_vectored(cx, data))
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
    fn abort(self: Box<Self>, reason: Option<ResetCode>) {
        if let Some(reason) = reason.filter(|_| !self.answered && self.reader.is_forwarded()) {
            let answer = self.reader.refused(self.writer, refusal(reason));
            let share = self.share;
            tokio::task::spawn_local(async move {
                answer.await;
                drop(share);
            });
            return;
        }
        reset_on_close(self.writer.as_ref());
        // Dropping the half would send FIN first.
        self.writer.forget();
    }

    fn class(&mut self, now: Timestamp) -> Option<StreamClass> {
        self.class.as_mut()?.moved(now, self.answered)
    }

    fn fix_class(&mut self) {
        self.class = None;
    }
}

impl AppSocket for tokio::io::DuplexStream {
    /// The other half reads the end of the stream.
    fn abort(self: Box<Self>, _: Option<ResetCode>) {}
}

/// The refusal that a reason of the proxy amounts to.
pub fn refusal(code: ResetCode) -> Refusal {
    match code {
        ResetCode::ConnectionRefused => Refusal::ConnectionRefused,
        ResetCode::TimedOut => Refusal::TimedOut,
        ResetCode::NameNotFound => Refusal::NameNotFound,
        ResetCode::Forbidden => Refusal::NotAllowed,
        ResetCode::ConnectionReset => Refusal::Reset,
        ResetCode::Overloaded => Refusal::TooMany,
        ResetCode::SessionLost => Refusal::ProxyLost,
        _ => Refusal::HostUnreachable,
    }
}

/// Has the other end see a reset when a connection is closed, and not its end.
pub fn reset_on_close(tcp: &TcpStream) {
    if let Err(e) = SockRef::from(tcp).set_linger(Some(Duration::ZERO)) {
        debug!(error = %e, "cannot reset a connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_asks_whether_an_idle_origin_is_still_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await;
        let origin = Tcp::new(tcp.unwrap());
        let socket = SockRef::from(&origin.0);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_PAUSE);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    }
}
