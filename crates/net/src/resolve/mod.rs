//! Stub resolver (RFC 1034, section 5.3.1): addresses of names by the system's servers and files.
//!
//! The C library's resolver blocks a thread for each look-up; names that nobody answers then stop
//! the look-ups of everybody. Here a look-up is a few octets and two sockets, sessions share the
//! total fairly, and answers are kept for their time.

mod cache;
mod error;
mod exchange;
mod message;
mod system;
mod turns;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mpbond_units::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};

use cache::{Cache, Found, Key};
use system::System;
use turns::{Permit, Turns};

pub use error::LookupError;
pub use exchange::Sockets;
pub use message::{Answer, DomainName, Family, MAX_ADDRESSES, Query};
pub use system::{Files, servers_of};

/// Time limit of a look-up, from the call until both families have answered.
pub const LOOK_UP_WITHIN: Duration = Duration::from_secs(10);

/// Time for which the other family is waited for, once one has addresses (RFC 8305, section 3).
const OTHER_FAMILY_WITHIN: Duration = Duration::from_millis(50);

/// Maximum number of look-ups under way of one session.
pub const MAX_LOOKUPS_EACH: usize = 64;

/// Parameters of a resolver.
#[derive(Clone, Debug)]
pub struct ResolverConfig {
    /// The system's files.
    pub files: Files,
    /// Servers that are asked after those of the system. If there are any, servers of the system on
    /// this host are left out: their own queries are those of an application, which interception
    /// leads to where no name can be looked up yet.
    pub further: Vec<SocketAddr>,
    /// Sockets of its queries.
    pub sockets: Sockets,
    /// Maximum number of look-ups under way in all.
    pub most: usize,
}

/// A resolver for sessions with keys of type `K`, on one thread.
pub struct Resolver<K: Hash + Eq + Copy> {
    start: Instant,
    further: Vec<SocketAddr>,
    sockets: Sockets,
    system: RefCell<System>,
    cache: RefCell<Cache>,
    turns: Turns<K>,
    /// Queries under way, which later ones for the same join.
    under_way: RefCell<HashMap<Key, Weak<OnceCell<Found>>>>,
}

impl<K: Hash + Eq + Copy> fmt::Debug for Resolver<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Copy + 'static> Resolver<K> {
    /// A resolver that has read nothing yet.
    pub fn new(config: ResolverConfig) -> Rc<Self> {
        Rc::new(Self {
            start: Instant::now(),
            further: config.further,
            sockets: config.sockets,
            system: RefCell::new(System::new(config.files)),
            cache: RefCell::default(),
            turns: Turns::new(config.most, MAX_LOOKUPS_EACH),
            under_way: RefCell::default(),
        })
    }

    /// Begins to look up a name for a session. It waits while the session has too many look-ups
    /// under way. A literal address is its own address.
    ///
    /// The search domains of `resolv.conf` apply to names without a dot only.
    ///
    /// # Errors
    /// [`LookupError::NotFound`] for text that is no domain name.
    pub async fn look_up(
        self: &Rc<Self>,
        host: &str,
        session: K,
    ) -> Result<Lookup<K>, LookupError> {
        let until = Instant::now() + LOOK_UP_WITHIN;
        if self.system.borrow_mut().refresh(self.now()) {
            self.cache.borrow_mut().clear();
        }
        let fixed = match host.parse::<IpAddr>() {
            Ok(address) => Some(vec![address]),
            Err(_) => self.system.borrow().fixed(host),
        };
        if let Some(addresses) = fixed {
            return Ok(Lookup::fixed(addresses));
        }
        let names = self.names(host)?;
        if let [name] = names.as_slice()
            && self.is_cached(name)
        {
            return Ok(self.lookup(name, until, None));
        }
        let permit = timeout_at(until, self.turns.take(session)).await;
        let permit = permit.map_err(|_| LookupError::NoAnswer)?;
        let Some((last, before)) = names.split_last() else {
            return Err(LookupError::NotFound);
        };
        // One name for both families: the first that has any address.
        let mut name = last;
        for candidate in before {
            let mut lookup = self.lookup(candidate, until, None);
            let mut exists = false;
            while let Some((_, found)) = lookup.next().await {
                exists |= found.is_ok();
            }
            if exists {
                name = candidate;
                break;
            }
        }
        Ok(self.lookup(name, until, Some(permit)))
    }

    /// The addresses of a name. Once one family has some, the other one is waited for 50 ms.
    ///
    /// # Errors
    /// There is none.
    pub async fn addresses(
        self: &Rc<Self>,
        host: &str,
        session: K,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let mut lookup = self.look_up(host, session).await?;
        let (mut all, mut error) = (Vec::new(), LookupError::NotFound);
        loop {
            let next = match all.is_empty() {
                true => lookup.next().await,
                false => timeout(OTHER_FAMILY_WITHIN, lookup.next())
                    .await
                    .unwrap_or_default(),
            };
            match next {
                Some((_, Ok(found))) => all.extend(found.iter()),
                Some((_, Err(LookupError::NoAnswer))) => error = LookupError::NoAnswer,
                Some((_, Err(LookupError::NotFound))) => {}
                None if all.is_empty() => return Err(error),
                None => return Ok(all),
            }
        }
    }

    /// The names to look up, in their order.
    fn names(&self, host: &str) -> Result<Vec<DomainName>, LookupError> {
        let name: DomainName = host.parse().map_err(|_| LookupError::NotFound)?;
        if name.is_root() {
            return Err(LookupError::NotFound);
        }
        let mut names = Vec::new();
        if !host.contains('.') {
            let system = self.system.borrow();
            let below = |domain: &DomainName| format!("{host}.{domain}").parse().ok();
            names.extend(system.servers().search.iter().filter_map(below));
        }
        names.push(name);
        Ok(names)
    }

    fn is_cached(&self, name: &DomainName) -> bool {
        let (cache, now) = (self.cache.borrow(), self.now());
        let is_cached = |family| cache.get(&(name.clone(), family), now).is_some();
        [Family::V6, Family::V4].into_iter().all(is_cached)
    }

    fn lookup(
        self: &Rc<Self>,
        name: &DomainName,
        until: Instant,
        permit: Option<Permit<K>>,
    ) -> Lookup<K> {
        let families = [Family::V6, Family::V4].map(|family| {
            let (resolver, key) = (Rc::clone(self), (name.clone(), family));
            let answer: Pending = Box::pin(async move {
                let found = timeout_at(until, resolver.find(key)).await;
                found.unwrap_or(Err(LookupError::NoAnswer))
            });
            Some(answer)
        });
        Lookup { families, permit }
    }

    async fn find(&self, key: Key) -> Found {
        if let Some(found) = self.cache.borrow().get(&key, self.now()) {
            return found;
        }
        let cell = self.join(&key);
        // Whoever waits longest asks: a caller that leaves is replaced by another.
        let found = cell.get_or_init(|| self.ask(&key)).await.clone();
        self.under_way.borrow_mut().remove(&key);
        found
    }

    /// The query for a key under way, or a new one.
    fn join(&self, key: &Key) -> Rc<OnceCell<Found>> {
        let mut under_way = self.under_way.borrow_mut();
        if let Some(cell) = under_way.get(key).and_then(Weak::upgrade) {
            return cell;
        }
        // Those whose callers have all left; there are no more others than permits allow.
        under_way.retain(|_, cell| cell.strong_count() > 0);
        let cell = Rc::new(OnceCell::new());
        under_way.insert(key.clone(), Rc::downgrade(&cell));
        cell
    }

    /// Asks the servers in turn, and keeps the answer.
    async fn ask(&self, key: &Key) -> Found {
        let mut servers = self.system.borrow().servers().clone();
        if !self.further.is_empty() {
            servers.servers.retain(|server| !server.ip().is_loopback());
            servers.servers.extend(&self.further);
        }
        for (server, within) in servers.tries() {
            let mut id = [0; 2];
            if SystemRandom::new().fill(&mut id).is_err() {
                break;
            }
            let query = Query::new(key.0.clone(), key.1, u16::from_be_bytes(id));
            let asked = timeout(within, exchange::ask(server, &self.sockets, &query)).await;
            let (found, ttl) = match asked {
                Ok(Ok(Answer::Addresses(addresses, ttl))) => (Ok(Arc::from(addresses)), ttl),
                Ok(Ok(Answer::Nothing(ttl))) => (Err(LookupError::NotFound), ttl),
                // The next server may know more.
                Ok(Ok(Answer::Failure | Answer::Truncated) | Err(_)) | Err(_) => continue,
            };
            self.keep(key, &found, ttl);
            return found;
        }
        let found = Err(LookupError::NoAnswer);
        self.keep(key, &found, Duration::ZERO);
        found
    }

    /// Passes a query of a session on to these servers, or those of the system, under an id of its
    /// own; their answer, under that id. `is_answer` tells whether a message answers the question.
    /// Attempts and their time limits are those of the system. The answer keeps its share of the
    /// look-ups under way until it is dropped, so that answers that wait to be sent are bounded.
    ///
    /// # Errors
    /// [`LookupError::NoAnswer`] where no server answers.
    pub async fn forward(
        &self,
        query: &[u8],
        is_answer: impl Fn(&[u8]) -> bool,
        session: K,
        servers: Option<Vec<SocketAddr>>,
    ) -> Result<Forwarded<K>, LookupError> {
        let until = Instant::now() + LOOK_UP_WITHIN;
        let forwarded = timeout_at(until, async {
            let permit = self.turns.take(session).await;
            self.system.borrow_mut().refresh(self.now());
            let mut system = self.system.borrow().servers().clone();
            if let Some(servers) = servers {
                system.servers = servers;
            }
            let mut failure = None;
            for (server, within) in system.tries() {
                let mut message = query.to_vec();
                let id = message.get_mut(..2)?;
                SystemRandom::new().fill(id).ok()?;
                let id = [*id.first()?, *id.get(1)?];
                let is_ours = |octets: &[u8]| octets.starts_with(&id) && is_answer(octets);
                let asked = exchange::forward(server, &self.sockets, &message, is_ours);
                match timeout(within, asked).await {
                    // The next server may know more.
                    Ok(Ok(answer)) if has_failed(&answer) => failure = Some(answer),
                    Ok(Ok(answer)) => return Some(Forwarded::new(answer, permit)),
                    Ok(Err(_)) | Err(_) => {}
                }
            }
            failure.map(|answer| Forwarded::new(answer, permit))
        });
        let answer = forwarded.await.ok().flatten();
        answer.ok_or(LookupError::NoAnswer)
    }

    fn keep(&self, key: &Key, found: &Found, ttl: Duration) {
        let mut cache = self.cache.borrow_mut();
        cache.insert(key.clone(), found.clone(), ttl, self.now());
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }
}

/// Whether a server could not answer: SERVFAIL or REFUSED (RFC 1035, section 4.1.1).
fn has_failed(answer: &[u8]) -> bool {
    matches!(answer.get(3).map(|codes| codes & 0x0f), Some(2 | 5))
}

/// Answer to a query that was passed on.
pub struct Forwarded<K: Hash + Eq + Copy> {
    /// The message.
    pub octets: Vec<u8>,
    _permit: Permit<K>,
}

impl<K: Hash + Eq + Copy> fmt::Debug for Forwarded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarded")
            .field("octets", &self.octets.len())
            .finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Copy> Forwarded<K> {
    fn new(octets: Vec<u8>, permit: Permit<K>) -> Self {
        Self {
            octets,
            _permit: permit,
        }
    }
}

type Pending = Pin<Box<dyn Future<Output = Found>>>;

/// A look-up under way.
pub struct Lookup<K: Hash + Eq + Copy> {
    families: [Option<Pending>; 2],
    /// Until both families have answered: what follows looks nothing up.
    permit: Option<Permit<K>>,
}

impl<K: Hash + Eq + Copy> fmt::Debug for Lookup<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Copy> Lookup<K> {
    /// Addresses that need no servers.
    pub fn fixed(addresses: Vec<IpAddr>) -> Self {
        let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv4);
        let families = [v6, v4].map(|addresses| {
            let found = match addresses.is_empty() {
                true => Err(LookupError::NotFound),
                false => Ok(Arc::from(addresses)),
            };
            let answer: Pending = Box::pin(std::future::ready(found));
            Some(answer)
        });
        Self {
            families,
            permit: None,
        }
    }

    /// Waits for the next family's answer; `None` when both have answered. Cancel-safe.
    pub async fn next(&mut self) -> Option<(Family, Result<Arc<[IpAddr]>, LookupError>)> {
        let next = poll_fn(|cx| {
            let mut waits = false;
            for (pending, family) in self.families.iter_mut().zip([Family::V6, Family::V4]) {
                let Some(answer) = pending else {
                    continue;
                };
                if let Poll::Ready(found) = answer.as_mut().poll(cx) {
                    *pending = None;
                    return Poll::Ready(Some((family, found)));
                }
                waits = true;
            }
            match waits {
                true => Poll::Pending,
                false => Poll::Ready(None),
            }
        })
        .await;
        if self.families.iter().all(Option::is_none) {
            drop(self.permit.take());
        }
        next
    }
}

#[cfg(test)]
mod tests;
