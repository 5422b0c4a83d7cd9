//! `mpbond trust`, `mpbond untrust`.

use std::process::ExitCode;

use clap::Args;
use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_command::{Failure, print};
use mpbond_net::DeviceId;

use super::id::Device;

/// Let a device connect: on a proxy or a helper, with the id of a primary.
///
/// A running daemon reads the change at the next connection, without a restart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trust EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC --name laptop
  mpbond trust --list")]
pub(super) struct TrustArgs {
    /// The device's id, as `mpbond id` prints it there.
    #[arg(required_unless_present = "list")]
    id: Option<DeviceId>,
    /// Name shown to people.
    #[arg(long, requires = "id", value_parser = one_line)]
    name: Option<String>,
    /// Show the trusted devices.
    #[arg(long, conflicts_with = "id")]
    list: bool,
    #[command(flatten)]
    device: Device,
}

/// Revoke a device's permission to connect.
///
/// A running daemon closes that device's sessions at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond untrust EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC")]
pub(super) struct UntrustArgs {
    /// The device's id; `mpbond trust --list` shows it.
    id: DeviceId,
    #[command(flatten)]
    device: Device,
}

pub(super) fn one_line(name: &str) -> Result<String, String> {
    let name = name.trim();
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err("a name is one line of 1 to 64 octets".to_owned());
    }
    Ok(name.to_owned())
}

impl TrustArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (identity, configured) = self.device.resolve()?;
        let file = TrustFile::beside(&identity);
        let Some(id) = self.id else {
            return list(&file, &configured);
        };
        let name = self.name.unwrap_or_default();
        let new = file
            .add(&TrustedDevice { id, name })
            .map_err(Failure::input)?;
        print(&format!(
            "{id} {} ({})\n",
            if new {
                "is trusted now"
            } else {
                "was trusted already"
            },
            file.path().display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn list(file: &TrustFile, configured: &[DeviceId]) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for id in configured {
        text.push_str(&format!("{id}  (in the configuration)\n"));
    }
    for device in file.devices().map_err(Failure::input)? {
        let line = format!("{}  {}", device.id, device.name);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if text.is_empty() {
        eprintln!("no device is trusted ({} has none)", file.path().display());
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl UntrustArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (identity, configured) = self.device.resolve()?;
        let file = TrustFile::beside(&identity);
        let removed = file.remove(&self.id).map_err(|e| {
            Failure::input(format_args!(
                "{e}; nothing has changed: {} stays trusted if it was",
                self.id
            ))
        })?;
        if let Some(config) = self.device.config()
            && configured.contains(&self.id)
        {
            return Err(Failure::run(format_args!(
                "{} is still trusted by `trust` in {}: remove it there and restart the daemon",
                self.id,
                config.display()
            )));
        }
        if !removed {
            return Err(Failure::run(format_args!(
                "{} is not in {}; if a daemon's configuration names it under `trust`, remove it \
                 there",
                self.id,
                file.path().display()
            )));
        }
        print(&format!(
            "{} is no longer trusted ({})\n",
            self.id,
            file.path().display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
