//! `mpbond on`.

mod follow;
mod programs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_command::Failure;

use super::api;
use follow::Follower;
use programs::Folder;

/// Run programs when something happens at a primary: a link fails, a helper joins.
///
/// Each executable file in the folder is run for each event, in the order of their names, one after
/// another, with the type of the event and the name of its link as arguments. MPBOND_EVENT,
/// MPBOND_LINK, MPBOND_REASON and MPBOND_ID have the same and more. docs/api.md lists the events. A
/// program that takes longer than a minute is killed. Folder and programs must belong to root, or
/// to the user who runs this, and nobody else may be able to write to them.
///
/// Each program has a process group of its own, which is killed as a whole. So Ctrl-C in a terminal
/// ends this command, but not the program that runs at that time.
///
/// It waits for a primary that is not there, and runs until it is ended. The unit mpbond-on.service
/// runs it for /etc/mpbond/on.d as the user mpbond, who owns that folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo -u mpbond mpbond on --exec /etc/mpbond/on.d
  mpbond on --exec on.d --config primary.toml

A program, /etc/mpbond/on.d/10-notify:
  #!/bin/sh
  case $MPBOND_EVENT in
      outage.begin) logger \"no path to the proxy works\" ;;
      link.down) logger \"$MPBOND_LINK is down: $MPBOND_REASON\" ;;
  esac")]
pub(super) struct OnArgs {
    /// Folder with the programs.
    #[arg(long, value_name = "DIR")]
    exec: PathBuf,
    /// The primary's configuration, which names its status socket, beside which its API is.
    /// Otherwise primary.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl OnArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let folder = Folder::new(self.exec).map_err(Failure::input)?;
        let sockets = api::sockets(self.config).map_err(Failure::input)?;
        let mut follower = Follower::new(sockets);
        loop {
            let event = follower.next().map_err(Failure::run)?;
            folder.run(&event);
        }
    }
}
