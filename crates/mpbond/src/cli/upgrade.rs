//! `mpbond upgrade`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use mpbond::config::{ConfigError, DeviceConfig, ProxyConfig, Role, config_file, device_file};
use mpbond::status::Status;
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

use super::hints::{command, sudo_for, word};
use super::socket::socket_of;

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
  mpbond upgrade up                   all roles of a device
  mpbond upgrade proxy --config proxy.toml -- --serve 127.0.0.1:80")]
pub(super) struct UpgradeArgs {
    /// Role of the daemon; `up` for a process of `mpbond up`.
    #[arg(value_enum)]
    role: Started,
    /// Its configuration, which may have changed. Otherwise ROLE.toml, or device.toml, in
    /// /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Further arguments of the daemon.
    #[arg(last = true)]
    more: Vec<OsString>,
}

/// Command that a daemon was started by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Started {
    /// The device with the applications.
    Primary,
    /// A device that lends its link.
    Helper,
    /// The end point in the network.
    Proxy,
    /// Several roles of a device.
    Up,
}

impl Started {
    fn name(self) -> &'static str {
        self.role().map_or("up", Role::name)
    }

    fn role(self) -> Option<Role> {
        match self {
            Self::Primary => Some(Role::Primary),
            Self::Helper => Some(Role::Helper),
            Self::Proxy => Some(Role::Proxy),
            Self::Up => None,
        }
    }
}

impl UpgradeArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let name = self.role.name();
        let sockets = self.sockets().map_err(Failure::input)?;
        let mut before: Option<Status> = None;
        for socket in &sockets {
            let old = ask(socket).map_err(|e| {
                Failure::run(format!(
                    "no {name} answers at {}: {e}; start it with `{}`",
                    socket.display(),
                    self.command()
                ))
            })?;
            let first = before.get_or_insert_with(|| old.clone());
            self.check_roles(first, &old, sockets.len())
                .map_err(Failure::input)?;
        }
        let mut new = self.start()?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let is_new = |socket: &Path| ask(socket).is_ok_and(|status| status.process == new.id());
            if sockets.iter().map(PathBuf::as_path).all(is_new) {
                break;
            }
            if let Some(status) = new.try_wait().map_err(Failure::run)? {
                return Err(Failure::run(format!(
                    "the new {name} has ended ({status}), the old one goes on: see its log above"
                )));
            }
            if Instant::now() > deadline {
                // The old one goes on.
                let _ = new.kill();
                let _ = new.wait();
                return Err(Failure::run(format!(
                    "the new {name} was not ready within {} s, the old one goes on",
                    READY_WITHIN.as_secs()
                )));
            }
            sleep(ASK_EVERY);
        }
        let before = before
            .map(|old| (old.process, old.version))
            .unwrap_or_default();
        print(&format!(
            "process {} (version {}) has taken over from process {} (version {})\n",
            new.id(),
            env!("CARGO_PKG_VERSION"),
            before.0,
            before.1
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The status sockets of its roles.
    fn sockets(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let file = self.config.clone();
        let Some(role) = self.role.role() else {
            let device = DeviceConfig::load(&file.unwrap_or_else(device_file))?;
            let sockets = [
                device.primary.map(|c| c.status_socket),
                device.helper.map(|c| c.status_socket),
                device.proxy.map(|c| c.status_socket),
            ];
            return Ok(sockets.into_iter().flatten().collect());
        };
        let file = file.unwrap_or_else(|| config_file(role));
        let none = self.config.is_none() && !file.exists();
        Ok(vec![match role {
            Role::Proxy if none => ProxyConfig::default().status_socket,
            _ => socket_of(role, &file)?,
        }])
    }

    /// Refuses to take over some of the roles of a process: the others would go on. `taken` is the
    /// number of roles that a new process would have.
    fn check_roles(&self, first: &Status, old: &Status, taken: usize) -> Result<(), String> {
        let process = old.process;
        if process != first.process {
            return Err(format!(
                "the {} is process {process}, and the {} is process {}: stop both, and start both \
                 as one process with `mpbond up`",
                old.role, first.role, first.process
            ));
        }
        // A process that does not tell it is taken over as far as it answers.
        let Some(roles) = old.roles.filter(|roles| *roles != taken) else {
            return Ok(());
        };
        Err(match self.role.role() {
            Some(_) => format!(
                "process {process} has {roles} roles, not only that of a {}: `mpbond upgrade up` \
                 takes over all",
                old.role
            ),
            None => {
                let file = self.config.clone().unwrap_or_else(device_file);
                format!(
                    "process {process} has {roles} roles, and {} has sections for {taken}: restart \
                     it, since an upgrade would leave a role running",
                    file.display()
                )
            }
        })
    }

    /// The command that starts it.
    fn command(&self) -> String {
        let name = self.role.name();
        match (self.role.role(), &self.config) {
            (Some(role), Some(file)) => command(name, role, file),
            (Some(role), None) => command(name, role, &config_file(role)),
            (None, Some(file)) => format!("{}mpbond up --config {}", sudo_for(file), word(file)),
            (None, None) => format!("{}mpbond up", sudo_for(&device_file())),
        }
    }

    /// Starts the new process in the background. It has the standard error of this one, which for a
    /// service is the journal.
    fn start(&self) -> Result<Child, Failure> {
        let program = std::env::current_exe().map_err(Failure::run)?;
        let mut command = Command::new(&program);
        command.arg(self.role.name()).arg("--take-over");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_number_of_roles_is_unknown_is_taken_over() {
        let args = |role| UpgradeArgs {
            role,
            config: None,
            more: Vec::new(),
        };
        let of = |process, roles| Status {
            role: "helper".to_owned(),
            process,
            roles,
            ..Status::default()
        };
        let check = |role, old: &Status, taken| args(role).check_roles(&of(1, None), old, taken);
        for (roles, taken, passes) in [
            (None, 2, true),
            (None, 1, true),
            (Some(2), 2, true),
            (Some(2), 1, false),
            (Some(1), 2, false),
        ] {
            let checked = check(Started::Up, &of(1, roles), taken);
            assert_eq!(checked.is_ok(), passes, "{roles:?} {taken}");
        }
        assert!(check(Started::Helper, &of(1, Some(2)), 1).is_err());
        assert!(check(Started::Helper, &of(1, None), 1).is_ok());
        let two = check(Started::Up, &of(2, None), 2).unwrap_err();
        assert!(two.contains("stop both"), "{two}");
    }
}
