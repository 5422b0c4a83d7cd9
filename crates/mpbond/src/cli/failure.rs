use std::io::Write as _;
use std::process::ExitCode;

use mpbond::config::ConfigError;

/// Why a command failed, in one line, and how the shell hears of it.
#[derive(Debug)]
pub(super) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Wrong usage or configuration.
    pub(super) fn input(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: 2,
        }
    }

    /// A file or an argument is no good; all causes on one line.
    pub(super) fn bad_input(e: anyhow::Error) -> Self {
        Self::input(format_args!("{e:#}"))
    }

    /// Something did not work.
    pub(super) fn run(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: 1,
        }
    }

    /// With a code of its own.
    pub(super) fn with_code(text: impl std::fmt::Display, code: u8) -> Self {
        Self {
            text: text.to_string(),
            code,
        }
    }

    pub(super) fn report(&self) -> ExitCode {
        // Where standard error takes no more, the code has to do.
        let _ = writeln!(std::io::stderr(), "mpbond: {}", self.text.trim_end());
        ExitCode::from(self.code)
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Self {
        Self::input(e)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Self {
        // All causes on one line.
        Self::run(format_args!("{e:#}"))
    }
}
