//! Limits on things in use at a time: for each holder, and in all.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

/// Counter of things in use, by holder. For use on one thread.
pub(crate) struct Quota<K> {
    used: Rc<RefCell<HashMap<K, usize>>>,
    most: usize,
    most_each: usize,
}

/// Reason why no share is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The total is in use.
    All,
    /// This holder has reached its limit.
    Own,
}

/// A counted thing; dropping it gives it back.
pub(crate) struct Share<K: Hash + Eq> {
    used: Rc<RefCell<HashMap<K, usize>>>,
    key: K,
}

impl<K: Hash + Eq + Copy> Quota<K> {
    /// With limits of `most` in all and `most_each` for one holder.
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            used: Rc::default(),
            most,
            most_each,
        }
    }

    /// Takes one for `key`.
    pub(crate) fn take(&self, key: K) -> Result<Share<K>, Full> {
        let mut used = self.used.borrow_mut();
        if used.values().sum::<usize>() >= self.most {
            return Err(Full::All);
        }
        let own = used.entry(key).or_default();
        if *own >= self.most_each {
            return Err(Full::Own);
        }
        *own += 1;
        Ok(Share {
            used: Rc::clone(&self.used),
            key,
        })
    }

    /// Whether any is taken.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.used.borrow().is_empty()
    }
}

impl<K: Hash + Eq> Drop for Share<K> {
    fn drop(&mut self) {
        let mut used = self.used.borrow_mut();
        if let Some(n) = used.get_mut(&self.key) {
            *n -= 1;
            if *n == 0 {
                used.remove(&self.key);
            }
        }
    }
}

/// Holder of an unauthenticated connection: an IPv4 address, or the /64 network that an IPv6
/// subscriber has.
pub(crate) fn source(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V6(a) => {
            let network = a.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(network).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_has_a_share_of_the_limit_and_all_together_the_limit() {
        let quota = Quota::new(5, 2);
        let first = quota.take('a').ok();
        let second = quota.take('a').ok();
        assert!(first.is_some() && second.is_some());
        assert_eq!(quota.take('a').err(), Some(Full::Own));
        let others: Vec<_> = "bbc".chars().filter_map(|k| quota.take(k).ok()).collect();
        assert_eq!(others.len(), 3);
        assert_eq!(quota.take('d').err(), Some(Full::All));
        drop(second);
        assert_eq!(quota.take('b').err(), Some(Full::Own));
        assert!(quota.take('d').is_ok());
        drop((first, others));
        assert!(!quota.is_in_use(), "names are forgotten as well");
    }

    #[test]
    fn a_subscriber_is_one_source() {
        let of = |text: &str| source(SocketAddr::new(text.parse().unwrap(), 1));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
