//! Paths of control groups (version 2) by their ids.
//!
//! The id of a group is the inode of its folder, and the folders below it are found by reading all
//! of them: handles of files, by which the kernel finds a folder at once, need a system call that
//! daemons give up. A path is used for a minute, since the id of a group that has gone may come
//! back with another one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

/// Maximum number of groups; a desktop has some 300.
const MAX_GROUPS: usize = 4_096;

/// Maximum depth of groups.
const MAX_DEPTH: usize = 32;

/// Time for which a path is used without reading the folders again.
const VALID_FOR: Duration = Duration::from_secs(60);

/// Shortest interval between two readings: one takes milliseconds, and a program can make groups.
const READ_EVERY: Duration = Duration::from_millis(100);

/// The control groups of this host.
pub struct Cgroups {
    /// Folder of the group above all others.
    root: Option<PathBuf>,
    paths: RefCell<Paths>,
    /// Held while the folders are read.
    reading: Mutex<()>,
}

/// Paths by ids.
#[derive(Default)]
struct Paths {
    by_id: HashMap<u64, Rc<str>>,
    /// Begin of the last reading.
    read_at: Option<Instant>,
    /// Ids that were looked for and not found, with the begin of that reading.
    missing: HashMap<u64, Instant>,
}

impl Paths {
    /// The path of an id, or that it has none, as far as it is known `now`.
    fn get(&self, id: u64, now: Instant) -> Option<Option<Rc<str>>> {
        let is_valid = |read_at: Instant| read_at + VALID_FOR > now;
        let read_at = self.read_at?;
        match self.by_id.get(&id) {
            Some(path) if is_valid(read_at) => Some(Some(Rc::clone(path))),
            // A group that a socket was made in is older than the socket.
            None if read_at > now => Some(None),
            None if self.missing.get(&id).copied().is_some_and(is_valid) => Some(None),
            _ => None,
        }
    }

    fn handle_reading(&mut self, id: u64, read_at: Instant, found: Vec<(u64, String)>) {
        self.by_id = found
            .into_iter()
            .map(|(id, path)| (id, path.into()))
            .collect();
        self.read_at = Some(read_at);
        if self.missing.len() >= MAX_GROUPS {
            self.missing.clear();
        }
        if !self.by_id.contains_key(&id) {
            debug!(id, "control group not found");
            self.missing.insert(id, read_at);
        }
    }
}

impl Cgroups {
    /// The control groups of this host, below the folder at which they are mounted.
    pub fn mounted() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self::at(mount_point(&mounts))
    }

    fn at(root: Option<PathBuf>) -> Self {
        Self {
            root,
            paths: RefCell::default(),
            reading: Mutex::default(),
        }
    }

    /// Folder of the group above all others, if they are mounted.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Path of a group below the root; `None` if it has gone.
    pub async fn path_of(&self, id: u64) -> Option<Rc<str>> {
        let root = self.root.clone()?;
        let asked = Instant::now();
        let known = |paths: &RefCell<Paths>| paths.borrow().get(id, asked);
        if let Some(answer) = known(&self.paths) {
            return answer;
        }
        let _reading = self.reading.lock().await;
        // Another task may have read them meanwhile.
        if let Some(answer) = known(&self.paths) {
            return answer;
        }
        let last = self.paths.borrow().read_at;
        if let Some(last) = last {
            sleep_until(last + READ_EVERY).await;
        }
        let read_at = Instant::now();
        let found = tokio::task::spawn_blocking(move || read(&root)).await;
        let mut paths = self.paths.borrow_mut();
        paths.handle_reading(id, read_at, found.unwrap_or_default());
        paths.by_id.get(&id).cloned()
    }
}

/// The first mount point of control groups of version 2, in the form of `/proc/self/mounts`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// Ids and paths of the groups below a folder, those nearest to it first.
fn read(root: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    if let Ok(meta) = fs::metadata(root) {
        found.push((meta.ino(), "/".to_owned()));
    }
    let mut level = vec![(root.to_owned(), String::new())];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for (folder, path) in level {
            // One that cannot be read has gone.
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir())) {
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                if found.len() == MAX_GROUPS {
                    return found;
                }
                let path = format!("{path}/{name}");
                found.push((entry.ino(), path.clone()));
                next.push((entry.path(), path));
            }
        }
        level = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_is_that_of_version_2() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let place = PathBuf::from("/sys/fs/cgroup/unified");
        assert_eq!(mount_point(hybrid), Some(place));
        assert_eq!(
            mount_point("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\n"),
            None
        );
    }

    /// Any folder has an inode.
    #[tokio::test(start_paused = true)]
    async fn a_group_is_found_when_it_is_new_and_not_when_it_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).unwrap();
            fs::metadata(path).unwrap().ino()
        };
        let groups = Cgroups::at(Some(folder.path().to_owned()));
        let first = make("user.slice/a.scope");
        assert_eq!(
            groups.path_of(first).await.as_deref(),
            Some("/user.slice/a.scope")
        );
        let root = fs::metadata(folder.path()).unwrap().ino();
        assert_eq!(groups.path_of(root).await.as_deref(), Some("/"));
        let began = Instant::now();
        let second = make("b.service");
        assert_eq!(groups.path_of(second).await.as_deref(), Some("/b.service"));
        assert!(began.elapsed() >= READ_EVERY, "no sooner than that");
        // A path is used for a minute.
        fs::remove_dir(folder.path().join("b.service")).unwrap();
        assert_eq!(groups.path_of(second).await.as_deref(), Some("/b.service"));
        tokio::time::advance(VALID_FOR).await;
        assert_eq!(groups.path_of(second).await, None);
        let began = Instant::now();
        assert_eq!(groups.path_of(second).await, None);
        assert_eq!(began.elapsed(), Duration::ZERO, "it is known to have gone");
        assert_eq!(Cgroups::at(None).path_of(1).await, None);
    }
}
