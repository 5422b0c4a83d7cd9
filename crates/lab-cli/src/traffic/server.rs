//! `mpbond traffic server`.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_probe::traffic::{Server, ServerOptions};

/// Default port of `mpbond traffic server`.
pub(crate) const PORT: u16 = 7008;

/// Send and receive traffic as clients request. Runs until it is stopped.
///
/// A client can make it send at the full speed of the path, to that client only: listen where only
/// intended clients can connect.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic server
  mpbond traffic server --listen 192.0.2.7:7008")]
pub(crate) struct ServerArgs {
    /// Listening address (TCP).
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0; 8], PORT)))]
    listen: SocketAddr,
}

impl ServerArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
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
