//! The proxy's addresses: those of the configuration, with names looked up, as links have found
//! them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{Addresses, LinkId};
use mpbond_net::resolve::{Files, LookupError, Resolver, ResolverConfig, Sockets};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

use super::state::{LinkConfig, Primary};
use crate::config::{PrimaryConfig, ProxyAddress};
use crate::own_mark::OWN_MARK;

/// Time limit of look-ups before an attempt.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// The same where an address is known already; a later answer is for the next attempt.
const LOOK_UP_BESIDE_WITHIN: Duration = Duration::from_millis(250);

/// Maximum number of look-ups under way of one resolver, which admits half of them at once: the
/// names of several links.
const MAX_LOOKUPS: usize = 64;

/// Resolvers of the proxy's names. Their sockets are those of the primary's other connections:
/// with the mark that interception and kill switch let through, and bound as a path is.
#[derive(Debug)]
pub(super) struct Resolvers {
    /// It follows the routes of this host.
    routed: Rc<Resolver<()>>,
    /// Those of own paths with an address or interface of their own.
    bound: HashMap<LinkId, Rc<Resolver<()>>>,
}

impl Resolvers {
    pub(super) fn new(config: &PrimaryConfig) -> Self {
        let transparent = config.transparent.as_ref();
        let resolver = |source, interface| {
            Resolver::new(ResolverConfig {
                files: Files::default(),
                further: transparent.map_or(Vec::new(), |t| t.resolvers.clone()),
                sockets: Sockets {
                    mark: transparent.map(|_| OWN_MARK),
                    source,
                    interface,
                },
                most: MAX_LOOKUPS,
            })
        };
        let paths = (0..).map(LinkId).zip(&config.paths);
        let bound = paths.filter(|(_, p)| p.source.is_some() || p.interface.is_some());
        Self {
            routed: resolver(None, None),
            bound: bound
                .map(|(link, p)| (link, resolver(p.source, p.interface.clone())))
                .collect(),
        }
    }

    /// Looks a name up for a link, over its own path and by the routes of this host at the same
    /// time: either network may have the server that answers.
    async fn look_up(&self, link: LinkId, host: &str) -> Result<Vec<IpAddr>, LookupError> {
        let mut look_ups = JoinSet::new();
        for resolver in [self.bound.get(&link), Some(&self.routed)] {
            let Some(resolver) = resolver.cloned() else {
                continue;
            };
            let host = host.to_owned();
            look_ups.spawn_local(async move { resolver.addresses(&host, ()).await });
        }
        let mut error = LookupError::NotFound;
        while let Some(found) = look_ups.join_next().await {
            match found {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(e)) => error = e,
                // A task that was aborted with the runtime.
                Err(_) => {}
            }
        }
        Err(error)
    }
}

/// What is known about the proxy's addresses.
#[derive(Debug, Default)]
pub(super) struct ProxyAddresses {
    by_link: HashMap<LinkId, Addresses>,
    /// The last answers of name servers, which may be out of reach when a path is dialled.
    names: HashMap<String, Vec<IpAddr>>,
}

impl Primary {
    fn configured(&self, link: LinkId) -> &[ProxyAddress] {
        match self.link(link) {
            Some(LinkConfig::Path(path)) if !path.proxy.is_empty() => &path.proxy,
            _ => &self.config.proxy.addresses,
        }
    }

    /// The proxy's addresses in the order in which this link is to try them.
    pub(super) fn known_addresses(&self, link: LinkId) -> Vec<SocketAddr> {
        let known = self.addresses.borrow();
        let mut all = Vec::new();
        for address in self.configured(link) {
            match address {
                ProxyAddress::At(address) => all.push(*address),
                ProxyAddress::Name { host, port } => {
                    let found = known.names.get(host).into_iter().flatten();
                    all.extend(found.map(|ip| SocketAddr::new(*ip, *port)));
                }
            }
        }
        let source = match self.link(link) {
            Some(LinkConfig::Path(path)) => path.source,
            _ => None,
        };
        let fresh = Addresses::default();
        let of_link = known.by_link.get(&link).unwrap_or(&fresh);
        of_link.order(&all, self.config.proxy.fallback_port, source)
    }

    /// Whether the link's addresses have to be looked up.
    pub(super) fn has_names(&self, link: LinkId) -> bool {
        self.configured(link).iter().any(|a| a.fixed().is_none())
    }

    /// The same after names have been looked up, as far as that succeeds in time.
    pub(super) async fn proxy_addresses(self: &Rc<Self>, link: LinkId) -> Vec<SocketAddr> {
        if self.has_names(link) {
            let within = match self.known_addresses(link).is_empty() {
                true => LOOK_UP_WITHIN,
                false => LOOK_UP_BESIDE_WITHIN,
            };
            // Tasks of their own, so that a late answer is not lost.
            let look_ups: Vec<_> = self
                .configured(link)
                .iter()
                .filter_map(|address| match address {
                    ProxyAddress::Name { host, .. } => Some(host.clone()),
                    ProxyAddress::At(_) => None,
                })
                .map(|host| tokio::task::spawn_local(Rc::clone(self).look_up(link, host)))
                .collect();
            let all = async {
                for look_up in look_ups {
                    let _ = look_up.await;
                }
            };
            let _ = timeout(within, all).await;
        }
        self.known_addresses(link)
    }

    async fn look_up(self: Rc<Self>, link: LinkId, host: String) {
        match self.resolvers.look_up(link, &host).await {
            Ok(found) => {
                self.addresses.borrow_mut().names.insert(host, found);
            }
            Err(e) => info!(host, error = %e, "the proxy's name is not found"),
        }
    }

    /// The proxy has proved its identity at this address, or something has failed after the
    /// connection was made.
    pub(super) fn address_tried(&self, link: LinkId, address: SocketAddr, worked: bool) {
        let mut known = self.addresses.borrow_mut();
        let of_link = known.by_link.entry(link).or_default();
        if worked {
            of_link.worked(address);
        } else {
            of_link.failed(address);
        }
    }
}
