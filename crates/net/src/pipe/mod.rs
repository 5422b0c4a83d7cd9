//! Pipes: connections between a primary and a helper.

mod address;
mod ledger;
mod unix;

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::l2::L2Stream;
pub use address::{ParsePipeAddressError, PipeAddress, pairing_socket};
pub use unix::UnixPipe;

/// The connection of a pipe.
#[derive(Debug)]
pub enum PipeStream {
    /// Over an IP network.
    Tcp(TcpStream),
    /// Within this host, to a process that carries the octets further.
    Unix(UnixPipe),
    /// Over Ethernet frames, to a host of the same link.
    L2(L2Stream),
}

impl PipeStream {
    /// Has its end discard what was not delivered, at both ends: a reset and not FIN. Over a Unix
    /// socket the kernel does so by itself.
    pub fn reset_when_dropped(&self) {
        match self {
            // Fails for a connection that is gone.
            Self::Tcp(tcp) => drop(socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO))),
            Self::Unix(_) => {}
            Self::L2(stream) => stream.reset(),
        }
    }

    /// The TCP connection; `None` for another kind.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(tcp) => Some(tcp),
            Self::Unix(_) | Self::L2(_) => None,
        }
    }

    /// Waits until there is something to read, or the end.
    ///
    /// # Errors
    /// When the socket cannot be waited for.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.readable().await,
            Self::Unix(unix) => unix.stream().readable().await,
            Self::L2(l2) => {
                poll_fn(|cx| l2.poll_readable(cx)).await;
                Ok(())
            }
        }
    }

    /// Kind of the connection, as status shows it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Unix(_) => "unix",
            Self::L2(_) => "ethernet",
        }
    }

    /// Waits for octets, and reads them without taking them; 0 at the end.
    ///
    /// # Errors
    /// Error of recv(2). Ethernet frames cannot be read without taking them.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let unix = match self {
            Self::Tcp(tcp) => return tcp.peek(into).await,
            Self::Unix(unix) => unix.stream(),
            Self::L2(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        unix.async_io(Interest::READABLE, || {
            let (read, _) = recv(unix, &mut *into, flags)?;
            Ok(read)
        })
        .await
    }

    /// Registers the socket with the current tokio runtime.
    ///
    /// # Errors
    /// When it cannot be registered.
    pub(crate) fn rehome(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(tcp) => Self::Tcp(TcpStream::from_std(tcp.into_std()?)?),
            Self::Unix(unix) => Self::Unix(unix.rehome()?),
            // Its task stays where it is.
            Self::L2(l2) => Self::L2(l2),
        })
    }
}

impl From<TcpStream> for PipeStream {
    fn from(tcp: TcpStream) -> Self {
        Self::Tcp(tcp)
    }
}

impl From<UnixStream> for PipeStream {
    fn from(unix: UnixStream) -> Self {
        Self::Unix(unix.into())
    }
}

impl AsFd for PipeStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(tcp) => tcp.as_fd(),
            Self::Unix(unix) => unix.as_fd(),
            Self::L2(l2) => l2.as_fd(),
        }
    }
}

impl AsyncRead for PipeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, into),
            Self::Unix(unix) => Pin::new(unix).poll_read(cx, into),
            Self::L2(l2) => Pin::new(l2).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for PipeStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, octets),
            Self::Unix(unix) => Pin::new(unix).poll_write(cx, octets),
            Self::L2(l2) => Pin::new(l2).poll_write(cx, octets),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Unix(unix) => Pin::new(unix).poll_flush(cx),
            Self::L2(l2) => Pin::new(l2).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
            Self::L2(l2) => Pin::new(l2).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;
    use crate::identity::{DeviceId, Identity};
    use crate::tls::TlsStream;

    async fn pairs() -> [(PipeStream, PipeStream); 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let unix = UnixStream::pair().unwrap();
        [
            (near.unwrap().into(), far.unwrap().0.into()),
            (unix.0.into(), unix.1.into()),
        ]
    }

    #[tokio::test]
    async fn peeking_takes_nothing() {
        for (mut near, mut far) in pairs().await {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            near.write_all(b"octets").await.unwrap();
            let mut first = [0; 1];
            for _ in 0..2 {
                assert_eq!(far.peek(&mut first).await.unwrap(), 1);
                assert_eq!(&first, b"o");
            }
            let mut all = [0; 6];
            far.read_exact(&mut all).await.unwrap();
            assert_eq!(&all, b"octets");
            drop(near);
            assert_eq!(far.peek(&mut first).await.unwrap(), 0);
        }
    }

    /// More than the sockets hold, so that writing waits for the reader.
    #[tokio::test]
    async fn tls_runs_over_each_kind() {
        const RECORDS: usize = 1000;
        for (near, far) in pairs().await {
            let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
            let deadline = Instant::now() + Duration::from_secs(30);
            let trust = Arc::new(|_: &DeviceId| true);
            let (client, server) = tokio::join!(
                TlsStream::connect(near, &a, b.id(), deadline),
                TlsStream::accept(far, &b, trust, deadline),
            );
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            let octets = |n: usize| vec![n as u8; 16_000];
            tokio::join!(
                async {
                    for n in 0..RECORDS {
                        client.queue_record(&octets(n)).unwrap();
                        poll_fn(|cx| client.poll_flush(cx)).await.unwrap();
                    }
                },
                async {
                    let mut n = 0;
                    while n < RECORDS {
                        match server.next_record().unwrap() {
                            Some(record) => {
                                assert!(record.payload == octets(n), "record {n}");
                                n += 1;
                            }
                            None => {
                                poll_fn(|cx| server.poll_fill(cx)).await.unwrap();
                            }
                        }
                    }
                },
            );
        }
    }
}
