//! `mpbond policy`.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond::config::{PolicySource, PrimaryConfig};
use mpbond_command::{Failure, print};
use serde::Deserialize;

use super::api;

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
  mpbond policy check policy.toml --dry-run

Exit codes: 0 a primary would apply it, 1 no primary answers (--dry-run), 2 it is wrong.")]
struct CheckArgs {
    /// The policy.
    file: PathBuf,
    /// Configuration of the primary, which has the names of the links. Without it, these names are
    /// not checked, nor is its kill switch.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also ask the primary that runs which of its open connections the policy would treat
    /// otherwise. Nothing is changed.
    #[arg(long)]
    dry_run: bool,
}

/// Open connections that the policy would treat otherwise (docs/api.md).
#[derive(Deserialize)]
struct Compared {
    streams: Vec<Difference>,
    looked_at: usize,
}

#[derive(Deserialize)]
struct Difference {
    client: String,
    destination: String,
    before: Outcome,
    after: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    action: String,
    rule: Option<String>,
    class: Option<String>,
    links: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action.as_str() {
            "carry" => {
                let class = self.class.as_deref().unwrap_or("carried");
                let links = match self.links.is_empty() {
                    true => "no link".to_owned(),
                    false => self.links.join(", "),
                };
                write!(f, "{class} over {links}")?;
            }
            "refuse" => f.write_str("refused")?,
            other => f.write_str(other)?,
        }
        match &self.rule {
            Some(rule) => write!(f, " (rule {rule:?})"),
            None => f.write_str(" (default)"),
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stream in &self.streams {
            writeln!(f, "{} from {}", stream.destination, stream.client)?;
            writeln!(f, "  now:  {}", stream.before)?;
            writeln!(f, "  then: {}", stream.after)?;
        }
        let (differ, looked_at) = (self.streams.len(), self.looked_at);
        writeln!(
            f,
            "{differ} of {looked_at} open connections would be treated otherwise"
        )
    }
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
                policy.policy().check_effect().map_err(Failure::input)?;
                " (names of links and the kill switch not checked: --config is missing)"
            }
        };
        let rules = match policy.policy().rule_count() {
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        };
        let file = self.file.display();
        print(&format!("{file}: fine, {rules}{remark}\n"))?;
        for clause in policy.policy().without_effect() {
            print(&format!("{file}: {clause}\n"))?;
        }
        if self.dry_run {
            let sockets = api::sockets(self.config.clone()).map_err(Failure::input)?;
            let request = "POST /v1/policy:compare";
            let text = api::ask_first(&sockets, request, "", policy.text())?;
            let compared: Compared = serde_json::from_str(&text).map_err(Failure::run)?;
            print(&compared.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
