//! `setns(2)` for a process that is about to be started.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Makes `command` start inside the network namespace that `netns` holds.
pub(crate) fn start_in(command: &mut Command, netns: Arc<File>) {
    let enter = move || {
        // SAFETY: one system call on a descriptor that the closure keeps open.
        if unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: between fork and exec the closure makes one system call,
    // `setns`, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(enter) };
}
