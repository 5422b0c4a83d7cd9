//! The command line.

use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use mpbond_command::{CompletionsArgs, Failure, LogArgs, ManArgs};

use crate::check::CheckArgs;
use crate::connect::ConnectArgs;
use crate::listen::ListenArgs;

/// Carries the pipes of mpbond's daemons over Bluetooth.
///
/// `mpbond bluetooth` is short for `mpbond-bluetooth bluetooth`: `mpbond` runs this program for it.
#[derive(Debug, Parser)]
#[command(
    name = "mpbond-bluetooth",
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
  mpbond bluetooth check
  mpbond bluetooth connect --device 00:1A:7D:DA:71:13 --socket /run/mpbond/phone.sock
                                     on the primary's device
  mpbond bluetooth listen --socket /run/mpbond/pipe.sock
                                     on the helper's device

Exit codes: 0 all went well, 1 something failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    Bluetooth(BluetoothArgs),
    #[command(after_help = "\
Example:
  mpbond-bluetooth completions bash > /etc/bash_completion.d/mpbond-bluetooth")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Example:
  mpbond-bluetooth man /usr/local/share/man")]
    Man(ManArgs),
}

/// Carry pipes over Bluetooth.
///
/// The connections of a primary at a Unix socket become connections of RFCOMM to a helper's device,
/// and there connections to the helper's Unix socket.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = HELP_TAIL
)]
struct BluetoothArgs {
    #[command(subcommand)]
    command: Bluetooth,
}

#[derive(Debug, Subcommand)]
enum Bluetooth {
    Connect(ConnectArgs),
    Listen(ListenArgs),
    Check(CheckArgs),
}

impl BluetoothArgs {
    /// Filter of the log where none is given: that of daemons, or of commands.
    fn log_filter(&self) -> &'static str {
        match self.command {
            Bluetooth::Connect(_) | Bluetooth::Listen(_) => "info",
            Bluetooth::Check(_) => "warn",
        }
    }

    fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Bluetooth::Connect(args) => args.run(),
            Bluetooth::Listen(args) => args.run(),
            Bluetooth::Check(args) => args.run(),
        }
    }
}

/// The command line for manual pages, which are named as users type the commands. As
/// mpbond-bluetooth.1 is the page of this program, that of `mpbond bluetooth` is
/// mpbond-bluetooth-bluetooth.1.
fn documented() -> clap::Command {
    let mut program =
        Cli::command()
            .disable_help_subcommand(true)
            .mut_subcommand("bluetooth", |bluetooth| {
                ["connect", "listen", "check"].into_iter().fold(
                    bluetooth
                        .disable_help_subcommand(true)
                        .bin_name("mpbond bluetooth"),
                    |bluetooth, name| {
                        bluetooth.mut_subcommand(name, |c| {
                            c.display_name(format!("mpbond-bluetooth-{name}"))
                                .bin_name(format!("mpbond bluetooth {name}"))
                        })
                    },
                )
            });
    program.build();
    program.mut_subcommand("bluetooth", |c| {
        c.display_name("mpbond-bluetooth-bluetooth")
    })
}

/// Runs the program on the command line of the process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too, with code 0 and on standard output.
            let _ = e.print();
            return ExitCode::from(u8::from(e.use_stderr()) * 2);
        }
    };
    let filter = match &cli.command {
        Command::Bluetooth(args) => args.log_filter(),
        Command::Completions(_) | Command::Man(_) => "warn",
    };
    let done = cli.logs.start(filter).and_then(|()| match cli.command {
        Command::Bluetooth(args) => args.run(),
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
        fn check(command: &mut clap::Command) {
            let name = command.get_name().to_owned();
            assert!(command.get_about().is_some(), "{name}: no description");
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                assert!(help.contains("Example"), "{name}: no example");
                let wide = help.lines().find(|l| l.chars().count() > 100);
                assert_eq!(wide, None, "{name}: too wide");
            }
            let below = command.get_subcommands_mut();
            below.filter(|c| c.get_name() != "help").for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&mut command);
    }
}
