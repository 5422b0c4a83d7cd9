//! Speed test: the throughput of each path to the proxy, and of each pipe, one after the other
//! (ADR 0018).
//!
//! A path is measured by a session of its own with a single subflow: its stream ends in the proxy
//! ([`service`]), which sends or discards octets. A pipe is measured by a connection that ends in
//! the helper. The primary that may run beside it is not involved.

mod endless;
mod pipe;
mod rate;
mod service;
mod session;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpbond_manager::LinkId;
use mpbond_net::Identity;
use mpbond_net::control::Direction;
use mpbond_net::tcp::{self, TcpOptions, Tuning};
use mpbond_net::tls::TlsStream;
use mpbond_units::BitRate;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::config::{HelperRef, PathConfig, PrimaryConfig};
use crate::own_mark;
use crate::primary::Resolvers;

use pipe::Pipe;
pub use rate::Span;
pub(crate) use service::{SpeedTests, asked, measured_pipe};
use session::Measured;

/// Time limit of each step before a measurement.
const STEP_WITHIN: Duration = Duration::from_secs(10);

/// Throughput of a path or a pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Towards the primary.
    pub down: BitRate,
    /// Away from it.
    pub up: BitRate,
}

/// Measures the links of a primary. Runs on this thread's `LocalSet`.
#[derive(Debug)]
pub struct SpeedTest<'a> {
    config: &'a PrimaryConfig,
    identity: &'a Identity,
    resolvers: Resolvers,
    span: Span,
}

impl<'a> SpeedTest<'a> {
    /// A test that measures for this time in each direction.
    pub fn new(config: &'a PrimaryConfig, identity: &'a Identity, span: Span) -> Self {
        Self {
            config,
            identity,
            resolvers: Resolvers::new(config),
            span,
        }
    }

    /// Measures an own path.
    ///
    /// # Errors
    /// The proxy cannot be reached over it, or refuses.
    pub async fn path(&self, link: LinkId, path: &PathConfig) -> anyhow::Result<Rates> {
        let remotes = self.proxy(link).await?;
        let tcp = self
            .connect(path.source, path.interface.as_ref(), &remotes)
            .await
            .context("the proxy")?;
        self.session(tcp, &path.name, false).await
    }

    /// Measures the way to the proxy through a helper, from end to end.
    ///
    /// # Errors
    /// The helper or the proxy cannot be reached, or refuses.
    pub async fn through(&self, link: LinkId, helper: &HelperRef) -> anyhow::Result<Rates> {
        let remotes = self.proxy(link).await?;
        let mut pipe = Pipe::open(self, helper).await?;
        let tcp = pipe.relay(self, helper, &remotes).await?;
        tokio::select! {
            rates = self.session(tcp, &helper.name, true) => rates,
            end = pipe.attend() => Err(end),
        }
    }

    /// Measures the pipe to a helper.
    ///
    /// # Errors
    /// The helper cannot be reached, or refuses.
    pub async fn pipe(&self, helper: &HelperRef) -> anyhow::Result<Rates> {
        let mut pipe = Pipe::open(self, helper).await?;
        Ok(Rates {
            down: pipe.rate(self, helper, Direction::Down).await?,
            up: pipe.rate(self, helper, Direction::Up).await?,
        })
    }

    /// Measures a connection to the proxy.
    async fn session(&self, tcp: TcpStream, name: &str, helper: bool) -> anyhow::Result<Rates> {
        let (id, deadline) = (self.config.proxy.id, Instant::now() + STEP_WITHIN);
        let tls = TlsStream::connect(tcp, self.identity, id, deadline).await;
        let tls = tls.context("the proxy")?;
        let mut session = Measured::open(tls, id, name, helper).await?;
        Ok(Rates {
            down: session.rate(Direction::Down, self.span).await?,
            up: session.rate(Direction::Up, self.span).await?,
        })
    }

    async fn proxy(&self, link: LinkId) -> anyhow::Result<Vec<SocketAddr>> {
        let found = self.resolvers.addresses(self.config, link, STEP_WITHIN);
        let found = found.await;
        match found.unknown.first() {
            Some(host) if found.addresses.is_empty() => bail!("no address is found for {host}"),
            _ if found.addresses.is_empty() => bail!("no address of the proxy has its family"),
            _ => Ok(found.addresses),
        }
    }

    /// Connects as the primary does, and as root past its interception.
    async fn connect(
        &self,
        source: Option<IpAddr>,
        interface: Option<&String>,
        remotes: &[SocketAddr],
    ) -> anyhow::Result<TcpStream> {
        let first = remotes.first().context("there is no address")?;
        let options = TcpOptions {
            source,
            interface: interface.cloned(),
            connect_timeout: STEP_WITHIN,
            tuning: Tuning {
                congestion: self.config.congestion.clone(),
                mark: own_mark::if_allowed(),
                ..Tuning::default()
            },
            ..TcpOptions::to(*first)
        };
        Ok(tcp::connect_any(&options, remotes).await?)
    }
}
