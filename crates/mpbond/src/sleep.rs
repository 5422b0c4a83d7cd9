//! Detection of system sleep. The clock of timers (CLOCK_MONOTONIC) stands still meanwhile, so that
//! no path appears silent; but proxies have given up connections, and NATs have dropped their
//! mappings.

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tracing::warn;

/// Expiry of the timer, in seconds since 1970: later than any daemon runs, since it exists only to
/// be cancelled. Where `time_t` has 32 bits, it ends in 2038.
const NEVER_S: u64 = if cfg!(target_pointer_width = "64") {
    4_102_444_800 // 2100-01-01
} else {
    i32::MAX as u64
};

/// Calls `slept` after each sleep of the host with its length, which is close to zero where only
/// the system's clock was set. Wakes up for nothing else; returns only where the kernel has no such
/// timers.
pub(crate) async fn watch(slept: impl Fn(Duration)) {
    let mut timer = match timer() {
        Ok(timer) => timer,
        Err(e) => return warn!(error = %e, "this device's sleep will not be noticed"),
    };
    let mut before = asleep();
    loop {
        // ECANCELED: the clock was set, or the host has woken up (timerfd_create(2)).
        match timer.read(&mut [0; 8]).await {
            Err(e) if e.raw_os_error() != Some(libc::ECANCELED) => {
                return warn!(error = %e, "this device's sleep is no longer noticed");
            }
            _ => {}
        }
        let now = asleep();
        if let Some(span) = now.checked_sub(before) {
            slept(span);
        }
        before = now;
    }
}

/// How long the host has slept since it booted: CLOCK_BOOTTIME counts that, CLOCK_MONOTONIC does
/// not.
fn asleep() -> Duration {
    let clock = |id| clock_gettime(id).map(Duration::from).unwrap_or_default();
    let monotonic = clock(nix::time::ClockId::CLOCK_MONOTONIC);
    clock(nix::time::ClockId::CLOCK_BOOTTIME).saturating_sub(monotonic)
}

/// A timer that is cancelled when the clock jumps, wrapped as a pipe, tokio's type for reading from
/// any descriptor.
fn timer() -> io::Result<Receiver> {
    let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
    let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
    timer.set(
        Expiration::OneShot(TimeSpec::from_duration(Duration::from_secs(NEVER_S))),
        TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET,
    )?;
    Receiver::from_owned_fd_unchecked(timer.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_kernel_has_such_timers_and_they_stay_quiet() {
        let watch = watch(|_| panic!("nobody has slept"));
        let ended = tokio::time::timeout(Duration::from_millis(50), watch).await;
        assert!(ended.is_err(), "it watches on");
    }
}
