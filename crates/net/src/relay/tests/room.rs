//! Room of a direction whose sink sends a little at a time.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::task::Waker;

use tokio::io::Interest;

use super::super::direction::Limits;
use super::*;
use crate::tcp::TcpInfo;

const BOUND_BYTES: u64 = 1 << 20;

/// A source that always has bytes, and a sink that has room for some.
struct Fake {
    null: File,
    room: AtomicU64,
    reads: AtomicU64,
}

impl Fake {
    fn new() -> Self {
        Self {
            null: File::open("/dev/null").unwrap(),
            room: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }
}

impl AsFd for Fake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }
}

impl Hop for Fake {
    const IS_TCP: bool = false;

    fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.room.load(Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    async fn failed(&self) -> io::Error {
        std::future::pending().await
    }

    fn try_io<R>(&self, _: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        call()
    }

    fn send(&self, octets: &[u8]) -> io::Result<usize> {
        let room = self.room.load(Relaxed);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = room.min(octets.len() as u64);
        self.room.fetch_sub(n, Relaxed);
        Ok(n as usize)
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        Ok(into.len())
    }

    fn end_write(&self) -> io::Result<()> {
        Ok(())
    }

    fn unread_bytes(&self) -> io::Result<u64> {
        Ok(BOUND_BYTES)
    }

    fn unsent_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        Ok(None)
    }
}

/// Each packet that the sink sends makes room for another one, which is not read by itself.
#[tokio::test]
async fn what_waits_for_a_slower_hop_is_read_in_large_parts() {
    let (source, sink) = (Fake::new(), Fake::new());
    let mut direction = Direction::new(BOUND_BYTES, false, LONGEST_TICK);
    let mut cx = Context::from_waker(Waker::noop());
    let limits = Limits {
        budget: None,
        pace: None,
    };
    let (mut read, mut written) = (0, 0);
    for _ in 0..10_000 {
        sink.room.fetch_add(1448, Relaxed);
        while let Poll::Ready(moved) = direction.poll_turn(&mut cx, &source, &sink, limits) {
            let moved = moved.unwrap();
            read += moved.read;
            written += moved.written;
            assert!(direction.held_bytes() <= BOUND_BYTES);
        }
    }
    assert!(written > 10_000 * 1448 - BOUND_BYTES);
    let reads = source.reads.load(Relaxed);
    assert!(read / reads > 32 << 10, "{read} bytes in {reads} reads");
}
