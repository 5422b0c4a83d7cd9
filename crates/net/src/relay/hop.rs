//! A relay's use of a socket. The relay is compiled for pipes over TCP and for all others, so that
//! one over TCP pays nothing for the others.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use mpbond_l2::Channel;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

use crate::l2::L2Stream;
use crate::pipe::UnixPipe;
use crate::tcp::{self, TcpInfo};

/// One of a relay's two connections.
pub(super) trait Hop: AsFd + Sync {
    /// Whether it has TCP_INFO and the options of TCP, splice(2) pays, and its two directions end
    /// separately.
    const IS_TCP: bool;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Completes when the connection has failed; detects a reset even while it is neither read nor
    /// written.
    fn failed(&self) -> impl Future<Output = io::Error> + Send;

    /// As `TcpStream::try_io` of tokio.
    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R>;

    /// Writes octets, as many as the socket accepts at once.
    fn send(&self, octets: &[u8]) -> io::Result<usize>;

    /// Reads octets; 0 at the end.
    fn receive(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Ends the direction that is written.
    fn end_write(&self) -> io::Result<()>;

    /// Octets that have arrived and wait to be read.
    fn unread_bytes(&self) -> io::Result<u64>;

    /// Octets written that are still at this host.
    fn unsent_bytes(&self) -> io::Result<u64>;

    /// Statistics of TCP; `None` for another kind.
    fn tcp_info(&self) -> io::Result<Option<TcpInfo>>;
}

impl Hop for TcpStream {
    const IS_TCP: bool = true;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_read_ready(self, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_write_ready(self, cx)
    }

    async fn failed(&self) -> io::Error {
        let ready = self.ready(Interest::ERROR).await;
        failure(ready, || self.take_error()).await
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        Self::try_io(self, interest, call)
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(send(self, octets, flags)?)
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self, into)?)
    }

    fn end_write(&self) -> io::Result<()> {
        end_write(self)
    }

    fn unread_bytes(&self) -> io::Result<u64> {
        tcp::receive_queue_bytes(self)
    }

    fn unsent_bytes(&self) -> io::Result<u64> {
        tcp::unsent_bytes(self)
    }

    fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        TcpInfo::read(self).map(Some)
    }
}

/// A pipe that is no TCP connection. The relay is compiled once for all kinds of them.
pub(super) enum Other<'a> {
    Unix(&'a UnixPipe),
    L2(&'a L2Stream),
}

impl AsFd for Other<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(unix) => unix.as_fd(),
            Self::L2(l2) => l2.as_fd(),
        }
    }
}

impl Hop for Other<'_> {
    const IS_TCP: bool = false;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Unix(unix) => unix.stream().poll_read_ready(cx),
            Self::L2(l2) => l2.poll_readable(cx).map(Ok),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Unix(unix) => unix.stream().poll_write_ready(cx),
            Self::L2(l2) => l2.poll_writable(cx).map(Ok),
        }
    }

    async fn failed(&self) -> io::Error {
        match self {
            Self::Unix(unix) => {
                let ready = unix.stream().ready(Interest::ERROR).await;
                failure(ready, || unix.stream().take_error()).await
            }
            Self::L2(l2) => l2.failed().await,
        }
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match self {
            Self::Unix(unix) => unix.stream().try_io(interest, call),
            Self::L2(_) => call(),
        }
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(unix) => unix.send(octets),
            Self::L2(l2) => l2.send(octets),
        }
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(unix) => Ok(rustix::io::read(unix, into)?),
            Self::L2(l2) => l2.receive(into),
        }
    }

    fn end_write(&self) -> io::Result<()> {
        match self {
            Self::Unix(unix) => end_write(unix),
            // A failure is reported by what waits for it.
            Self::L2(l2) => {
                let _ = l2.end_write();
                Ok(())
            }
        }
    }

    fn unread_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Unix(unix) => tcp::receive_queue_bytes(unix),
            Self::L2(l2) => Ok(l2.with_channel(Channel::readable)),
        }
    }

    fn unsent_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Unix(unix) => unix.queued_bytes(),
            Self::L2(l2) => Ok(l2.with_channel(Channel::unsent)),
        }
    }

    fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        Ok(None)
    }
}

fn end_write(socket: &impl AsFd) -> io::Result<()> {
    match shutdown(socket, Shutdown::Write) {
        // The peer may have reset it; a read reports that.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The error of a socket for which an event of an error has come.
async fn failure(
    ready: io::Result<Ready>,
    take: impl FnOnce() -> io::Result<Option<io::Error>>,
) -> io::Error {
    if let Err(e) = ready {
        return e;
    }
    match take() {
        Ok(Some(e)) | Err(e) => e,
        // A read or write has consumed the error and reports it.
        Ok(None) => std::future::pending().await,
    }
}
