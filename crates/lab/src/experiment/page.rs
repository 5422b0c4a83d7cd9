//! Lists of objects that pages name.

use std::path::Path;

use super::check::MAX_BYTES;
use super::{Experiment, Page};
use crate::app::page::{PageObject, har, list};
use crate::error::{Error, Result};
use crate::links::read_recording;

/// Reads the list of `page`, if it names one.
///
/// # Errors
/// [`Error::Experiment`] with the experiment's line for a file that cannot be
/// read, and with the list's own for what is wrong in it.
pub(super) fn read(e: &Experiment, page: &mut Page) -> Result<()> {
    let Some(named) = &page.list else {
        return Ok(());
    };
    let path = e.beside(named.get_ref());
    let file = path.display().to_string();
    let text = read_recording(&path).map_err(|io| e.error_at(named, &format!("{file}: {io}")))?;
    let objects = page_objects(&path, &text)?;
    let bytes = objects
        .iter()
        .fold(0_u64, |sum, o| sum.saturating_add(o.bytes));
    if bytes > MAX_BYTES {
        return Err(e.error_at(named, &format!("{file}: more than 4 GiB in all")));
    }
    page.listed = objects;
    Ok(())
}

/// The objects of a page: of an HTTP archive where the file is called `.har`, else of a list.
///
/// # Errors
/// [`Error::Experiment`] that names file, line and reason.
pub fn page_objects(path: &Path, text: &str) -> Result<Vec<PageObject>> {
    let file = path.display().to_string();
    let is_archive = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("har"));
    let read = if is_archive {
        har::parse(&file, text)
    } else {
        list::parse(&file, text)
    };
    read.map_err(Error::Experiment)
}
