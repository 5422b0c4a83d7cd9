//! A configuration file's text, and errors that name a place in it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mpbond_policy::PolicyError;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum size of a configuration file; a longer file is some other file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Error in a configuration: one line that names file, line, key and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    key: Option<String>,
    problem: String,
}

impl ConfigError {
    /// An error about a whole file.
    pub(crate) fn about_file(file: &Path, problem: impl fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            key: None,
            problem: one_line(&problem.to_string()),
        }
    }

    /// An error in a policy.
    pub(crate) fn of_policy(error: &PolicyError) -> Self {
        Self {
            line: error.place().map(|place| place.line),
            key: error.key().map(str::to_owned),
            ..Self::about_file(error.file(), error.problem())
        }
    }

    /// An error about a line of a file.
    pub(crate) fn at_line(file: &Path, line: usize, problem: impl fmt::Display) -> Self {
        Self {
            line: Some(line),
            ..Self::about_file(file, problem)
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}:")?;
        }
        write!(f, " {}", self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// Control characters come from the file and would reach a terminal.
fn one_line(text: &str) -> String {
    let text = text.trim().replace('\n', "; ");
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Text of a configuration file, not yet parsed.
pub(super) struct Source<'a> {
    pub file: &'a Path,
    text: String,
}

impl<'a> Source<'a> {
    pub(super) fn read(file: &'a Path) -> Result<Self, ConfigError> {
        let unreadable = |e: std::io::Error| {
            let advice = match e.kind() {
                std::io::ErrorKind::NotFound => "; `--help` shows a complete example",
                _ => "",
            };
            ConfigError::about_file(file, format_args!("cannot be read: {e}{advice}"))
        };
        let mut bytes = Vec::new();
        File::open(file)
            .map_err(unreadable)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ConfigError::about_file(
                file,
                format_args!("longer than {MAX_FILE_BYTES} bytes"),
            ));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let good = e.utf8_error().valid_up_to();
            let before = e.as_bytes().get(..good).unwrap_or_default();
            let line = before.iter().filter(|b| **b == b'\n').count() + 1;
            ConfigError::at_line(file, line, "not UTF-8 text")
        })?;
        Ok(Self { file, text })
    }

    /// A new text for this file, not yet written.
    pub(super) fn of_text(file: &'a Path, text: String) -> Self {
        Self { file, text }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(&self.text).map_err(|e| {
            let span = e.span();
            let key = span.clone().and_then(|s| match e.message() {
                // The document ends at the error, so the key is not in it.
                "duplicate key" => self.text.get(s).map(str::to_owned),
                _ => self.key_at(s.start),
            });
            self.error(span, key, plain_words(e.message()))
        })
    }

    /// An error about the value, or the table, at `span`.
    pub(super) fn wrong(
        &self,
        span: Range<usize>,
        key: &str,
        problem: impl fmt::Display,
    ) -> ConfigError {
        self.error(Some(span), Some(key.to_owned()), problem.to_string())
    }

    /// An error about a key that is not there at all.
    pub(super) fn missing(&self, key: &str, problem: impl fmt::Display) -> ConfigError {
        self.error(None, Some(key.to_owned()), format!("missing: {problem}"))
    }

    fn error(
        &self,
        span: Option<Range<usize>>,
        key: Option<String>,
        problem: String,
    ) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            line: span.map(|s| self.line(s.start)),
            key,
            problem: one_line(&problem),
        }
    }

    /// The line that this offset is in, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        before.matches('\n').count() + 1
    }

    /// The dotted key whose name or value stands at this offset.
    fn key_at(&self, offset: usize) -> Option<String> {
        let document = DeTable::parse(&self.text).ok()?;
        let mut path = Vec::new();
        find_in_table(document.get_ref(), offset, &mut path);
        (!path.is_empty()).then(|| path.join("."))
    }

    /// A path in the file: relative ones start at the file's folder, so that a configuration
    /// means the same wherever the daemon is started from.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        if let Some(rest) = path.strip_prefix("~/")
            && let Some(home) = std::env::var_os("HOME")
        {
            return Path::new(&home).join(rest);
        }
        match self.file.parent() {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }
}

fn find_in_table(table: &DeTable<'_>, offset: usize, path: &mut Vec<String>) -> bool {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        if key.span().contains(&offset) || find_in_value(value, offset, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn find_in_value(value: &Spanned<DeValue<'_>>, offset: usize, path: &mut Vec<String>) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => find_in_table(table, offset, path),
        DeValue::Array(items) => items.iter().any(|item| find_in_value(item, offset, path)),
        _ => false,
    };
    inside || value.span().contains(&offset)
}

/// Rewrites a parser's message in terms of keys and values.
fn plain_words(message: &str) -> String {
    let allowed = |list: &str| {
        let list = list.strip_prefix("one of ").unwrap_or(list);
        list.replace('`', "").replace(" or ", ", ")
    };
    if let Some((_, rest)) = message.split_once("unknown field `")
        && let Some((_, list)) = rest.split_once("`, expected ")
    {
        return format!("unknown key; allowed here are {}", allowed(list));
    }
    if let Some((_, rest)) = message.split_once("unknown variant `")
        && let Some((value, list)) = rest.split_once("`, expected ")
    {
        return format!("\"{value}\" is not allowed; allowed are {}", allowed(list));
    }
    message.replace('`', "\"")
}
