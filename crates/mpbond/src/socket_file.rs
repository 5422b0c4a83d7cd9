//! Files of Unix sockets on which a daemon listens.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, socket};
use nix::sys::stat::{Mode, fchmod, umask};
use tokio::net::{UnixListener, UnixSocket};

/// Longest folder of a socket in octets: `sun_path` of unix(7) has 107 and a zero octet, and the
/// longest name before a socket has its own is a dot and the 7 digits of a process.
pub(crate) const MAX_FOLDER_BYTES: usize = 107 - "/.4194304".len();

/// Permissions of the sockets of pipes and pairings: any user may connect, as over a network, and
/// TLS tells who is trusted.
pub(crate) const PIPE_MODE: u32 = 0o666;

/// Maximum number of connections that wait to be accepted: usual for a server.
const BACKLOG: u32 = 1024;

/// The first name of a socket and the umask are those of its process, which may have several
/// daemons (tests).
static FIRST_NAME: Mutex<()> = Mutex::new(());

/// File of a socket, which is removed when this is dropped. None while it is another process's.
#[derive(Debug)]
pub(crate) struct SocketFile(pub(crate) Option<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens at `path`, replacing the socket of a dead daemon; makes its folder if needed.
///
/// # Errors
/// When another daemon listens there, another file is there, or the file cannot be made.
pub(crate) fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if is_answered(path) {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another daemon answers there: stop it, or name another place",
        ));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is there: move it, or name another place",
        ));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // It listens before it has its final name: between bind(2) and listen(2) a socket refuses, as
    // if its daemon had ended.
    let unseen = path.with_file_name(format!(".{}", std::process::id()));
    let _one_at_a_time = FIRST_NAME.lock().unwrap_or_else(PoisonError::into_inner);
    match std::fs::remove_file(&unseen) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = bind(&unseen, mode)?;
    let ready = socket
        .listen(BACKLOG)
        .and_then(|listener| std::fs::rename(&unseen, path).map(|()| listener));
    if ready.is_err() {
        let _ = std::fs::remove_file(&unseen);
    }
    ready
}

/// A connection to the process that listens at `path`.
///
/// # Errors
/// EAGAIN where its queue is full: a process that was stopped by a signal would be waited for
/// without end (unix(7)).
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(made.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(made);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether a process listens at `path`.
fn is_answered(path: &Path) -> bool {
    match connect(path) {
        Ok(_) => true,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}

/// A socket with a file of this mode. The mode is not set by the file's path: the owner of the
/// folder can replace the file by a link to one of root's.
fn bind(path: &Path, mode: u32) -> io::Result<UnixSocket> {
    let socket = UnixSocket::new_stream()?;
    // bind(2) gives the file the mode of the socket without the bits of the umask.
    fchmod(&socket, Mode::from_bits_truncate(mode))?;
    let before = umask(Mode::empty());
    let bound = socket.bind(path);
    umask(before);
    bound.map(|()| socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn only_the_socket_of_a_dead_daemon_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/pipe");
        let first = listen(&path, 0o600).unwrap();
        let in_use = listen(&path, 0o600).unwrap_err();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let second = listen(&path, 0o600).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);

        let text = folder.path().join("text");
        std::fs::write(&text, "kept").unwrap();
        let error = listen(&text, 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
        assert_eq!(std::fs::read(&text).unwrap(), b"kept");
    }

    #[test]
    fn a_daemon_whose_queue_is_full_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let flags = SockFlag::SOCK_CLOEXEC;
        let stopped = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        let address = UnixAddr::new(&path).unwrap();
        nix::sys::socket::bind(stopped.as_raw_fd(), &address).unwrap();
        assert!(!is_answered(&path), "nobody listens");
        nix::sys::socket::listen(&stopped, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
        // Room for one; that one remains in the queue.
        let _first = UnixStream::connect(&path).unwrap();
        assert!(is_answered(&path));
    }

    #[tokio::test]
    async fn the_file_has_its_mode_from_the_first_instant_and_the_umask_stays() {
        let folder = tempfile::tempdir().unwrap();
        let _one_at_a_time = FIRST_NAME.lock().unwrap();
        let before = umask(Mode::from_bits_truncate(0o027));
        let made = [0o666, 0o600].map(|mode| {
            let path = folder.path().join(mode.to_string());
            let socket = bind(&path, mode).unwrap();
            (mode, path, socket)
        });
        let kept = umask(before);
        assert_eq!(kept, Mode::from_bits_truncate(0o027));
        for (mode, path, _socket) in made {
            let file = std::fs::symlink_metadata(path).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, mode);
        }
    }

    #[tokio::test]
    async fn any_path_that_a_client_can_name_will_do() {
        let folder = tempfile::tempdir().unwrap();
        let used = folder.path().as_os_str().len() + 1;
        let path = folder.path().join("x".repeat(107 - used));
        let _listener = listen(&path, 0o600).unwrap();
        assert!(UnixStream::connect(&path).is_ok());

        let deep = folder.path().join("y".repeat(MAX_FOLDER_BYTES - used));
        let _listener = listen(&deep.join("pipe.soc"), 0o600).unwrap();
    }
}
