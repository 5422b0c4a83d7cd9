//! `mpbond id`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond::config::{identity, identity_and_trust};
use mpbond_command::{Failure, note, print};
use mpbond_net::Identity;

use super::hints::{sudo_for, word};

/// Show this device's id, by which others trust it.
///
/// The id is the fingerprint of the device's key. It is not a secret: write it into the
/// configuration of devices that call this one, and `mpbond trust` it on devices that this one
/// calls. The key is made when there is none yet; in a file that `--identity` names only with
/// `--create`, since the path may be mistyped.
///
/// With `--rotate` the device gets a new key, and with it a new id: for a key that others may have
/// seen. To all other devices it is then an unknown device. Trust is not transferred from the old
/// key to the new one, since a thief of the old key could do that too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond id
  mpbond id --config /etc/mpbond/helper.toml
  mpbond id --rotate                     another key; pair again afterwards")]
pub(super) struct IdArgs {
    /// Make a new key; the old one is destroyed.
    #[arg(long)]
    rotate: bool,
    /// Make the key in the file of `--identity` if there is none yet.
    #[arg(long, requires = "identity")]
    create: bool,
    #[command(flatten)]
    device: Device,
}

/// Selects an identity.
#[derive(Debug, Args)]
pub(super) struct Device {
    /// The file with the device's key. Otherwise identity.pem in /etc/mpbond (root) or
    /// ~/.config/mpbond.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The daemon's configuration, which names the key.
    #[arg(long, short, value_name = "FILE", conflicts_with = "identity")]
    config: Option<PathBuf>,
}

impl Device {
    /// The identity's file, and the devices that the configuration itself trusts.
    pub(super) fn resolve(&self) -> Result<(PathBuf, Vec<mpbond_net::DeviceId>), Failure> {
        match (&self.identity, &self.config) {
            (Some(file), _) => Ok((file.clone(), Vec::new())),
            (None, Some(config)) => Ok(identity_and_trust(config).map_err(Failure::input)?),
            (None, None) => Ok((identity(), Vec::new())),
        }
    }

    /// A command of this program about this device, as it has to be typed here.
    pub(super) fn command(&self, words: &str) -> String {
        let (option, file) = match (&self.identity, &self.config) {
            (Some(file), _) => (" --identity ", file),
            (None, Some(file)) => (" --config ", file),
            (None, None) => return format!("{}mpbond {words}", sudo_for(&identity())),
        };
        format!("{}mpbond {words}{option}{}", sudo_for(file), word(file))
    }

    /// The configuration, for messages.
    pub(super) fn config(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

impl IdArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (file, _) = self.device.resolve()?;
        if self.device.identity.is_some() && !self.create && !file.exists() {
            return Err(Failure::input(format_args!(
                "there is no key in {}: with `--create` one is made there",
                file.display()
            )));
        }
        if self.rotate {
            let (old, new) = Identity::rotate(&file).map_err(Failure::run)?;
            if let Some(old) = old {
                note!(
                    "The old key is gone. Now:\n  \
                     - start the daemons of this device again;\n  \
                     - on every device that trusts it, run: mpbond untrust {old}\n  \
                     - pair with them again (`mpbond pair`), or where primaries call this \
                     device, change its `id` in their primary.toml."
                );
            }
            print(&format!("{}\n", new.id()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let identity = Identity::load_or_create(&file).map_err(Failure::run)?;
        print(&format!("{}\n", identity.id()))?;
        Ok(ExitCode::SUCCESS)
    }
}
