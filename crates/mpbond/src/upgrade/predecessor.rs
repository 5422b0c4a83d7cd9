//! The new process: takes the listeners of the old one over.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use super::line::{Line, Message, path_beside};

/// Time within which the old process has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Listeners of the old process, by name; empty where there is none. Those that are not taken are
/// closed with it.
#[derive(Debug, Default)]
pub(crate) struct Inherited(HashMap<String, OwnedFd>);

impl Inherited {
    /// The descriptor of this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.0.remove(name)
    }

    /// The TCP listener of this name.
    pub(crate) fn tcp(&mut self, name: &str) -> io::Result<Option<TcpListener>> {
        let Some(listener) = self.take(name) else {
            return Ok(None);
        };
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Some)
    }

    /// The Unix listener of this name.
    pub(crate) fn unix(&mut self, name: &str) -> io::Result<Option<UnixListener>> {
        let Some(listener) = self.take(name) else {
            return Ok(None);
        };
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Some)
    }

    /// The UDP socket of this name.
    pub(crate) fn udp(&mut self, name: &str) -> io::Result<Option<UdpSocket>> {
        let Some(socket) = self.take(name) else {
            return Ok(None);
        };
        let socket = std::net::UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket).map(Some)
    }

    /// Whether there are any whose names begin like this.
    pub(crate) fn has_any(&self, beginning: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(beginning))
    }
}

/// The old process, which serves what is open there.
#[derive(Debug)]
pub(crate) struct Predecessor {
    line: Rc<Line>,
    process: u32,
    ended: watch::Sender<bool>,
}

/// Asks the daemon of this role and status socket for its listeners. It goes on until
/// [`Predecessor::ready`].
///
/// # Errors
/// No daemon answers there, or it refuses.
pub(crate) async fn take_over(
    status_socket: &Path,
    role: &str,
) -> anyhow::Result<(Predecessor, Inherited)> {
    let path = path_beside(status_socket);
    let stream = UnixStream::connect(&path).await.with_context(|| {
        format!(
            "no {role} answers at {}: start it without --take-over",
            path.display()
        )
    })?;
    let line = Line::new(stream);
    line.check_user()
        .context("run this as the user of the daemon that runs")?;
    let ask = Message::TakeOver {
        role: role.to_owned(),
        process: std::process::id(),
    };
    let answer = async {
        line.send(&ask, &[]).await?;
        line.receive().await
    };
    let answer = timeout(ANSWER_WITHIN, answer).await;
    match answer.context("the daemon that runs does not answer")?? {
        Some((Message::Listeners { process, names }, descriptors)) => {
            if names.len() != descriptors.len() {
                bail!("process {process} sent {} listeners", descriptors.len());
            }
            info!(process, listeners = names.len(), "taking over");
            let inherited = names.into_iter().zip(descriptors).collect();
            let predecessor = Predecessor {
                line: Rc::new(line),
                process,
                ended: watch::Sender::new(false),
            };
            Ok((predecessor, Inherited(inherited)))
        }
        Some((Message::Refused { reason }, _)) => bail!("the daemon that runs refuses: {reason}"),
        other => bail!("the daemon that runs answered with {other:?}"),
    }
}

impl Predecessor {
    /// One at the other end of this connection, which has answered.
    #[cfg(test)]
    pub(crate) fn at(stream: UnixStream) -> Self {
        Self {
            line: Rc::new(Line::new(stream)),
            process: std::process::id(),
            ended: watch::Sender::new(false),
        }
    }

    /// Ends the old one's part in accepting connections, and waits for its answer. Must be called
    /// within a `LocalSet`.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        self.line.send(&Message::Ready, &[]).await?;
        match timeout(ANSWER_WITHIN, self.line.receive()).await {
            Ok(Ok(Some((Message::TakenOver, _)))) => {}
            // Nobody else is there to accept connections.
            other => warn!(
                process = self.process,
                ?other,
                "the old process does not answer"
            ),
        }
        let (line, ended, process) = (Rc::clone(&self.line), self.ended.clone(), self.process);
        crate::task::spawn_local(async move {
            // It sends nothing more: this is its end.
            while let Ok(Some(_)) = line.receive().await {}
            info!(process, "the old process has ended");
            ended.send_replace(true);
        });
        Ok(())
    }

    /// Whether its process has ended, and with it all that was open there.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Tells it that this process ends.
    pub(crate) fn leave(&self) {
        if !self.has_ended()
            && let Err(e) = self.line.end()
        {
            warn!(process = self.process, error = %e, "the old process is not told to end");
        }
    }

    /// Waits for its end.
    pub(crate) async fn end(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is this one's own.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Passes an unread connection on to it.
    pub(crate) async fn pass(&self, tcp: TcpStream) {
        let descriptor = [tcp.as_fd()];
        let sent = self.line.send(&Message::Connection, &descriptor).await;
        if let Err(e) = sent {
            warn!(process = self.process, error = %e, "a connection is not passed on");
        }
    }

    /// Its state, for people.
    pub(crate) fn note(&self) -> Option<String> {
        let process = self.process;
        (!self.has_ended())
            .then(|| format!("process {process}, which ran before, serves what is open there"))
    }
}
