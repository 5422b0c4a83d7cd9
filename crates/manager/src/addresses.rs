//! Addresses of the proxy: the order in which a link tries them.

use std::net::{IpAddr, SocketAddr};

/// Maximum number of addresses in an attempt; each adds 250 ms until the last one is tried.
pub const MAX_ADDRESSES: usize = 8;

/// Results of a link with the proxy's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address of the last connection that worked.
    worked: Option<SocketAddr>,
    /// Addresses at which something else than the proxy answered since.
    failed: Vec<SocketAddr>,
}

impl Addresses {
    /// The addresses to try, best first: the one that worked last; then those of the
    /// configuration, alternating between the families from the first one's on (RFC 8305,
    /// section 4); then the same with the fallback port; at the end those that failed. With a
    /// bound source address only its family is of use.
    pub fn order(
        &self,
        configured: &[SocketAddr],
        fallback_port: Option<u16>,
        source: Option<IpAddr>,
    ) -> Vec<SocketAddr> {
        let usable = |a: &&SocketAddr| source.is_none_or(|s| s.is_ipv4() == a.is_ipv4());
        let regular = alternating(configured.iter().filter(usable));
        let fallback = fallback_port.into_iter().flat_map(|port| {
            let other = |a: &SocketAddr| SocketAddr::new(a.ip(), port);
            regular.iter().map(other).collect::<Vec<_>>()
        });
        let mut order: Vec<SocketAddr> = Vec::new();
        for address in regular.iter().copied().chain(fallback) {
            if !order.contains(&address) {
                order.push(address);
            }
        }
        let (failed, mut first): (Vec<_>, Vec<_>) =
            order.into_iter().partition(|a| self.failed.contains(a));
        if let Some(at) = first.iter().position(|a| self.worked == Some(*a)) {
            first[..=at].rotate_right(1);
        }
        first.extend(failed);
        first.truncate(MAX_ADDRESSES);
        first
    }

    /// The proxy has proved its identity at this address.
    pub fn worked(&mut self, address: SocketAddr) {
        self.worked = Some(address);
        self.failed.clear();
    }

    /// Something answered at this address, and it was not the proxy, or the connection broke.
    pub fn failed(&mut self, address: SocketAddr) {
        if self.worked == Some(address) {
            self.worked = None;
        }
        // Moved to the end: of several that failed, the oldest is tried first.
        self.failed.retain(|a| *a != address);
        self.failed.push(address);
        if self.failed.len() > MAX_ADDRESSES {
            self.failed.remove(0);
        }
    }
}

/// The addresses, alternating between the families as long as there are both.
fn alternating<'a>(addresses: impl Iterator<Item = &'a SocketAddr>) -> Vec<SocketAddr> {
    let all: Vec<SocketAddr> = addresses.copied().collect();
    let first = all.first().is_some_and(SocketAddr::is_ipv4);
    let (one, other): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| a.is_ipv4() == first);
    let mut order = Vec::new();
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return order,
            (a, b) => order.extend(a.into_iter().chain(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<SocketAddr> {
        text.split(' ').map(|a| a.parse().unwrap()).collect()
    }

    #[test]
    fn families_alternate_and_the_fallback_port_comes_after() {
        let configured = list("192.0.2.1:4433 192.0.2.2:4433 [2001:db8::1]:4433");
        let fresh = Addresses::default();
        assert_eq!(
            fresh.order(&configured, Some(443), None),
            list(
                "192.0.2.1:4433 [2001:db8::1]:4433 192.0.2.2:4433 \
                 192.0.2.1:443 [2001:db8::1]:443 192.0.2.2:443"
            )
        );
        assert_eq!(
            fresh.order(&configured, Some(4433), "2001:db8::9".parse().ok()),
            list("[2001:db8::1]:4433"),
            "one family, each address once"
        );
        assert!(fresh.order(&[], Some(443), None).is_empty());
        let many: Vec<_> = (1..=20).map(|n| ([192, 0, 2, n], 1).into()).collect();
        assert_eq!(fresh.order(&many, None, None).len(), MAX_ADDRESSES);
    }

    #[test]
    fn the_last_that_worked_is_first_and_one_that_failed_is_last() {
        let configured = list("192.0.2.1:1 192.0.2.2:1 192.0.2.3:1");
        let [a, b, c] = configured[..] else {
            panic!("three")
        };
        let mut known = Addresses::default();
        known.worked(c);
        assert_eq!(known.order(&configured, None, None), [c, a, b]);
        known.failed(c);
        assert_eq!(known.order(&configured, None, None), [a, b, c]);
        known.failed(a);
        assert_eq!(known.order(&configured, None, None), [b, a, c]);
        known.worked(b);
        assert_eq!(known.order(&configured, None, None), [b, a, c]);
    }
}
