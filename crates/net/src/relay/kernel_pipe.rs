use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

/// What F_SETPIPE_SZ gives without privileges on a stock kernel
/// (/proc/sys/fs/pipe-max-size): 256 slots.
const LARGE_BYTES: usize = 1 << 20;
/// The kernel's default, 16 slots; enough to see what a slot holds.
const SMALL_BYTES: usize = 64 << 10;
/// A pipe's size is counted in pages of this size, one a slot.
const PAGE_BYTES: u64 = 4096;

/// A pipe(7) that socket pages pass through without being copied.
///
/// It holds so many slots, not so many bytes: a slot is one piece of a packet,
/// from a single packet's 1448 bytes to a merged one's 32 KiB.
#[derive(Debug)]
pub(super) struct KernelPipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    slots: u64,
    bytes: u64,
}

impl KernelPipe {
    /// A small pipe.
    pub(super) fn new() -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut pipe = Self {
            read_end,
            write_end,
            slots: 0,
            bytes: 0,
        };
        pipe.resize(SMALL_BYTES)?;
        Ok(pipe)
    }

    /// Makes the pipe as large as an ordinary user may.
    pub(super) fn enlarge(&mut self) -> io::Result<()> {
        self.resize(LARGE_BYTES)
    }

    fn resize(&mut self, bytes: usize) -> io::Result<()> {
        // A user's pipes together may be limited; a smaller one works as well,
        // only with more calls.
        let _ = fcntl_setpipe_size(&self.write_end, bytes);
        self.slots = fcntl_getpipe_size(&self.write_end)? as u64 / PAGE_BYTES;
        Ok(())
    }

    /// Pieces of packets that fit.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Bytes in the pipe. Nobody else has its ends, so this is FIONREAD
    /// without asking.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves up to `len` bytes in. `Ok(0)` is the end of the source;
    /// WouldBlock means that the source is empty or the pipe has no slot left.
    pub(super) fn fill_from(&mut self, source: &impl AsFd, len: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let n = splice(source, None, &self.write_end, None, len, flags)?;
        self.bytes += n as u64;
        Ok(n)
    }

    /// Moves bytes out, as many as the sink takes.
    pub(super) fn drain_to(&mut self, sink: &impl AsFd) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let len = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let n = splice(&self.read_end, None, sink, None, len, flags)?;
        self.bytes = self.bytes.saturating_sub(n as u64);
        Ok(n)
    }
}
