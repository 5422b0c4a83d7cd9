//! The proxy's addresses: those of the configuration, with names looked up, as links have found
//! them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{Addresses, LinkId};
use tokio::net::lookup_host;
use tokio::time::timeout;
use tracing::info;

use super::state::{LinkConfig, Primary};
use crate::config::ProxyAddress;

/// Time limit of look-ups before an attempt.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// The same where an address is known already; a later answer is for the next attempt.
const LOOK_UP_BESIDE_WITHIN: Duration = Duration::from_millis(250);

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
            let primary = Rc::clone(self);
            // A task of its own, so that a late answer is not lost.
            let look_up = tokio::task::spawn_local(async move { primary.look_up(link).await });
            let _ = timeout(within, look_up).await;
        }
        self.known_addresses(link)
    }

    async fn look_up(&self, link: LinkId) {
        for address in self.configured(link) {
            let ProxyAddress::Name { host, port } = address else {
                continue;
            };
            match lookup_host((host.as_str(), *port)).await {
                Ok(found) => {
                    let found: Vec<IpAddr> = found.map(|a| a.ip()).collect();
                    let mut known = self.addresses.borrow_mut();
                    if !found.is_empty() {
                        known.names.insert(host.clone(), found);
                    }
                }
                Err(e) => info!(host, error = %e, "the proxy's name is not found"),
            }
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
