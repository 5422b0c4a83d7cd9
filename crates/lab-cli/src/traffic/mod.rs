//! `mpbond traffic`: traffic that measures a network.

mod client;
mod compare;
mod logs;
mod plain;
mod server;
mod signals;
mod text;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond_command::Failure;

/// Send traffic through a network, and measure throughput, one-way delay and blackouts.
///
/// As much as possible, a constant rate, or chunks as a camera sends them; down, up, or both ways.
/// A lost connection is made again and continues: handovers show as gaps.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic server
  mpbond traffic client 192.0.2.7 --workload chunks --duration 60s --svg handover.svg
  mpbond traffic client example.com --socks5 127.0.0.1:1080     through mpbond
  mpbond traffic receive & mpbond traffic send 127.0.0.1 --bytes '1 GB'

docs/measurement.md explains the figures and the protocol.")]
pub(crate) struct TrafficArgs {
    #[command(subcommand)]
    command: TrafficCommand,
}

#[derive(Debug, Subcommand)]
enum TrafficCommand {
    Server(server::ServerArgs),
    Client(Box<client::ClientArgs>),
    Send(plain::SendArgs),
    Receive(plain::ReceiveArgs),
    Relay(plain::RelayArgs),
    Compare(compare::CompareArgs),
}

impl TrafficArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            TrafficCommand::Server(args) => args.run(),
            TrafficCommand::Client(args) => args.run(),
            TrafficCommand::Send(args) => args.run(),
            TrafficCommand::Receive(args) => args.run(),
            TrafficCommand::Relay(args) => args.run(),
            TrafficCommand::Compare(args) => args.run(),
        }
    }
}
