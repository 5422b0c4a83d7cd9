//! `mpbond capture`: analyses of captures.

mod bt;
mod delay;
mod files;
mod merge;
mod owd;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mpbond_command::Failure;

/// Analyse captures: Bluetooth logs, sniffers' captures, delays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond capture bt btsnoop_hci.log --svg modes.svg
  mpbond capture merge a.pcap b.pcap c.pcap -o all.pcapng
  mpbond capture delay air.pcapng --probes probes.jsonl
  mpbond capture owd phone.pcap server.pcap

`mpbond capture COMMAND --help` shows more. docs/measurement.md explains the figures.")]
pub(crate) struct CaptureArgs {
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
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            CaptureCommand::Bt(args) => args.run(),
            CaptureCommand::Delay(args) => args.run(),
            CaptureCommand::Merge(args) => args.run(),
            CaptureCommand::Owd(args) => args.run(),
        }
    }
}
