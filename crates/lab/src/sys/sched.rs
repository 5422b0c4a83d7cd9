//! `sched_setscheduler(2)`.

use std::io;

/// Gives the calling thread real-time priority, so that the link player wakes up at once while
/// daemons keep every core busy.
///
/// # Errors
/// `EPERM` for an ordinary user, also inside a user namespace.
pub(crate) fn become_fifo() -> io::Result<()> {
    let param = libc::sched_param {
        // Above ordinary threads is enough; kernel threads that serve interrupts run at 50 and must
        // stay ahead.
        sched_priority: 10,
    };
    // SAFETY: `param` lives across the call; pid 0 means the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives the calling thread the policy `SCHED_IDLE`: it runs when a processor has nothing else to
/// run (sched(7)).
///
/// # Errors
/// Errors of the system call.
pub(crate) fn become_idle() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` lives across the call; pid 0 means the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
