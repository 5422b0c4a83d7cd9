//! Completion scripts of shells.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::{Failure, print};

/// Print a script that lets a shell complete this program's commands.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script for `program`, installed under its own name.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(self, mut program: clap::Command) -> Result<ExitCode, Failure> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
