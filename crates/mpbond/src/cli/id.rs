//! `mpbond id`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond::config::{identity, identity_and_trust};
use mpbond_net::Identity;

use super::failure::Failure;
use super::output::print;

/// Show this device's id, which others trust it by.
///
/// The id is the fingerprint of the device's key. It is no secret: write it into the
/// configuration of devices that call this one, and `mpbond trust` it on devices that this one
/// calls. The key is made when there is none yet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond id
  mpbond id --config /etc/mpbond/helper.toml")]
pub(super) struct IdArgs {
    #[command(flatten)]
    device: Device,
}

/// Which identity is meant.
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
            (None, Some(config)) => Ok(identity_and_trust(config)?),
            (None, None) => Ok((identity(), Vec::new())),
        }
    }

    /// The configuration, for messages.
    pub(super) fn config(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

impl IdArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (file, _) = self.device.resolve()?;
        let identity = Identity::load_or_create(&file).map_err(Failure::run)?;
        print(&format!("{}\n", identity.id()))?;
        Ok(ExitCode::SUCCESS)
    }
}
