//! `tcsetpgrp(3)`.

/// Gives the terminal at standard input, if there is one, back to this process's group: a shell in
/// namespaces of its own takes it and cannot name the group that had it before.
pub(crate) fn take_back() {
    // SAFETY: plain system calls on values. SIGTTOU, which stops a background
    // process that does this, is blocked on this thread meanwhile.
    unsafe {
        if libc::isatty(libc::STDIN_FILENO) != 1 {
            return;
        }
        let mut stop: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut stop);
        libc::sigaddset(&raw mut stop, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const stop, &raw mut before);
        libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}
