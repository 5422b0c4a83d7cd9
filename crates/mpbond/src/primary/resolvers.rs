//! Resolvers of the proxy's names, and what they have found.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use mpbond_manager::{Addresses, LinkId};
use mpbond_net::resolve::{Files, LookupError, Resolver, ResolverConfig, Sockets};
use tokio::task::JoinSet;

use crate::config::PrimaryConfig;
use crate::own_mark::OWN_MARK;

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
    pub(super) async fn look_up(
        &self,
        link: LinkId,
        host: &str,
    ) -> Result<Vec<IpAddr>, LookupError> {
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
    pub(super) by_link: HashMap<LinkId, Addresses>,
    /// The last answers of name servers, which may be out of reach when a path is dialled.
    pub(super) names: HashMap<String, Vec<IpAddr>>,
}
