//! Intercepted connections that wait for a reply.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::closing::{answer_and_close, reset_on_close};
use crate::destination::Destination;
use crate::http::{self, Framing};
use crate::intent::Intent;
use crate::refusal::Refusal;
use crate::{socks4, socks5};

/// Method by which a connection was intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// A request of SOCKS 5 or 4.
    Socks,
    /// An HTTP CONNECT or absolute-form request.
    Http,
    /// Redirection in the kernel.
    Transparent,
}

/// Reply that the client expects.
#[derive(Debug)]
pub(crate) enum Pending {
    Socks5,
    Socks4,
    HttpConnect,
    /// None: the origin's response is the reply.
    HttpForward(Framing),
    Nothing,
}

/// An intercepted connection with its destination.
///
/// Dropping it closes the connection without a reply.
#[derive(Debug)]
pub struct Intercepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) destination: Destination,
    pub(crate) early: Bytes,
    pub(crate) pending: Pending,
    pub(crate) intent: Intent,
}

impl Intercepted {
    /// The requested destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The method of interception.
    pub fn via(&self) -> Via {
        match self.pending {
            Pending::Socks5 | Pending::Socks4 => Via::Socks,
            Pending::HttpConnect | Pending::HttpForward(_) => Via::Http,
            Pending::Nothing => Via::Transparent,
        }
    }

    /// The client's parameters.
    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's socket, for access to its options.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the client is told of success before it gets bytes of the destination: by SOCKS,
    /// and by HTTP CONNECT.
    pub fn is_told(&self) -> bool {
        match self.pending {
            Pending::Socks5 | Pending::Socks4 | Pending::HttpConnect => true,
            Pending::HttpForward(_) | Pending::Nothing => false,
        }
    }

    /// Whether there is early data.
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the early data: bytes for the destination received with the handshake. If not taken,
    /// [`Client`] returns them first.
    pub fn take_early(&mut self) -> Bytes {
        std::mem::take(&mut self.early)
    }

    /// Confirms the connection to the client. For the choice of the moment see the [crate's front
    /// page](crate).
    ///
    /// # Errors
    /// When the client has closed the connection.
    pub async fn accepted(mut self) -> io::Result<Client> {
        match self.pending {
            Pending::Socks5 => {
                let reply = socks5::reply(socks5::SUCCEEDED);
                self.stream.write_all(&reply).await?;
            }
            Pending::Socks4 => self.stream.write_all(&socks4::reply(true)).await?,
            Pending::HttpConnect => self.stream.write_all(http::ESTABLISHED).await?,
            Pending::HttpForward(framing) => {
                return Ok(Client::new(self.stream, self.early, Some(framing)));
            }
            Pending::Nothing => {}
        }
        Ok(Client::new(self.stream, self.early, None))
    }

    /// Sends the refusal in the client's protocol and closes the connection.
    ///
    /// Takes up to two seconds for clients that are slow to close; spawn it where that matters.
    pub async fn refused(self, refusal: Refusal) {
        match self.pending {
            Pending::Socks5 => answer_and_close(self.stream, &socks5::refusal(refusal)).await,
            Pending::Socks4 => answer_and_close(self.stream, &socks4::reply(false)).await,
            Pending::HttpConnect | Pending::HttpForward(_) => {
                answer_and_close(self.stream, &http::refusal(refusal)).await;
            }
            Pending::Nothing => reset_on_close(&self.stream),
        }
    }
}
