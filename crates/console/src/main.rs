//! `mpbond-console`: the traffic of a running daemon, as a page in a browser (`console`) or in a
//! terminal (`top`).
//!
//! People type `mpbond console` and `mpbond top`: `mpbond` runs this program for them. It is a
//! client of the daemon's status socket and of a primary's API, and shares no code with the
//! daemons.
#![forbid(unsafe_code)]

mod api_event;
mod bounded;
mod cli;
mod client;
mod console;
mod model;
mod server;
mod status;
mod top;

fn main() -> std::process::ExitCode {
    cli::main()
}
