//! Errors of the lab.

use std::fmt;
use std::io;
use std::path::Path;

/// Error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Wrong experiment file, or wrong option for it. The text names file, line, key and allowed
    /// values.
    #[error("{}", one_line(.0))]
    Experiment(String),
    /// The machine lacks something that can be installed or allowed.
    #[error("{0}")]
    Missing(String),
    /// A system call or file operation failed.
    #[error("{what}: {source}")]
    System {
        /// Action that failed.
        what: String,
        /// Answer of the system.
        source: io::Error,
    },
    /// A program of the experiment failed or did not answer in time.
    #[error("{0}")]
    Run(String),
}

/// Replaces control characters, which come from files or peers and would reach a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

impl Error {
    /// Exit code of a program that fails with this error: 2 for a wrong experiment file, 3 for a
    /// lacking machine, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Experiment(_) => 2,
            Self::Missing(_) => 3,
            Self::System { .. } | Self::Run(_) => 1,
        }
    }

    pub(crate) fn run(text: impl fmt::Display) -> Self {
        Self::Run(text.to_string())
    }
}

/// Result with the lab's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the failed action to a system error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T>;
    fn at(self, verb: &str, path: &Path) -> Result<T>
    where
        Self: Sized,
    {
        self.doing(format_args!("cannot {verb} {}", path.display()))
    }
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Error::System {
            what: what.to_string(),
            source: e.into(),
        })
    }
}
