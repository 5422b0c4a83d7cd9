//! Completion scripts of shells.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{Failure, print};

/// Print a script that lets a shell complete this program's commands.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script for `program`, installed under its own name. `bash_tail` is added to the
    /// script for bash.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(self, mut program: Command, bash_tail: &str) -> Result<ExitCode, Failure> {
        let script = match self.shell {
            Shell::Bash => for_bash(&mut program) + bash_tail,
            other => {
                let name = program.get_name().to_owned();
                generate(other, &mut program, name)
            }
        };
        print(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The script for bash. clap_complete writes functions that do not fit each other where the name of
/// a program has a hyphen (issue 6421 of clap): its functions have an underscore instead.
fn for_bash(program: &mut Command) -> String {
    let name = program.get_name().to_owned();
    let plain = name.replace('-', "_");
    let script = generate(Shell::Bash, program, plain.clone());
    script.replace(
        &format!(" -o default {plain}\n"),
        &format!(" -o default {name}\n"),
    )
}

fn generate(shell: Shell, program: &mut Command, name: String) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, program, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
