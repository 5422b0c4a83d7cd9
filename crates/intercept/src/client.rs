//! An accepted client connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::closing::{answer_and_close, reset_on_close};
use crate::http::{self, Framing};
use crate::refusal::Refusal;

/// A client whose connection has been confirmed.
///
/// Reading returns the bytes for the destination: first the early data that was not taken, then
/// bytes from the socket. For a forwarded HTTP request, exactly the bytes of that request; later
/// bytes are discarded (see [`crate::http`]), and the stream ends when the client closes.
#[derive(Debug)]
pub struct Client {
    reader: ClientReader,
    writer: OwnedWriteHalf,
}

/// The reading half of a [`Client`].
#[derive(Debug)]
pub struct ClientReader {
    early: Bytes,
    /// Body framing of a forwarded HTTP request.
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

    /// The socket, for access to addresses and options.
    pub fn socket(&self) -> &TcpStream {
        self.reader.half.as_ref()
    }

    /// Splits the client into its two directions. Dropping the writer closes the direction towards
    /// the client.
    pub fn into_split(self) -> (ClientReader, OwnedWriteHalf) {
        (self.reader, self.writer)
    }

    /// Closes with a reset, as when the destination resets.
    pub fn abort(self) {
        reset_on_close(self.socket());
        // Dropping the writer would send a FIN first.
        self.writer.forget();
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
            // All bytes came after the request. An empty read would signal the end of the
            // connection, so read on; tokio's cooperative budget interrupts the loop for a client
            // that sends without pause.
        }
    }
}

impl ClientReader {
    /// Whether the client has sent one forwarded HTTP request, to which the first bytes of the
    /// destination are the reply.
    pub fn is_forwarded(&self) -> bool {
        self.framing.is_some()
    }

    /// Answers a forwarded HTTP request with a refusal, in place of the destination, and closes the
    /// connection. Only for a client that has not been sent anything.
    pub async fn refused(self, writer: OwnedWriteHalf, refusal: Refusal) {
        if let Ok(stream) = self.half.reunite(writer) {
            answer_and_close(stream, &http::refusal(refusal)).await;
        }
    }

    /// Bytes available without reading from the socket: early data not yet taken.
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
