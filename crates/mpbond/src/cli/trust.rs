//! `mpbond trust`, `mpbond untrust`.

use std::process::ExitCode;

use clap::Args;
use mpbond::config::{ConfigError, TrustFile, TrustedDevice};
use mpbond_command::{Failure, note, print};
use mpbond_net::DeviceId;

use super::id::Device;

/// Let a device connect: on a proxy or a helper, with the id of a primary.
///
/// A running daemon reads the change at the next connection, without a restart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trust EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC --name laptop
  mpbond trust EYGTWYB --name \"old laptop\"    another name for a trusted device
  mpbond trust --list")]
pub(super) struct TrustArgs {
    /// The device's id, as `mpbond id` prints it there. Of a device that is trusted already, its
    /// name or the beginning of its id will do.
    #[arg(required_unless_present = "list", value_name = "ID")]
    device: Option<String>,
    /// Name shown to people.
    #[arg(long, requires = "device", value_parser = one_line)]
    name: Option<String>,
    /// Show the trusted devices.
    #[arg(long, conflicts_with = "device")]
    list: bool,
    #[command(flatten)]
    own: Device,
}

/// Revoke a device's permission to connect.
///
/// A running daemon closes that device's sessions at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond untrust EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC
  mpbond untrust EYGTWYB
  mpbond untrust \"my laptop\"")]
pub(super) struct UntrustArgs {
    /// The device: its name, its id or the beginning of its id; `mpbond trust --list` shows them.
    #[arg(value_name = "DEVICE")]
    device: String,
    #[command(flatten)]
    own: Device,
}

pub(super) fn one_line(name: &str) -> Result<String, String> {
    let name = name.trim();
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err("a name is one line of 1 to 64 octets".to_owned());
    }
    Ok(name.to_owned())
}

/// The device that a person means: an id, the name of a trusted device, or the beginning of its id.
fn named(
    text: &str,
    own: &Device,
    file: &TrustFile,
    configured: &[DeviceId],
) -> Result<DeviceId, Failure> {
    let not_an_id = match text.parse::<DeviceId>() {
        Ok(id) => return Ok(id),
        Err(e) => e,
    };
    let devices = file.devices().map_err(Failure::input)?;
    let quoted = text.escape_debug();
    let of_name = devices.iter().filter(|d| d.name == text).map(|d| d.id);
    let mut found: Vec<DeviceId> = of_name.collect();
    if found.is_empty() {
        let all = devices
            .iter()
            .map(|d| d.id)
            .chain(configured.iter().copied());
        found = all.filter(|id| id.begins_with(text)).collect();
        found.sort_unstable_by_key(DeviceId::to_string);
        found.dedup();
    }
    match found[..] {
        [id] => Ok(id),
        [] => Err(Failure::input(format_args!(
            "\"{quoted}\" is no trusted device's name or beginning of an id, and no id ({not_an_id}); \
             `{}` shows the trusted ones",
            own.command("trust --list")
        ))),
        _ => {
            let ids: Vec<String> = found.iter().map(DeviceId::to_string).collect();
            Err(Failure::input(format_args!(
                "\"{quoted}\" may be any of {}: say more of the id",
                ids.join(", ")
            )))
        }
    }
}

impl TrustArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (identity, configured) = self.own.resolve()?;
        let file = TrustFile::beside(&identity);
        let Some(device) = &self.device else {
            return list(&file, &configured);
        };
        let id = named(device, &self.own, &file, &configured)?;
        let name = self.name.unwrap_or_default();
        let new = file
            .add(&TrustedDevice { id, name })
            .map_err(super::change::of_change)?;
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
        note!("no device is trusted ({} has none)", file.path().display());
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl UntrustArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (identity, configured) = self.own.resolve()?;
        let file = TrustFile::beside(&identity);
        let kept = |e: &ConfigError| {
            let device = self.device.escape_debug();
            let text = format!("{e}; nothing has changed: {device} stays trusted if it was");
            match e.is_unwritten() {
                true => Failure::run(text),
                false => Failure::input(text),
            }
        };
        // A file that cannot be read may still be mended by its owner.
        file.devices().map_err(|e| kept(&e))?;
        let id = named(&self.device, &self.own, &file, &configured)?;
        let removed = file.remove(&id).map_err(|e| kept(&e))?;
        if let Some(config) = self.own.config()
            && configured.contains(&id)
        {
            return Err(Failure::run(format_args!(
                "{} is still trusted by `trust` in {}: remove it there and restart the daemon",
                id,
                config.display()
            )));
        }
        if !removed {
            return Err(Failure::run(format_args!(
                "{} is not in {}; if a daemon's configuration names it under `trust`, remove it \
                 there",
                id,
                file.path().display()
            )));
        }
        print(&format!(
            "{} is no longer trusted ({})\n",
            id,
            file.path().display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
