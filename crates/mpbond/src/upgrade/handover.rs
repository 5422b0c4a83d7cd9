//! The old process: hands its listeners over to a new one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;
use tracing::{info, warn};

use super::line::{Line, MAX_LISTENERS, Message, path_beside};
use super::predecessor::Inherited;

/// Name of the own socket among the listeners.
const NAME: &str = "upgrade";

/// Time within which a new process has to be ready, once it has the listeners. Both accept
/// connections until then.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Pause after an error of accept(2), which may last.
const PAUSE: Duration = Duration::from_secs(1);

/// A daemon's socket for a new process; removes its file when dropped, unless that is another
/// process's.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Absent where there is no file for it.
    listener: Option<UnixListener>,
    path: PathBuf,
    role: &'static str,
    /// What is handed over, by name.
    listeners: Vec<(String, OwnedFd)>,
    /// The file is another process's.
    keeps_file: bool,
}

impl Handover {
    /// Listens beside the status socket, with the inherited listener if there is one. Where the
    /// file cannot be made, a daemon that cannot be upgraded, and a line in the log.
    pub(crate) fn open(
        status_socket: &Path,
        role: &'static str,
        inherited: &mut Inherited,
    ) -> Self {
        Self::bind(status_socket, role, inherited).unwrap_or_else(|e| {
            warn!(
                error = %e,
                "no socket {}: `mpbond upgrade` cannot reach this daemon, which can only be stopped \
                 and started again",
                path_beside(status_socket).display()
            );
            Self::absent(role)
        })
    }

    pub(super) fn bind(
        status_socket: &Path,
        role: &'static str,
        inherited: &mut Inherited,
    ) -> io::Result<Self> {
        let path = path_beside(status_socket);
        let own = inherited.take(NAME);
        let keeps_file = own.is_some();
        let socket = match own {
            Some(socket) => std::os::unix::net::UnixListener::from(socket),
            None => {
                // A dead daemon's: the status socket has shown that no other one runs.
                match std::fs::remove_file(&path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
                std::os::unix::net::UnixListener::bind(&path)?
            }
        };
        socket.set_nonblocking(true)?;
        let own = (NAME.to_owned(), socket.as_fd().try_clone_to_owned()?);
        Ok(Self {
            listener: Some(UnixListener::from_std(socket)?),
            path,
            role,
            listeners: vec![own],
            keeps_file,
        })
    }

    /// A daemon that cannot be upgraded, since it has no place for its sockets.
    pub(crate) fn absent(role: &'static str) -> Self {
        Self {
            listener: None,
            path: PathBuf::new(),
            role,
            listeners: Vec::new(),
            keeps_file: true,
        }
    }

    /// Adds a listener to what is handed over.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn offer(&mut self, name: String, listener: &impl AsFd) -> io::Result<()> {
        let copy = listener.as_fd().try_clone_to_owned()?;
        self.listeners.push((name, copy));
        Ok(())
    }

    /// The file is this process's from now on.
    pub(crate) fn taken_over(&mut self) {
        self.keeps_file = self.listener.is_none();
    }

    /// Waits for a new process that has taken everything over. `prepare` is called before one is
    /// given the listeners.
    pub(crate) async fn wait(&mut self, prepare: impl Fn()) -> Successor {
        loop {
            let Some(listener) = &self.listener else {
                return std::future::pending().await;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(e) => {
                    warn!(error = %e, "cannot accept a new process");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match timeout(READY_WITHIN, self.hand_over(stream, &prepare)).await {
                Ok(Ok(successor)) => {
                    self.keeps_file = true;
                    self.listeners.clear();
                    return successor;
                }
                Ok(Err(e)) => warn!(error = format!("{e:#}"), "not taken over: this one goes on"),
                Err(_) => warn!("the new process does not get ready: this one goes on"),
            }
        }
    }

    async fn hand_over(
        &self,
        stream: UnixStream,
        prepare: &impl Fn(),
    ) -> anyhow::Result<Successor> {
        let line = Line::new(stream);
        line.check_user()?;
        let process = match line.receive().await? {
            Some((Message::TakeOver { role, process }, _)) if role == self.role => process,
            Some((Message::TakeOver { role, .. }, _)) => {
                let reason = format!("this is a {}, not a {role}", self.role);
                line.send(&Message::Refused { reason }, &[]).await?;
                bail!("a {role} asks");
            }
            other => bail!("it began with {other:?}"),
        };
        if self.listeners.len() > MAX_LISTENERS {
            let reason = format!("more than {MAX_LISTENERS} listeners: stop it and start it again");
            line.send(&Message::Refused { reason }, &[]).await?;
            bail!("more than {MAX_LISTENERS} listeners");
        }
        prepare();
        let names = self.listeners.iter().map(|(name, _)| name.clone());
        let listeners = Message::Listeners {
            process: std::process::id(),
            names: names.collect(),
        };
        let descriptors: Vec<_> = self.listeners.iter().map(|(_, fd)| fd.as_fd()).collect();
        line.send(&listeners, &descriptors).await?;
        match line.receive().await? {
            Some((Message::Ready, _)) => {}
            None => bail!("process {process} has ended before it was ready"),
            other => bail!("process {process} answered with {other:?}"),
        }
        // No status of this process after that of the new one. The new one goes on in any case.
        if let Err(e) = line.send(&Message::TakenOver, &[]).await {
            warn!(process, error = %e, "the new process is not told");
        }
        info!(
            process,
            "a new process has taken over; this one serves what is open"
        );
        Ok(Successor(line))
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if !self.keeps_file {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The process that has taken over. It knows by the end of this connection that the old one has
/// ended.
#[derive(Debug)]
pub(crate) struct Successor(Line);

impl Successor {
    /// The next unread connection that is for this process; `None` when the new one has ended.
    pub(crate) async fn connection(&self) -> Option<TcpStream> {
        loop {
            let received = self.0.receive().await;
            let (message, mut descriptors) = match received.context("the new process") {
                Ok(received) => received?,
                Err(e) => {
                    warn!(
                        error = format!("{e:#}"),
                        "no connections are passed on any more"
                    );
                    return None;
                }
            };
            let (Message::Connection, Some(descriptor)) = (message, descriptors.pop()) else {
                continue;
            };
            match TcpStream::from_std(descriptor.into()) {
                Ok(tcp) => return Some(tcp),
                Err(e) => warn!(error = %e, "a connection that was passed on"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::upgrade::predecessor::take_over;

    #[tokio::test]
    async fn listeners_pass_to_a_process_of_the_same_role_once_it_is_ready() {
        let folder = tempfile::tempdir().unwrap();
        let status_socket = folder.path().join("proxy.sock");
        let mut none = Inherited::default();
        let mut old = Handover::bind(&status_socket, "proxy", &mut none).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        old.offer("a".to_owned(), &listener).unwrap();
        drop(listener);
        let hand_over = async {
            let successor = old.wait(|| ()).await;
            successor.connection().await.unwrap()
        };
        let take = async {
            let wrong = take_over(&status_socket, "helper").await.unwrap_err();
            assert!(wrong.to_string().contains("this is a proxy, not a helper"));
            // It ends before it is ready.
            drop(take_over(&status_socket, "proxy").await.unwrap());
            let (predecessor, mut inherited) = take_over(&status_socket, "proxy").await.unwrap();
            let listener = inherited.tcp("a").unwrap().unwrap();
            assert_eq!(listener.local_addr().unwrap(), address);
            assert!(inherited.take(NAME).is_some());
            assert!(inherited.take("b").is_none());
            predecessor.ready().await.unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            predecessor.pass(accepted).await;
            client.local_addr().unwrap()
        };
        let both = async { tokio::join!(hand_over, take) };
        let (passed, client) = LocalSet::new().run_until(both).await;
        assert_eq!(passed.peer_addr().unwrap(), client);
    }

    #[tokio::test]
    async fn a_daemon_with_too_many_listeners_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let status_socket = folder.path().join("primary.sock");
        let mut none = Inherited::default();
        let mut old = Handover::bind(&status_socket, "primary", &mut none).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for n in 0..MAX_LISTENERS {
            old.offer(n.to_string(), &listener).unwrap();
        }
        let error = tokio::select! {
            _ = old.wait(|| ()) => panic!("it was taken over"),
            taken = take_over(&status_socket, "primary") => taken.unwrap_err(),
        };
        let said = error.to_string();
        assert!(said.contains("refuses: more than 64 listeners"), "{said}");
        drop(old);
        let error = take_over(&status_socket, "primary").await.unwrap_err();
        assert!(
            error.to_string().contains("no primary answers at"),
            "{error}"
        );
    }
}
