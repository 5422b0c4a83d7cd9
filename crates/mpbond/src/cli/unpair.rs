//! `mpbond unpair`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond::config::{PrimaryConfig, PrimaryEdit, Role};
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

use super::hints::{file_in_use, reload};

/// Remove a helper from a primary's configuration.
///
/// A running primary goes on with it until it reads its configuration again (`mpbond reload
/// primary`). The helper still trusts this device: `mpbond untrust` there ends that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond unpair phone
  mpbond unpair EYGTWYB --config primary.toml
  mpbond reload primary                  have the primary that runs do without it")]
pub(super) struct UnpairArgs {
    /// The helper: its name in the configuration, its id or the beginning of its id.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The configuration. Otherwise primary.toml, or device.toml, in /etc/mpbond (root) or
    /// ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl UnpairArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self.config.unwrap_or_else(|| file_in_use(Role::Primary));
        let removed =
            PrimaryEdit::remove_helper(&file, &self.device).map_err(super::change::of_change)?;
        let name = removed.name.map(|name| format!("{name}, "));
        let mut text = format!(
            "{}{}, is removed from {}\n",
            name.unwrap_or_default(),
            removed.id,
            file.display()
        );
        let socket = PrimaryConfig::load(&file).map(|config| config.status_socket);
        if socket.is_ok_and(|socket| ask(&socket).is_ok()) {
            text.push_str(&reload(Role::Primary, &file));
            text.push('\n');
        }
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
