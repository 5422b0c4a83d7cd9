use std::fmt;
use std::io;
use std::path::Path;

/// Why the lab could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment file, or a command-line choice about it, is wrong.
    /// The text names file, line, key and what is allowed.
    #[error("{}", one_line(.0))]
    Experiment(String),
    /// The machine lacks something that the person can install or allow.
    #[error("{0}")]
    Missing(String),
    /// A system call or file operation failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system answered.
        source: io::Error,
    },
    /// A program that the experiment needs failed or did not answer in time.
    #[error("{0}")]
    Run(String),
}

/// Control characters come from the file and would reach a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

impl Error {
    /// The exit code that this error deserves: 2 for a wrong experiment file,
    /// 3 for a machine that lacks something, 1 otherwise.
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

/// The lab's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds what was being done to a system error.
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
