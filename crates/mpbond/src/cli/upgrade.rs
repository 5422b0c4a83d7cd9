//! `mpbond upgrade`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use mpbond::config::{ProxyConfig, Role, config_file};
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

use super::hints::command;
use super::socket::socket_of;
use super::status::RoleName;

/// Time within which the new process has to answer on the status socket.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Interval at which it is asked.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Replace a running daemon by a process of this program, without an interruption.
///
/// The new process takes over listeners and status; sessions and connections from now on are its
/// own. The old one serves those that are open until they end, or until `drain` has passed (10
/// minutes). Both must run as the same user. For a service, `systemctl reload` does this.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  systemctl reload mpbond-proxy       a service of systemd
  mpbond upgrade proxy                a daemon that was started by hand
  mpbond upgrade proxy --config proxy.toml -- --serve 127.0.0.1:80")]
pub(super) struct UpgradeArgs {
    /// Role of the daemon.
    #[arg(value_enum)]
    role: RoleName,
    /// Its configuration, which may have changed. Otherwise ROLE.toml in /etc/mpbond (root) or
    /// ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Further arguments of the daemon.
    #[arg(last = true)]
    more: Vec<OsString>,
}

impl UpgradeArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let role = Role::from(self.role);
        let file = self.config.clone().unwrap_or_else(|| config_file(role));
        let none = self.config.is_none() && !file.exists();
        let socket = match role {
            Role::Proxy if none => ProxyConfig::default().status_socket,
            _ => socket_of(role, &file).map_err(Failure::input)?,
        };
        let old = ask(&socket).map_err(|e| {
            Failure::run(format!(
                "no {role} answers at {}: {e}; start it with `{}`",
                socket.display(),
                command(role.name(), role, &file)
            ))
        })?;
        let mut new = self.start(role)?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if ask(&socket).is_ok_and(|status| status.process == new.id()) {
                break;
            }
            if let Some(status) = new.try_wait().map_err(Failure::run)? {
                return Err(Failure::run(format!(
                    "the new {role} has ended ({status}), the old one goes on: see its log above"
                )));
            }
            if Instant::now() > deadline {
                // The old one goes on.
                let _ = new.kill();
                let _ = new.wait();
                return Err(Failure::run(format!(
                    "the new {role} was not ready within {} s, the old one goes on",
                    READY_WITHIN.as_secs()
                )));
            }
            sleep(ASK_EVERY);
        }
        print(&format!(
            "process {} (version {}) has taken over from process {} (version {})\n",
            new.id(),
            env!("CARGO_PKG_VERSION"),
            old.process,
            old.version
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts the new process in the background. It has the standard error of this one, which for a
    /// service is the journal.
    fn start(&self, role: Role) -> Result<Child, Failure> {
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(&program);
        command.arg(role.name()).arg("--take-over");
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Ctrl-C in this terminal is not for it.
            .process_group(0);
        command
            .spawn()
            .map_err(|e| Failure::run(format!("cannot start {}: {e}", program.display())))
    }
}
