//! A daemon under test, and the kernel's counters of its process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// A running daemon; ended on drop.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
}

/// Resources of a process at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub resident_kb: u64,
    /// Maximum since its start.
    pub peak_kb: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub cpu: Duration,
    /// Voluntary context switches of all threads, which count wake-ups.
    pub wakeups: u64,
}

impl Daemon {
    /// Starts `mpbond ROLE --config FILE`, with a limit of descriptors if one is given, and waits
    /// until it answers on its status socket.
    pub fn start(
        mpbond: &Path,
        role: &str,
        config: &Path,
        socket: &Path,
        descriptors: Option<u64>,
    ) -> anyhow::Result<Self> {
        let mut command = match descriptors {
            None => Command::new(mpbond),
            Some(n) => {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", &format!("ulimit -n {n} && exec \"$0\" \"$@\"")])
                    .arg(mpbond);
                shell
            }
        };
        let log = fs::File::create(config.with_extension("log"))?;
        let child = command
            .args([role, "--config"])
            .arg(config)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", mpbond.display()))?;
        let mut daemon = Self {
            child,
            socket: socket.to_owned(),
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while mpbond::status_socket::ask(&daemon.socket).is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                let said = fs::read_to_string(config.with_extension("log")).unwrap_or_default();
                bail!("the {role} ended at once ({status}): {}", said.trim());
            }
            if Instant::now() > deadline {
                bail!("the {role} does not answer on its status socket");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    /// Whether it is still running.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn status(&self) -> anyhow::Result<mpbond::status::Status> {
        mpbond::status_socket::ask(&self.socket).context("asking for the status")
    }

    pub fn usage(&self) -> anyhow::Result<Usage> {
        usage(self.child.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn field(text: &str, name: &str) -> anyhow::Result<u64> {
    let line = text.lines().find(|l| l.starts_with(name));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .with_context(|| format!("{name} in /proc/PID/status"))
}

fn usage(pid: u32) -> anyhow::Result<Usage> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let status = fs::read_to_string(folder.join("status"))?;
    let mut usage = Usage {
        resident_kb: field(&status, "VmRSS:")?,
        peak_kb: field(&status, "VmHWM:")?,
        threads: field(&status, "Threads:")?,
        descriptors: fs::read_dir(folder.join("fd"))?.count() as u64,
        ..Usage::default()
    };
    let stat = fs::read_to_string(folder.join("stat"))?;
    // Fields 14 and 15, counted behind the name, which may hold anything.
    let (_, behind) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let ticks: u64 = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    usage.cpu = Duration::from_millis(ticks * 10); // USER_HZ is 100 on all that Linux runs on
    for task in fs::read_dir(folder.join("task"))? {
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        usage.wakeups += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
    }
    Ok(usage)
}
