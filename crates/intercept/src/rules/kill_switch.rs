//! Kill switch: rules that keep applications from the network while no primary runs.
//!
//! The rules are a table of their own, without an owner: it outlives the daemon, however that
//! ends, and stays until [`remove`]. It is effective beside the rules of interception, too:
//! intercepted packets go to this host and the daemon's own are marked, so that neither is
//! rejected. A primary that starts replaces the table in one transaction; there is no moment
//! without it.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::check::check;
use super::config::RulesConfig;
use super::error::RulesError;
use super::script;
use super::tools::run;

/// Name of the table, in nft's family `inet`.
pub const TABLE: &str = "mpbond_kill_switch";

/// Installs the rules, in the place of earlier ones. Marks, endpoints, exclusions and forwarded
/// interfaces of the configuration are used.
///
/// # Errors
/// [`RulesError`]; earlier rules remain then.
pub fn install(config: &RulesConfig) -> Result<(), RulesError> {
    check(config)?;
    let script = script::kill_switch(config, TABLE);
    run("nft", &["-f", "-"], Some(&script)).map(drop)
}

/// Whether the rules are installed.
///
/// # Errors
/// When `nft` cannot be run or fails, most often for lack of CAP_NET_ADMIN.
pub fn is_installed() -> Result<bool, RulesError> {
    let tables = run("nft", &["list", "tables", "inet"], None)?;
    let own = format!("table inet {TABLE}");
    Ok(tables.lines().any(|line| line == own))
}

/// Removes the rules; returns whether there were any.
///
/// # Errors
/// As [`is_installed`].
pub fn remove() -> Result<bool, RulesError> {
    let installed = is_installed()?;
    if installed {
        run("nft", &["delete", "table", "inet", TABLE], None)?;
    }
    Ok(installed)
}

/// Removes the table `$1` when it reads a line; at the end of its input alone, which is also that
/// of a daemon that was killed, it does nothing. Signals are meant for the daemon.
const REMOVER: &str = r#"
trap '' HUP INT TERM
read -r line && exec nft delete table inet "$1"
"#;

/// A process that removes the rules for a daemon that has dropped its privileges.
#[derive(Debug)]
pub struct Remover(Child);

impl Remover {
    /// Starts the process.
    ///
    /// # Errors
    /// When `sh` cannot be run.
    pub fn start() -> Result<Self, RulesError> {
        let child = Command::new("sh")
            .args(["-c", REMOVER, "mpbond-kill-switch", TABLE])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C at a terminal signals a whole process group.
            .process_group(0)
            .spawn()
            .map_err(|cause| RulesError::Missing { tool: "sh", cause })?;
        Ok(Self(child))
    }

    /// Removes the rules, and waits until that is done.
    ///
    /// # Errors
    /// When the process is gone, or `nft` fails; the rules remain then.
    pub fn remove(mut self) -> io::Result<()> {
        let mut input = self.0.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"remove\n")?;
        drop(input);
        let status = self.0.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("nft: {status}")))
        }
    }
}
