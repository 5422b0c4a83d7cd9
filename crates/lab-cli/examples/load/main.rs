//! Load on a real proxy, and endurance of all daemons: the program behind `make load` and
//! `make soak`.
//!
//! `load bench` starts a proxy process, origins, and client processes that hold thousands of real
//! sessions; docs/security.md, "Load", describes measurements and results. All traffic is on the
//! loopback device of a network namespace of its own.

mod app;
mod bench;
mod client;
mod daemon;
mod fleet;
mod isolate;
mod origin;
mod pattern;
mod soak;
mod table;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Loads a proxy with sessions and streams")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Idle sessions, busy ones, churn, and load beyond the limits.
    Bench(bench::Args),
    /// All daemons under mixed traffic for a long time: nothing may grow.
    Soak(soak::Args),
    /// (A process of `bench`.)
    #[command(hide = true)]
    Client { devices: usize },
    /// (A process of `bench`.)
    #[command(hide = true)]
    Origin { addresses: Vec<SocketAddr> },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Soak(args) => {
            isolate::own_network();
            soak::run(&args)
        }
        Command::Client { devices } => client::run(devices).map(|()| true),
        Command::Origin { addresses } => serve(&addresses).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("load: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn serve(addresses: &[SocketAddr]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(origin::serve(addresses))?)
}
