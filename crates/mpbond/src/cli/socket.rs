//! Status socket that a configuration names.

use std::path::{Path, PathBuf};

use mpbond::config::{ConfigError, HelperConfig, PrimaryConfig, ProxyConfig, Role};

/// The status socket of the daemon with this configuration.
///
/// # Errors
/// The configuration is wrong.
pub(super) fn socket_of(role: Role, file: &Path) -> Result<PathBuf, ConfigError> {
    Ok(match role {
        Role::Primary => PrimaryConfig::load(file)?.status_socket,
        Role::Helper => HelperConfig::load(file)?.status_socket,
        Role::Proxy => ProxyConfig::load(file)?.status_socket,
    })
}
