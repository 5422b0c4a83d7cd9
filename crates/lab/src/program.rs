//! The `mpbond` program that experiments test.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Doing, Error, Result};

const NAME: &str = "mpbond";

/// The `mpbond` beside this program, else the one in PATH.
///
/// # Errors
/// [`Error::Missing`] when there is neither.
pub(crate) fn mpbond() -> Result<PathBuf> {
    let own = std::env::current_exe().doing("cannot find its own executable")?;
    let beside = own.with_file_name(NAME);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    std::iter::once(beside.clone())
        .chain(in_path)
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::Missing(format!(
                "the program mpbond is missing: it is neither at {} nor in PATH; build it \
                 (make release) or install it, or say where it is with --binary",
                beside.display()
            ))
        })
}

/// PATH for programs that a person starts: with the folder of this program in front, where
/// `mpbond` is, too, unless it was installed elsewhere.
///
/// # Errors
/// When this program's own file cannot be found.
pub(crate) fn path_for_people() -> Result<OsString> {
    let own = std::env::current_exe().doing("cannot find its own executable")?;
    let own = own.parent().map(std::path::Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A folder whose name has a colon cannot be in it.
    let all = own.into_iter().chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all).unwrap_or(path))
}
