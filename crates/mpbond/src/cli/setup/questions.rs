//! Questions to the person at the terminal.

use std::io::{BufRead, IsTerminal, Read};

use mpbond_command::{Failure, note, prompt};

/// Maximum length of an answer: a terminal's line.
const MAX_ANSWER_BYTES: u64 = 4096;

/// Asks at the terminal, if there is one.
pub(super) struct Questions {
    is_terminal: bool,
}

impl Questions {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// Whether somebody can be asked.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The answer to a question, which is asked again until `accept` takes it. `option` is the
    /// option that answers it beforehand.
    ///
    /// # Errors
    /// Where nobody can be asked.
    pub(super) fn ask<T>(
        &self,
        question: &str,
        option: &str,
        accept: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        if !self.is_terminal {
            return Err(Failure::input(format_args!(
                "setup asks questions, and standard input is no terminal: answer with {option}, or \
                 run it in a terminal"
            )));
        }
        loop {
            prompt!("{question}: ");
            let mut answer = String::new();
            let stdin = std::io::stdin().lock();
            let read = stdin.take(MAX_ANSWER_BYTES).read_line(&mut answer);
            if !read.is_ok_and(|octets| octets > 0) {
                note!("");
                return Err(Failure::input(format_args!(
                    "no answer, and nothing has been changed: {option} gives it beforehand"
                )));
            }
            match accept(answer.trim()) {
                Ok(value) => return Ok(value),
                Err(problem) => note!("{problem}"),
            }
        }
    }
}
