//! Configuration of the three daemons (TOML files), trust files and enrolment tokens.
//!
//! A file is read in two steps: its form (the private `*File` structs, whose keys are what may be
//! written), then its meaning (the public structs, in which everything has a value). Any error is a
//! [`ConfigError`], and nothing has been changed then.

mod credentials;
mod device;
mod enrolment;
pub mod example;
mod file;
mod helper;
mod link_names;
mod place;
mod policy;
mod policy_mode;
mod primary;
mod primary_edit;
mod primary_far_end;
mod primary_file;
mod primary_front;
mod primary_helpers;
mod primary_links;
mod primary_on_proxy_loss;
mod primary_policy;
mod primary_running;
mod primary_without;
mod proxy;
pub mod reference;
mod reload;
mod sections;
mod source;
mod trust;
mod value;
mod write;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use credentials::read_credentials;
pub use device::DeviceConfig;
pub use enrolment::{Enrolment, EnrolmentBook, TokenProblem};
pub use file::folder_of;
pub(crate) use file::give_to_owner;
pub use helper::{HOST_NAME, HelperConfig, Uplink, host_name};
pub use place::{
    Role, config_file, config_file_to_write, config_folder, device_file, has_section, identity,
    status_socket, status_sockets,
};
pub use policy::{PolicySource, ZONES};
pub use policy_mode::policy_with_mode;
pub use primary::{
    FrontAddress, HelperAddress, HelperRef, Ipv6Policy, KillSwitch, OnProxyLoss, PathConfig,
    PrimaryConfig, ProxyAddress, ProxyRef, Transparent, TransparentMode, UdpPolicy,
};
pub use primary_edit::PrimaryEdit;
pub use primary_far_end::FarEnd;
pub use primary_front::Front;
pub use primary_without::RemovedHelper;
pub use proxy::{Destinations, ProxyConfig};
pub use reload::{Changes, Reload};
pub use source::ConfigError;
pub use trust::{TrustFile, TrustStore, TrustedDevice};
pub use write::{check_config, write_config};

use source::Source;

/// Default time for which a session without any path is kept: a tunnel, a lift, a change of trains.
const RESUME_FOR: std::time::Duration = std::time::Duration::from_secs(60);

fn identity_of(source: &Source<'_>, written: Option<String>) -> PathBuf {
    written.map_or_else(identity, |path| source.resolve(&path))
}

/// The identity that a daemon with this configuration has, whatever its role, and the devices
/// that the file itself trusts.
///
/// # Errors
/// When the file cannot be read, is no TOML, or one of these two keys is wrong.
pub fn identity_and_trust(
    path: &Path,
) -> Result<(PathBuf, Vec<mpbond_net::DeviceId>), ConfigError> {
    /// Two keys that every role's file has; the others are not checked.
    #[derive(Deserialize)]
    struct Keys {
        identity: Option<String>,
        trust: Option<value::OneOrMore<mpbond_net::DeviceId>>,
    }
    let source = Source::read(path)?;
    // Of a device's file both sections that have a list of devices.
    let roles = [Role::Helper, Role::Proxy].map(Role::name).into_iter();
    let mut sections = Vec::new();
    if source.check_sections().is_ok() {
        for role in roles.filter(|role| source.has_table(role)) {
            sections.push(source.of_role(role)?);
        }
    }
    if sections.is_empty() {
        sections.push(source.whole());
    }
    let (mut found, mut trusted) = (None, Vec::new());
    for section in &sections {
        let keys: Keys = section.parse()?;
        found.get_or_insert_with(|| identity_of(section, keys.identity));
        for id in keys.trust.map_or_else(Vec::new, |list| list.0) {
            if !trusted.contains(&id) {
                trusted.push(id);
            }
        }
    }
    Ok((found.unwrap_or_else(identity), trusted))
}

#[cfg(test)]
mod tests;
