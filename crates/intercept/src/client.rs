use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::http::Framing;

/// A client that was told to go ahead.
///
/// Reading gives what it has to say to its destination: first the early data
/// that nobody took, then what comes from the socket. For a forwarded HTTP
/// request, exactly that request's bytes; what follows is thrown away (see
/// [`crate::http`]), and the end comes when the client closes.
#[derive(Debug)]
pub struct Client {
    reader: ClientReader,
    writer: OwnedWriteHalf,
}

/// The reading half of a [`Client`].
#[derive(Debug)]
pub struct ClientReader {
    early: Bytes,
    /// Of a forwarded HTTP request.
    framing: Option<Framing>,
    half: OwnedReadHalf,
}

impl Client {
    pub(crate) fn new(stream: TcpStream, early: Bytes, framing: Option<Framing>) -> Self {
        let (half, writer) = stream.into_split();
        let reader = ClientReader {
            early,
            framing,
            half,
        };
        Self { reader, writer }
    }

    /// The socket, for its addresses and options.
    pub fn socket(&self) -> &TcpStream {
        self.reader.half.as_ref()
    }

    /// Both directions, for use by two tasks. Dropping the writer ends the
    /// direction towards the client.
    pub fn into_split(self) -> (ClientReader, OwnedWriteHalf) {
        (self.reader, self.writer)
    }

    /// Closes with a reset: what a client sees when its destination resets.
    pub fn abort(self) {
        reset_on_close(self.socket());
        // Dropping the writer would say a proper farewell first.
        self.writer.forget();
    }
}

/// Makes the close of this socket a reset.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // Without the option the client sees an end where a reset was meant;
    // there is nothing better to do then.
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "can't reset a client");
    }
}

impl AsyncRead for ClientReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !this.early.is_empty() {
            let n = this.early.len().min(buf.remaining());
            buf.put_slice(&this.early.split_to(n));
            return Poll::Ready(Ok(()));
        }
        let start = buf.filled().len();
        loop {
            ready!(Pin::new(&mut this.half).poll_read(cx, buf))?;
            let read = buf.filled().get(start..).unwrap_or_default();
            let Some(framing) = &mut this.framing else {
                return Poll::Ready(Ok(()));
            };
            if read.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let ours = framing
                .take(read)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            buf.set_filled(start + ours);
            if ours > 0 {
                return Poll::Ready(Ok(()));
            }
            // All of it came after the request. An empty read would look like
            // the end of the connection, so read on; tokio's cooperative
            // budget ends the loop for a client that sends without pause.
        }
    }
}

impl ClientReader {
    /// What is known of the client's words without reading: early data that
    /// was not taken yet.
    pub fn buffered(&self) -> usize {
        self.early.remaining()
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write(cx, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(cx)
    }
}
