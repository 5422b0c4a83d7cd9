//! The command line.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use mpbond_command::{CompletionsArgs, LogArgs, ManArgs};

use crate::{console, top};

/// Shows the traffic of a running mpbond daemon, in a browser or in a terminal.
///
/// `mpbond console` and `mpbond top` are short for `mpbond-console console` and `mpbond-console
/// top`: `mpbond` runs this program for them.
#[derive(Debug, Parser)]
#[command(
    name = "mpbond-console",
    version,
    propagate_version = true,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = HELP_TAIL
)]
struct Cli {
    #[command(flatten)]
    logs: LogArgs,
    #[command(subcommand)]
    command: Command,
}

const HELP_TAIL: &str = "\
Examples:
  mpbond console --open          a page in the browser
  mpbond top                     the same in the terminal
  mpbond top --once              one frame as text, for scripts

Exit codes: 0 all went well, 1 something failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    Console(console::ConsoleArgs),
    Top(top::TopArgs),
    #[command(after_help = "\
Example:
  mpbond-console completions bash > /etc/bash_completion.d/mpbond-console")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Example:
  mpbond-console man /usr/local/share/man")]
    Man(ManArgs),
}

/// The command line for manual pages, which are named as users type the commands. As
/// mpbond-console.1 is the page of this program, that of `mpbond console` is
/// mpbond-console-console.1.
fn documented() -> clap::Command {
    let mut program = Cli::command().disable_help_subcommand(true);
    for name in ["console", "top"] {
        program = program.mut_subcommand(name, |c| {
            c.display_name(format!("mpbond-{name}"))
                .bin_name(format!("mpbond {name}"))
        });
    }
    program.build();
    program.mut_subcommand("console", |c| c.display_name("mpbond-console-console"))
}

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too, with code 0 and on standard output.
            let _ = e.print();
            return ExitCode::from(u8::from(e.use_stderr()) * 2);
        }
    };
    let done = cli.logs.start("warn").and_then(|()| match cli.command {
        Command::Console(args) => args.run(),
        Command::Top(args) => args.run(),
        Command::Completions(args) => args.run(Cli::command(), ""),
        Command::Man(args) => args.run(documented(), &[], &[]),
    });
    done.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        documented().debug_assert();
    }

    /// Every subcommand is explained, shows how it is used, and fits a terminal.
    #[test]
    fn every_subcommand_has_an_example() {
        let mut command = Cli::command();
        command.build();
        for command in command
            .get_subcommands_mut()
            .filter(|c| c.get_name() != "help")
        {
            let name = command.get_name().to_owned();
            assert!(command.get_about().is_some(), "{name}: no description");
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                assert!(help.contains("Example"), "{name}: no example");
                let wide = help.lines().find(|l| l.chars().count() > 100);
                assert_eq!(wide, None, "{name}: too wide");
            }
        }
    }
}
