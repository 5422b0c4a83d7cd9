//! A pipe over a Unix socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use rustix::net::{SendFlags, send};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::ledger::Ledger;
use crate::tcp;

/// Send buffer of a pipe, which the kernel doubles for its overhead: some frames of a Bluetooth
/// socket. What waits in it can no longer be sent another way.
const SEND_BUFFER_BYTES: usize = 8 << 10;

/// A stream socket within this host. It has no TCP_INFO; [`queued_bytes`](Self::queued_bytes) is
/// the only thing that is known about the other end.
#[derive(Debug)]
pub struct UnixPipe {
    stream: UnixStream,
    /// Octets written, in terms of the memory that the kernel counts. One thread uses a pipe, so
    /// the lock is free.
    ledger: Mutex<Ledger>,
}

impl UnixPipe {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// Error of connect(2): nobody listens there, or this user may not connect.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Self::with_short_queue(UnixStream::connect(path).await?)
    }

    /// A pipe whose send queue is short.
    ///
    /// # Errors
    /// Error of setsockopt(2).
    pub fn with_short_queue(stream: UnixStream) -> io::Result<Self> {
        SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES)?;
        Ok(stream.into())
    }

    /// Registers the socket with the current tokio runtime.
    pub(super) fn rehome(self) -> io::Result<Self> {
        let stream = UnixStream::from_std(self.stream.into_std()?)?;
        Ok(Self { stream, ..self })
    }

    /// Octets written that the other end has not read.
    ///
    /// # Errors
    /// Error of ioctl(2).
    pub fn queued_bytes(&self) -> io::Result<u64> {
        let outstanding = self.outstanding()?;
        Ok(self.ledger().queued(outstanding))
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Writes octets, as many as the socket accepts at once.
    pub(crate) fn send(&self, octets: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.noting(|| Ok(send(&self.stream, octets, flags)?))
    }

    /// Makes a write and notes what it added to the memory that is outstanding.
    fn noting(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let before = self.outstanding()?;
        let written = write()?;
        let after = self.outstanding()?;
        self.ledger()
            .wrote(written as u64, after.saturating_sub(before));
        Ok(written)
    }

    /// Memory of the octets that the other end has not read (SIOCOUTQ; `sk_wmem_alloc` in
    /// net/unix/af_unix.c): their buffers with all overhead, until a whole buffer has been read.
    fn outstanding(&self) -> io::Result<u64> {
        tcp::send_queue_bytes(&self.stream)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<UnixStream> for UnixPipe {
    fn from(stream: UnixStream) -> Self {
        Self {
            stream,
            ledger: Mutex::default(),
        }
    }
}

impl AsFd for UnixPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for UnixPipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, into)
    }
}

impl AsyncWrite for UnixPipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        loop {
            match me.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Poll::Pending,
            }
            let wrote = me
                .stream
                .try_io(tokio::io::Interest::WRITABLE, || me.send(octets));
            match wrote {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                wrote => return Poll::Ready(wrote),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of a connection, of which the first has a send buffer of 20 KiB.
    fn pair() -> (UnixPipe, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        SockRef::from(&near).set_send_buffer_size(10_240).unwrap();
        (near.into(), far)
    }

    /// What the kernel counts is more than the octets; the queue is exact at both ends, and too
    /// long by at most the write that is being read in between.
    #[tokio::test]
    async fn the_queue_of_a_socket_is_that_of_its_octets() {
        let (near, far) = pair();
        assert_eq!(near.queued_bytes().unwrap(), 0);
        let (mut sent, mut read, mut refused) = (0, 0, 0);
        for round in 0..200_usize {
            let octets = vec![0; 1 + round * 37 % 3000];
            match near.send(&octets) {
                Ok(n) => sent += n,
                Err(e) => {
                    assert_eq!(e.kind(), io::ErrorKind::WouldBlock, "{e}");
                    refused += 1;
                }
            }
            let counted = near.outstanding().unwrap();
            let queued = near.queued_bytes().unwrap();
            assert!(counted >= queued, "{counted} for {queued}");
            let waits = (sent - read) as u64;
            assert!(
                (waits..=waits + 3000).contains(&queued),
                "{queued} of {waits}"
            );
            if round % 3 == 0 {
                let mut into = vec![0; 2500];
                read += rustix::io::read(&far, &mut into).unwrap();
            }
        }
        assert!(refused > 0 && read > 0, "{refused} {read}");
        let mut into = vec![0; sent];
        while read < sent {
            read += rustix::io::read(&far, &mut into).unwrap();
        }
        assert_eq!(near.queued_bytes().unwrap(), 0);
    }

    #[tokio::test]
    async fn a_short_queue_is_short() {
        let (near, _far) = UnixStream::pair().unwrap();
        let near = UnixPipe::with_short_queue(near).unwrap();
        let mut written = 0;
        while let Ok(n) = near.send(&[0; 1400]) {
            written += n;
        }
        assert!((4_000..32_000).contains(&written), "{written}");
    }

    /// The kernel splits a large write into buffers of unequal overhead.
    #[tokio::test]
    async fn the_queue_is_not_too_short_while_a_large_write_is_read() {
        let (near, far) = pair();
        let sent = near.send(&[0; 20_005]).unwrap();
        assert!(sent > 10_000, "{sent}");
        let (mut read, mut into) = (0, [0; 64]);
        while read < sent {
            read += rustix::io::read(&far, &mut into).unwrap();
            let queued = near.queued_bytes().unwrap();
            let waits = (sent - read) as u64;
            assert!(
                (waits..=sent as u64).contains(&queued),
                "{queued} of {waits}"
            );
        }
        assert_eq!(near.queued_bytes().unwrap(), 0);
    }
}
