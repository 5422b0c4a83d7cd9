//! Status socket: one JSON document over a Unix socket, for `mpbond status`.

use std::future::Future;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tracing::{debug, warn};

use crate::status::Status;

/// Time limit for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum size of a status.
const MAX_STATUS_BYTES: u64 = 64 << 20;

/// A daemon's status socket; removes its file when dropped.
#[derive(Debug)]
pub struct StatusSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The file is another process's.
    keeps_file: bool,
}

impl StatusSocket {
    /// Listens at `path`, replacing the file of a dead daemon; makes its folder if needed.
    ///
    /// # Errors
    /// When another daemon listens there, or the file cannot be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another daemon answers there",
            ));
        }
        // It listens before it has its final name: between bind(2) and listen(2) a socket refuses,
        // as if its daemon had ended.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unseen = path.with_file_name(format!(".{}-{name}", std::process::id()));
        match std::fs::remove_file(&unseen) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(&unseen)?;
        if let Err(e) = std::fs::rename(&unseen, path) {
            let _ = std::fs::remove_file(&unseen);
            return Err(e);
        }
        Ok(Self {
            listener,
            path: path.to_owned(),
            keeps_file: false,
        })
    }

    /// The socket at `path` of another process, whose file it stays until
    /// [`taken_over`](Self::taken_over).
    ///
    /// # Errors
    /// It is no listener.
    pub fn inherit(listener: OwnedFd, path: &Path) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: UnixListener::from_std(listener)?,
            path: path.to_owned(),
            keeps_file: true,
        })
    }

    /// The file is this process's from now on.
    pub fn taken_over(&mut self) {
        self.keeps_file = false;
    }

    /// Another process serves it from now on: its file is kept.
    pub fn hand_over(mut self) {
        self.keeps_file = true;
    }

    /// Answers every connection with the current result of `status`.
    pub async fn serve<F: Future<Output = Status>>(&self, status: impl Fn() -> F) {
        loop {
            let mut asker = match self.listener.accept().await {
                Ok((asker, _)) => asker,
                Err(e) => {
                    warn!(error = %e, "status socket");
                    tokio::time::sleep(PATIENCE).await;
                    continue;
                }
            };
            let status = status().await;
            let text = match serde_json::to_vec(&status) {
                Ok(text) => text,
                Err(e) => {
                    warn!(error = %e, "status does not serialise");
                    continue;
                }
            };
            // In a task, so that a slow client delays no other.
            tokio::spawn(async move {
                let write = async {
                    asker.write_all(&text).await?;
                    asker.shutdown().await
                };
                if let Ok(Err(e)) = tokio::time::timeout(PATIENCE, write).await {
                    debug!(error = %e, "a status client went away");
                }
            });
        }
    }
}

impl AsFd for StatusSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        if !self.keeps_file {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Asks the daemon at `path`.
///
/// # Errors
/// When nothing answers there, or not with a status.
pub fn ask(path: &Path) -> io::Result<Status> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = Vec::new();
    stream.take(MAX_STATUS_BYTES).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that asks while a daemon starts finds no socket or gets an answer, never a dead
    /// socket; a file left by a dead daemon is replaced.
    #[tokio::test]
    async fn a_socket_that_can_be_found_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let (asked, stop) = (path.clone(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    if let Err(e) = std::os::unix::net::UnixStream::connect(&asked) {
                        assert_eq!(e.kind(), io::ErrorKind::NotFound);
                    }
                }
            });
            for _ in 0..500 {
                let socket = StatusSocket::bind(&path).unwrap();
                let again = StatusSocket::bind(&path).unwrap_err();
                assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
                // Unlinked first: a listener that is gone refuses.
                std::fs::remove_file(&path).unwrap();
                drop(socket);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            asker.join().unwrap();
        });
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = StatusSocket::bind(&path).unwrap();
        drop(socket);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
