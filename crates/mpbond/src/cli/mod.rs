//! The command line.

mod capture;
mod completions;
mod cpulog;
mod daemon;
mod doctor;
mod energy;
mod enrol;
mod failure;
mod id;
mod lab;
mod lab_chain;
mod lab_relay;
mod lab_report;
mod link;
mod logs;
mod man;
mod output;
mod pair;
mod probe;
mod rows;
mod status;
mod trace;
mod traffic;
mod trust;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Makes a person's devices share their networks.
///
/// The phone, the tablet and the laptop that somebody carries each have a link to the Internet.
/// mpbond lets one of them use all of those links at once: a download takes every path, and the
/// application notices only that it is faster and that it survives when a link goes.
#[derive(Debug, Parser)]
#[command(
    name = "mpbond",
    version,
    propagate_version = true,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = HELP_TAIL
)]
struct Cli {
    #[command(flatten)]
    logs: logs::LogArgs,
    #[command(subcommand)]
    command: Command,
}

const HELP_TAIL: &str = "\
Roles:
  primary  the device where the applications are. They reach it as a SOCKS5 or HTTP proxy, or with
           no settings at all (transparent interception).
  helper   a device that lends its link. It forwards encrypted bytes to the proxies that its owner
           allows, and cannot read them.
  proxy    the far end, on a server: it joins what comes over all paths and connects to ordinary
           servers, which notice nothing.

Examples:
  mpbond pair                         on two devices: make them trust each other
  mpbond id                           this device's id, to be trusted by the others
  mpbond trust ID --name \"my laptop\"  on the proxy and on helpers: let that primary in
  mpbond proxy                        with /etc/mpbond/proxy.toml
  mpbond helper --config helper.toml
  mpbond primary --config primary.toml
  mpbond doctor primary               what is wrong, and what to do about it
  mpbond status --watch               what every path carries, once a second
  mpbond trace report trace.dat       where a device's time goes

`mpbond ROLE --help` shows a complete configuration of that role.
Exit codes: 0 all went well, 1 something failed, 2 wrong usage or configuration.";

#[derive(Debug, Subcommand)]
enum Command {
    Primary(daemon::PrimaryArgs),
    Helper(daemon::HelperArgs),
    Proxy(daemon::ProxyArgs),
    Status(status::StatusArgs),
    Doctor(doctor::DoctorArgs),
    Energy(energy::EnergyArgs),
    Capture(capture::CaptureArgs),
    Probe(probe::ProbeArgs),
    ProbeServer(probe::ProbeServerArgs),
    Cpulog(cpulog::CpulogArgs),
    Id(id::IdArgs),
    Pair(pair::PairArgs),
    Trust(trust::TrustArgs),
    Untrust(trust::UntrustArgs),
    Lab(lab::LabArgs),
    Link(link::LinkArgs),
    Trace(trace::TraceArgs),
    Traffic(traffic::TrafficArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// The program as clap describes it: for completions and manual pages.
fn command() -> clap::Command {
    Cli::command()
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too, with code 0 and on standard output.
            let _ = e.print();
            return ExitCode::from(u8::from(e.use_stderr()) * 2);
        }
    };
    let level = match cli.command {
        Command::Primary(_) | Command::Helper(_) | Command::Proxy(_) => "info",
        _ => "warn",
    };
    let done = cli.logs.start(level).and_then(|()| match cli.command {
        Command::Primary(args) => args.run(),
        Command::Helper(args) => args.run(),
        Command::Proxy(args) => args.run(),
        Command::Status(args) => args.run(),
        Command::Doctor(args) => args.run(),
        Command::Energy(args) => energy::energy(&args).map_err(failure::Failure::bad_input),
        Command::Capture(args) => args.run(),
        Command::Probe(args) => args.run(),
        Command::ProbeServer(args) => args.run(),
        Command::Cpulog(args) => cpulog::cpulog(&args).map_err(Into::into),
        Command::Id(args) => args.run(),
        Command::Pair(args) => args.run(),
        Command::Trust(args) => args.run(),
        Command::Untrust(args) => args.run(),
        Command::Lab(args) => args.run(),
        Command::Link(args) => args.run(),
        Command::Trace(args) => args.run(),
        Command::Traffic(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Man(args) => args.run(),
    });
    done.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    /// Every subcommand is explained, and shows how it is used.
    #[test]
    fn every_subcommand_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.get_name() == "help" {
                return;
            }
            assert!(command.get_about().is_some(), "{path}: no description");
            let tail = command.get_after_help().or(command.get_after_long_help());
            let tail = tail.map(ToString::to_string).unwrap_or_default();
            assert!(tail.contains("Example"), "{path}: no example");
            for sub in command.get_subcommands() {
                check(sub, &path);
            }
        }
        check(&super::command(), "");
    }
}
