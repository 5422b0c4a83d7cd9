//! Changes of a primary's configuration by a program.
//!
//! The file is written by people, with comments and an order of their own, which stay as they are.
//! Nothing is written that could not be read again.

use std::io;
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item, Table, TableLike, TomlError, Value};

use super::file;
use super::place::Role;
use super::primary::PrimaryConfig;
use super::primary_file::check_form;
use super::source::{ConfigError, Source};

const MAX_FILE_BYTES: u64 = 1 << 20;

/// A change of the file, which can be undone.
#[derive(Clone, Debug)]
pub struct PrimaryEdit {
    path: PathBuf,
    before: Option<String>,
    after: String,
}

impl PrimaryEdit {
    pub(super) fn change(
        path: &Path,
        edit: impl FnOnce(&Source<'_>) -> Result<String, ConfigError>,
    ) -> Result<Self, ConfigError> {
        Self::change_of(path, str::to_owned, edit)
    }

    /// A change of the part of the file that is kept.
    pub(super) fn change_of(
        path: &Path,
        keep: impl FnOnce(&str) -> String,
        edit: impl FnOnce(&Source<'_>) -> Result<String, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let unwritten = |what: &str, e: &io::Error| {
            ConfigError::unwritten(path, format_args!("cannot be {what}: {e}"))
        };
        let unread = |e| ConfigError::about_file(path, format_args!("cannot be read: {e}"));
        let _lock = file::lock(path).map_err(|e| unwritten("locked", &e))?;
        let before = file::read(path, MAX_FILE_BYTES).map_err(unread)?;
        let source = Source::of_text(path, keep(before.as_deref().unwrap_or_default()));
        check_form(&source)?;
        let after = edit(&source)?;
        let result = Source::of_text(path, after);
        check_form(&result)?;
        // A file that a daemon could start with is still one afterwards.
        let was = Source::of_text(path, before.clone().unwrap_or_default());
        if PrimaryConfig::of_source(&was).is_ok() {
            PrimaryConfig::of_source(&result)?;
        }
        let edit = Self {
            path: path.to_owned(),
            before,
            after: result.text().to_owned(),
        };
        if edit.is_change() {
            file::replace(path, &edit.after).map_err(|e| unwritten("written", &e))?;
        }
        Ok(edit)
    }

    /// Whether a file, if it exists, is one that can be added to.
    ///
    /// # Errors
    /// When it cannot be read or has a key that a primary's configuration does not have.
    pub fn check(path: &Path) -> Result<(), ConfigError> {
        if path.exists() {
            check_form(&Source::read(path)?)?;
        }
        Ok(())
    }

    /// Whether the file was changed.
    pub fn is_change(&self) -> bool {
        self.before.as_ref() != Some(&self.after)
    }

    /// Undoes the change, unless the file has been edited since.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn undo(&self) -> Result<(), ConfigError> {
        let undo = || {
            let _lock = file::lock(&self.path)?;
            if file::read(&self.path, MAX_FILE_BYTES)?.as_ref() != Some(&self.after) {
                return Ok(());
            }
            match &self.before {
                Some(text) => file::replace(&self.path, text),
                None => std::fs::remove_file(&self.path),
            }
        };
        undo().map_err(|e: io::Error| {
            ConfigError::unwritten(&self.path, format_args!("cannot be put back: {e}"))
        })
    }
}

pub(super) fn parsed<'a>(source: &'a Source<'_>) -> Result<Document<&'a str>, ConfigError> {
    let refused = |e: TomlError| ConfigError::about_file(source.file, e.message());
    Document::parse(source.text()).map_err(refused)
}

/// The table with a primary's keys: a section in the file of a device, else the document.
pub(super) fn keys(document: &Table) -> &Table {
    let section = document.get(Role::Primary.name()).and_then(Item::as_table);
    section.unwrap_or(document)
}

/// Changes the table with a primary's keys.
pub(super) fn edit_keys<R>(document: &mut DocumentMut, edit: impl FnOnce(&mut Table) -> R) -> R {
    let section = document.get_mut(Role::Primary.name());
    match section.and_then(Item::as_table_mut) {
        Some(section) => edit(section),
        None => edit(document),
    }
}

/// Replaces a value, whose comment stays.
pub(super) fn rewrite(written: &mut Value, text: &str) {
    let decor = written.decor().clone();
    *written = Value::from(text);
    *written.decor_mut() = decor;
}

pub(super) fn text<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a str> {
    table.get(key)?.as_str()
}

/// The tables of a list, which is written `[[name]]` or `name = [{}]`.
pub(super) fn tables(list: &Item) -> Box<dyn Iterator<Item = &dyn TableLike> + '_> {
    match list {
        Item::ArrayOfTables(all) => Box::new(all.iter().map(|t| t as &dyn TableLike)),
        Item::Value(Value::Array(all)) => {
            let inline = all.iter().filter_map(Value::as_inline_table);
            Box::new(inline.map(|t| t as &dyn TableLike))
        }
        _ => Box::new(std::iter::empty()),
    }
}

pub(super) fn tables_mut(list: &mut Item) -> Box<dyn Iterator<Item = &mut dyn TableLike> + '_> {
    match list {
        Item::ArrayOfTables(all) => Box::new(all.iter_mut().map(|t| t as &mut dyn TableLike)),
        Item::Value(Value::Array(all)) => {
            let inline = all.iter_mut().filter_map(Value::as_inline_table_mut);
            Box::new(inline.map(|t| t as &mut dyn TableLike))
        }
        _ => Box::new(std::iter::empty()),
    }
}
