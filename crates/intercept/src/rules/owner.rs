//! Owner of an nftables table: a process, encoded in the table's name.

use std::fmt;
use std::fs;
use std::io;

/// Prefix of table names.
const PREFIX: &str = "mpbond_";

/// The process that owns a table. The start time distinguishes it from a later process with the
/// same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`
    /// (proc(5)).
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid)?
            .ok_or_else(|| io::Error::other("/proc has no start time of this process"))?;
        Ok(Self { pid, start_ticks })
    }

    /// The table's name.
    pub fn table(&self) -> String {
        format!("{PREFIX}{}_{}", self.pid, self.start_ticks)
    }

    /// The owner of a table with this name; `None` for tables of other programs.
    pub fn from_table(name: &str) -> Option<Self> {
        let (pid, start_ticks) = name.strip_prefix(PREFIX)?.split_once('_')?;
        let owner = Self {
            pid: pid.parse().ok()?,
            start_ticks: start_ticks.parse().ok()?,
        };
        // Only names exactly as written by `table`.
        (owner.table() == name).then_some(owner)
    }

    /// Whether the process is running; true if that cannot be determined.
    pub fn is_alive(&self) -> bool {
        match start_ticks(self.pid) {
            Ok(found) => found == Some(self.start_ticks),
            Err(_) => true,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// `None` when there is no such process.
fn start_ticks(pid: u32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse_start_ticks(&stat)
            .map(Some)
            .ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The process ended between open and read (ESRCH).
        Err(error) if error.raw_os_error() == Some(3) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The program's name, in parentheses, may contain spaces and parentheses: count from the last
/// closing one, after which field 3 follows.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        let owner = Owner {
            pid: 4711,
            start_ticks: 99,
        };
        assert_eq!(owner.table(), "mpbond_4711_99");
        assert_eq!(Owner::from_table("mpbond_4711_99"), Some(owner));
        for other in [
            "filter",
            "mpbond_",
            "mpbond_1",
            "mpbond_1_x",
            "mpbond_01_2",
            "mpbond_+1_2",
        ] {
            assert_eq!(Owner::from_table(other), None, "{other}");
        }
    }

    #[test]
    fn the_living_and_the_dead() {
        let me = Owner::current().unwrap();
        assert!(me.is_alive());
        let earlier = Owner {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert!(!earlier.is_alive());
        // Above the largest possible pid_max.
        let nobody = Owner { pid: 1 << 30, ..me };
        assert!(!nobody.is_alive());
    }

    #[test]
    fn odd_program_names() {
        let stat = "7 (a) S (b)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8315 1 2";
        assert_eq!(parse_start_ticks(stat), Some(8315));
        assert_eq!(parse_start_ticks("7 (a) S 1"), None);
        assert_eq!(parse_start_ticks(""), None);
    }
}
