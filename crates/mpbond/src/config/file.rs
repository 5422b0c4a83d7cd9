//! Short files that several programs read and write: whole or not at all, one writer at a time.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Permissions of a new file: its owner's alone, since these files decide which devices may
/// connect.
const MODE: u32 = 0o600;

/// Permissions of writing by others than the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Time for which a lock is waited for. Its holders keep it for milliseconds.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// Pause before a lock that is held is tried again.
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// User id of root, who may change the owner of a file.
const ROOT: u32 = 0;

/// The folder of a file; that of a name alone is the present one.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The file that is locked for changes of `path`, beside it. Anyone who can open a file can lock
/// it, so it is its owner's alone; the folder and the file itself may be readable by others.
fn lock_file(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".lock");
    path.with_file_name(name)
}

/// Locks a file of the path's own until the result is dropped, so that commands that run at the
/// same time do not undo each other's changes. Its folder is made if it is missing.
///
/// Blocks for up to [`LOCK_WITHIN`]: not for the thread of an event loop.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    lock_within(path, LOCK_WITHIN)
}

fn lock_within(path: &Path, limit: Duration) -> io::Result<File> {
    let parent = folder_of(path);
    if !parent.exists() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(parent)?;
    }
    let lock = lock_file(path);
    let mut options = File::options();
    // Others cannot have put a link to another file there in a folder of ours; if they have, it
    // is not followed.
    options
        .write(true)
        .mode(MODE)
        .custom_flags(libc::O_NOFOLLOW);
    let file = match options.clone().create_new(true).open(&lock) {
        Ok(file) => {
            give_to_owner(&file, parent)?;
            file
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => options.open(&lock)?,
        Err(e) => return Err(e),
    };
    let deadline = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOCK_AGAIN),
            Err(TryLockError::WouldBlock) => {
                let problem = format!(
                    "another program holds {} for more than {} s: end it, and try again",
                    lock.display(),
                    limit.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
}

/// Gives a new file of root's to the owner of its folder, so that a daemon that runs as that user
/// can use it.
pub(crate) fn give_to_owner(file: &File, folder: &Path) -> io::Result<()> {
    if file.metadata()?.uid() == ROOT {
        let owner = fs::metadata(folder)?;
        // In a user namespace without that user, root stays the owner.
        let _ = fchown(file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(())
}

/// The text of a file that decides about trust, as [`read`]; refused where others may write it.
pub(super) fn read_guarded(path: &Path, max_bytes: u64) -> io::Result<Option<String>> {
    if let Ok(file) = fs::metadata(path) {
        let mode = file.permissions().mode() & 0o777;
        if mode & WRITABLE_BY_OTHERS != 0 {
            let problem = format!(
                "others than its owner may write it (mode {mode:03o}): chmod go-w {}",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
    }
    read(path, max_bytes)
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
        .tempfile_in(folder_of(&target))?;
    let new = file.as_file().metadata()?;
    match before {
        Some(before) if (before.uid(), before.gid()) != (new.uid(), new.gid()) => {
            fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
        }
        Some(_) => {}
        None => give_to_owner(file.as_file(), folder_of(&target))?,
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
    fn a_lock_is_its_owners_alone_and_waited_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity.trusted");
        let held = lock(&file).unwrap();
        let mode = held.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = lock_within(&file, Duration::from_millis(50)).unwrap_err();
        assert!(
            error.to_string().contains(".identity.trusted.lock"),
            "{error}"
        );
        drop(held);
        drop(lock(&file).unwrap());
        // A lock that somebody else holds on the folder or on the file is nobody's business.
        fs::write(&file, "").unwrap();
        let (a, b) = (
            File::open(folder.path()).unwrap(),
            File::open(&file).unwrap(),
        );
        a.lock().unwrap();
        b.lock().unwrap();
        drop(lock_within(&file, Duration::from_millis(50)).unwrap());
    }

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
