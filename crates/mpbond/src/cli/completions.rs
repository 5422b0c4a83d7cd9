//! `mpbond completions`.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::failure::Failure;
use super::output::print;

/// Print a script that lets a shell complete mpbond's commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond completions bash > /etc/bash_completion.d/mpbond")]
pub(super) struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "mpbond", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
