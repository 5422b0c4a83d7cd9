//! A relay's use of a socket. The relay is compiled for each kind of pipe, so that one over TCP
//! pays nothing for the others.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use rustix::net::{SendFlags, send};
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

use crate::pipe::UnixPipe;
use crate::tcp::{self, TcpInfo};

/// One of a relay's two connections.
pub(super) trait Hop: AsFd + Sync {
    /// Whether it has TCP_INFO and the options of TCP, splice(2) pays, and its two directions end
    /// separately.
    const IS_TCP: bool;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send;
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    /// As `TcpStream::try_io` of tokio.
    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R>;

    /// Writes octets, as many as the socket accepts at once.
    fn send(&self, octets: &[u8]) -> io::Result<usize>;

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

    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send {
        Self::ready(self, interest)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Self::take_error(self)
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        Self::try_io(self, interest, call)
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(send(self, octets, flags)?)
    }

    fn unsent_bytes(&self) -> io::Result<u64> {
        tcp::unsent_bytes(self)
    }

    fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        TcpInfo::read(self).map(Some)
    }
}

impl Hop for UnixPipe {
    const IS_TCP: bool = false;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_write_ready(cx)
    }

    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send {
        self.stream().ready(interest)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream().take_error()
    }

    fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.stream().try_io(interest, call)
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        Self::send(self, octets)
    }

    fn unsent_bytes(&self) -> io::Result<u64> {
        self.queued_bytes()
    }

    fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        Ok(None)
    }
}
