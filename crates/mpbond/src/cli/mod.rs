//! The command line.

mod api;
mod change;
mod daemon;
mod dispatch;
mod doctor;
mod endpoint;
mod enrol;
mod explain;
mod hints;
mod id;
mod kill_switch;
mod on;
mod pair;
mod policy;
mod reload;
mod setup;
mod socket;
mod speed;
mod status;
mod trust;
mod unpair;
mod up;
mod upgrade;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mpbond::config::reference;
use mpbond_command::{CompletionsArgs, LogArgs, ManArgs};

/// Makes a person's devices share their networks.
///
/// A person's phone, tablet and laptop each have a link to the Internet.
/// mpbond lets one of them use all these links at once: a download takes every path, is faster, and
/// survives the loss of a link. Applications need no change.
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
    logs: LogArgs,
    #[command(subcommand)]
    command: Command,
}

const HELP_TAIL: &str = "\
Roles:
  primary  the device with the applications. They reach it as a SOCKS5 or HTTP proxy, or with
           no settings at all (transparent interception).
  helper   a device that lends its link. It forwards encrypted bytes to the proxies that its owner
           allows, and cannot read them.
  proxy    on a server: it joins the traffic of all paths and connects to ordinary servers, which
           need no change.

Examples:
  mpbond setup                        ask what is needed, pair, write files, start the service
  mpbond pair                         on two devices: make them trust each other
  mpbond id                           this device's id, to be trusted by the others
  mpbond trust ID --name \"my laptop\"  on the proxy and on helpers: let that primary in
  mpbond proxy                        with /etc/mpbond/proxy.toml
  mpbond helper --config helper.toml
  mpbond primary --config primary.toml
  mpbond up --config device.toml      primary and helper in one process
  mpbond doctor primary               find errors, with their remedies
  mpbond status --watch               the traffic of every path, once a second
  mpbond console --open               the traffic of every path, in a browser
  mpbond speed                        the speed of every path, and the bottleneck
  mpbond reload                       apply changed paths, helpers and limits

`mpbond ROLE --help` shows a complete configuration for that role. `console` and `top` are in the
program mpbond-console, `bluetooth` in mpbond-bluetooth, `lab` and those after it in mpbond-lab,
installed beside this one.
Exit codes: 0 all went well, 1 something failed, 2 wrong usage or configuration.";

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::SetupArgs),
    Primary(daemon::PrimaryArgs),
    Helper(daemon::HelperArgs),
    Proxy(daemon::ProxyArgs),
    Up(up::UpArgs),
    Status(status::StatusArgs),
    Reload(reload::ReloadArgs),
    Explain(explain::ExplainArgs),
    On(on::OnArgs),
    Doctor(doctor::DoctorArgs),
    Speed(speed::SpeedArgs),
    Id(id::IdArgs),
    Pair(pair::PairArgs),
    Unpair(unpair::UnpairArgs),
    Trust(trust::TrustArgs),
    Untrust(trust::UntrustArgs),
    Policy(policy::PolicyArgs),
    KillSwitch(kill_switch::KillSwitchArgs),
    Upgrade(upgrade::UpgradeArgs),
    #[command(after_help = "\
Example:
  mpbond completions bash > /etc/bash_completion.d/mpbond")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Example:
  mpbond man /usr/local/share/man")]
    Man(ManArgs),
}

/// The command line for clap. Subcommands of other programs have only a name and a description.
fn command() -> clap::Command {
    let others = dispatch::SUBCOMMANDS.map(|(name, about)| clap::Command::new(name).about(about));
    Cli::command().subcommands(others)
}

pub(crate) fn main() -> ExitCode {
    if let Some(subcommand) = dispatch::called(std::env::args_os()) {
        let Err(failure) = dispatch::run(subcommand);
        return failure.report();
    }
    let parsed = command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version come this way too, with code 0 and on standard output.
            let _ = e.print();
            return ExitCode::from(u8::from(e.use_stderr()) * 2);
        }
    };
    let level = match cli.command {
        Command::Primary(_) | Command::Helper(_) | Command::Proxy(_) | Command::Up(_) => "info",
        _ => "warn",
    };
    let done = cli.logs.start(level).and_then(|()| match cli.command {
        Command::Setup(args) => args.run(),
        Command::Primary(args) => args.run(),
        Command::Helper(args) => args.run(),
        Command::Proxy(args) => args.run(),
        Command::Up(args) => args.run(),
        Command::Status(args) => args.run(),
        Command::Reload(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::On(args) => args.run(),
        Command::Doctor(args) => args.run(),
        Command::Speed(args) => args.run(),
        Command::Id(args) => args.run(),
        Command::Pair(args) => args.run(),
        Command::Unpair(args) => args.run(),
        Command::Trust(args) => args.run(),
        Command::Untrust(args) => args.run(),
        Command::Policy(args) => args.run(),
        Command::KillSwitch(args) => args.run(),
        Command::Upgrade(args) => args.run(),
        Command::Completions(args) => args.run(command(), &dispatch::bash_completion()),
        Command::Man(args) => {
            let theirs = dispatch::SUBCOMMANDS.map(|(name, _)| format!("mpbond-{name}"));
            let theirs = theirs.each_ref().map(String::as_str);
            args.run(command(), &theirs, &reference::PAGES)
        }
    });
    done.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

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
        // The others are explained by their own program.
        check(&super::Cli::command(), "");
    }
}
