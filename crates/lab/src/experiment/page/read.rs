//! Reading a page's objects from either format.

use std::path::Path;

use mpbond_sim::application::page::PageObject;

use super::{har, list};
use crate::error::{Error, Result};

/// The objects of a page: from an HTTP archive when the file's name ends in `.har`, otherwise from
/// a list.
///
/// # Errors
/// [`Error::Experiment`] naming file, line and reason.
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
