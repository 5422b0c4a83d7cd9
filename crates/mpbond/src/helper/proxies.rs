//! Proxies that relays may go to: those of the configuration, with names looked up for each
//! relay.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::resolve::{LookupError, Resolver};
use tokio::time::timeout;
use tracing::info;

use crate::config::{HelperConfig, ProxyAddress};
use crate::primary::FreshAddresses;
use crate::primary::resolvers::{first_answer, resolver};

/// Time limit of look-ups before a relay.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// The same where the last answers allow the relay; a later answer is for the next one.
const LOOK_UP_BESIDE_WITHIN: Duration = Duration::from_millis(250);

/// When names are looked up for a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// They allow no further address.
    Never,
    /// While it is granted: the configuration allows one of its addresses itself.
    Beside,
    /// Before it is granted or refused.
    Before,
}

/// Names of proxies, with the addresses that were found last.
pub(super) struct Names {
    /// By the routes of this host, and as relays are bound: either network may have the server
    /// that answers.
    resolvers: Vec<Rc<Resolver<()>>>,
    found: RefCell<HashMap<String, Vec<IpAddr>>>,
    /// Why the last look-ups of others have failed.
    failed: RefCell<HashMap<String, LookupError>>,
}

impl Names {
    /// `mark`: that of own connections on a device that intercepts connections.
    pub(super) fn new(config: &HelperConfig, mark: Option<u32>) -> Rc<Self> {
        let (source, interface) = (config.uplink.source, config.uplink.interface.clone());
        let routed = resolver(&[], mark, None, None);
        let bound = (source.is_some() || interface.is_some())
            .then(|| resolver(&[], mark, source, interface));
        Rc::new(Self {
            resolvers: std::iter::once(routed).chain(bound).collect(),
            found: RefCell::default(),
            failed: RefCell::default(),
        })
    }

    /// The entry of the configuration that names this address, literally or by its name.
    pub(super) fn entry(&self, config: &HelperConfig, address: SocketAddr) -> Option<ProxyAddress> {
        let found = self.found.borrow();
        let names = |entry: &&ProxyAddress| match entry {
            ProxyAddress::At(at) => *at == address,
            ProxyAddress::Name { host, port } => {
                let addresses = found.get(host).into_iter().flatten();
                *port == address.port() && addresses.into_iter().any(|ip| *ip == address.ip())
            }
        };
        config.proxies.iter().find(names).cloned()
    }

    /// The first name of the configuration that may stand for one of these addresses and has none
    /// itself, with the reason.
    pub(super) fn unknown(
        &self,
        config: &HelperConfig,
        asked: &[SocketAddr],
    ) -> Option<(String, LookupError)> {
        let (found, failed) = (self.found.borrow(), self.failed.borrow());
        config.proxies.iter().find_map(|entry| match entry {
            ProxyAddress::Name { host, port }
                if !found.contains_key(host) && asked.iter().any(|a| a.port() == *port) =>
            {
                // One that has not ended in time has no answer.
                let why = failed.get(host).copied();
                Some((host.clone(), why.unwrap_or(LookupError::NoAnswer)))
            }
            _ => None,
        })
    }

    /// When names are looked up for a relay to these addresses.
    pub(super) fn turn(config: &HelperConfig, asked: &[SocketAddr]) -> Turn {
        let is_fixed = |a: &SocketAddr| config.proxies.iter().any(|p| p.fixed() == Some(*a));
        let has_names = config.proxies.iter().any(|p| p.fixed().is_none());
        if !config.enabled || !has_names || asked.iter().all(is_fixed) {
            Turn::Never
        } else if asked.iter().any(is_fixed) {
            Turn::Beside
        } else {
            Turn::Before
        }
    }

    /// Looks up the names of the configuration for a relay to one of these addresses, as far as
    /// that succeeds in time.
    pub(super) async fn look_up(self: Rc<Self>, config: Rc<HelperConfig>, asked: Vec<SocketAddr>) {
        let is_known = asked.iter().any(|a| self.entry(&config, *a).is_some());
        let within = match is_known {
            true => LOOK_UP_BESIDE_WITHIN,
            false => LOOK_UP_WITHIN,
        };
        // Tasks of their own, so that a late answer is not lost.
        let hosts = config.proxies.iter().filter_map(|entry| match entry {
            ProxyAddress::Name { host, .. } => Some(host.clone()),
            ProxyAddress::At(_) => None,
        });
        let look_ups: Vec<_> = hosts
            .map(|host| crate::task::spawn_local(Rc::clone(&self).renew(host)))
            .collect();
        let all = async {
            for look_up in look_ups {
                let _ = look_up.await;
            }
        };
        let _ = timeout(within, all).await;
    }

    async fn renew(self: Rc<Self>, host: String) {
        match first_answer(self.resolvers.clone(), &host).await {
            Ok(found) => {
                self.failed.borrow_mut().remove(&host);
                self.found.borrow_mut().insert(host, found);
            }
            Err(e) => {
                info!(host, error = %e, "a proxy's name is not found");
                self.failed.borrow_mut().insert(host, e);
            }
        }
    }

    /// Forgets names that the configuration does not have.
    pub(super) fn configure(&self, config: &HelperConfig) {
        let has = |host: &String| {
            let mut entries = config.proxies.iter();
            entries.any(|e| matches!(e, ProxyAddress::Name { host: own, .. } if own == host))
        };
        self.found.borrow_mut().retain(|host, _| has(host));
        self.failed.borrow_mut().retain(|host, _| has(host));
    }
}

/// The addresses of a helper's proxies now. Runs on this thread's `LocalSet`.
pub async fn proxy_addresses(config: &HelperConfig) -> FreshAddresses {
    let names = Names::new(config, None);
    let mut fresh = FreshAddresses::default();
    for entry in &config.proxies {
        match entry {
            ProxyAddress::At(address) => fresh.addresses.push(*address),
            ProxyAddress::Name { host, port } => {
                let found = first_answer(names.resolvers.clone(), host);
                match timeout(LOOK_UP_WITHIN, found).await {
                    Ok(Ok(found)) => {
                        let found = found.into_iter().map(|ip| SocketAddr::new(ip, *port));
                        fresh.addresses.extend(found);
                    }
                    Ok(Err(_)) | Err(_) => fresh.unknown.push(host.clone()),
                }
            }
        }
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_configuration_waits_for_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("helper.toml");
        let turn = |config: &str, asked: &[&str]| {
            std::fs::write(&file, config).unwrap();
            let asked: Vec<_> = asked.iter().map(|a| a.parse().unwrap()).collect();
            Names::turn(&HelperConfig::load(&file).unwrap(), &asked)
        };
        let [fixed, other] = ["192.0.2.1:443", "[2001:db8::1]:443"];
        let both = "proxies = [\"192.0.2.1:443\", \"proxy.test:443\"]\n";
        assert_eq!(turn(both, &[fixed]), Turn::Never);
        assert_eq!(turn(both, &[other, fixed]), Turn::Beside);
        assert_eq!(turn(both, &[other]), Turn::Before);
        let one = "proxies = \"192.0.2.1:443\"\n";
        assert_eq!(turn(one, &[other]), Turn::Never);
        let off = format!("enabled = false\n{both}");
        assert_eq!(turn(&off, &[other]), Turn::Never);
    }

    #[tokio::test]
    async fn an_address_is_allowed_literally_or_as_the_last_answer_for_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("helper.toml");
        let config = |proxies: &str| {
            std::fs::write(&file, format!("proxies = {proxies}\n")).unwrap();
            HelperConfig::load(&file).unwrap()
        };
        let both = config("[\"192.0.2.1:443\", \"proxy.test:4433\"]");
        let names = Names::new(&both, None);
        let entry = |address: &str| {
            let found = names.entry(&both, address.parse().unwrap());
            found.map(|entry| entry.to_string())
        };
        assert_eq!(entry("192.0.2.1:443").as_deref(), Some("192.0.2.1:443"));
        assert_eq!(entry("192.0.2.2:4433"), None, "not looked up yet");
        let unknown = |port: u16| {
            let asked = [([192, 0, 2, 7], port).into()];
            names.unknown(&both, &asked)
        };
        let why = |error| Some(("proxy.test".to_owned(), error));
        assert_eq!(unknown(4433), why(LookupError::NoAnswer));
        assert_eq!(unknown(443), None, "no name has this port");
        let host = "proxy.test".to_owned();
        names
            .failed
            .borrow_mut()
            .insert(host, LookupError::NotFound);
        assert_eq!(unknown(4433), why(LookupError::NotFound));
        let found = vec!["192.0.2.2".parse().unwrap()];
        names
            .found
            .borrow_mut()
            .insert("proxy.test".to_owned(), found);
        assert_eq!(entry("192.0.2.2:4433").as_deref(), Some("proxy.test:4433"));
        assert_eq!(unknown(4433), None, "it has an address");
        for other in ["192.0.2.2:443", "192.0.2.3:4433", "192.0.2.1:4433"] {
            assert_eq!(entry(other), None, "{other}");
        }
        let (name, fixed) = (&both.proxies[1], &both.proxies[0]);
        // A relay to a former address of the name goes on with the name.
        let former = "192.0.2.9:4433".parse().unwrap();
        assert!(both.lends_to(name, former) && both.lends_to(fixed, former));
        let one = config("\"192.0.2.1:443\"");
        assert!(!one.lends_to(name, former));
        assert!(one.lends_to(name, "192.0.2.1:443".parse().unwrap()));
        names.configure(&one);
        assert!(names.found.borrow().is_empty() && names.failed.borrow().is_empty());
    }
}
