//! Commands in messages, as they have to be typed here.

use std::path::{Path, PathBuf};

use mpbond::config::{Role, config_file, device_file, has_section, status_sockets};
use mpbond::status_socket::ask;
use mpbond_units::shell_word;
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
        format!(" --config {}", word(file))
    }
}

/// The configuration of a role: the usual one, or that of the device, where a daemon runs that has
/// it although the role has a file of its own (`mpbond up`).
pub(super) fn file_in_use(role: Role) -> PathBuf {
    let (usual, device) = (config_file(role), device_file());
    if usual == device || !usual.exists() || !has_section(role, &device) {
        return usual;
    }
    let socket = status_sockets(role).into_iter().next();
    let status = socket.and_then(|socket| ask(&socket).ok());
    let theirs = status.and_then(|status| status.config_file);
    let whole = |file: &Path| std::fs::canonicalize(file).ok();
    match theirs.is_some_and(|theirs| whole(Path::new(&theirs)) == whole(&device)) {
        true => device,
        false => usual,
    }
}

/// A path as a word of a shell's command line.
pub(super) fn word(path: &Path) -> String {
    shell_word(&path.display().to_string()).into_owned()
}

/// A command of this program about this configuration, as it has to be typed here.
pub(super) fn command(words: &str, role: Role, file: &Path) -> String {
    let (sudo, option) = (sudo_for(file), config_option(role, file));
    format!("{sudo}mpbond {words}{option}")
}

/// The command that pairs this device. The name of a configuration in another place need not name
/// its role.
pub(super) fn pair(role: Role, file: &Path) -> String {
    match config_option(role, file).is_empty() {
        true => command("pair", role, file),
        false => command(&format!("pair --role {role}"), role, file),
    }
}

/// Name of a role's systemd unit.
pub(super) fn unit(role: Role) -> String {
    format!("mpbond-{role}.service")
}

/// Whether a role's systemd unit is installed, and reads the configuration that this user writes.
/// That of an ordinary user is another one.
pub(super) fn has_unit(role: Role) -> bool {
    has_unit_of(role.name())
}

/// The same of the command that starts a daemon.
fn has_unit_of(command: &str) -> bool {
    let unit = format!("mpbond-{command}.service");
    let is_there = |folder: &str| PathBuf::from(folder).join(&unit).exists();
    geteuid().is_root() && UNITS.into_iter().any(is_there)
}

/// Command by which a running daemon applies what it can of its new configuration, in a sentence.
pub(super) fn reload(role: Role, file: &Path) -> String {
    let command = command(&format!("reload {role}"), role, file);
    format!("Have the {role} that runs read it: {command}")
}

/// Command that puts all of a daemon's new configuration in force, in a sentence.
pub(super) fn start(role: Role, file: &Path, running: bool) -> String {
    let is_default = config_option(role, file).is_empty();
    // A device with several roles starts all of them.
    let is_device = has_section(role, file);
    let daemon = if is_device { "up" } else { role.name() };
    let command = || command(daemon, role, file);
    match (running, is_default && has_unit_of(daemon)) {
        // A new process takes over from the one that runs (docs/upgrade.md).
        (true, true) => {
            format!("Have the {role} use it: sudo systemctl reload mpbond-{daemon}")
        }
        (false, true) => {
            format!("Start the {role}: sudo systemctl enable --now mpbond-{daemon}")
        }
        (true, false) => format!(
            "Stop the {role} that runs, and start it again to use it: {}",
            command()
        ),
        (false, false) => format!("Start the {role}: {}", command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_in_another_place_is_named() {
        let file = Path::new("/srv/my conf's/primary.toml");
        assert_eq!(
            config_option(Role::Primary, &config_file(Role::Primary)),
            ""
        );
        let hint = start(Role::Primary, file, false);
        assert!(
            hint.ends_with(r"mpbond primary --config '/srv/my conf'\''s/primary.toml'"),
            "{hint}"
        );
        let hint = pair(Role::Helper, file);
        assert!(
            hint.contains("mpbond pair --role helper --config '"),
            "{hint}"
        );
        assert!(start(Role::Primary, file, true).starts_with("Stop the primary that runs"));
        assert_eq!(sudo_for(Path::new("/etc/mpbond/identity.pem")), "sudo ");
    }
}
