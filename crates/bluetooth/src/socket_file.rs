//! The Unix sockets at which a primary finds its pipe, and pairs.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{process, thread};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

/// Users that may connect: the one of this process.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Maximum number of connections that wait to be accepted, as std has it.
const BACKLOG: i32 = 128;

/// Longest path of a Unix socket: `sun_path` of unix(7) without its final zero octet.
const MAX_PATH_BYTES: usize = 107;

/// Ending of the socket for pairing that belongs to a pipe's: `mpbond pair` has the same.
const PAIRING: &str = ".pair";

/// Path of the socket for pairing that belongs to a pipe's.
///
/// # Errors
/// When it is too long.
pub(crate) fn of_pairing(pipe: &Path) -> io::Result<PathBuf> {
    let mut path = pipe.as_os_str().to_owned();
    path.push(PAIRING);
    if path.len() > MAX_PATH_BYTES {
        let most = MAX_PATH_BYTES - PAIRING.len();
        let text = format!("a path of at most {most} octets is needed for that");
        return Err(io::Error::other(text));
    }
    Ok(path.into())
}

/// Listens at `path`, replacing the socket of a process that has ended.
///
/// # Errors
/// When another process listens there, another file is there, or the file cannot be made.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::other("another process listens there"));
    }
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            let text = "a file that is no socket is there: move it, or name another place";
            return Err(io::Error::other(text));
        }
        _ => {}
    }
    // Its final name is given to a socket that listens, with the right mode.
    let unseen = path.with_file_name(format!(".{}", std::process::id()));
    match fs::remove_file(&unseen) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // bind(2) gives the file the mode of the socket. It is not set by the file's path: the owner
    // of the folder can replace the file by a link to one of this user's.
    fchmod(&socket, MODE)?;
    socket.bind(&SockAddr::unix(&unseen)?)?;
    let ready = socket
        .listen(BACKLOG)
        .and_then(|()| fs::rename(&unseen, path));
    if let Err(e) = ready {
        let _ = fs::remove_file(&unseen);
        return Err(e);
    }
    Ok(socket.into())
}

/// Has the sockets at these paths removed when this process is ended by SIGINT or SIGTERM. To be
/// called before other threads are started.
///
/// # Errors
/// When the signals cannot be blocked, or no thread can be started.
pub(crate) fn remove_at_end(paths: Vec<PathBuf>) -> io::Result<()> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    thread::Builder::new().spawn(move || {
        let ended = signals.wait();
        // While this process lived, no other one listened there.
        for path in paths {
            let _ = fs::remove_file(path);
        }
        process::exit(i32::from(ended.is_err()));
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_socket_of_a_process_that_has_ended_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.sock");
        let first = listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE.bits());
        let taken = listen(&path).unwrap_err();
        assert_eq!(taken.to_string(), "another process listens there");
        drop(first);
        let _second = listen(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());

        let text = folder.path().join("text");
        fs::write(&text, "kept").unwrap();
        let error = listen(&text).unwrap_err();
        assert!(error.to_string().contains("no socket"), "{error}");
        assert_eq!(fs::read(&text).unwrap(), b"kept");
    }

    #[test]
    fn the_socket_of_a_pairing_is_beside_that_of_the_pipe() {
        let path = of_pairing(Path::new("/run/mpbond/phone.sock")).unwrap();
        assert_eq!(path, Path::new("/run/mpbond/phone.sock.pair"));
        let longest = format!("/{}", "x".repeat(101));
        assert!(of_pairing(Path::new(&longest)).is_ok());
        assert!(of_pairing(Path::new(&format!("{longest}x"))).is_err());
    }
}
