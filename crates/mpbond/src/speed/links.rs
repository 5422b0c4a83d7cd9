//! Connections to the ends of a primary's links, as the primary makes them.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, bail};
use mpbond_manager::LinkId;
use mpbond_net::Identity;
use mpbond_net::tcp::{self, TcpOptions, Tuning};
use mpbond_net::tls::TlsStream;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::session::{STEP_WITHIN, Single};
use crate::config::{PathConfig, PrimaryConfig};
use crate::own_mark;
use crate::primary::Resolvers;

/// The links of a primary, for a test or check that is no part of the daemon.
#[derive(Debug)]
pub struct Links<'a> {
    pub(crate) config: &'a PrimaryConfig,
    pub(super) identity: &'a Identity,
    resolvers: Resolvers,
    pub(super) max_segment_bytes: Option<u32>,
}

impl<'a> Links<'a> {
    /// Those of this configuration, used with this key.
    pub fn new(config: &'a PrimaryConfig, identity: &'a Identity) -> Self {
        Self {
            config,
            identity,
            resolvers: Resolvers::new(config),
            max_segment_bytes: None,
        }
    }

    /// The same with connections whose segments have at most this size.
    #[must_use]
    pub fn with_max_segment_bytes(self, bytes: u32) -> Self {
        Self {
            max_segment_bytes: Some(bytes),
            ..self
        }
    }

    /// A session over an own path.
    pub(crate) async fn over(&self, link: LinkId, path: &PathConfig) -> anyhow::Result<Single> {
        let remotes = self.proxy(link).await?;
        let tcp = self
            .connect(path.source, path.interface.as_ref(), &remotes)
            .await
            .context("the proxy")?;
        self.session(tcp, &path.name, false).await
    }

    /// A session over a connection to the proxy.
    pub(super) async fn session(
        &self,
        tcp: TcpStream,
        name: &str,
        helper: bool,
    ) -> anyhow::Result<Single> {
        let (id, deadline) = (self.config.proxy.id, Instant::now() + STEP_WITHIN);
        let tls = TlsStream::connect(tcp, self.identity, id, deadline).await;
        let tls = tls.context("the proxy")?;
        Single::open(tls, id, name, helper).await
    }

    pub(super) async fn proxy(&self, link: LinkId) -> anyhow::Result<Vec<SocketAddr>> {
        let found = self.resolvers.addresses(self.config, link, STEP_WITHIN);
        let found = found.await;
        match found.unknown.first() {
            Some(host) if found.addresses.is_empty() => bail!("no address is found for {host}"),
            _ if found.addresses.is_empty() => bail!("no address of the proxy has its family"),
            _ => Ok(found.addresses),
        }
    }

    /// Connects as the primary does, and as root past its interception.
    pub(super) async fn connect(
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
                max_segment_bytes: self.max_segment_bytes,
                ..Tuning::default()
            },
            ..TcpOptions::to(*first)
        };
        Ok(tcp::connect_any(&options, remotes).await?)
    }
}
