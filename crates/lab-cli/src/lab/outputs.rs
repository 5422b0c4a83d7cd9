//! Check of output files before a run, whose results would be lost where they cannot be written.

use std::path::{Path, PathBuf};

use mpbond_command::Failure;
use nix::unistd::{AccessFlags, access};

/// Checks that these files can be written, or made in their folders. Nothing is written.
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
            let (place, how) = match file.exists() {
                true => (file.as_path(), AccessFlags::W_OK),
                false => (folder, AccessFlags::W_OK | AccessFlags::X_OK),
            };
            match access(place, how) {
                Ok(()) => continue,
                Err(e) => format!("{}: {}", place.display(), e.desc()),
            }
        };
        return Err(Failure::input(format_args!(
            "cannot write {}: {problem}",
            file.display()
        )));
    }
    Ok(())
}
