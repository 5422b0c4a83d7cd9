//! A configuration file's text, and the paths in it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};

pub use mpbond_toml_text::FileError as ConfigError;

/// Maximum size of a configuration file; a longer file is some other file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Remedy for a file that cannot be read.
fn unreadable_advice(file: &Path, kind: io::ErrorKind) -> &'static str {
    match (kind, file.file_stem().and_then(|stem| stem.to_str())) {
        (io::ErrorKind::PermissionDenied, _) => "; run this as its owner, or as root",
        (io::ErrorKind::NotFound, Some("primary")) => {
            "; `mpbond setup` makes one, `mpbond primary --help` shows one"
        }
        (io::ErrorKind::NotFound, Some("helper")) => {
            "; `mpbond setup` makes one, `mpbond helper --help` shows one"
        }
        (io::ErrorKind::NotFound, Some("proxy")) => {
            "; `mpbond setup` makes one, `mpbond proxy --help` shows one"
        }
        (io::ErrorKind::NotFound, Some("device")) => "; `mpbond up --help` shows one",
        (io::ErrorKind::NotFound, _) => "; `mpbond ROLE --help` shows one",
        _ => "",
    }
}

/// Text of a configuration file, not yet parsed.
pub(super) struct Source<'a>(mpbond_toml_text::Source<'a>);

impl<'a> Deref for Source<'a> {
    type Target = mpbond_toml_text::Source<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Source<'a> {
    pub(super) fn read(file: &'a Path) -> Result<Self, ConfigError> {
        let unreadable = |e: io::Error| {
            let advice = unreadable_advice(file, e.kind());
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
        Ok(Self::of_text(file, text))
    }

    /// A new text for this file, not yet written.
    pub(super) fn of_text(file: &'a Path, text: String) -> Self {
        Self(mpbond_toml_text::Source::new(file, text))
    }

    /// All of the text.
    pub(super) fn whole(&self) -> Source<'_> {
        Source(mpbond_toml_text::Source::new(self.file, self.text()))
    }

    /// A table of the text, with the keys `shared` of the top level.
    pub(super) fn section(
        &self,
        name: &'static str,
        shared: &'static [&'static str],
    ) -> Source<'_> {
        Source(self.0.table(name, shared))
    }

    /// An error about a key that is not there at all.
    pub(super) fn missing(&self, key: &str, problem: impl fmt::Display) -> ConfigError {
        ConfigError::missing(self.file, &self.whole_key(key), problem)
    }

    /// The line that this offset is in, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.place(offset).line
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
