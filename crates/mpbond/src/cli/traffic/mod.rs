//! `mpbond traffic`: traffic that measures what a network does to it.

mod client;
mod logs;
mod text;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond_probe::traffic::{Server, ServerOptions};

use super::failure::Failure;
use super::output::print;

/// The port of `mpbond traffic server` where none is given.
const PORT: u16 = 7008;

/// Send traffic through a network, and see throughput, one-way delay and blackouts.
///
/// As much as goes, a constant rate, or chunks as a camera sends them; down, up, or both ways. A
/// connection that is lost is made again, and goes on where it was: handovers show as gaps.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic server
  mpbond traffic client 192.0.2.7 --workload chunks --duration 60s --svg handover.svg
  mpbond traffic client example.com --socks5 127.0.0.1:1080     through mpbond

docs/measurement.md says what the figures mean, and what goes over the wire.")]
pub(super) struct TrafficArgs {
    #[command(subcommand)]
    command: TrafficCommand,
}

#[derive(Debug, Subcommand)]
enum TrafficCommand {
    Server(TrafficServerArgs),
    Client(Box<client::ClientArgs>),
}

impl TrafficArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            TrafficCommand::Server(args) => args.run(),
            TrafficCommand::Client(args) => args.run(),
        }
    }
}

/// Send and take traffic, as clients ask for it. Runs until it is stopped.
///
/// Whoever reaches it can have it send as fast as the path takes, to no one but itself: listen
/// where only those can reach it who should.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic server
  mpbond traffic server --listen 192.0.2.7:7008")]
struct TrafficServerArgs {
    /// TCP address.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0; 8], PORT)))]
    listen: SocketAddr,
}

impl TrafficServerArgs {
    fn run(self) -> Result<ExitCode, Failure> {
        let server = Server::start(ServerOptions::new(self.listen)).map_err(Failure::run)?;
        print(&format!(
            "sends and takes traffic at {}\n",
            server.address()
        ))?;
        loop {
            std::thread::park();
        }
    }
}
