//! The daemon of a device that has been set up: a systemd service, where systemd runs.

use std::path::Path;
use std::process::Command;

use mpbond::config::{Role, config_file, status_socket};
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

use super::super::hints::{has_unit, start, unit};

/// Folder that exists where systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Enables and starts the daemon's service, or prints the command that starts the daemon where
/// there is no service, or none is wanted.
///
/// # Errors
/// When systemctl fails.
pub(super) fn bring_up(role: Role, wanted: bool) -> Result<(), Failure> {
    let has_service = Path::new(SYSTEMD).exists() && has_unit(role);
    if !wanted || !has_service {
        let running = ask(&status_socket(role)).is_ok();
        return print(&format!("{}\n", start(role, &config_file(role), running)));
    }
    let unit = unit(role);
    // It may run already, with the configuration before.
    for verb in ["enable", "restart"] {
        systemctl(verb, &unit)?;
    }
    print(&format!(
        "The {role} runs, and starts with this device: {unit} is enabled.\n"
    ))
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
        "the configuration is written, but `systemctl {verb} {unit}` failed ({problem}): see \
         `journalctl -u {unit}`"
    )))
}
