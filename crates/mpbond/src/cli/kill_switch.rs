//! `mpbond kill-switch`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use mpbond::config::{KillSwitch, PrimaryConfig, Role, config_file};
use mpbond::primary::install_kill_switch;
use mpbond_command::{Failure, print};
use mpbond_intercept::rules::kill_switch;
use nix::unistd::geteuid;

/// Keep applications from the network while no primary runs, or let them out again.
///
/// With `kill_switch = "permanent"` or "until-stop" under [transparent], a primary installs rules
/// in the kernel that reject everything except its own connections, networks that are excluded from
/// interception, and answers to connections from outside. They stay when it crashes or is killed.
/// This command removes them, or installs them before a primary runs. Needs root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond kill-switch                 whether it is on
  mpbond kill-switch off             applications reach the network directly again
  mpbond kill-switch on              as /etc/mpbond/primary.toml says, for example at boot")]
pub(super) struct KillSwitchArgs {
    /// The state to bring it into; otherwise its present state is shown.
    #[arg(value_enum)]
    to: Option<State>,
    /// The primary's configuration, for `on`. Otherwise primary.toml in /etc/mpbond (root) or
    /// ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// State of the kill switch.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    /// The rules are in the kernel.
    On,
    /// They are not.
    Off,
}

impl KillSwitchArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let text = match self.to {
            Some(State::On) => {
                let file = self.config.unwrap_or_else(|| config_file(Role::Primary));
                let config = PrimaryConfig::load(&file).map_err(Failure::input)?;
                let transparent = config.transparent.as_ref();
                if transparent.is_none_or(|t| t.kill_switch == KillSwitch::Off) {
                    return Err(Failure::input(format_args!(
                        "{}: there is no `kill_switch` under [transparent]: write `kill_switch = \
                         \"permanent\"` there",
                        file.display()
                    )));
                }
                install_kill_switch(&config).map_err(refused)?;
                "on\n"
            }
            Some(State::Off) => match kill_switch::remove().map_err(refused)? {
                true => "off: applications reach the network directly while no primary runs\n",
                false => "off, as it was before\n",
            },
            None => match kill_switch::is_installed().map_err(refused)? {
                true => "on\n",
                false => "off\n",
            },
        };
        print(text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The kernel's refusal, with the remedy where this user is not root.
fn refused(problem: impl std::fmt::Display) -> Failure {
    match geteuid().is_root() {
        true => Failure::run(problem),
        false => Failure::run(format_args!("the kill switch needs root (sudo): {problem}")),
    }
}
