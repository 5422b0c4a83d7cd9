//! Names of the local network.

use std::fmt;
use std::sync::Arc;

use crate::Destination;

/// Domains whose names are those of a local network: multicast DNS (RFC 6762, section 3), home
/// networks (RFC 8375), and the one that many routers use.
///
/// The list is fixed: a search domain comes from the local network, which could name `com` in order
/// to be asked for the names below it.
const DOMAINS: [&str; 3] = ["local", "home.arpa", "lan"];

/// Resolver of local names.
#[derive(Clone)]
pub struct LocalNames {
    /// Its destination, for the stub's dialler.
    pub resolver: Destination,
    /// Whether there is such a resolver now.
    pub is_present: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for LocalNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalNames")
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
}

impl LocalNames {
    /// Whether a name, in lower case without a final dot, is to be asked of this resolver.
    pub(super) fn has(&self, name: &str) -> bool {
        is_local(name) && (self.is_present)()
    }
}

/// Whether a name is local: it has a single label, is below a local domain, or is that of a private
/// or link-local address (RFC 6303, section 4).
fn is_local(name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    !name.contains('.')
        || DOMAINS.into_iter().any(|domain| is_below(name, domain))
        || is_private_reverse(name)
}

fn is_below(name: &str, domain: &str) -> bool {
    let rest = name.strip_suffix(domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_private_reverse(name: &str) -> bool {
    if let Some(reverse) = name.strip_suffix(".in-addr.arpa") {
        let mut octets = reverse.rsplit('.').map(str::parse::<u8>);
        let first = octets.next().and_then(Result::ok);
        let second = octets.next().and_then(Result::ok);
        return matches!(
            (first, second),
            (Some(10 | 127), _)
                | (Some(100), Some(64..=127))
                | (Some(169), Some(254))
                | (Some(172), Some(16..=31))
                | (Some(192), Some(168))
        );
    }
    let private = ["c.f", "d.f", "8.e.f", "9.e.f", "a.e.f", "b.e.f"];
    let reverse = name.strip_suffix(".ip6.arpa");
    reverse.is_some_and(|reverse| private.into_iter().any(|net| is_below(reverse, net)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names() {
        for local in [
            "printer",
            "printer.local",
            "router.lan",
            "home.arpa",
            "tv.home.arpa",
            "1.0.168.192.in-addr.arpa",
            "10.in-addr.arpa",
            "1.2.16.172.in-addr.arpa",
            "1.2.64.100.in-addr.arpa",
            "1.0.0.d.f.ip6.arpa",
            "1.0.8.e.f.ip6.arpa",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "",
            "www.example",
            "local.example",
            "nothome.arpa",
            "wlan.example",
            "x.vlan",
            "1.1.1.1.in-addr.arpa",
            "1.2.32.172.in-addr.arpa",
            "1.2.63.100.in-addr.arpa",
            "in-addr.arpa",
            "8.b.d.0.1.0.0.2.ip6.arpa",
            "c.e.f.ip6.arpa",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }
}
