//! `mpbond man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;

/// Write the manual pages, one a subcommand, for packagers.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond man /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// The folder to write them to; made when absent.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl ManArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let write = || {
            std::fs::create_dir_all(&self.folder)?;
            clap_mangen::generate_to(super::command(), &self.folder)
        };
        write().map_err(|e| {
            Failure::run(format_args!(
                "cannot write to {}: {e}",
                self.folder.display()
            ))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
