use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::{DecodeError, Decoder, EncodeError, Message, encode};
use crate::tls::{MAX_RECORD_PLAINTEXT_BYTES, TlsError, TlsStream};

/// A control connection: messages over TLS.
#[derive(Debug)]
pub struct ControlChannel<S = TcpStream> {
    tls: TlsStream<S>,
    decoder: Decoder,
}

/// Why a control connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The TLS stream.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket.
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
    /// A message of the peer.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message of ours.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl<S: AsyncRead + AsyncWrite + Unpin> ControlChannel<S> {
    /// Speaks over `tls`, whose handshake said who the peer is.
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
    /// When the message is too long, or the channel is closed.
    pub fn queue(&mut self, message: &Message) -> Result<(), ChannelError> {
        for record in encode(message)?.chunks(MAX_RECORD_PLAINTEXT_BYTES) {
            self.tls.queue_record(record)?;
        }
        Ok(())
    }

    /// Waits until everything queued is with the kernel. May be dropped and
    /// called again.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn flush(&mut self) -> Result<(), ChannelError> {
        Ok(poll_fn(|cx| self.tls.poll_flush(cx)).await?)
    }

    /// Queues a message and waits until it is with the kernel.
    ///
    /// # Errors
    /// As [`ControlChannel::queue`] and [`ControlChannel::flush`].
    pub async fn send(&mut self, message: &Message) -> Result<(), ChannelError> {
        self.queue(message)?;
        self.flush().await
    }

    /// Waits for the next message that this version knows, sending what is
    /// queued meanwhile; `None` when the peer closed the connection. May be
    /// dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// When the connection or a message is no good.
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

    /// Says that no more follows and waits until that is with the kernel.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn close(&mut self) -> Result<(), ChannelError> {
        self.tls.close();
        self.flush().await
    }
}
