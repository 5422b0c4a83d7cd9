//! Where things are when a configuration does not say.

use std::path::PathBuf;

use nix::unistd::geteuid;

/// Name of the identity in the configuration folder.
const IDENTITY: &str = "identity.pem";

/// One of the three daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Where the applications are.
    Primary,
    /// Lends its link.
    Helper,
    /// The end point in the network.
    Proxy,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Helper, Self::Proxy];

    /// As in subcommands, file names and status.
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

/// What systemd tells a service (systemd.exec(5), ConfigurationDirectory and RuntimeDirectory):
/// paths, with colons between them.
fn folder_of_service(variable: &str) -> Option<PathBuf> {
    let folders = std::env::var_os(variable)?;
    let first = std::env::split_paths(&folders).next();
    first.filter(|folder| folder.is_absolute())
}

/// Where systemd says, else `/etc/mpbond` for root, else `$XDG_CONFIG_HOME/mpbond`, else
/// `~/.config/mpbond`.
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

/// Where this device's key is.
pub fn identity() -> PathBuf {
    config_folder().join(IDENTITY)
}

/// Where the configuration of a role is.
pub fn config_file(role: Role) -> PathBuf {
    config_folder().join(format!("{role}.toml"))
}

/// Where systemd says, else `/run/mpbond/ROLE.sock` for root, else `$XDG_RUNTIME_DIR/mpbond-ROLE.sock`, else beside the
/// configuration: a folder that others write to is no place for it.
pub fn status_socket(role: Role) -> PathBuf {
    if let Some(folder) = folder_of_service("RUNTIME_DIRECTORY") {
        return folder.join(format!("{role}.sock"));
    }
    if geteuid().is_root() {
        return PathBuf::from(format!("/run/mpbond/{role}.sock"));
    }
    match folder_in("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join(format!("mpbond-{role}.sock")),
        None => config_folder().join(format!("{role}.sock")),
    }
}
