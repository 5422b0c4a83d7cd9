//! Default places of files.

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::source::{ConfigError, Source};

/// Name of the identity in the configuration folder.
const IDENTITY: &str = "identity.pem";

/// One of the three daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The device with the applications.
    Primary,
    /// A device that lends its link.
    Helper,
    /// The end point in the network.
    Proxy,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Helper, Self::Proxy];

    /// The name used in subcommands, file names and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Helper => "helper",
            Self::Proxy => "proxy",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

fn folder_in(variable: &str) -> Option<PathBuf> {
    // The XDG rules: a relative path there means nothing.
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
}

/// Folders that systemd gives a service (systemd.exec(5), ConfigurationDirectory and
/// RuntimeDirectory): paths, with colons between them.
fn folder_of_service(variable: &str) -> Option<PathBuf> {
    let folders = std::env::var_os(variable)?;
    let first = std::env::split_paths(&folders).next();
    first.filter(|folder| folder.is_absolute())
}

/// The configuration folder: systemd's, else `/etc/mpbond` for root, else
/// `$XDG_CONFIG_HOME/mpbond`, else `~/.config/mpbond`.
pub fn config_folder() -> PathBuf {
    if let Some(folder) = folder_of_service("CONFIGURATION_DIRECTORY") {
        return folder;
    }
    if geteuid().is_root() {
        return PathBuf::from("/etc/mpbond");
    }
    folder_in("XDG_CONFIG_HOME")
        .or_else(|| folder_in("HOME").map(|home| home.join(".config")))
        .map_or_else(|| PathBuf::from("/etc/mpbond"), |base| base.join("mpbond"))
}

/// The file of this device's key.
pub fn identity() -> PathBuf {
    config_folder().join(IDENTITY)
}

/// The configuration file of a role: its own, or that of the device where only this one is there
/// and has a section for the role, or cannot be read: who reads it then says why.
pub fn config_file(role: Role) -> PathBuf {
    let own = config_folder().join(format!("{role}.toml"));
    let device = device_file();
    let is_of_device = || device.exists() && may_have_section(role, &device);
    match !own.exists() && is_of_device() {
        true => device,
        false => own,
    }
}

/// The configuration file of a role, as [`config_file`] says, for a program that changes or makes
/// it.
///
/// # Errors
/// It would be a second file beside that of a device, which has no section for this role.
pub fn config_file_to_write(role: Role) -> Result<PathBuf, ConfigError> {
    let (file, device) = (config_file(role), device_file());
    if file == device || file.exists() || !device.exists() {
        return Ok(file);
    }
    let problem = format!(
        "it has no section [{role}], and {role}.toml beside it would be another configuration of \
         this device: write the section [{role}] there, then `mpbond pair --role {role}`"
    );
    Err(ConfigError::about_file(&device, problem))
}

/// The configuration file of a device with several roles.
pub fn device_file() -> PathBuf {
    config_folder().join("device.toml")
}

/// Whether this is the file of a device, with a section for the role.
pub fn has_section(role: Role, file: &Path) -> bool {
    Source::read(file).is_ok_and(|source| source.has_table(role.name()))
}

fn may_have_section(role: Role, file: &Path) -> bool {
    Source::read(file).map_or(true, |source| source.has_table(role.name()))
}

fn system_socket(role: Role) -> PathBuf {
    PathBuf::from(format!("/run/mpbond/{role}.sock"))
}

/// Places where a daemon of this machine may have its status socket: this user's, the system's.
pub fn status_sockets(role: Role) -> Vec<PathBuf> {
    let mut places = vec![status_socket(role)];
    // Of a daemon that this user started without XDG_RUNTIME_DIR, as by cron.
    if !geteuid().is_root() {
        places.push(socket_beside_configuration(role));
    }
    places.push(system_socket(role));
    places.dedup();
    places
}

/// The status socket: in systemd's folder, else `/run/mpbond/ROLE.sock` for root, else
/// `$XDG_RUNTIME_DIR/mpbond-ROLE.sock`, else beside the configuration. Never in a folder that
/// others can write to.
pub fn status_socket(role: Role) -> PathBuf {
    if let Some(folder) = folder_of_service("RUNTIME_DIRECTORY") {
        return folder.join(format!("{role}.sock"));
    }
    if geteuid().is_root() {
        return system_socket(role);
    }
    match folder_in("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join(format!("mpbond-{role}.sock")),
        None => socket_beside_configuration(role),
    }
}

fn socket_beside_configuration(role: Role) -> PathBuf {
    config_folder().join(format!("{role}.sock"))
}
