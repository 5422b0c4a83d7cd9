//! Texts of TOML files (configurations and policies), and errors that name a place in them.

#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mpbond_units::printable;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// Error in a file: one line that names file, line, key and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    file: PathBuf,
    place: Option<Place>,
    key: Option<String>,
    problem: String,
    unwritten: bool,
}

/// Place in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

impl FileError {
    /// Place of the error; `None` for an error about the whole file.
    pub const fn place(&self) -> Option<Place> {
        self.place
    }

    /// An error about a whole file.
    pub fn about_file(file: &Path, problem: impl fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            place: None,
            key: None,
            problem: one_line(&problem.to_string()),
            unwritten: false,
        }
    }

    /// A file that could not be locked or written: a full disk, say. What it was to have is right.
    pub fn unwritten(file: &Path, problem: impl fmt::Display) -> Self {
        Self {
            unwritten: true,
            ..Self::about_file(file, problem)
        }
    }

    /// Whether the file could not be locked or written, rather than being wrong.
    pub const fn is_unwritten(&self) -> bool {
        self.unwritten
    }

    /// An error about a line of a file, counted from 1.
    pub fn at_line(file: &Path, line: usize, problem: impl fmt::Display) -> Self {
        Self {
            place: Some(Place { line, column: 1 }),
            ..Self::about_file(file, problem)
        }
    }

    /// An error about a key that is not in the file.
    pub fn missing(file: &Path, key: &str, problem: impl fmt::Display) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..Self::about_file(file, format_args!("missing: {problem}"))
        }
    }

    /// An error about a place that was noted when the file was read.
    pub fn at(file: &Path, place: Place, key: &str, problem: &str) -> Self {
        Self {
            place: Some(place),
            key: Some(key.to_owned()),
            ..Self::about_file(file, problem)
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", one_line(&self.file.display().to_string()))?;
        if let Some(place) = self.place {
            write!(f, "{}:", place.line)?;
        }
        if let Some(key) = &self.key {
            write!(f, " {}:", one_line(key))?;
        }
        write!(f, " {}", self.problem)
    }
}

impl std::error::Error for FileError {}

/// Maximum length of the key, and of the reason, of an error.
const MAX_SHOWN_BYTES: usize = 400;

/// Characters of the file that are not printable would reach a terminal.
fn one_line(text: &str) -> String {
    printable(&text.trim().replace('\n', "; "), MAX_SHOWN_BYTES)
}

/// Text of a TOML file.
pub struct Source<'a> {
    /// The file, for errors.
    pub file: &'a Path,
    text: Cow<'a, str>,
    /// Offsets at which lines begin.
    lines: Vec<usize>,
    /// The table that is read, and the keys before the tables that belong to it as well; else all.
    part: Option<(&'static str, &'static [&'static str])>,
}

impl<'a> Source<'a> {
    /// Takes a file's text.
    pub fn new(file: &'a Path, text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            file,
            lines: std::iter::once(0).chain(after_breaks).collect(),
            text,
            part: None,
        }
    }

    /// The table of this name at the top level, as if it were the whole text. The keys `shared`
    /// are those of the top level. Places of errors are those in the whole text.
    #[must_use]
    pub fn table(&self, name: &'static str, shared: &'static [&'static str]) -> Source<'_> {
        Source {
            file: self.file,
            text: Cow::Borrowed(&self.text),
            lines: self.lines.clone(),
            part: Some((name, shared)),
        }
    }

    /// Whether the text has a table of this name at its top level.
    pub fn has_table(&self, name: &str) -> bool {
        let is_table = |root: &DeTable<'_>| {
            let found = root.get(name).map(Spanned::get_ref);
            matches!(found, Some(DeValue::Table(_)))
        };
        DeTable::parse(&self.text).is_ok_and(|root| is_table(root.get_ref()))
    }

    /// A key with the name of the table that is read.
    pub fn whole_key(&self, key: &str) -> String {
        match self.part {
            Some((table, _)) => format!("{table}.{key}"),
            None => key.to_owned(),
        }
    }

    /// The table that is read.
    fn part_of<'t>(&self, mut root: Spanned<DeTable<'t>>) -> Spanned<DeTable<'t>> {
        let Some((name, shared)) = self.part else {
            return root;
        };
        let top = root.get_mut();
        let Some(found) = top.remove(name) else {
            return root;
        };
        let span = found.span();
        let DeValue::Table(mut table) = found.into_inner() else {
            return root;
        };
        let shared = shared.iter().filter_map(|key| top.remove_entry(*key));
        table.extend(shared);
        Spanned::new(span, table)
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the text.
    ///
    /// # Errors
    /// The first thing in it that `T` does not have.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        let root = DeTable::parse(&self.text).map(|root| self.part_of(root));
        let parsed = root.and_then(|root| T::deserialize(Deserializer::from(root)));
        parsed.map_err(|e| {
            let span = e.span();
            let key = span.clone().and_then(|s| match e.message() {
                // The document ends at the error, so the key is not in it.
                "duplicate key" => self.text.get(s).map(str::to_owned),
                _ => self.key_at(s.start),
            });
            let problem = plain_words(e.message(), key.as_deref());
            self.error(span, key, &problem)
        })
    }

    /// An error about the value, or the table, at `span`.
    pub fn wrong(&self, span: Range<usize>, key: &str, problem: impl fmt::Display) -> FileError {
        self.error(Some(span), Some(self.whole_key(key)), &problem.to_string())
    }

    fn error(&self, span: Option<Range<usize>>, key: Option<String>, problem: &str) -> FileError {
        FileError {
            file: self.file.to_owned(),
            place: span.map(|s| self.place(s.start)),
            key,
            problem: one_line(problem),
            unwritten: false,
        }
    }

    /// The place of an offset.
    pub fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|begin| *begin <= offset);
        let begin = line.checked_sub(1).and_then(|index| self.lines.get(index));
        let before = begin.and_then(|begin| self.text.get(*begin..offset));
        Place {
            line,
            column: before.map_or(0, |text| text.chars().count()) + 1,
        }
    }

    /// The dotted key whose name or value stands at this offset.
    fn key_at(&self, offset: usize) -> Option<String> {
        let document = DeTable::parse(&self.text).ok()?;
        let mut path = Vec::new();
        find_in_table(document.get_ref(), offset, &mut path);
        (!path.is_empty()).then(|| path.join("."))
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

/// Rewrites a parser's message about a key in terms of keys and values.
fn plain_words(message: &str, key: Option<&str>) -> String {
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
        let value = shown(value);
        return format!("\"{value}\" is not allowed; allowed are {}", allowed(list));
    }
    if let Some(rest) = message.strip_prefix("missing field `") {
        return format!("the key \"{}\" is missing", rest.trim_end_matches('`'));
    }
    if message == "invalid type: map, expected a sequence" {
        let name = key.unwrap_or_default();
        return format!("a file may have several: write its name in two brackets, [[{name}]]");
    }
    message.replace('`', "\"")
}

/// The begin of a text, for an error.
pub fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
