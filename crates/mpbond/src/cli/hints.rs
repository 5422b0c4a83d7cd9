//! Commands in messages, as they have to be typed here.

use std::path::{Path, PathBuf};

use mpbond::config::{Role, config_file};
use nix::unistd::geteuid;

/// Folder of the system's configuration.
const SYSTEM: &str = "/etc";

/// Folders in which systemd finds units (systemd.unit(5)).
const UNITS: [&str; 4] = [
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// "sudo " before commands of a device whose daemons are the system's, as on this one.
pub(super) fn sudo() -> &'static str {
    if geteuid().is_root() { "sudo " } else { "" }
}

/// "sudo " before commands that change a file in this place.
pub(super) fn sudo_for(file: &Path) -> &'static str {
    if file.starts_with(SYSTEM) {
        "sudo "
    } else {
        sudo()
    }
}

/// The option that names this configuration, with a space before it, unless it is the default.
pub(super) fn config_option(role: Role, file: &Path) -> String {
    if file == config_file(role) {
        String::new()
    } else {
        format!(" --config {}", file.display())
    }
}

/// Name of a role's systemd unit.
pub(super) fn unit(role: Role) -> String {
    format!("mpbond-{role}.service")
}

/// Whether a role's systemd unit is installed, and reads the configuration that this user writes.
/// That of an ordinary user is another one.
pub(super) fn has_unit(role: Role) -> bool {
    let is_there = |folder: &str| PathBuf::from(folder).join(unit(role)).exists();
    geteuid().is_root() && UNITS.into_iter().any(is_there)
}

/// Command by which a running daemon applies what it can of its new configuration, in a sentence.
pub(super) fn reload(role: Role, file: &Path) -> String {
    let option = config_option(role, file);
    format!(
        "Have the {role} that runs read it: {}mpbond reload {role}{option}",
        sudo_for(file)
    )
}

/// Command that puts all of a daemon's new configuration in force, in a sentence.
pub(super) fn start(role: Role, file: &Path, running: bool) -> String {
    let option = config_option(role, file);
    match (running, option.is_empty() && has_unit(role)) {
        // A new process takes over from the one that runs (docs/upgrade.md).
        (true, true) => {
            format!("Have the {role} use it: sudo systemctl reload mpbond-{role}")
        }
        (false, true) => format!("Start the {role}: sudo systemctl enable --now mpbond-{role}"),
        (true, false) => format!(
            "Stop the {role} that runs, and start it again to use it: {}mpbond {role}{option}",
            sudo()
        ),
        (false, false) => format!("Start the {role}: {}mpbond {role}{option}", sudo()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_in_another_place_is_named() {
        let file = Path::new("/srv/my primary.toml");
        assert_eq!(
            config_option(Role::Primary, &config_file(Role::Primary)),
            ""
        );
        let hint = start(Role::Primary, file, false);
        assert!(
            hint.ends_with("mpbond primary --config /srv/my primary.toml"),
            "{hint}"
        );
        assert!(start(Role::Primary, file, true).starts_with("Stop the primary that runs"));
        assert_eq!(sudo_for(Path::new("/etc/mpbond/identity.pem")), "sudo ");
    }
}
