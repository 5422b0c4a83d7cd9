//! The proxy's addresses: those of the configuration, with names looked up, as links have found
//! them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{Addresses, LinkId};
use tokio::time::timeout;
use tracing::info;

use crate::config::ProxyAddress;
use crate::primary::links::LinkConfig;
use crate::primary::state::Primary;

/// Time limit of look-ups before an attempt.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// The same where an address is known already; a later answer is for the next attempt.
const LOOK_UP_BESIDE_WITHIN: Duration = Duration::from_millis(250);

impl Primary {
    fn configured(&self, link: LinkId) -> Vec<ProxyAddress> {
        match self.link(link).as_deref() {
            Some(LinkConfig::Path(path)) if !path.proxy.is_empty() => path.proxy.clone(),
            _ => self.config.proxy.addresses.clone(),
        }
    }

    /// The proxy's addresses in the order in which this link is to try them.
    pub(in crate::primary) fn known_addresses(&self, link: LinkId) -> Vec<SocketAddr> {
        let known = self.addresses.borrow();
        let mut all = Vec::new();
        for address in self.configured(link) {
            match address {
                ProxyAddress::At(address) => all.push(address),
                ProxyAddress::Name { host, port } => {
                    let found = known.names.get(&host).into_iter().flatten();
                    all.extend(found.map(|ip| SocketAddr::new(*ip, port)));
                }
            }
        }
        let source = match self.link(link).as_deref() {
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
                .into_iter()
                .filter_map(|address| match address {
                    ProxyAddress::Name { host, .. } => Some(host),
                    ProxyAddress::At(_) => None,
                })
                .map(|host| crate::task::spawn_local(Rc::clone(self).look_up(link, host)))
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
