//! Paths of control groups (version 2) by their ids.
//!
//! The id of a group is the inode of its folder, and the folders below it are found by reading all
//! of them: handles of files, by which the kernel finds a folder at once, need a system call that
//! daemons give up. A path is used for a minute, since the id of a group that has gone may come
//! back with another one.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::rate_limited_log::RateLimitedLog;

/// Maximum number of groups; a desktop has some 300. Their depth has no other limit: a group below
/// one of a rule is in that one, too.
const MAX_GROUPS: usize = 4_096;

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
    /// Line about groups beyond the maximum.
    too_many: RateLimitedLog,
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
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::at(mount_point(&mounts))
    }

    /// Those below this folder.
    pub(crate) fn at(root: Option<PathBuf>) -> Self {
        Self {
            root,
            paths: RefCell::default(),
            reading: Mutex::default(),
            too_many: RateLimitedLog::default(),
        }
    }

    /// Folder of the group above all others, if they are mounted.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// What [`path_of`](Self::path_of) would answer to one who has asked at this time, if that is
    /// known without reading the folders. A reading that began later knows all groups.
    pub fn known(&self, id: u64, asked: Instant) -> Option<Option<Rc<str>>> {
        match self.root {
            Some(_) => self.paths.borrow().get(id, asked),
            None => Some(None),
        }
    }

    /// Path of a group below the root; `None` if it has gone.
    pub async fn path_of(&self, id: u64) -> Option<Rc<str>> {
        let root = self.root.clone()?;
        let asked = Instant::now();
        if let Some(answer) = self.known(id, asked) {
            return answer;
        }
        let _reading = self.reading.lock().await;
        // Another task may have read them meanwhile.
        if let Some(answer) = self.known(id, asked) {
            return answer;
        }
        let last = self.paths.borrow().read_at;
        if let Some(last) = last {
            sleep_until(last + READ_EVERY).await;
        }
        let read_at = Instant::now();
        let found = tokio::task::spawn_blocking(move || read(&root)).await;
        let found = found.unwrap_or_default();
        if found.len() >= MAX_GROUPS && self.too_many.is_due() {
            warn!(
                "{MAX_GROUPS} control groups or more: rules on app and cgroup select no connection \
                 of the others; remove groups, or write rules on uid"
            );
        }
        let mut paths = self.paths.borrow_mut();
        paths.handle_reading(id, read_at, found);
        paths.by_id.get(&id).cloned()
    }
}

/// The first mount point of all control groups of version 2, in the form of
/// `/proc/self/mountinfo` (proc_pid_mountinfo(5)). A mount of a part of them has another root.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let is_all = root == "/" && kind.split(' ').next() == Some("cgroup2");
        is_all.then(|| PathBuf::from(place))
    })
}

/// Ids and paths of the groups below a folder, those nearest to it first.
fn read(root: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    if let Ok(meta) = fs::metadata(root) {
        found.push((meta.ino(), "/".to_owned()));
    }
    let mut folders = VecDeque::from([(root.to_owned(), String::new())]);
    while let Some((folder, path)) = folders.pop_front() {
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
            folders.push_back((entry.path(), path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_is_that_of_version_2() {
        let hybrid = "30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
                      32 30 0:29 / /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu\n\
                      90 25 0:28 /a.slice /run/a rw shared:10 - cgroup2 cgroup2 rw\n\
                      31 30 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n";
        let place = PathBuf::from("/sys/fs/cgroup/unified");
        assert_eq!(mount_point(hybrid), Some(place));
        assert_eq!(
            mount_point("32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\n"),
            None
        );
    }

    #[test]
    fn a_group_40_levels_below_another_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = "/a".repeat(40);
        let deep = folder.path().join(&path[1..]);
        fs::create_dir_all(&deep).unwrap();
        let expected = (fs::metadata(deep).unwrap().ino(), path);
        assert!(read(folder.path()).contains(&expected));
    }

    #[test]
    fn groups_are_read_up_to_the_maximum_nearest_first() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, near) = (folder.path().join("a/b/c"), folder.path().join("z"));
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(near).unwrap();
        for n in 0..MAX_GROUPS {
            fs::create_dir(deep.join(n.to_string())).unwrap();
        }
        let found = read(folder.path());
        assert_eq!(found.len(), MAX_GROUPS);
        assert!(found.iter().take(4).any(|(_, path)| path == "/z"));
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
        assert_eq!(groups.known(root, Instant::now()), Some(Some("/".into())));
        assert_eq!(groups.path_of(root).await.as_deref(), Some("/"));
        let began = Instant::now();
        let second = make("b.service");
        assert_eq!(groups.path_of(second).await.as_deref(), Some("/b.service"));
        assert!(began.elapsed() >= READ_EVERY, "no sooner than that");
        assert_eq!(
            groups.known(first + second, Instant::now()),
            None,
            "it has not been looked for"
        );
        // A path is used for a minute.
        fs::remove_dir(folder.path().join("b.service")).unwrap();
        assert_eq!(groups.path_of(second).await.as_deref(), Some("/b.service"));
        tokio::time::advance(VALID_FOR).await;
        assert_eq!(
            groups.known(root, Instant::now()),
            None,
            "it may be another one now"
        );
        assert_eq!(groups.path_of(second).await, None);
        let began = Instant::now();
        assert_eq!(groups.path_of(second).await, None);
        assert_eq!(began.elapsed(), Duration::ZERO, "it is known to have gone");
        // One reading answers all who have asked before it, also about others that have gone.
        let (asked, gone) = (Instant::now(), first + second);
        tokio::time::advance(VALID_FOR).await;
        assert_eq!(groups.known(gone, asked), None);
        assert_eq!(groups.path_of(root).await.as_deref(), Some("/"));
        assert_eq!(groups.known(gone, asked), Some(None));
        assert_eq!(groups.known(gone, Instant::now()), None);
        assert_eq!(Cgroups::at(None).path_of(1).await, None);
        assert_eq!(Cgroups::at(None).known(1, Instant::now()), Some(None));
    }
}
