//! Check of output files before a run, whose results would be lost where they cannot be written.

use std::path::{Path, PathBuf};

use mpbond_command::Failure;

/// Checks that these files can be made: their folders exist. Nothing is written.
///
/// # Errors
/// The first one that cannot.
pub(super) fn check<'a>(
    files: impl IntoIterator<Item = &'a Option<PathBuf>>,
) -> Result<(), Failure> {
    for file in files.into_iter().flatten() {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let problem = if file.is_dir() {
            "it is a folder".to_owned()
        } else if !folder.is_dir() {
            format!("there is no folder {}: make it first", folder.display())
        } else {
            continue;
        };
        return Err(Failure::input(format_args!(
            "cannot write {}: {problem}",
            file.display()
        )));
    }
    Ok(())
}
