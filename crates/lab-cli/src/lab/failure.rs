//! Conversion of the lab's errors to errors of a command.

use mpbond_command::Failure;

/// The error, with the lab's own exit codes.
pub(crate) fn failed(e: mpbond_lab::Error) -> Failure {
    Failure::with_code(&e, e.exit_code())
}
