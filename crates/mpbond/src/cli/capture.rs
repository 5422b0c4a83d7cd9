//! `mpbond capture`: what captures say.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::failure::Failure;

mod bt;
mod delay;
mod merge;
mod owd;

/// Analyse captures: Bluetooth logs, sniffers' captures, delays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond capture bt btsnoop_hci.log --svg modes.svg
  mpbond capture merge a.pcap b.pcap c.pcap -o all.pcapng
  mpbond capture delay air.pcapng --probes probes.jsonl
  mpbond capture owd --server server.pcap --phone phone.pcap --proxy proxy.csv

`mpbond capture COMMAND --help` shows more. docs/measurement.md says what the figures mean.")]
pub(super) struct CaptureArgs {
    #[command(subcommand)]
    command: CaptureCommand,
}

#[derive(Debug, Subcommand)]
enum CaptureCommand {
    Bt(bt::BtArgs),
    Delay(delay::DelayArgs),
    Merge(merge::MergeArgs),
    Owd(owd::OwdArgs),
}

impl CaptureArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            CaptureCommand::Bt(args) => args.run(),
            CaptureCommand::Delay(args) => args.run(),
            CaptureCommand::Merge(args) => args.run(),
            CaptureCommand::Owd(args) => args.run(),
        }
    }
}

/// Opens a file, to be called by its name in errors.
fn open(path: &Path) -> Result<(String, BufReader<File>), Failure> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, BufReader::new(file))),
        Err(e) => Err(Failure::input(format_args!("{name}: {e}"))),
    }
}

fn write(path: &Path, what: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, what).map_err(|e| Failure::run(format_args!("{}: {e}", path.display())))
}

/// What was whole has been told; the status says that it is not all.
fn ended(command: &str, incomplete: Option<&String>) -> ExitCode {
    match incomplete {
        None => ExitCode::SUCCESS,
        Some(reason) => {
            eprintln!("mpbond capture {command}: incomplete: {reason}");
            ExitCode::from(1)
        }
    }
}
