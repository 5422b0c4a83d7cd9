//! A connection that fails when its client does not read.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes wait for `limit` at most.
#[derive(Debug)]
pub(super) struct Patience<S> {
    stream: S,
    limit: Duration,
    /// While a write waits: when it fails.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patience<S> {
    pub fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            waiting: None,
        }
    }

    fn bound<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = None;
            return result;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        let over = waiting.as_mut().poll(context);
        over.map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, octets);
        self.bound(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bound(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.bound(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn writes_to_who_does_not_read_fail() {
        let (near, _far) = tokio::io::duplex(10);
        let mut near = Patience::new(near, Duration::from_millis(50));
        let e = run(async move { near.write_all(&[0; 11]).await }).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn writes_to_who_reads_arrive() {
        let (near, mut far) = tokio::io::duplex(10);
        let mut near = Patience::new(near, Duration::from_secs(3600));
        let read = run(async move {
            let writes = async {
                near.write_all(&[7; 1000]).await.unwrap();
                drop(near);
            };
            let mut all = Vec::new();
            let (_, read) = tokio::join!(writes, far.read_to_end(&mut all));
            (read.unwrap(), all)
        });
        assert_eq!(read, (1000, vec![7; 1000]));
    }
}
