//! Time for which the threads of an experiment could run and waited for a processor.
//!
//! The kernel counts it for each thread (`run_delay`, the second number of
//! `/proc/PID/task/TID/schedstat`; Documentation/scheduler/sched-stats.rst), but not who had the
//! processor meanwhile: another program, or another thread of the experiment.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::processes;

/// Interval of readings. A thread that ends within it is missed; daemons, links, clients and the
/// origin live longer. A reading takes about half a millisecond of processor time.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum length of a process's name in records, in characters.
const MAX_NAME: usize = 40;

/// Waiting during a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// Duration of the measurement.
    pub seconds: f64,
    /// Of all threads together, in seconds.
    pub waited_s: f64,
    /// The process whose threads waited longest, and their time; `None` where none waited.
    pub longest: Option<(String, f64)>,
    /// Time that the hypervisor gave to others, as the mean of the processors, in seconds; zero
    /// where the kernel does not count it.
    pub steal_s: f64,
}

impl Waited {
    /// Time for which threads waited, and steal, as a share of the duration.
    pub(crate) fn share(&self) -> f64 {
        self.share_of(self.waited_s + self.steal_s)
    }

    /// A part of these, as a share of the duration.
    pub(crate) fn share_of(&self, seconds: f64) -> f64 {
        if self.seconds > 0.0 {
            seconds / self.seconds
        } else {
            0.0
        }
    }
}

/// Number of a process and of one of its threads.
type Thread = (u32, u32);

/// Account of all threads.
#[derive(Debug, Default)]
struct Account {
    /// Last counter of each thread, and its growth since the first reading, in nanoseconds.
    threads: HashMap<Thread, (u64, u64)>,
    begun: bool,
}

impl Account {
    /// Adds a reading. The counter of a thread that was not in the reading before has grown from
    /// zero, unless it is the first reading.
    fn add(&mut self, reading: impl IntoIterator<Item = (Thread, u64)>) {
        for (thread, now) in reading {
            let (last, grown) = (self.threads.entry(thread)).or_insert_with(|| match self.begun {
                true => (0, 0),
                false => (now, 0),
            });
            // A counter that has become smaller is that of another thread with the same number.
            *grown += now.checked_sub(*last).unwrap_or(now);
            *last = now;
        }
        self.begun = true;
    }

    fn all(&self) -> Duration {
        Duration::from_nanos(self.threads.values().map(|(_, grown)| grown).sum())
    }

    /// The process that waited longest.
    fn longest(&self) -> Option<(u32, Duration)> {
        let mut each: HashMap<u32, u64> = HashMap::new();
        for ((process, _), (_, grown)) in &self.threads {
            *each.entry(*process).or_default() += grown;
        }
        let most = each.into_iter().max_by_key(|(pid, ns)| (*ns, *pid))?;
        (most.1 > 0).then_some((most.0, Duration::from_nanos(most.1)))
    }
}

/// A thread that reads the counters until it is stopped.
pub(crate) struct Waits {
    stop: Sender<()>,
    thread: JoinHandle<Option<Waited>>,
}

impl Waits {
    /// Begins to count. `None` when there can be no thread.
    pub(crate) fn start() -> Option<Self> {
        let (stop, stopped) = channel::<()>();
        let (begun, begins) = channel::<()>();
        let run = move || {
            let mut account = Account::default();
            let mut names = HashMap::new();
            let steal = steal();
            let start = Instant::now();
            let counts = account_of(&mut account, &mut names);
            let _ = begun.send(());
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                account_of(&mut account, &mut names);
            }
            account_of(&mut account, &mut names);
            counts.then(|| Waited {
                seconds: start.elapsed().as_secs_f64(),
                waited_s: account.all().as_secs_f64(),
                longest: account.longest().map(|(pid, time)| {
                    let name = names.remove(&pid).unwrap_or_default();
                    (name, time.as_secs_f64())
                }),
                steal_s: self::steal().saturating_sub(steal).as_secs_f64(),
            })
        };
        let thread = std::thread::Builder::new().name("waits".into()).spawn(run);
        let thread = thread.ok()?;
        begins.recv().ok()?;
        Some(Self { stop, thread })
    }

    /// Waiting since the start. `None` where the kernel does not count it.
    pub(crate) fn finish(self) -> Option<Waited> {
        drop(self.stop);
        self.thread.join().ok()?
    }
}

fn steal() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    mean_steal(&stat)
}

/// The mean of the processors, from the text of `/proc/stat`.
fn mean_steal(stat: &str) -> Duration {
    let is_one = |line: &&str| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    let processors = stat.lines().filter(is_one).count().max(1);
    let all = processes::steal(stat).unwrap_or_default();
    all / u32::try_from(processors).unwrap_or(u32::MAX)
}

/// Adds a reading of all threads of this process and its descendants but the calling one; returns
/// whether the kernel counts.
fn account_of(account: &mut Account, names: &mut HashMap<u32, String>) -> bool {
    // Where `/proc` is that of an outer namespace, numbers are those outside.
    let number = |link: &str| {
        let path = std::fs::read_link(link).ok()?;
        path.file_name()?.to_str()?.parse::<u32>().ok()
    };
    let (Some(own), Some(this)) = (number("/proc/self"), number("/proc/thread-self")) else {
        return false;
    };
    let mut counts = false;
    let mut reading = Vec::new();
    for pid in processes::with_descendants(&processes::all(), own) {
        let folder = format!("/proc/{pid}/task");
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let text = std::fs::read_to_string(entry.path().join("schedstat"));
            let Some((ran, waited)) = text.ok().and_then(|text| parse(&text)) else {
                continue;
            };
            // A kernel without these counters shows zeros.
            counts |= ran > 0;
            if tid != this {
                reading.push(((pid, tid), waited));
            }
        }
        names.entry(pid).or_insert_with(|| match pid == own {
            true => "the lab".to_owned(),
            false => name_of(pid),
        });
    }
    account.add(reading);
    counts
}

/// Time for which a thread ran and for which it waited, in nanoseconds.
fn parse(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The program of a process, with its subcommand.
fn name_of(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    shown(&line)
}

fn shown(command_line: &[u8]) -> String {
    let text = String::from_utf8_lossy(command_line);
    let mut words = text.split('\0');
    let program = words.next().map(Path::new).and_then(Path::file_name);
    let mut name = program.unwrap_or_default().to_string_lossy().into_owned();
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_alphabetic());
    if let Some(word) = words.next().filter(|w| !w.is_empty()).filter(is_word) {
        name += " ";
        name += word;
    }
    let plain = |c: char| if c.is_control() { '?' } else { c };
    name.chars().map(plain).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_from_the_first_reading() {
        let mut account = Account::default();
        let ms = |ms: u64| ms * 1_000_000;
        account.add([((1, 1), ms(500)), ((1, 2), ms(100)), ((7, 7), ms(9))]);
        assert_eq!((account.all(), account.longest()), (Duration::ZERO, None));
        // 3 begins and waits; 2 is over, 8 begins and is over, 2 is another thread.
        account.add([((1, 1), ms(510)), ((1, 3), ms(5)), ((7, 8), ms(30))]);
        account.add([((1, 1), ms(511)), ((1, 3), ms(7)), ((1, 2), ms(4))]);
        assert_eq!(account.all(), Duration::from_millis(11 + 7 + 4 + 30));
        let longest = account.longest();
        assert_eq!(longest, Some((7, Duration::from_millis(30))));
    }

    #[test]
    fn lines_of_the_kernel_are_parsed() {
        assert_eq!(parse("578613 49524 1\n"), Some((578_613, 49_524)));
        assert_eq!(parse("0 0 0\n"), Some((0, 0)));
        assert_eq!(parse("578613\n"), None);
        assert_eq!(parse("-1 2 3\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn steal_is_that_of_one_processor() {
        let of = |rest: &str| mean_steal(&format!("cpu  1 2 3 4 5 6 7 8 0 0\n{rest}"));
        let two = "cpu0 1 2 3 4 5 6 7 2 0 0\ncpu1 1 2 3 4 5 6 7 6 0 0\nintr 9\ncpus 4\n";
        assert_eq!(of(two), Duration::from_millis(40));
        assert_eq!(of(""), Duration::from_millis(80));
        assert_eq!(mean_steal(""), Duration::ZERO);
    }

    #[test]
    fn processes_have_the_names_of_programs() {
        for (line, name) in [
            (
                &b"/usr/bin/mpbond\0proxy\0--config\0p.toml\0"[..],
                "mpbond proxy",
            ),
            (b"curl\0--silent\0", "curl"),
            (b"curl\0", "curl"),
            (b"", ""),
            (b"a\x1b[31m\xff\0", "a?[31m\u{fffd}"),
        ] {
            assert_eq!(shown(line), name);
        }
        assert_eq!(shown(&[b'x'; 200]).len(), MAX_NAME);
    }
}
