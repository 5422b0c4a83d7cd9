//! The command line.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use mpbond_command::{CompletionsArgs, Failure, LogArgs, ManArgs};

#[cfg(feature = "analysers")]
use crate::{capture, cpulog, energy, probe, trace, traffic};
use crate::{lab, link};

/// Experiments, measurements and analyses around mpbond.
///
/// Runs experiments with the daemons of `mpbond` over emulated links, measures delays and traffic,
/// and analyses captures, logs and system traces. `mpbond lab` and the others are short for
/// `mpbond-lab lab`: `mpbond` runs this program for them.
#[derive(Debug, Parser)]
#[command(
    name = "mpbond-lab",
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
  mpbond lab run experiments/demo.toml    an experiment: hosts, links and daemons on this machine
  mpbond link --down 8 --up 2 --delay 25ms -- curl -O http://example.com/file
  mpbond probe example.com                round trips, and what this host adds to them
  mpbond energy download.pcap --profile lte-2012
  mpbond trace report trace.dat           where a device's time goes

Exit codes: 0 all went well, 1 something failed, 2 wrong usage or configuration; further ones are
explained by the subcommands that have them.";

#[derive(Debug, Subcommand)]
enum Command {
    Lab(lab::LabArgs),
    Link(link::LinkArgs),
    #[cfg(feature = "analysers")]
    Probe(probe::ProbeArgs),
    #[cfg(feature = "analysers")]
    ProbeServer(probe::ProbeServerArgs),
    #[cfg(feature = "analysers")]
    Traffic(traffic::TrafficArgs),
    #[cfg(feature = "analysers")]
    Capture(capture::CaptureArgs),
    #[cfg(feature = "analysers")]
    Trace(trace::TraceArgs),
    #[cfg(feature = "analysers")]
    Energy(energy::EnergyArgs),
    #[cfg(feature = "analysers")]
    Cpulog(cpulog::CpulogArgs),
    #[command(after_help = "\
Example:
  mpbond-lab completions bash > /etc/bash_completion.d/mpbond-lab")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Example:
  mpbond-lab man /usr/local/share/man")]
    Man(ManArgs),
}

/// The command line for manual pages, which are named as users type the commands: the page of
/// `mpbond trace` is mpbond-trace.1. As mpbond-lab.1 is the page of this program, that of `mpbond
/// lab` is mpbond-lab-lab.1.
fn documented() -> clap::Command {
    let mut program = Cli::command().disable_help_subcommand(true);
    let subcommands = program.get_subcommands();
    let names: Vec<String> = subcommands.map(|c| c.get_name().to_owned()).collect();
    for name in names.iter().filter(|n| !OWN.contains(&n.as_str())) {
        program = program.mut_subcommand(name, |c| {
            c.display_name(format!("mpbond-{name}"))
                .bin_name(format!("mpbond {name}"))
        });
    }
    program.build();
    program.mut_subcommand("lab", |c| c.display_name("mpbond-lab-lab"))
}

/// Subcommands that `mpbond` does not hand to this program.
const OWN: [&str; 2] = ["completions", "man"];

impl Command {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lab(args) => args.run(),
            Self::Link(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::Probe(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::ProbeServer(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::Traffic(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::Capture(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::Trace(args) => args.run(),
            #[cfg(feature = "analysers")]
            Self::Energy(args) => energy::energy(&args).map_err(Failure::bad_input),
            #[cfg(feature = "analysers")]
            Self::Cpulog(args) => cpulog::cpulog(&args),
            Self::Completions(args) => args.run(Cli::command(), ""),
            Self::Man(args) => args.run(documented(), &[], &[]),
        }
    }
}

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too, with code 0 and on standard output.
            let _ = e.print();
            #[cfg(not(feature = "analysers"))]
            if e.kind() == clap::error::ErrorKind::InvalidSubcommand {
                mpbond_command::note!(
                    "This mpbond-lab was built for `make demo`, with `lab` and `link` only: \
                     `make release` builds all of it."
                );
            }
            return ExitCode::from(u8::from(e.use_stderr()) * 2);
        }
    };
    let done = cli.logs.start("warn").and_then(|()| cli.command.run());
    done.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every subcommand is explained, shows how it is used, and fits a terminal.
    #[test]
    fn every_subcommand_has_an_example() {
        fn check(command: &mut clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.get_name() == "help" {
                return;
            }
            assert!(command.get_about().is_some(), "{path}: no description");
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                assert!(help.contains("Example"), "{path}: no example");
                let wide = help.lines().find(|l| l.chars().count() > 100);
                assert_eq!(wide, None, "{path}: too wide");
            }
            for sub in command.get_subcommands_mut() {
                check(sub, &path);
            }
        }
        let mut command = Cli::command();
        command.build();
        check(&mut command, "");
    }
}
