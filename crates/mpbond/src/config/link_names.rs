//! Names of a primary's links, which status and results show.

use std::collections::HashMap;
use std::ops::Range;

use super::source::{ConfigError, Source};

/// The names that are taken, and where.
pub(super) struct LinkNames<'a> {
    source: &'a Source<'a>,
    lines: HashMap<String, Range<usize>>,
}

impl<'a> LinkNames<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        Self {
            source,
            lines: HashMap::new(),
        }
    }

    /// Takes a name.
    ///
    /// # Errors
    /// Another link has it; the error is about `key` at `span`.
    pub(super) fn add(
        &mut self,
        key: &str,
        name: &str,
        span: Range<usize>,
    ) -> Result<(), ConfigError> {
        if let Some(first) = self.lines.get(name) {
            let line = self.source.line(first.start);
            return Err(self.source.wrong(
                span,
                key,
                format_args!(
                    "\"{name}\" is the name of the link in line {line} already; \
                     every link needs a name of its own"
                ),
            ));
        }
        self.lines.insert(name.to_owned(), span);
        Ok(())
    }
}
