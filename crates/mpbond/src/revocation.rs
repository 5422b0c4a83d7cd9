//! Watches the trust file, so that sessions of revoked devices are closed.
//!
//! Changes are reported by inotify: an idle daemon stays asleep. Whether a device is trusted is
//! still decided by reading the file; a change missed here takes effect at the next handshake.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tracing::warn;

/// Polling interval where inotify does not work. Polling costs an idle device sleep, so it is the
/// exception.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval between attempts to watch a folder that is gone.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Calls `changed` whenever this file, which need not exist, may have been changed.
pub(crate) async fn watch(file: PathBuf, mut changed: impl FnMut()) {
    let mut told = false;
    loop {
        match Watch::new(&file) {
            Ok(mut watch) => {
                // Changes from before the watch began.
                changed();
                while watch.next().await.is_ok() {
                    changed();
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            Err(error) => {
                if !told {
                    warn!(
                        %error,
                        "{} cannot be watched, and is read twice a second instead",
                        file.display()
                    );
                    told = true;
                }
                changed();
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// Octets of an event before its name: watch, mask, cookie, length of the name.
const EVENT_BYTES: usize = 16;

struct Watch {
    // Tokio's type for reading from any descriptor is a pipe.
    events: Receiver,
    names: Vec<OsString>,
}

impl Watch {
    /// Watches the folder: the file is replaced by another one, not written to.
    fn new(file: &Path) -> std::io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let mut names = Vec::new();
        // The target of a link may be in another folder.
        let target = std::fs::canonicalize(file).ok();
        for path in [Some(file), target.as_deref()].into_iter().flatten() {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let flags = AddWatchFlags::IN_MOVE
                | AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_DELETE_SELF
                | AddWatchFlags::IN_MOVE_SELF
                | AddWatchFlags::IN_ATTRIB;
            inotify.add_watch(folder, flags)?;
            names.extend(path.file_name().map(OsString::from));
        }
        Ok(Self {
            events: Receiver::from_owned_fd_unchecked(inotify.into())?,
            names,
        })
    }

    /// Waits for a change of the file. Fails when the folder itself is gone.
    async fn next(&mut self) -> std::io::Result<()> {
        // Room for an event with the longest possible name.
        let mut block = [0; 4096];
        loop {
            let read = self.events.read(&mut block).await?;
            let mut rest = block.get(..read).unwrap_or_default();
            let mut ours = false;
            while let Some((mask, name, more)) = event(rest) {
                rest = more;
                let gone = AddWatchFlags::IN_IGNORED
                    | AddWatchFlags::IN_DELETE_SELF
                    | AddWatchFlags::IN_MOVE_SELF;
                if mask.intersects(gone) {
                    return Err(std::io::ErrorKind::NotFound.into());
                }
                // After an overflow, the file's event may be among the lost ones.
                ours |= mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
                    || self.names.iter().any(|n| n == name);
            }
            if ours {
                return Ok(());
            }
        }
    }
}

/// The first event (inotify(7)): its mask, its name, and what follows it.
fn event(octets: &[u8]) -> Option<(AddWatchFlags, &OsStr, &[u8])> {
    let (head, rest) = octets.split_first_chunk::<EVENT_BYTES>()?;
    let field = |at: usize| {
        let octets = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(octets))
    };
    let mask = AddWatchFlags::from_bits_retain(field(4)?);
    let (name, rest) = rest.split_at_checked(usize::try_from(field(12)?).ok()?)?;
    // Padded with zeros.
    let name = name.split(|octet| *octet == 0).next()?;
    Some((mask, OsStr::from_bytes(name), rest))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    async fn until(count: &Cell<u32>, at_least: u32) {
        let wait = async {
            while count.get() < at_least {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), wait)
            .await
            .unwrap_or_else(|_| panic!("{} changes of {at_least}", count.get()));
    }

    /// Until the watch has had several turns, also where this process gets no processor.
    async fn rest() {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn every_way_to_change_the_file_is_noticed_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity.trusted");
        let count = Rc::new(Cell::new(0));
        let local = tokio::task::LocalSet::new();
        let (seen, path) = (Rc::clone(&count), file.clone());
        local.spawn_local(watch(path, move || seen.set(seen.get() + 1)));
        local
            .run_until(async {
                until(&count, 1).await;
                std::fs::write(folder.path().join("other"), "x").unwrap();
                std::fs::write(&file, "made").unwrap();
                until(&count, 2).await;
                rest().await;
                for change in [0, 1, 2] {
                    let before = count.get();
                    match change {
                        0 => std::fs::write(&file, "edited").unwrap(),
                        1 => std::fs::rename(folder.path().join("other"), &file).unwrap(),
                        _ => std::fs::remove_file(&file).unwrap(),
                    }
                    until(&count, before + 1).await;
                    rest().await;
                }
                let before = count.get();
                std::fs::write(folder.path().join("other"), "x").unwrap();
                rest().await;
                assert_eq!(count.get(), before, "another file is none of its business");
            })
            .await;
    }
}
