//! Resolvers of the proxy's names, and what they have found.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{Addresses, LinkId};
use mpbond_net::resolve::{Files, LookupError, Resolver, ResolverConfig, Sockets};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::links::LinkConfig;
use crate::config::{PrimaryConfig, ProxyAddress};
use crate::own_mark::OWN_MARK;

/// Maximum number of look-ups under way of one resolver, which admits half of them at once: the
/// names of several links.
const MAX_LOOKUPS: usize = 64;

/// Resolvers of the proxy's names. Their sockets are those of the primary's other connections:
/// with the mark that interception and kill switch let through, and bound as a path is. `doctor`
/// and `pair` use them, too, so that they find what the primary finds.
#[derive(Debug)]
pub struct Resolvers {
    /// Servers beside those of the system.
    further: Vec<SocketAddr>,
    mark: Option<u32>,
    /// It follows the routes of this host.
    routed: Rc<Resolver<()>>,
    /// Those of own paths with an address or interface of their own.
    bound: RefCell<HashMap<LinkId, Rc<Resolver<()>>>>,
}

impl Resolvers {
    /// Those of a primary with this configuration. Links are its paths, and then its helpers.
    pub fn new(config: &PrimaryConfig) -> Self {
        let (further, mark) = beside_interception(Some(config));
        let resolvers = Self {
            routed: resolver(&further, mark, None, None),
            bound: RefCell::default(),
            further,
            mark,
        };
        for (id, link) in (0..).map(LinkId).zip(LinkConfig::all(config)) {
            resolvers.add(id, &link);
        }
        resolvers
    }

    /// Makes the resolver of a link.
    pub(super) fn add(&self, id: LinkId, link: &LinkConfig) {
        if let LinkConfig::Path(path) = link
            && (path.source.is_some() || path.interface.is_some())
        {
            let (source, interface) = (path.source, path.interface.clone());
            let resolver = resolver(&self.further, self.mark, source, interface);
            self.bound.borrow_mut().insert(id, resolver);
        }
    }

    /// Removes the resolver of a link.
    pub(super) fn remove(&self, id: LinkId) {
        self.bound.borrow_mut().remove(&id);
    }

    /// One by the routes of this host, where there may be no configuration yet.
    pub fn routed(config: Option<&PrimaryConfig>) -> Rc<Resolver<()>> {
        let (further, mark) = beside_interception(config);
        resolver(&further, mark, None, None)
    }

    /// Looks a name up for a link, over its own path and by the routes of this host at the same
    /// time: either network may have the server that answers. Runs on this thread's `LocalSet`.
    ///
    /// # Errors
    /// Neither has found an address.
    pub async fn look_up(&self, link: LinkId, host: &str) -> Result<Vec<IpAddr>, LookupError> {
        let bound = self.bound.borrow().get(&link).cloned();
        let resolvers = bound.into_iter().chain([Rc::clone(&self.routed)]);
        first_answer(resolvers, host).await
    }
}

impl Resolvers {
    /// The proxy's addresses for a link, each name looked up within this time.
    pub async fn addresses(
        &self,
        config: &PrimaryConfig,
        link: LinkId,
        within: Duration,
    ) -> FreshAddresses {
        let path = config.paths.get(link.0);
        let configured = match path {
            Some(path) if !path.proxy.is_empty() => &path.proxy,
            _ => &config.proxy.addresses,
        };
        let (mut all, mut unknown) = (Vec::new(), Vec::new());
        for address in configured {
            match address {
                ProxyAddress::At(address) => all.push(*address),
                ProxyAddress::Name { host, port } => {
                    match timeout(within, self.look_up(link, host)).await {
                        Ok(Ok(found)) => {
                            all.extend(found.into_iter().map(|ip| SocketAddr::new(ip, *port)));
                        }
                        Ok(Err(_)) | Err(_) => unknown.push(host.clone()),
                    }
                }
            }
        }
        let source = path.and_then(|path| path.source);
        let fallback = config.proxy.fallback_port;
        FreshAddresses {
            addresses: Addresses::default().order(&all, fallback, source),
            unknown,
        }
    }
}

/// Looks a name up with several resolvers at the same time. Runs on this thread's `LocalSet`.
///
/// # Errors
/// None has found an address.
pub(crate) async fn first_answer(
    resolvers: impl IntoIterator<Item = Rc<Resolver<()>>>,
    host: &str,
) -> Result<Vec<IpAddr>, LookupError> {
    let mut look_ups = JoinSet::new();
    for resolver in resolvers {
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

/// Further servers and the mark of a resolver, by the interception that is configured.
fn beside_interception(config: Option<&PrimaryConfig>) -> (Vec<SocketAddr>, Option<u32>) {
    match config.and_then(|config| config.transparent.as_ref()) {
        Some(transparent) => (transparent.resolvers.clone(), Some(OWN_MARK)),
        None => (Vec::new(), None),
    }
}

/// A resolver whose sockets are bound like this.
pub(crate) fn resolver(
    further: &[SocketAddr],
    mark: Option<u32>,
    source: Option<IpAddr>,
    interface: Option<String>,
) -> Rc<Resolver<()>> {
    Resolver::new(ResolverConfig {
        files: Files::default(),
        further: further.to_vec(),
        sockets: Sockets {
            mark,
            source,
            interface,
        },
        most: MAX_LOOKUPS,
    })
}

/// The proxy's addresses for a link, where no earlier attempt is known.
#[derive(Debug, Default)]
pub struct FreshAddresses {
    /// In the order in which the primary tries them.
    pub addresses: Vec<SocketAddr>,
    /// Names for which none is found.
    pub unknown: Vec<String>,
}

/// What is known about the proxy's addresses.
#[derive(Debug, Default)]
pub(super) struct ProxyAddresses {
    pub(super) by_link: HashMap<LinkId, Addresses>,
    /// The last answers of name servers, which may be out of reach when a path is dialled.
    pub(super) names: HashMap<String, Vec<IpAddr>>,
}
