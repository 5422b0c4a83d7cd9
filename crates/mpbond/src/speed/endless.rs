//! End of a stream that sends octets, or discards them, as fast as the session allows.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mpbond_session::ResetCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::driver::AppSocket;

/// Octets that are taken from it at a time, at most.
const BLOCK_BYTES: usize = 64 << 10;

/// Ends by a reset when it is stopped, or with the first octet after its time.
pub(super) struct Endless {
    /// It sends; otherwise it discards.
    sends: bool,
    until: Instant,
    stopped: Rc<Cell<bool>>,
    /// The far end has finished.
    finished: bool,
    /// Waits for that.
    reader: Option<Waker>,
}

impl Endless {
    /// One that sends or discards until then, unless it is stopped.
    pub(super) fn new(sends: bool, until: Instant, stopped: Rc<Cell<bool>>) -> Self {
        Self {
            sends,
            until,
            stopped,
            finished: false,
            reader: None,
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.stopped.get() || Instant::now() >= self.until {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.sends {
            // Its own direction ends with the other one.
            if self.finished {
                return Poll::Ready(Ok(()));
            }
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.check()?;
        let n = buf.remaining().min(BLOCK_BYTES);
        buf.initialize_unfilled_to(n).fill(0);
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finished = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AppSocket for Endless {
    fn abort(self: Box<Self>, _: Option<ResetCode>) {
        self.stopped.set(true);
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.stopped.set(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_test_ends_when_its_time_is_over() {
        let end = |sends, until| Endless::new(sends, until, Rc::default());
        let later = Instant::now() + Duration::from_secs(3_600);
        let mut block = [1; 100];
        assert_eq!(end(true, later).read(&mut block).await.unwrap(), 100);
        assert_eq!(end(false, later).write(&block).await.unwrap(), 100);
        let now = Instant::now();
        assert!(end(true, now).read(&mut block).await.is_err());
        assert!(end(false, now).write(&block).await.is_err());
    }

    #[tokio::test]
    async fn what_discards_ends_with_the_far_end() {
        let later = Instant::now() + Duration::from_secs(3_600);
        let (mut reader, mut writer) = tokio::io::split(Endless::new(false, later, Rc::default()));
        let mut block = [0; 100];
        let (read, _) = tokio::join!(reader.read(&mut block), writer.shutdown());
        assert_eq!(read.unwrap(), 0);
    }
}
