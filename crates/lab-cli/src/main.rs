//! `mpbond-lab`: experiments, measurements and analyses. One file or folder for each subcommand.
//!
//! People type `mpbond lab ...`: `mpbond` runs this program for its subcommands.
#![deny(unsafe_code)]

#[cfg(feature = "analysers")]
mod capture;
mod cli;
#[cfg(feature = "analysers")]
mod cpulog;
#[cfg(feature = "analysers")]
mod energy;
mod lab;
mod link;
#[cfg(feature = "analysers")]
mod probe;
#[cfg(feature = "analysers")]
mod trace;
#[cfg(feature = "analysers")]
mod traffic;

fn main() -> std::process::ExitCode {
    cli::main()
}
