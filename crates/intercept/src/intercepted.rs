use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Client, reset_on_close};
use crate::destination::Destination;
use crate::http::{self, Framing};
use crate::refusal::Refusal;
use crate::socks5;

/// How long a client that was refused may take to read why.
const FAREWELL: Duration = Duration::from_secs(2);

/// How much of what a refused client still sends is read, so that the close
/// does not turn into a reset that eats the answer (RFC 9112, §9.6).
const FAREWELL_BYTES: u64 = 256 * 1024;

/// How a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// A SOCKS5 request.
    Socks5,
    /// An HTTP CONNECT or absolute-form request.
    Http,
    /// The kernel's redirection.
    Transparent,
}

/// The answer that the client waits for.
#[derive(Debug)]
pub(crate) enum Pending {
    Socks5,
    HttpConnect,
    /// The origin's own answer is the answer.
    HttpForward(Framing),
    Nothing,
}

/// A connection that wants to go somewhere.
///
/// Dropping it closes it without an answer.
#[derive(Debug)]
pub struct Intercepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) destination: Destination,
    pub(crate) early: Bytes,
    pub(crate) pending: Pending,
}

impl Intercepted {
    /// Where it wants to go.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// How it came in.
    pub fn via(&self) -> Via {
        match self.pending {
            Pending::Socks5 => Via::Socks5,
            Pending::HttpConnect | Pending::HttpForward(_) => Via::Http,
            Pending::Nothing => Via::Transparent,
        }
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's socket, for its options.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes what the client has sent for its destination already. What is not
    /// taken, [`Client`] gives first when it is read.
    pub fn take_early(&mut self) -> Bytes {
        std::mem::take(&mut self.early)
    }

    /// Tells the client to go ahead. When to do so is the caller's choice: see
    /// the [crate's front page](crate).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn accepted(mut self) -> io::Result<Client> {
        match self.pending {
            Pending::Socks5 => {
                let reply = socks5::reply(socks5::SUCCEEDED);
                self.stream.write_all(&reply).await?;
            }
            Pending::HttpConnect => self.stream.write_all(http::ESTABLISHED).await?,
            Pending::HttpForward(framing) => {
                return Ok(Client::new(self.stream, self.early, Some(framing)));
            }
            Pending::Nothing => {}
        }
        Ok(Client::new(self.stream, self.early, None))
    }

    /// Tells the client why not, in its protocol's words, and closes.
    ///
    /// Takes up to two seconds with clients that are slow to go; spawn it where
    /// that matters.
    pub async fn refused(self, refusal: Refusal) {
        match self.pending {
            Pending::Socks5 => farewell(self.stream, &socks5::refusal(refusal)).await,
            Pending::HttpConnect | Pending::HttpForward(_) => {
                farewell(self.stream, &http::refusal(refusal)).await;
            }
            Pending::Nothing => reset_on_close(&self.stream),
        }
    }
}

/// Says `words` and closes so that they arrive.
pub(crate) async fn farewell(mut stream: TcpStream, words: &[u8]) {
    let talk = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(FAREWELL_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // A client that has gone, or will not go, has had its chance.
    if let Ok(Err(error)) = timeout(FAREWELL, talk).await {
        tracing::debug!(%error, "a refused client left early");
    }
}
