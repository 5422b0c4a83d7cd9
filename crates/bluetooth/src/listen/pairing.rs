//! The channel of pairings, open only while `mpbond pair` waits.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use socket2::Socket;
use tracing::{debug, info, warn};

use super::target::{Line, Target, connect};
use crate::connections::Connections;
use crate::reason::reason;
use crate::sys::rfcomm;

/// The channel of pairings. It is open from when the socket of a device that waits appears until it
/// is gone, or refuses: a process that was killed leaves its socket behind.
pub(super) struct Pairings {
    /// Socket at which a device waits to be paired.
    socket: PathBuf,
    /// Changes in the socket's folder.
    changes: Inotify,
    open: Box<dyn Fn() -> io::Result<Socket> + Send>,
    listener: Option<Socket>,
}

impl Pairings {
    /// Opens the channel by `open` whenever a process listens at `socket`.
    ///
    /// # Errors
    /// When the socket's folder cannot be watched.
    pub fn watch(
        socket: PathBuf,
        open: impl Fn() -> io::Result<Socket> + Send + 'static,
    ) -> io::Result<Self> {
        let changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let appears = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let goes = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
        let folder = socket.parent().filter(|f| !f.as_os_str().is_empty());
        changes.add_watch(folder.unwrap_or(Path::new(".")), appears | goes)?;
        let mut pairings = Self {
            socket,
            changes,
            open: Box::new(open),
            listener: None,
        };
        pairings.follow();
        Ok(pairings)
    }

    /// Descriptors to be polled for reading.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(|listener| listener.as_fd());
        std::iter::once(self.changes.as_fd()).chain(listener)
    }

    /// Looks for changes of the socket and for a device that calls, after one of the descriptors
    /// was found readable.
    pub fn serve(&mut self, connections: &Connections, target: &Target) {
        if self.has_changed() {
            self.follow();
        }
        let Some(listener) = &self.listener else {
            return;
        };
        match listener.accept() {
            Ok((near, peer)) => {
                let device = rfcomm::device(&peer);
                if !target.admits(device) {
                    debug!("{}: refused, as no --device names it", Line(device));
                    return;
                }
                let failed = match connect(&self.socket) {
                    Ok(far) => {
                        return connections.start(near, move |_| Ok((far, Line(device))));
                    }
                    Err(failed) => failed,
                };
                match failed.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => self.close(),
                    ErrorKind::WouldBlock => {
                        debug!("{}: too many devices pair at a time", Line(device));
                    }
                    // Such as too many open files, which may pass while somebody pairs.
                    _ => connections.not_carried(&format!(
                        "{}: pairing: {}: {failed}",
                        Line(device),
                        self.socket.display()
                    )),
                }
            }
            Err(e) => connections.not_accepted(&e),
        }
    }

    /// Whether something has become of the socket's file since the last call.
    fn has_changed(&self) -> bool {
        let mut found = false;
        // No more events are an error as well.
        while let Ok(events) = self.changes.read_events() {
            found |= events.iter().any(|event| {
                let is_lost = event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                is_lost || event.name.as_deref() == self.socket.file_name().map(OsStr::new)
            });
        }
        found
    }

    /// Opens or closes the channel as the socket is there or not.
    fn follow(&mut self) {
        let file = fs::symlink_metadata(&self.socket);
        let is_there = file.is_ok_and(|file| file.file_type().is_socket());
        if !is_there {
            return self.close();
        }
        if self.listener.is_some() {
            return;
        }
        match (self.open)() {
            Ok(listener) => {
                info!("a device may pair at {}", self.socket.display());
                self.listener = Some(listener);
            }
            Err(e) => warn!("pairing: {}", reason(&e)),
        }
    }

    fn close(&mut self) {
        if self.listener.take().is_some() {
            info!("no device waits to be paired any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::serve;
    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    /// A server whose channel of pairings is a Unix socket, which is there while the channel is
    /// open.
    struct Served {
        _folder: tempfile::TempDir,
        channel: PathBuf,
        socket: PathBuf,
    }

    fn served(devices: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let [channel, socket] = ["channel", "pipe.sock.pair"].map(|name| folder.path().join(name));
        let devices = devices.iter().map(|text| text.parse().unwrap()).collect();
        let (at, watched) = (Arc::new(channel.clone()), socket.clone());
        let open = move || {
            let _ = fs::remove_file(&*at);
            let listener = UnixListener::bind(&*at)?;
            listener.set_nonblocking(true)?;
            Ok(listener.into())
        };
        let mut pairings = Pairings::watch(watched, open).unwrap();
        let target = Target {
            socket: folder.path().join("pipe.sock"),
            devices,
        };
        thread::spawn(move || serve::<()>(&[], &target, Some(&mut pairings)));
        Served {
            _folder: folder,
            channel,
            socket,
        }
    }

    impl Served {
        /// Waits until a device can call, or cannot.
        fn until_open(&self, open: bool) {
            let deadline = Instant::now() + WITHIN;
            while UnixStream::connect(&self.channel).is_ok() != open {
                assert!(Instant::now() < deadline, "open: {}", !open);
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn is_closed(mut client: UnixStream) -> bool {
        client.set_read_timeout(Some(WITHIN)).unwrap();
        matches!(client.read(&mut [0; 1]), Ok(0))
    }

    #[test]
    fn the_channel_is_open_only_while_a_device_waits() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("pipe.sock.pair");
        let open = || {
            let (listener, _) = UnixStream::pair()?;
            listener.set_nonblocking(true)?;
            Ok(listener.into())
        };
        let mut pairings = Pairings::watch(socket.clone(), open).unwrap();
        let mut is_open = || {
            if pairings.has_changed() {
                pairings.follow();
            }
            pairings.descriptors().count() == 2
        };
        assert!(!is_open());
        // Neither the pipe's socket nor a file of this name is a device that waits.
        let _pipe = UnixListener::bind(folder.path().join("pipe.sock")).unwrap();
        fs::write(&socket, "").unwrap();
        assert!(!is_open());
        fs::remove_file(&socket).unwrap();
        for _ in 0..3 {
            let unseen = socket.with_file_name(".1");
            let _waits = UnixListener::bind(&unseen).unwrap();
            assert!(!is_open());
            fs::rename(unseen, &socket).unwrap();
            assert!(is_open());
            fs::remove_file(&socket).unwrap();
            assert!(!is_open());
        }
    }

    #[test]
    fn a_device_that_calls_reaches_the_one_that_waits() {
        let served = served(&[]);
        let waits = UnixListener::bind(&served.socket).unwrap();
        served.until_open(true);
        let (mut far, _) = waits.accept().unwrap();
        assert_eq!(
            far.read(&mut [0; 1]).unwrap(),
            0,
            "the look for the channel"
        );
        let mut near = UnixStream::connect(&served.channel).unwrap();
        near.write_all(b"hello").unwrap();
        let (mut far, _) = waits.accept().unwrap();
        let mut got = [0; 5];
        far.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }

    #[test]
    fn the_socket_of_a_process_that_was_killed_closes_the_channel() {
        let served = served(&[]);
        drop(UnixListener::bind(&served.socket).unwrap());
        let deadline = Instant::now() + WITHIN;
        let caller = loop {
            match UnixStream::connect(&served.channel) {
                Ok(caller) => break caller,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
        };
        assert!(is_closed(caller));
        served.until_open(false);
    }

    #[test]
    fn a_failure_that_may_pass_leaves_the_channel_open() {
        let served = served(&[]);
        // A socket of another type cannot be connected to.
        let _waits = UnixDatagram::bind(&served.socket).unwrap();
        served.until_open(true);
        for _ in 0..3 {
            assert!(is_closed(UnixStream::connect(&served.channel).unwrap()));
        }
    }

    #[test]
    fn devices_that_are_not_named_cannot_pair() {
        let served = served(&["00:1A:7D:DA:71:13"]);
        let waits = UnixListener::bind(&served.socket).unwrap();
        waits.set_nonblocking(true).unwrap();
        served.until_open(true);
        // A Unix socket has no address of a device.
        assert!(is_closed(UnixStream::connect(&served.channel).unwrap()));
        assert!(waits.accept().is_err());
    }
}
