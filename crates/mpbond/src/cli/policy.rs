//! `mpbond policy`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond::config::{PolicySource, PrimaryConfig};
use mpbond_command::{Failure, print};

/// Check the rules for new connections.
///
/// A policy is a TOML file with rules for the connections of applications; `policy` in a primary's
/// configuration names it, and `mpbond reload primary` applies a change of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond policy check policy.toml --config /etc/mpbond/primary.toml")]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Check(CheckArgs),
}

/// Check a policy without applying it.
///
/// The first error is printed, with file, line, key and reason.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond policy check policy.toml
  mpbond policy check policy.toml --config /etc/mpbond/primary.toml

Exit code 0 when a primary would apply the policy, 2 when it is wrong.")]
struct CheckArgs {
    /// The policy.
    file: PathBuf,
    /// Configuration of the primary, which has the names of the links. Without it, these names are
    /// not checked, nor is its kill switch.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl PolicyArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            PolicyCommand::Check(args) => args.run(),
        }
    }
}

impl CheckArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let policy = PolicySource::read(&self.file).map_err(Failure::input)?;
        let remark = match &self.config {
            Some(config) => {
                let config = PrimaryConfig::load(config).map_err(Failure::input)?;
                config.check_policy(&policy).map_err(Failure::input)?;
                ""
            }
            None => {
                policy.policy().check_in_force().map_err(Failure::input)?;
                " (names of links and the kill switch not checked: --config is missing)"
            }
        };
        let rules = match policy.policy().rule_count() {
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        };
        let file = self.file.display();
        print(&format!("{file}: fine, {rules}{remark}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
