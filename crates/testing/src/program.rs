//! A program under test, run as a user runs it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// A program under test.
#[derive(Debug, Clone, Copy)]
pub struct Program(&'static str);

/// Result of a program that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Program {
    /// The program at `path`, commonly `env!("CARGO_BIN_EXE_...")`.
    pub const fn new(path: &'static str) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(self) -> &'static Path {
        Path::new(self.0)
    }

    /// Its name, with which its error lines begin.
    pub fn name(self) -> String {
        let name = self.path().file_name();
        name.unwrap_or_default().display().to_string()
    }

    /// A command that runs it with `args`, without variables of the test's own environment that
    /// change its output.
    pub fn command<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(self.0);
        command
            .args(args)
            .env_remove("COLUMNS")
            .env_remove("RUST_LOG");
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be run, is killed by a signal, or prints octets that are not UTF-8.
    pub fn run(self, args: &[&str]) -> Outcome {
        self.command(args).output().unwrap().into()
    }

    /// Runs it; returns its standard output.
    ///
    /// # Panics
    /// When its exit code is not 0.
    pub fn ok(self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
        outcome.stdout
    }

    /// Runs it; returns its error line without the program's name.
    ///
    /// # Panics
    /// When its exit code is not `code`, when it prints anything on standard output, or other than
    /// one line that begins with its name on standard error.
    pub fn fails(self, args: &[&str], code: i32) -> String {
        let text = self.run(args).error(code);
        let line = text.strip_prefix(&format!("{}: ", self.name()));
        line.unwrap_or_else(|| panic!("{args:?}: {text}"))
            .to_owned()
    }
}

impl Outcome {
    /// The error line of a program that has failed with `code`.
    ///
    /// # Panics
    /// When it has another exit code, anything on standard output, or other than one line on
    /// standard error.
    pub fn error(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.stderr
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SH: Program = Program::new("/bin/sh");

    #[test]
    fn an_outcome_has_code_and_both_outputs() {
        let outcome = SH.run(&["-c", "echo out; echo err >&2; exit 3"]);
        let expected = Outcome {
            code: 3,
            stdout: "out\n".to_owned(),
            stderr: "err\n".to_owned(),
        };
        assert_eq!(outcome, expected);
        assert_eq!(SH.ok(&["-c", "echo out"]), "out\n");
        assert_eq!(SH.fails(&["-c", "echo sh: no >&2; exit 2"], 2), "no\n");
    }

    #[test]
    #[should_panic(expected = "sh: two")]
    fn a_second_error_line_is_a_fault() {
        SH.fails(&["-c", "echo sh: one >&2; echo sh: two >&2; exit 2"], 2);
    }
}
