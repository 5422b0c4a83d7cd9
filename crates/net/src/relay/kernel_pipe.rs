use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// What F_SETPIPE_SZ gives without privileges on a stock kernel
/// (/proc/sys/fs/pipe-max-size): 256 slots, each a packet's payload.
const WANTED_BYTES: usize = 1 << 20;

/// A pipe(7) that socket pages pass through without being copied.
#[derive(Debug)]
pub(super) struct KernelPipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    bytes: u64,
}

impl KernelPipe {
    pub(super) fn new() -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user's pipes together may be limited; a small one works as well,
        // only with more calls.
        let _ = fcntl_setpipe_size(&write_end, WANTED_BYTES);
        Ok(Self {
            read_end,
            write_end,
            bytes: 0,
        })
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
