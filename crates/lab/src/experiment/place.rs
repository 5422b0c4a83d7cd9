//! Error messages with the line of an experiment file.

use std::ops::Range;

use toml::Spanned;

use crate::error::Error;

/// A file's name and text, to compute line numbers.
pub(super) struct Place<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Place<'_> {
    /// An error at `span`, as one line.
    pub fn error(&self, span: Option<Range<usize>>, message: &str) -> Error {
        let message = message.trim().replace('\n', "; ");
        let Some(before) = span.and_then(|s| self.text.get(..s.start)) else {
            return Error::Experiment(format!("{}: {message}", self.file));
        };
        let line = before.matches('\n').count() + 1;
        Error::Experiment(format!("{}:{line}: {message}", self.file))
    }

    pub(super) fn at<T>(&self, what: &Spanned<T>, message: String) -> Error {
        self.error(Some(what.span()), &message)
    }
}
