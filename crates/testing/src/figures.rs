//! Figures that hold on a machine with time left: measured again while other programs keep its
//! processors busy.

use std::collections::HashMap;
use std::fs;
use std::process;
use std::thread::sleep;
use std::time::Duration;

use crate::Need;

/// Measurements before a result counts.
const ATTEMPTS: usize = 3;

/// Pause before a measurement is repeated: a build or another test may end meanwhile.
const PAUSE: Duration = Duration::from_secs(5);

/// Part of all processors that other programs may use while a figure is measured.
const OTHERS_MAY_USE: f64 = 0.25;

/// Multiple of a bound that a figure stays within however busy the machine is.
const BUSY_FACTOR: u32 = 5;

/// Asserts that a figure is within its bound. It is measured up to three times: an attempt within
/// the bound is enough. Where the machine was busy with other programs during any of them, five
/// times the bound is enough, and [`Need::Idle`] is missing.
///
/// For roles ([`crate::namespaces`]): programs that this process has not started are others.
///
/// # Panics
/// When the figure is beyond its bound although processors were free, or beyond five times of it.
pub fn is_within(what: &str, bound: Duration, mut measure: impl FnMut() -> Duration) {
    let mut attempts = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let before = Use::now();
        let figure = measure();
        let others = Use::now().others_since(&before);
        eprintln!(
            "figure: {what}: {figure:?} of {bound:?} (others use {:.0} % of the processors)",
            others * 100.0
        );
        if figure <= bound {
            return;
        }
        attempts.push((figure, others));
        if attempt < ATTEMPTS {
            sleep(PAUSE);
        }
    }
    if let Some(fault) = fault(bound, &attempts) {
        panic!("{what}: {fault}: {attempts:?}");
    }
    Need::Idle.is_missing(format_args!(
        "{what}: more than {bound:?} while other programs use processors: {attempts:?}"
    ));
}

/// What figures beyond their bound show, with the part of all processors that others have used
/// meanwhile; nothing where the machine was too busy.
fn fault(bound: Duration, attempts: &[(Duration, f64)]) -> Option<String> {
    if attempts.iter().all(|(_, others)| *others <= OTHERS_MAY_USE) {
        return Some(format!("more than {bound:?} with processors to spare"));
    }
    let most = bound * BUSY_FACTOR;
    let is_beyond = attempts.iter().all(|(figure, _)| *figure > most);
    is_beyond.then(|| format!("more than {most:?}, also for a busy machine"))
}

/// The median of several figures; the larger one of two in the middle.
///
/// # Panics
/// When there is none.
pub fn median(mut figures: Vec<Duration>) -> Duration {
    figures.sort();
    figures[figures.len() / 2]
}

/// Processor time in ticks since the machine started.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Use {
    /// All time, and the part in which processors were idle.
    all: u64,
    idle: u64,
    /// Time of this process and of those that it has started.
    own: u64,
}

impl Use {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let (all, idle) = machine(&stat);
        let own = own(process::id(), &processes());
        Self { all, idle, own }
    }

    /// Part of all processors that other programs have used since, other virtual machines
    /// included.
    fn others_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let own = self.own.saturating_sub(before.own);
        let others = all.saturating_sub(idle).saturating_sub(own);
        others as f64 / all.max(1) as f64
    }
}

/// All time and idle time in the first line of `/proc/stat` (proc_stat(5)): user, nice, system,
/// idle, iowait, irq, softirq, steal. Guests are part of user.
fn machine(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = { line.split_whitespace().skip(1) }
        .map_while(|field| field.parse().ok())
        .take(8)
        .collect();
    (fields.iter().sum(), fields.iter().skip(3).take(2).sum())
}

/// A process: its parent, and its processor time with that of children that have ended.
type Processes = HashMap<u32, (u32, u64)>;

fn processes() -> Processes {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    folders
        .filter_map(|folder| {
            let id = folder.file_name().to_str()?.parse().ok()?;
            // It may have ended.
            let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
            Some((id, process_of(&stat)?))
        })
        .collect()
}

/// Parent and time in a line of `/proc/PID/stat` (proc_pid_stat(5)).
fn process_of(stat: &str) -> Option<(u32, u64)> {
    // After the name in brackets: state, ppid; utime is the 12th field, then stime, cutime, cstime.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let times = fields.get(11..15)?;
    let time = times.iter().map_while(|field| field.parse::<u64>().ok());
    Some((fields.get(1)?.parse().ok()?, time.sum()))
}

/// Time of a process and of all that descend from it.
fn own(root: u32, processes: &Processes) -> u64 {
    let descends = |id: u32| {
        let mut ancestor = id;
        // A number that is used again could make a circle.
        for _ in 0..processes.len() {
            match processes.get(&ancestor) {
                _ if ancestor == root => return true,
                Some((parent, _)) => ancestor = *parent,
                None => return false,
            }
        }
        false
    };
    let own = processes.iter().filter(|(id, _)| descends(**id));
    own.map(|(_, (_, time))| time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_is_what_this_process_and_its_children_have_not_used() {
        let stat = "cpu  100 20 30 500 50 3 4 5 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(machine(stat), (712, 550));
        let line = "7 (a name) S 5 7 7 0 -1 1 2 3 4 5 11 12 13 14 20 0";
        assert_eq!(process_of(line), Some((5, 50)));
        let processes = Processes::from([
            (1, (0, 1_000)),
            (5, (1, 3)),
            (7, (5, 50)),
            (8, (7, 6)),
            (9, (1, 900)),
        ]);
        assert_eq!(own(5, &processes), 59);
        let before = Use {
            all: 1_000,
            idle: 200,
            own: 100,
        };
        let after = Use {
            all: 2_000,
            idle: 500,
            own: 400,
        };
        assert!((after.others_since(&before) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn this_process_uses_time() {
        let before = Use::now();
        let began = std::time::Instant::now();
        loop {
            let now = Use::now();
            if now.own > before.own && now.all > before.all {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{now:?}");
        }
    }

    #[test]
    fn figures_beyond_their_bound_are_faults_unless_others_kept_the_machine_busy() {
        let bound = Duration::from_secs(2);
        let fault = |attempts: &[(u64, f64)]| {
            let attempts: Vec<_> = { attempts.iter() }
                .map(|(figure, others)| (Duration::from_secs(*figure), *others))
                .collect();
            fault(bound, &attempts).is_some()
        };
        assert!(fault(&[(3, 0.1), (3, 0.2), (3, 0.0)]));
        assert!(!fault(&[(3, 0.9), (3, 0.3), (11, 0.9)]));
        assert!(fault(&[(11, 0.9), (12, 0.3), (11, 0.9)]));
    }

    #[test]
    fn a_figure_within_its_bound_is_measured_once() {
        let mut count = 0;
        is_within("none", Duration::ZERO, || {
            count += 1;
            Duration::ZERO
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn a_median_is_in_the_middle() {
        let ms = Duration::from_millis;
        assert_eq!(median(vec![ms(9), ms(1), ms(5)]), ms(5));
    }
}
