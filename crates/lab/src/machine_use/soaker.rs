//! Idle time of every processor, by threads that compute while nothing else runs.
//!
//! The kernel's own counters miss time here: with tick accounting a short interrupt or softirq is
//! counted as the task that it interrupted, or not at all. So one thread of class `SCHED_IDLE` for
//! each processor repeats a fixed amount of work. Its pace without interruptions is known, so that
//! the number of repetitions gives the time in which the processor was idle.
//!
//! The pace is the 10th percentile of recent repetitions, not a constant: the clock frequency of a
//! processor changes with temperature and with the neighbours of a virtual machine.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::sys;

/// Duration of one repetition, about: long beside reading the clock, short beside a scheduler's
/// slice.
const REPETITION: Duration = Duration::from_micros(40);
/// Number of repetitions from which the pace is determined: at least 80 ms, so that the pace
/// follows the clock frequency, and its determination costs nothing.
const WINDOW: usize = 2048;
/// Number of repetitions that give the first pace, on a busy processor soon enough.
const FIRST_WINDOW: usize = 128;
/// Quantile of the durations that is the pace, in percent: above the scatter of the clock, below
/// interruptions.
const PACE_PERCENT: usize = 10;
/// Maximum time until each thread knows its pace, for which it needs 5 ms. Beside one ordinary
/// thread that always runs, a thread of class `SCHED_IDLE` gets one part in 300.
const CALIBRATION: Duration = Duration::from_secs(60);

/// The processors of the machine that are on, as ranges ("0-3,6").
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Idle time of one processor. Aligned so that no two threads write into one cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Idle {
    ns: AtomicU64,
    calibrated: AtomicBool,
}

/// A running thread on each processor of the machine.
#[derive(Debug)]
pub(crate) struct Soaker {
    idle: Arc<Vec<Idle>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Soaker {
    /// Starts the threads, and waits until each knows its pace.
    ///
    /// # Errors
    /// One line: a thread cannot be started or placed, this process may not use all processors, or
    /// one of them was too busy.
    pub(crate) fn start() -> Result<Self, String> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(|e| e.to_string())?;
        let processors: Vec<usize> = (0..CpuSet::count())
            .filter(|n| allowed.is_set(*n).unwrap_or(false))
            .collect();
        // Steal and the use by others are those of the whole machine.
        let text = std::fs::read_to_string(ONLINE).map_err(|e| format!("{ONLINE}: {e}"))?;
        check_use(&processors, &text)?;
        let idle: Vec<Idle> = processors.iter().map(|_| Idle::default()).collect();
        let mut soaker = Self {
            idle: Arc::new(idle),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for (index, processor) in processors.iter().copied().enumerate() {
            let (idle, stop) = (soaker.idle.clone(), soaker.stop.clone());
            let (told, hear) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new()
                .name("soaker".to_owned())
                .spawn(move || {
                    let placed = place(processor);
                    let may_run = placed.is_ok();
                    let _ = told.send(placed);
                    if let (true, Some(idle)) = (may_run, idle.get(index)) {
                        soak(idle, &stop);
                    }
                })
                .map_err(|e| format!("cannot start a thread: {e}"))?;
            soaker.threads.push(thread);
            let placed = hear.recv().map_err(|e| e.to_string())?;
            placed.map_err(|e| format!("cannot compute on processor {processor}: {e}"))?;
        }
        let start = Instant::now();
        while let Some(n) = soaker.uncalibrated() {
            if start.elapsed() > CALIBRATION {
                let processor = processors.get(n).copied().unwrap_or(n);
                return Err(format!("processor {processor} was too busy to calibrate"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(soaker)
    }

    fn uncalibrated(&self) -> Option<usize> {
        let known = |idle: &Idle| idle.calibrated.load(Ordering::Acquire);
        self.idle.iter().position(|idle| !known(idle))
    }

    /// Number of processors.
    pub(crate) fn processors(&self) -> usize {
        self.idle.len()
    }

    /// Idle time of all processors together, since the threads were calibrated.
    pub(super) fn idle(&self) -> Duration {
        let each = self.idle.iter();
        Duration::from_nanos(each.map(|idle| idle.ns.load(Ordering::Relaxed)).sum())
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Checks that `usable` are all processors in the text of [`ONLINE`].
fn check_use(usable: &[usize], online: &str) -> Result<(), String> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|n| n.parse::<usize>().ok());
        last?.checked_sub(first?)?.checked_add(1)
    };
    let of: Option<usize> = online.trim().split(',').map(count).sum();
    let of = of.ok_or_else(|| format!("{ONLINE}: not a list of processors"))?;
    let may_use = usable.len();
    match may_use >= of {
        true => Ok(()),
        false => Err(format!(
            "this process may use {may_use} of {of} processors; run it without taskset or a cpuset"
        )),
    }
}

fn place(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    sys::sched::become_idle()
}

/// Idle time from the durations of repetitions.
#[derive(Debug)]
struct Account {
    took_ns: Vec<u64>,
    window: usize,
    /// 0 until it is known.
    pace_ns: u64,
}

impl Account {
    fn new() -> Self {
        Self {
            took_ns: Vec::with_capacity(WINDOW),
            window: FIRST_WINDOW,
            pace_ns: 0,
        }
    }

    /// The idle time in a repetition: its duration without interruptions, at the pace known before
    /// it.
    fn repeated(&mut self, took_ns: u64) -> u64 {
        self.took_ns.push(took_ns);
        self.pace_ns
    }

    /// Determines the pace after enough repetitions, and returns whether it did.
    fn renew(&mut self) -> bool {
        let is_full = self.took_ns.len() == self.window;
        if is_full {
            self.pace_ns = pace(&mut self.took_ns);
            self.took_ns.clear();
            self.window = WINDOW;
        }
        is_full
    }

    /// The idle time in a determination of the pace, which is no use by others; an interruption of
    /// it is.
    fn idle_of_renewal(&self, took_ns: u64) -> u64 {
        took_ns.min(self.pace_ns)
    }
}

/// Repeats the work and adds up idle time, until `stop`.
fn soak(idle: &Idle, stop: &AtomicBool) {
    let rounds = rounds_of(REPETITION);
    let mut account = Account::new();
    let mut state = 1;
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        state = work(state, rounds);
        let now = Instant::now();
        let unused = account.repeated(ns(now.duration_since(before)));
        idle.ns.fetch_add(unused, Ordering::Relaxed);
        before = now;
        if account.renew() {
            idle.calibrated.store(true, Ordering::Release);
            before = Instant::now();
            let own = account.idle_of_renewal(ns(before.duration_since(now)));
            idle.ns.fetch_add(own, Ordering::Relaxed);
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Multiplications in sequence, each of which needs the result of the one before: their duration
/// depends on the clock frequency, and hardly on what runs beside them on the same core.
fn work(mut state: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        state = black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
    state
}

/// The number of rounds that take about `time`, from the fastest of several attempts.
fn rounds_of(time: Duration) -> u32 {
    const TRY: u32 = 10_000;
    let attempt = |_| {
        let start = Instant::now();
        black_box(work(1, TRY));
        start.elapsed().as_nanos()
    };
    let ns = (0..20).map(attempt).min().unwrap_or(1).max(1);
    let rounds = time.as_nanos() * u128::from(TRY) / ns;
    u32::try_from(rounds).unwrap_or(u32::MAX).max(1)
}

/// The duration of a repetition without interruptions.
fn pace(took_ns: &mut [u64]) -> u64 {
    let index = took_ns.len() * PACE_PERCENT / 100;
    match took_ns {
        [] => 0,
        some => *some.select_nth_unstable(index).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processors_are_needed() {
        assert_eq!(check_use(&[0, 1], "0-1\n"), Ok(()));
        assert_eq!(check_use(&[0, 2, 3], "0,2-3\n"), Ok(()));
        assert_eq!(
            check_use(&[2, 3], "0-7\n").unwrap_err(),
            "this process may use 2 of 8 processors; run it without taskset or a cpuset"
        );
        for text in ["", "0-", "a", "0 1", "-1", "3-1"] {
            assert!(check_use(&[0], text).unwrap_err().contains("not a list"));
        }
    }

    /// The idle time that a thread of the account counts in repetitions of these durations.
    fn idle_ns(account: &mut Account, took_ns: impl IntoIterator<Item = u64>) -> u64 {
        let each = took_ns.into_iter().map(|took| {
            let idle = account.repeated(took);
            account.renew();
            idle
        });
        each.sum()
    }

    #[test]
    fn interruptions_are_not_idle_time() {
        let mut account = Account::new();
        // Nothing counts until the pace is known.
        assert_eq!(idle_ns(&mut account, vec![40_000; FIRST_WINDOW - 1]), 0);
        account.repeated(40_000);
        assert!(account.renew() && !account.renew());
        assert_eq!(account.idle_of_renewal(3_000), 3_000);
        assert_eq!(account.idle_of_renewal(900_000), 40_000);
        // Every tenth repetition is interrupted for 300 us: 100 of 1000 times.
        let tenth = |n: u64| {
            if n.is_multiple_of(10) {
                340_000
            } else {
                40_000
            }
        };
        let took = || (0..1000).map(tenth);
        let idle = idle_ns(&mut account, took());
        assert_eq!(took().sum::<u64>() - idle, 100 * 300_000);
        // At half the clock frequency: one window until the new pace is known.
        let rest = WINDOW - 1000;
        assert_eq!(
            idle_ns(&mut account, vec![80_000; rest]),
            rest as u64 * 40_000
        );
        let slow = idle_ns(&mut account, vec![80_000; WINDOW]);
        assert_eq!(slow, WINDOW as u64 * 40_000);
        assert_eq!(idle_ns(&mut account, vec![80_000; 10]), 800_000);
    }

    #[test]
    fn interruptions_do_not_change_the_pace() {
        let mut took: Vec<u64> = (0..100).map(|n| 1000 + n % 5).collect();
        assert_eq!(pace(&mut took), 1000);
        // Two thirds are interrupted.
        let mut took: Vec<u64> = (0..300)
            .map(|n| if n % 3 == 0 { 1000 } else { 9000 })
            .collect();
        assert_eq!(pace(&mut took), 1000);
        assert_eq!(pace(&mut []), 0);
    }
}
