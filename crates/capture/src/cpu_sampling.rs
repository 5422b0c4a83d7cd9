//! Processor log from the text of `/proc` (proc(5)).
//!
//! Shares follow Table 1 of "Trimming the Smartphone Network Stack": *stack* is the system time of
//! transferring processes; *driver* is irq time and the driver's kernel threads; *softirq* is the
//! time of softirqs, in which drivers poll (NAPI) and the stack receives: /proc does not divide it,
//! so that it stands for stack and driver; *logger* is the logging processes; *other* is all other
//! processes and the transferring ones' user time. Time that no process accounts for (some have
//! ended) is *unattributed* and shown. Time that a hypervisor stole from a core is not busy.
//!
//! Without CONFIG_IRQ_TIME_ACCOUNTING, irqs and softirqs are also system time of the process that
//! they interrupt, or in whose system call they run: `account_system_time` adds a tick to both. In
//! an idle processor they are in no process. *twice* is the system time of all processes that
//! `/proc/stat` does not have as system time. The shares without *twice*, less *twice*, are what
//! the cores were busy.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Flag of kernel threads (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Ticks of one core in `/proc/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// Fields: user, nice, system, idle, iowait, irq, softirq, steal.
    fields: [u64; 8],
}

impl CoreTicks {
    /// Idle, iowait, and steal: the core did nothing for this machine.
    const NOT_BUSY: [usize; 3] = [3, 4, 7];
    const SYSTEM: usize = 2;
    const IRQ: usize = 5;
    const SOFTIRQ: usize = 6;

    fn since(self, earlier: Self) -> Self {
        Self {
            // A core that was off may restart its counters.
            fields: std::array::from_fn(|i| self.fields[i].saturating_sub(earlier.fields[i])),
        }
    }

    fn all(self) -> u64 {
        self.fields.iter().sum()
    }

    fn busy(self) -> u64 {
        let not_busy: u64 = Self::NOT_BUSY.iter().map(|i| self.fields[*i]).sum();
        self.all() - not_busy
    }
}

/// Cores of `/proc/stat`, by number; other lines are skipped.
pub fn parse_stat(text: &str) -> Vec<(u16, CoreTicks)> {
    let core = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let mut ticks = CoreTicks::default();
        for field in &mut ticks.fields {
            *field = words.next()?.parse().ok()?;
        }
        Some((number, ticks))
    };
    text.lines().filter_map(core).collect()
}

/// Process as described by `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Name, at most 15 characters (64 for kernel threads).
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Ticks in user mode.
    pub user: u64,
    /// Ticks in kernel mode.
    pub system: u64,
    /// Start time, which distinguishes it from another process with the same ID.
    pub started: u64,
}

/// Parses `/proc/PID/stat`; `None` when malformed.
pub fn parse_process(text: &str) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    // A name may contain brackets and spaces.
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // proc(5) counts from one; the first field here is the third there.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        kernel: number(9)? & KERNEL_THREAD != 0,
        user: number(14)?,
        system: number(15)?,
        started: number(22)?,
    })
}

/// Assignment of processes to shares.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Names of transferring processes.
    pub transfer: Vec<String>,
    /// Name prefixes of the network driver's kernel threads.
    pub driver: Vec<String>,
    /// Names of logging processes, such as tcpdump.
    pub logger: Vec<String>,
    /// ID of the sampling process, which counts as a logger.
    pub own_pid: u32,
}

impl Parts {
    /// Kernel threads of common WiFi drivers, besides irq threads.
    pub fn common_drivers() -> Vec<String> {
        [
            "irq/",
            "dhd_",
            "bcmsdh",
            "wlan_logging",
            "MC_Thread",
            "scheduler_threa",
            "cfg80211",
            "napi/",
            "ksdioirqd",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// Converts samples to log lines.
#[derive(Debug)]
pub struct CpuSampler {
    parts: Parts,
    cores: HashMap<u16, CoreTicks>,
    /// Ticks by process ID: start time, user, system.
    processes: HashMap<u32, (u64, u64, u64)>,
    started: bool,
}

impl CpuSampler {
    /// A sampler without samples.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            cores: HashMap::new(),
            processes: HashMap::new(),
            started: false,
        }
    }

    /// Processes the contents of `/proc` at `time_s` and appends the lines for the time since the
    /// previous sample; the first call only reads the counters. `mhz` gives a core's frequency
    /// where the system reports it.
    pub fn sample(
        &mut self,
        time_s: f64,
        cores: &[(u16, CoreTicks)],
        mhz: impl Fn(u16) -> Option<f64>,
        processes: &[Process],
        lines: &mut String,
    ) {
        let mut elapsed = 0;
        let (mut busy, mut system, mut irq, mut softirq) = (0, 0, 0, 0);
        for &(core, ticks) in cores {
            let Some(before) = self.cores.insert(core, ticks) else {
                continue;
            };
            let delta = ticks.since(before);
            elapsed = elapsed.max(delta.all());
            busy += delta.busy();
            system += delta.fields[CoreTicks::SYSTEM];
            irq += delta.fields[CoreTicks::IRQ];
            softirq += delta.fields[CoreTicks::SOFTIRQ];
            let share = ratio(delta.busy(), delta.all());
            let _ = match mhz(core) {
                Some(mhz) => writeln!(lines, "{time_s:.3},core,{core},{mhz:.1},{share:.4}"),
                None => writeln!(lines, "{time_s:.3},core,{core},,{share:.4}"),
            };
        }
        let [mut stack, mut driver, mut logger, mut other] = [0, irq, 0, 0];
        let mut system_of_processes = 0;
        let mut now = HashMap::with_capacity(processes.len());
        for p in processes {
            now.insert(p.pid, (p.started, p.user, p.system));
            let before = match self.processes.get(&p.pid) {
                Some(&(started, user, system)) if started == p.started => (user, system),
                // Started since the last sample: all its ticks are new.
                _ if self.started => (0, 0),
                _ => continue,
            };
            let user = p.user.saturating_sub(before.0);
            let system = p.system.saturating_sub(before.1);
            // Its time is softirq time and counted there.
            if p.kernel && p.name.starts_with("ksoftirqd") {
                continue;
            }
            system_of_processes += system;
            let named = |names: &[String]| names.contains(&p.name);
            let begins = |names: &[String]| names.iter().any(|n| p.name.starts_with(n.as_str()));
            if p.pid == self.parts.own_pid || named(&self.parts.logger) {
                logger += user + system;
            } else if named(&self.parts.transfer) {
                stack += system;
                other += user;
            } else if p.kernel && begins(&self.parts.driver) {
                driver += user + system;
            } else {
                other += user + system;
            }
        }
        self.processes = now;
        if self.started {
            let share = |ticks: u64| ratio(ticks, elapsed);
            let known = [stack, softirq, driver, logger, other];
            // Of counters with errors of some ticks, so that only the means over a log are right:
            // without negative differences, the errors would add up.
            let twice = share(system_of_processes) - share(system);
            let unattributed = share(busy) - (share(known.iter().sum()) - twice);
            let names = ["stack", "softirq", "driver", "logger", "other"];
            let shares = names.into_iter().zip(known.map(share));
            let differences = [("unattributed", unattributed), ("twice", twice)];
            for (name, share) in shares.chain(differences) {
                // Negative zero is zero.
                let _ = writeln!(lines, "{time_s:.3},share,{name},,{:.4}", share + 0.0);
            }
        }
        self.started = true;
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 100 0 50 800 50 10 40 30 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5 6\n";

    #[test]
    fn proc_is_read() {
        let cores = parse_stat(STAT);
        assert_eq!(cores.len(), 2);
        assert_eq!(
            (cores[0].0, cores[0].1.all(), cores[0].1.busy()),
            (0, 1080, 200)
        );
        let line = "42 (a (b) c) S 1 42 42 0 -1 2097216 0 0 0 0 7 9 0 0 20 0 1 0 1234 0 0";
        let expect = Process {
            pid: 42,
            name: "a (b) c".to_owned(),
            kernel: true,
            user: 7,
            system: 9,
            started: 1234,
        };
        assert_eq!(parse_process(line), Some(expect));
        for cut in 0..line.len() - 8 {
            assert_eq!(parse_process(&line[..cut]), None, "{cut}");
        }
        assert_eq!(parse_stat("cpu0 1 2\ncpu\n").len(), 0);
    }

    fn process(
        pid: u32,
        name: &str,
        kernel: bool,
        user: u64,
        system: u64,
        started: u64,
    ) -> Process {
        Process {
            pid,
            name: name.to_owned(),
            kernel,
            user,
            system,
            started,
        }
    }

    #[test]
    fn shares_are_divided_as_the_paper_does() {
        let parts = Parts {
            transfer: vec!["curl".to_owned()],
            driver: Parts::common_drivers(),
            logger: vec!["tcpdump".to_owned()],
            own_pid: 5,
        };
        let mut sampler = CpuSampler::new(parts);
        let mut lines = String::new();
        let core = |busy: [u64; 8]| (0, CoreTicks { fields: busy });
        let at = |n: u64| {
            vec![
                process(1, "curl", false, 10 * n, 20 * n, 1),
                process(2, "dhd_dpc", true, 0, 5 * n, 1),
                process(3, "tcpdump", false, n, n, 1),
                process(4, "ksoftirqd/0", true, 0, 7 * n, 1),
                process(5, "self", false, n, 0, 1),
                process(6, "app", false, 3 * n, 1, 1),
            ]
        };
        sampler.sample(1.0, &[core([0; 8])], |_| None, &at(0), &mut lines);
        assert_eq!(lines, "", "the first sampling only notes");
        // 24 user, 26 system, 6 irq, 7 softirq of 100 ticks.
        let mut later = at(1);
        // A new process under an old number counts from its birth.
        later.push(process(7, "new", false, 2, 0, 9));
        sampler.sample(
            1.5,
            &[core([24, 0, 26, 37, 0, 6, 7, 0])],
            |_| Some(1200.0),
            &later,
            &mut lines,
        );
        let expect = "1.500,core,0,1200.0,0.6300\n\
            1.500,share,stack,,0.2000\n\
            1.500,share,softirq,,0.0700\n\
            1.500,share,driver,,0.1100\n\
            1.500,share,logger,,0.0300\n\
            1.500,share,other,,0.1500\n\
            1.500,share,unattributed,,0.0700\n\
            1.500,share,twice,,0.0000\n";
        assert_eq!(lines, expect);
        let text = format!("{}\n{lines}", crate::CPU_LOG_HEADER);
        let mut log = crate::CpuLog::new("it", text.as_bytes()).unwrap();
        let (at, cores) = log.next().unwrap().unwrap();
        assert_eq!((at.as_nanos(), cores.len()), (1_500_000_000, 1));
        assert_eq!(log.next().unwrap(), None);
    }

    #[test]
    fn ticks_of_softirqs_that_are_also_system_time_are_shown() {
        let parts = Parts {
            transfer: vec!["curl".to_owned()],
            ..Parts::default()
        };
        let mut sampler = CpuSampler::new(parts);
        let mut sample = |time_s: f64, ticks: [u64; 8], system: u64| {
            let mut lines = String::new();
            let processes = [
                process(1, "curl", false, ticks[0], system, 1),
                process(2, "ksoftirqd/0", true, 0, system, 1),
            ];
            let core = (0, CoreTicks { fields: ticks });
            sampler.sample(time_s, &[core], |_| None, &processes, &mut lines);
            let log = format!("{}\n{lines}", crate::CPU_LOG_HEADER);
            let mut log = crate::CpuLog::new("it", log.as_bytes()).unwrap();
            log.next().unwrap();
            log.shares().to_vec()
        };
        assert_eq!(sample(1.0, [0; 8], 0), []);
        // 30 ticks of softirqs: 20 in system calls of curl, 10 while the processor was idle.
        let shares = sample(2.0, [10, 0, 20, 40, 0, 0, 30, 0], 40);
        let named = |name: &str| shares.iter().find(|s| s.0 == name).unwrap().1;
        let names = [
            "stack",
            "softirq",
            "driver",
            "logger",
            "other",
            "unattributed",
            "twice",
        ];
        let [all @ .., twice] = names.map(named);
        assert_eq!(all, [0.4, 0.3, 0.0, 0.0, 0.1, 0.0]);
        assert_eq!(twice, 0.2);
        let busy = 0.6;
        assert!((all.iter().sum::<f64>() - twice - busy).abs() < 1e-9);
        // 10 ticks of system time, of which the counter of the process has 8 so far.
        let shares = sample(3.0, [10, 0, 30, 130, 0, 0, 30, 0], 48);
        let twice = shares.iter().find(|s| s.0 == "twice").unwrap().1;
        assert_eq!(twice, -0.02);
    }
}
