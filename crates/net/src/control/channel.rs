//! A control connection: control messages in TLS records.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{DecodeError, Decoder, EncodeError, Message, encode};
use crate::pipe::PipeStream;
use crate::tls::{MAX_RECORD_PLAINTEXT_BYTES, TlsError, TlsStream};

/// Maximum number of octets that wait for a peer that does not read: reports of half a minute. A
/// peer that leaves more has failed.
const MAX_QUEUED_BYTES: usize = 64 << 10;

/// A control connection: messages over TLS.
#[derive(Debug)]
pub struct ControlChannel<S = PipeStream> {
    tls: TlsStream<S>,
    decoder: Decoder,
}

/// Error of a control connection. Its text contains the cause, which `source` therefore does not
/// return.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The TLS stream failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket failed.
    #[error("the control connection failed: {0}")]
    Io(io::Error),
    /// The peer does not read.
    #[error("the other end has left {0} octets of control messages unread")]
    NotRead(usize),
    /// The peer sent an invalid message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl From<io::Error> for ChannelError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ControlChannel<S> {
    /// A channel over `tls`, whose handshake has authenticated the peer.
    pub fn new(tls: TlsStream<S>) -> Self {
        Self {
            tls,
            decoder: Decoder::default(),
        }
    }

    /// The stream underneath.
    pub fn tls(&self) -> &TlsStream<S> {
        &self.tls
    }

    /// Queues a message; [`ControlChannel::receive`] and
    /// [`ControlChannel::flush`] send it.
    ///
    /// # Errors
    /// When the message is too long, the channel is closed, or the peer has not read earlier ones.
    pub fn queue(&mut self, message: &Message) -> Result<(), ChannelError> {
        let queued = self.tls.queued_bytes();
        if queued > MAX_QUEUED_BYTES {
            return Err(ChannelError::NotRead(queued));
        }
        for record in encode(message)?.chunks(MAX_RECORD_PLAINTEXT_BYTES) {
            self.tls.queue_record(record)?;
        }
        Ok(())
    }

    /// Waits until the kernel has accepted everything queued. Cancel-safe.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn flush(&mut self) -> Result<(), ChannelError> {
        Ok(poll_fn(|cx| self.tls.poll_flush(cx)).await?)
    }

    /// Queues a message and waits until the kernel has accepted it.
    ///
    /// # Errors
    /// As [`ControlChannel::queue`] and [`ControlChannel::flush`].
    pub async fn send(&mut self, message: &Message) -> Result<(), ChannelError> {
        self.queue(message)?;
        self.flush().await
    }

    /// Receives the next message of a known type, and sends queued messages meanwhile. `None` when
    /// the peer has closed the connection. Cancel-safe.
    ///
    /// # Errors
    /// When the connection fails or a message is invalid.
    pub async fn receive(&mut self) -> Result<Option<Message>, ChannelError> {
        loop {
            match self.decoder.next_message()? {
                Some(Message::Unknown) => continue,
                Some(message) => return Ok(Some(message)),
                None => {}
            }
            if let Some(record) = self.tls.next_record()? {
                self.decoder.push(&record.payload);
                continue;
            }
            if self.tls.peer_closed() {
                if self.decoder.is_mid_message() {
                    return Err(TlsError::Truncated.into());
                }
                return Ok(None);
            }
            poll_fn(|cx| {
                if let Poll::Ready(Err(e)) = self.tls.poll_flush(cx) {
                    return Poll::Ready(Err(e));
                }
                self.tls.poll_fill(cx)
            })
            .await?;
        }
    }

    /// Sends close_notify and waits until the kernel has accepted it.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn close(&mut self) -> Result<(), ChannelError> {
        self.tls.close();
        self.flush().await
    }
}
