//! Errors of commands.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Error of a command: one line for standard error, and an exit code.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Wrong usage or configuration: exit code 2.
    pub fn input(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: 2,
        }
    }

    /// A file or argument that cannot be used: exit code 2, with all causes in the line.
    pub fn bad_input(e: anyhow::Error) -> Self {
        Self::input(format_args!("{e:#}"))
    }

    /// An operation that failed: exit code 1.
    pub fn run(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: 1,
        }
    }

    /// An error with another exit code.
    pub fn with_code(text: impl std::fmt::Display, code: u8) -> Self {
        Self {
            text: text.to_string(),
            code,
        }
    }

    /// Writes the line to standard error, after the name that the program was called by.
    pub fn report(&self) -> ExitCode {
        let called = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&called).file_name().unwrap_or("mpbond".as_ref());
        // Where standard error cannot be written, the exit code remains.
        let _ = writeln!(
            std::io::stderr(),
            "{}: {}",
            name.display(),
            self.text.trim_end()
        );
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Self {
        // All causes on one line.
        Self::run(format_args!("{e:#}"))
    }
}
