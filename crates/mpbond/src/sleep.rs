//! When this host has slept. Its clock for timers stood still meanwhile (CLOCK_MONOTONIC), so that
//! nothing seems to have been silent; but proxies have given connections up, and NATs have forgotten
//! them.

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tracing::{info, warn};

/// A shorter sleep leaves connections as they were; should one of them be dead, its silence tells.
const LONG: Duration = Duration::from_secs(10);

/// Further ahead than any daemon runs: the timer is there to be cancelled.
const NEVER_S: i64 = 4_102_444_800; // 2100-01-01

/// Calls `slept` after each long sleep of the host. Wakes up for nothing else but settings of the
/// system's clock; never returns unless the kernel has no such timers.
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
                return warn!(error = %e, "this device's sleep is noticed no more");
            }
            _ => {}
        }
        let now = asleep();
        if let Some(span) = long(before, now) {
            info!(seconds = span.as_secs(), "this device has slept");
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

fn long(before: Duration, now: Duration) -> Option<Duration> {
    now.checked_sub(before).filter(|span| *span >= LONG)
}

/// Far ahead, and cancelled when the clock jumps. A pipe is what tokio reads from a descriptor that
/// somebody else made.
fn timer() -> io::Result<Receiver> {
    let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
    let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
    timer.set(
        Expiration::OneShot(TimeSpec::new(NEVER_S, 0)),
        TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET,
    )?;
    Receiver::from_owned_fd_unchecked(timer.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_is_one_and_a_nap_or_a_clock_that_was_set_is_none() {
        let s = Duration::from_secs;
        assert_eq!(long(s(100), s(3_700)), Some(s(3_600)));
        assert_eq!(long(s(100), s(105)), None);
        assert_eq!(long(s(100), s(100)), None);
        assert_eq!(long(s(100), s(99)), None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_kernel_has_such_timers_and_they_stay_quiet() {
        let watch = watch(|_| panic!("nobody has slept"));
        let ended = tokio::time::timeout(Duration::from_millis(50), watch).await;
        assert!(ended.is_err(), "it watches on");
    }
}
