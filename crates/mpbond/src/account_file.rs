//! File of an account beside the identity: what was used of caps, budgets and batteries' joules.
//! It is on the disk whole or not at all, also after a power cut: an empty file would begin all
//! accounts at 0.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use mpbond_units::shell_word;
use tracing::warn;

use crate::config::{folder_of, give_to_owner};

/// Maximum size in bytes. The accounts of all rules and links that a policy may have take 5 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// Age from which a version that is not whole is nobody's.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(600);

/// The file of an account, which threads that may wait for the disk write.
pub(crate) struct AccountFile {
    path: PathBuf,
    /// Number of the newest version.
    begun: AtomicU64,
    /// Number of the newest version that is on the disk.
    written: AtomicU64,
    /// Reason for which the last version could not be written.
    problem: Mutex<Option<String>>,
    /// Held while a version is written, for as long as the disk takes.
    writing: Mutex<()>,
}

/// The content of an account's file is not an account. Another attempt to read it changes nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damaged(String);

/// A version of an account to be written.
pub(crate) struct Version {
    file: Arc<AccountFile>,
    number: u64,
    text: String,
}

impl AccountFile {
    /// The file with this path.
    pub(crate) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            path,
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            problem: Mutex::default(),
            writing: Mutex::new(()),
        })
    }

    /// The account that it has; `None` where there is no file.
    ///
    /// # Errors
    /// It cannot be read, or is not an account ([`Damaged`]); in one line that names the file.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> io::Result<Option<T>> {
        let at = |problem: &dyn std::fmt::Display| format!("{}: {problem}", self.path.display());
        let wrong = |problem: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, Damaged(at(problem)))
        };
        let mut text = String::new();
        let open = File::open(&self.path);
        let read = open.and_then(|f| f.take(MAX_BYTES + 1).read_to_string(&mut text));
        match read {
            Ok(octets) if octets as u64 > MAX_BYTES => {
                return Err(wrong(&"it is too long; remove it to begin at 0"));
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return Err(wrong(&"it is no text; remove it to begin at 0"));
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let word = |path: &Path| shell_word(&path.display().to_string()).into_owned();
                let (folder, path) = (word(folder_of(&self.path)), word(&self.path));
                let remedy = format!("{e}: sudo chown --reference={folder} {path}");
                return Err(io::Error::new(e.kind(), at(&remedy)));
            }
            Err(e) => return Err(io::Error::new(e.kind(), at(&e))),
        }
        if text.trim_ascii().is_empty() {
            return Err(wrong(
                &"it is empty, so that what was used is not known: remove it to begin at 0",
            ));
        }
        toml::from_str(&text).map(Some).map_err(|e| {
            let problem = e.message();
            wrong(&format_args!("{problem}; remove it to begin at 0"))
        })
    }

    /// A version with this text, later than those before.
    pub(crate) fn version(self: &Arc<Self>, text: String) -> Version {
        Version {
            file: Arc::clone(self),
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            text,
        }
    }

    /// Whether the last version could not be written. It does not wait for the disk.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing().is_some()
    }

    /// The reason for which the last version could not be written, with the file; `None` if it was.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.failing();
        problem.as_ref().map(|problem| {
            format!(
                "{} cannot be written ({problem}): a restart forgets what was used since",
                self.path.display()
            )
        })
    }

    fn failing(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the newest version is not on the disk, or not yet. It does not wait for the disk.
    pub(crate) fn is_behind(&self) -> bool {
        self.written.load(Ordering::Relaxed) < self.begun.load(Ordering::Relaxed)
    }

    /// Whether a version is being written: another one would only wait for it. It does not wait for
    /// the disk.
    pub(crate) fn is_writing(&self) -> bool {
        let is_begun = self.is_behind() && !self.is_failing();
        is_begun || matches!(self.writing.try_lock(), Err(TryLockError::WouldBlock))
    }
}

impl Version {
    /// Writes it, unless a later one has been. Waits for the disk. A failure is logged once, until
    /// a version can be written.
    pub(crate) fn write(self) {
        let Self { file, number, text } = self;
        let _turn = file.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if number < file.written.load(Ordering::Relaxed) {
            return;
        }
        match replace(&file.path, &text) {
            Ok(()) => {
                if file.written.swap(number, Ordering::Relaxed) == 0 {
                    remove_leftovers(&file.path);
                }
                file.failing().take();
            }
            Err(error) => {
                if file.failing().replace(error.to_string()).is_none() {
                    let path = file.path.display();
                    warn!(%path, %error, "the account cannot be kept over a restart");
                }
            }
        }
    }
}

/// Replaces the text of a file. It is on the disk before it has the file's name. Until then its
/// name has the number of this process: during an upgrade two processes may write at a time. Made
/// by root, it belongs to the owner of its folder: a daemon started by hand leaves a file that the
/// service can read. That owner may have put a link to another file there: it is not followed.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = prefix_of_new(path);
    name.push(std::process::id().to_string());
    let new = path.with_file_name(name);
    let write = || {
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // It follows no link (O_EXCL of open(2)).
        let mut file = File::create_new(&new)?;
        give_to_owner(&file, folder_of(path))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        // Of a full disk it takes a part. It may not exist at all.
        let _ = fs::remove_file(&new);
    })
}

/// Name of the next version of a file but for the number of the process that writes it.
fn prefix_of_new(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new-");
    name
}

/// Removes what processes that have ended have not finished writing. By its age: whether another
/// process lives cannot be seen from a sandbox.
fn remove_leftovers(path: &Path) {
    let prefix = prefix_of_new(path);
    for entry in fs::read_dir(folder_of(path))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let number = name.as_bytes().strip_prefix(prefix.as_bytes());
        let number = number.and_then(|n| str::from_utf8(n).ok()?.parse::<u32>().ok());
        if number.is_some() && is_old(&entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file was last written longer ago than a process takes for it.
fn is_old(entry: &fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|meta| meta.modified());
    let age = written.map(|at| at.elapsed());
    matches!(age, Ok(Ok(age)) if age >= LEFT_OVER_AFTER)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Account = BTreeMap<String, u64>;

    #[test]
    fn the_latest_version_stays_in_whichever_order_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = AccountFile::new(folder.path().join("a.usage"));
        assert!(file.read::<Account>().unwrap().is_none());
        let [first, second, third] = [1, 2, 3].map(|n| file.version(format!("used = {n}")));
        let used = || file.read::<Account>().unwrap().unwrap()["used"];
        second.write();
        assert_eq!(used(), 2);
        first.write();
        assert_eq!(used(), 2);
        third.write();
        assert_eq!(used(), 3);
        let files = fs::read_dir(folder.path()).unwrap();
        assert_eq!(files.count(), 1, "no other file stays");
    }

    #[test]
    fn what_is_written_has_a_name_of_its_process_and_none_of_those_that_are_old_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = AccountFile::new(folder.path().join("a.usage"));
        let write = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).unwrap();
            let at = std::time::SystemTime::now() - age;
            file.set_modified(at).unwrap();
        };
        let left = "a.usage.new-7";
        write(left, LEFT_OVER_AFTER);
        let others = ["a.usage.new-1x", "b.usage.new-7", "a.usage.new-8"];
        for name in &others[..2] {
            write(name, LEFT_OVER_AFTER);
        }
        // Another process may be writing it.
        write(others[2], LEFT_OVER_AFTER / 2);
        // One name for all processes would be that of a folder.
        fs::create_dir(folder.path().join("a.usage.new")).unwrap();
        for n in [1, 2] {
            file.version(format!("used = {n}")).write();
            assert_eq!(file.read::<Account>().unwrap().unwrap()["used"], n);
        }
        assert!(!folder.path().join(left).exists());
        for name in others {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        // An unfinished version does not stay.
        fs::remove_file(&file.path).unwrap();
        fs::create_dir_all(file.path.join("folder")).unwrap();
        file.version("used = 3".to_owned()).write();
        assert!(file.is_failing());
        let own = format!("a.usage.new-{}", std::process::id());
        assert!(!folder.path().join(own).exists());
    }

    #[test]
    fn a_version_that_cannot_be_written_is_told_until_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let file = AccountFile::new(gone.join("a.usage"));
        file.version("used = 1".to_owned()).write();
        assert!(file.is_failing() && file.is_behind() && !file.is_writing());
        let problem = file.problem().unwrap();
        assert!(
            problem.contains("a.usage cannot be written (No such file"),
            "{problem}"
        );
        fs::create_dir(gone).unwrap();
        file.version("used = 2".to_owned()).write();
        assert!(!file.is_failing());
        assert_eq!(file.problem(), None);
        assert_eq!(file.read::<Account>().unwrap().unwrap()["used"], 2);
    }

    #[test]
    fn what_is_on_the_disk_is_told_while_a_version_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = AccountFile::new(folder.path().join("a.usage"));
        assert!(!file.is_behind());
        let version = file.version("used = 1".to_owned());
        let slow = file.writing.lock().unwrap();
        let writes = std::thread::spawn(move || version.write());
        assert!(file.is_writing() && file.is_behind() && !file.is_failing());
        // Also where the one before could not be written: no others wait for it.
        file.failing().replace("no space".to_owned());
        assert!(file.is_writing());
        drop(slow);
        writes.join().unwrap();
        assert!(!file.is_writing() && !file.is_behind());
    }

    #[test]
    fn a_file_without_an_account_is_refused_in_one_line_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = AccountFile::new(folder.path().join("a.usage"));
        for (text, problem) in [
            (
                "",
                "a.usage: it is empty, so that what was used is not known",
            ),
            (
                "\n",
                "a.usage: it is empty, so that what was used is not known",
            ),
            ("nonsense", "a.usage: "),
            ("\0\0\0", "a.usage: "),
        ] {
            fs::write(&file.path, text).unwrap();
            let error = file.read::<Account>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        fs::write(&file.path, b"used = \xff\n").unwrap();
        let error = file.read::<Account>().unwrap_err();
        assert!(error.get_ref().is_some_and(|e| e.is::<Damaged>()));
        let error = error.to_string();
        assert!(error.contains("no text; remove it"), "{error}");
        fs::write(&file.path, "#".repeat(MAX_BYTES as usize + 1)).unwrap();
        let error = file.read::<Account>().unwrap_err().to_string();
        assert!(error.contains("it is too long; remove it"), "{error}");
    }

    #[test]
    fn a_file_of_root_belongs_to_the_owner_of_its_folder() {
        use std::os::unix::fs::{MetadataExt as _, chown};

        const OTHER: u32 = 65_534;
        let folder = tempfile::tempdir().unwrap();
        if chown(folder.path(), Some(OTHER), Some(OTHER)).is_err() {
            return mpbond_testing::Need::Root.is_missing("only root gives files to others");
        }
        let file = AccountFile::new(folder.path().join("a.usage"));
        fs::write(&file.path, "used = 1").unwrap();
        // That owner would like to have another file of root's.
        let others = tempfile::NamedTempFile::new().unwrap();
        fs::write(others.path(), "of root").unwrap();
        let name = format!("a.usage.new-{}", std::process::id());
        std::os::unix::fs::symlink(others.path(), folder.path().join(name)).unwrap();
        file.version("used = 2".to_owned()).write();
        let meta = fs::symlink_metadata(&file.path).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (OTHER, OTHER));
        assert!(meta.is_file());
        let meta = fs::metadata(others.path()).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (0, 0));
        assert_eq!(fs::read_to_string(others.path()).unwrap(), "of root");
        assert_eq!(file.read::<Account>().unwrap().unwrap()["used"], 2);
    }
}
