//! The daemon of a device that has been set up: a systemd service, where systemd runs.

use std::path::Path;
use std::process::{Command, Stdio};

use mpbond::config::{Role, config_file};
use mpbond::reload::Answer;
use mpbond::status_socket::{ask, reload};
use mpbond_command::{Failure, print};

use super::super::hints::{has_unit, start, unit};
use super::super::socket::socket_of;

/// Folder that exists where systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Enables the daemon's service, and has it use the new configuration: a service that runs reads it
/// again, or, for other changes, hands over to a new process. Prints the command for it where there
/// is no service, or none is wanted.
///
/// # Errors
/// When systemctl fails.
pub(super) fn bring_up(role: Role, wanted: bool) -> Result<(), Failure> {
    let file = config_file(role);
    let socket = socket_of(role, &file).map_err(Failure::input)?;
    let running = ask(&socket).is_ok();
    let has_service = Path::new(SYSTEMD).exists() && has_unit(role);
    let unit = unit(role);
    let by_hand = has_service && running && !is_active(&unit);
    if !wanted || !has_service || by_hand {
        return print(&format!("{}\n", start(role, &file, running)));
    }
    systemctl("enable", &unit)?;
    if !running {
        // It may be about to start, with the configuration before.
        systemctl("restart", &unit)?;
    } else if !is_applied(&socket) {
        systemctl("reload", &unit)?;
    }
    print(&format!(
        "The {role} runs, and starts with this device: {unit} is enabled.\n"
    ))
}

/// Has the daemon read its configuration; whether all of it is in force then.
fn is_applied(socket: &Path) -> bool {
    matches!(reload(socket), Ok(Answer::Read { changes, .. }) if changes.restart.is_empty())
}

fn is_active(unit: &str) -> bool {
    let asked = Command::new("systemctl")
        .args(["--quiet", "is-active", unit])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

fn systemctl(verb: &str, unit: &str) -> Result<(), Failure> {
    let done = Command::new("systemctl")
        .args(["--quiet", verb, unit])
        .status();
    let problem = match done {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(e) => e.to_string(),
    };
    Err(Failure::run(format_args!(
        "the configuration is written, but `sudo systemctl {verb} {unit}` failed ({problem}): see \
         `sudo journalctl -u {unit}`"
    )))
}
