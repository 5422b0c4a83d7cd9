//! Failures of commands that change files.

use mpbond::config::ConfigError;
use mpbond_command::Failure;

/// The failure of a command that changes a file: exit code 2 where the file is wrong, 1 where it
/// cannot be written.
pub(super) fn of_change(e: ConfigError) -> Failure {
    match e.is_unwritten() {
        true => Failure::run(e),
        false => Failure::input(e),
    }
}
