//! The listeners of a daemon: taken over from the process that ran before, or opened.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use tokio::net::{TcpListener, UdpSocket, UnixListener};
use tracing::info;

use super::handover::Handover;
use super::predecessor::{Inherited, Predecessor, take_over};
use crate::metrics;
use crate::status_socket::StatusSocket;

/// Names of listeners at the handover.
const STATUS: &str = "status";
const METRICS: &str = "metrics";

/// The listeners that every daemon has, and the means to get and hand over others.
pub(crate) struct Listeners {
    /// The process that ran before, if this one takes over.
    pub(crate) predecessor: Option<Rc<Predecessor>>,
    pub(crate) status: StatusSocket,
    pub(crate) metrics: Option<TcpListener>,
    /// Where the next process asks.
    pub(crate) handover: Handover,
    inherited: Inherited,
}

impl Listeners {
    /// Opens status socket and metrics, or takes all listeners over.
    ///
    /// # Errors
    /// There is nothing to take over from, or another daemon answers at the status socket.
    pub(crate) async fn open(
        role: &'static str,
        status_socket: &Path,
        metrics: Option<SocketAddr>,
        takes_over: bool,
    ) -> anyhow::Result<Self> {
        let (predecessor, mut inherited) = match takes_over {
            false => (None, Inherited::default()),
            true => {
                let (predecessor, inherited) = take_over(status_socket, role).await?;
                (Some(Rc::new(predecessor)), inherited)
            }
        };
        let path = status_socket.display();
        let status = match inherited.take(STATUS) {
            Some(listener) => StatusSocket::inherit(listener, status_socket)
                .with_context(|| format!("status socket {path}"))?,
            None => StatusSocket::open(status_socket)?,
        };
        let metrics = match inherited.tcp(METRICS)? {
            Some(listener) if listener.local_addr().ok() == metrics => Some(listener),
            _ => metrics::listen(metrics).await,
        };
        let mut handover = match status.listener() {
            None => Handover::absent(role),
            Some(listener) => {
                let mut handover = Handover::open(status_socket, role, &mut inherited);
                handover.offer(STATUS.to_owned(), listener)?;
                handover
            }
        };
        if let Some(metrics) = &metrics {
            handover.offer(METRICS.to_owned(), metrics)?;
        }
        Ok(Self {
            predecessor,
            status,
            metrics,
            handover,
            inherited,
        })
    }

    /// The listener at this address: that of the process before, or a new one.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn tcp<E>(
        &mut self,
        address: SocketAddr,
        open: impl FnOnce() -> Result<TcpListener, E>,
    ) -> anyhow::Result<TcpListener>
    where
        anyhow::Error: From<E>,
    {
        let listener = match self.inherit(&at(address))? {
            Some(listener) => listener,
            None => open()?,
        };
        self.offer(at(address), &listener)?;
        info!(%address, "listening");
        Ok(listener)
    }

    /// The listener on the Unix socket at this path: that of the process before, whose file stays
    /// in its place, or a new one.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn unix(
        &mut self,
        path: &Path,
        open: impl FnOnce() -> io::Result<UnixListener>,
    ) -> io::Result<UnixListener> {
        let name = format!("unix:{}", path.display());
        let listener = match self.inherited.unix(&name)? {
            Some(listener) => listener,
            None => open()?,
        };
        self.offer(name, &listener)?;
        Ok(listener)
    }

    /// The listener of this name that the process before has.
    ///
    /// # Errors
    /// It is no listener.
    pub(crate) fn inherit(&mut self, name: &str) -> io::Result<Option<TcpListener>> {
        self.inherited.tcp(name)
    }

    /// The UDP socket of this name that the process before has.
    ///
    /// # Errors
    /// It is no UDP socket.
    pub(crate) fn inherit_udp(&mut self, name: &str) -> io::Result<Option<UdpSocket>> {
        self.inherited.udp(name)
    }

    /// Whether the process before has any whose names begin like this, and which were not taken.
    pub(crate) fn has_any(&self, beginning: &str) -> bool {
        self.inherited.has_any(beginning)
    }

    /// Hands this listener or socket over to the next process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn offer(&mut self, name: String, listener: &impl AsFd) -> io::Result<()> {
        self.handover.offer(name, listener)
    }

    /// Ends the part of the process before in accepting connections; listeners of its that were
    /// not asked for are closed.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        self.inherited = Inherited::default();
        if let Some(predecessor) = &self.predecessor {
            predecessor.ready().await.context("the old process")?;
        }
        self.status.taken_over();
        self.handover.taken_over();
        Ok(())
    }
}

/// Name of the listener at this address.
pub(crate) fn at(address: SocketAddr) -> String {
    format!("listen {address}")
}
