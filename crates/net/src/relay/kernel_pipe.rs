//! A pipe(7) for splice(2) between sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

/// Size that F_SETPIPE_SZ grants without privileges on a default kernel
/// (/proc/sys/fs/pipe-max-size): 256 slots.
const LARGE_BYTES: usize = 1 << 20;
/// The kernel's default size, 16 slots; enough to measure the bytes per slot.
const SMALL_BYTES: usize = 64 << 10;
/// Page size: a pipe has one slot per page of its size.
const PAGE_BYTES: u64 = 4096;

/// A pipe(7) through which socket pages pass without a copy.
///
/// Its capacity is a number of slots, not of bytes: a slot holds one fragment, from the 1448 bytes
/// of a single packet to the 32 KiB of a merged one (GRO).
#[derive(Debug)]
pub(super) struct KernelPipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    slots: u64,
    bytes: u64,
}

impl KernelPipe {
    /// Creates a pipe of the default size.
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

    /// Enlarges the pipe to the limit of an unprivileged user.
    pub(super) fn enlarge(&mut self) -> io::Result<()> {
        self.resize(LARGE_BYTES)
    }

    fn resize(&mut self, bytes: usize) -> io::Result<()> {
        // The total of a user's pipes may be limited; a smaller pipe works with more calls.
        let _ = fcntl_setpipe_size(&self.write_end, bytes);
        self.slots = fcntl_getpipe_size(&self.write_end)? as u64 / PAGE_BYTES;
        Ok(())
    }

    /// Capacity in slots.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Bytes in the pipe, as FIONREAD would report; the ends are not shared, so a count suffices.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Splices up to `len` bytes in. `Ok(0)` is the end of the source; WouldBlock means that the
    /// source is empty or the pipe has no free slot.
    pub(super) fn fill_from(&mut self, source: &impl AsFd, len: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let n = splice(source, None, &self.write_end, None, len, flags)?;
        self.bytes += n as u64;
        Ok(n)
    }

    /// Splices up to `most` bytes out, as many as the sink accepts.
    pub(super) fn drain_to(&mut self, sink: &impl AsFd, most: u64) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let len = usize::try_from(self.bytes.min(most)).unwrap_or(usize::MAX);
        let n = splice(&self.read_end, None, sink, None, len, flags)?;
        self.bytes = self.bytes.saturating_sub(n as u64);
        Ok(n)
    }
}
