//! Short files that several programs read and write: whole or not at all, one writer at a time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Permissions of a new file: its owner's alone, since these files decide which devices may
/// connect.
const MODE: u32 = 0o600;

/// User id of root, who may change the owner of a file.
const ROOT: u32 = 0;

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Locks the file's folder, which is made if it is missing, until the result is dropped, so that
/// commands that run at the same time do not undo each other's changes.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let folder = folder(path);
    if !folder.exists() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
    }
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// The text of a file; `None` where there is no such file.
pub(super) fn read(path: &Path, max_bytes: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(max_bytes + 1).read_to_string(&mut text)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if text.len() as u64 > max_bytes {
        let problem = format!("longer than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(Some(text))
}

/// Replaces a file's text. An existing file keeps its owner and permissions, so that a daemon that
/// runs as another user can still read it; a link to it stays a link. A new file made by root gets
/// the owner of its folder, for the same reason.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(e) => return Err(e),
    };
    let before = fs::metadata(&target).ok();
    let permissions = match &before {
        Some(before) => before.permissions(),
        None => fs::Permissions::from_mode(MODE),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".mpbond-")
        .permissions(permissions)
        .tempfile_in(folder(&target))?;
    let new = file.as_file().metadata()?;
    match before {
        Some(before) if (before.uid(), before.gid()) != (new.uid(), new.gid()) => {
            fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
        }
        None if new.uid() == ROOT => {
            let owner = fs::metadata(folder(&target))?;
            // In a user namespace without that user, root stays the owner.
            let _ = fchown(file.as_file(), Some(owner.uid()), Some(owner.gid()));
        }
        _ => {}
    }
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mpbond_testing::Need;

    use super::*;

    #[test]
    fn what_root_makes_belongs_to_whom_the_folder_does() {
        const OTHER: u32 = 65_534;
        let folder = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(folder.path(), Some(OTHER), Some(OTHER)).is_err() {
            return Need::Root.is_missing("only root gives files to others");
        }
        let file = folder.path().join("file");
        let owner = || {
            let meta = fs::metadata(&file).unwrap();
            (meta.uid(), meta.gid(), meta.permissions().mode() & 0o777)
        };
        replace(&file, "new").unwrap();
        assert_eq!(owner(), (OTHER, OTHER, 0o600));
        std::os::unix::fs::chown(&file, Some(1), Some(OTHER)).unwrap();
        replace(&file, "changed").unwrap();
        assert_eq!(owner(), (1, OTHER, 0o600), "a file keeps its owner");
    }
}
