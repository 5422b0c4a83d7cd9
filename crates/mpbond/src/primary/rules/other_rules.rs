//! Events about open connections for which another policy would decide otherwise. They keep their
//! rules: what was counted, waited for and confirmed by these cannot be undone.

use std::net::SocketAddr;
use std::rc::Rc;

use mpbond_intercept::Destination;
use mpbond_policy::{Device, Flow as Facts};

use super::ruling::{Decided, Handling, Kept, Ruling};
use crate::api::{Event, EventKind, OtherRule};
use crate::policy::{Client, InForce, Reading, flow};
use crate::primary::connections::flows::Flow;
use crate::primary::state::Primary;

/// Maximum number of connections that are looked at, as by `/v1/policy:compare`.
const MAX_LOOKED_AT: usize = 512;

/// Number of those between which others have their turn.
const AT_ONCE: usize = 16;

/// Maximum number of events for one change: a quarter of those that are kept.
const MAX_TOLD: usize = 64;

/// A destination as it is shown.
pub(in crate::primary) fn destination(text: &str) -> Option<Destination> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Destination::Addr(address));
    }
    let (host, port) = text.rsplit_once(':')?;
    Some(Destination::Name {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

impl Primary {
    /// Tells of the open connections that the policy in force now would treat otherwise.
    pub(in crate::primary) fn tell_other_rules(self: &Rc<Self>) {
        let (primary, policy) = (Rc::clone(self), self.policy.borrow().clone());
        crate::task::spawn_local(async move { look(&primary, policy).await });
    }

    /// Facts of an open connection to this destination, as far as a policy depends on them; with
    /// the names that were kept or, if none was found out when it was opened, those that its client
    /// has looked up. A name in a ClientHello that was not asked for then is not known.
    async fn facts_of_open(
        &self,
        (open, to): (&Flow, &Destination),
        kept: &Kept,
        policy: &InForce,
    ) -> Facts {
        let (ends, owner) = (open.identity.ends(), open.identity.owner());
        let cgroup = match policy.depends_on_cgroups() {
            true => open.identity.group(&self.cgroups).await,
            false => None,
        };
        let mut facts = flow(&Client {
            via: ends.via,
            address: ends.client.ip(),
            destination: to,
            owner,
            cgroup,
            claim: kept.claim,
        });
        match &kept.names {
            Some(names) => facts.domain = (**names).clone(),
            None => self.guess_name(&mut facts),
        }
        facts
    }
}

async fn look(primary: &Primary, policy: Option<Rc<InForce>>) {
    let depends = policy.as_ref().is_some_and(|p| p.depends_on_batteries());
    let device = primary.device(match depends {
        true => primary.power.read().await,
        false => Reading::default(),
    });
    let mut told = 0;
    for (looked, (id, open)) in primary.flows.after(0, MAX_LOOKED_AT).iter().enumerate() {
        if looked % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let Some((event, ruling)) = other(primary, policy.as_ref(), (*id, open), &device).await
        else {
            continue;
        };
        // There is another one now, or enough was told.
        let is_current = ruling.is_current(primary);
        if !is_current || told == MAX_TOLD {
            return;
        }
        told += 1;
        primary.flows.told(*id, ruling);
        primary.events.push(primary.clock.now(), event);
    }
}

/// The decision about a new connection like this one, if it differs from the one told last.
async fn other(
    primary: &Primary,
    policy: Option<&Rc<InForce>>,
    (stream, open): (u64, &Flow),
    device: &Device,
) -> Option<(Event, Ruling)> {
    let carried = open.carried()?;
    let own = carried.ruling();
    let to = primary.destination_of(open)?;
    let new = match policy {
        Some(policy) => {
            let facts = primary.facts_of_open((open, &to), &own.kept, policy).await;
            let decided = Decided::from(&policy.decide(&facts, device));
            Ruling::new(Rc::clone(policy), &decided, own.kept.clone())
        }
        None => Ruling::without_policy(own.kept.clone()),
    };
    let is_like = |other| new.is_like(other, policy.map(|policy| &**policy), &device.links);
    if is_like(carried.told()) {
        return None;
    }
    let rule = |ruling: &Ruling| match ruling.rule_name() {
        Some(name) => format!("the rule {name:?}"),
        None => "the default".to_owned(),
    };
    let would = match new.handling {
        _ if is_like(own) => "which would apply again".to_owned(),
        Handling::Carry => format!("but {} would treat it otherwise", rule(&new)),
        Handling::Direct => format!("but {} would connect it without the proxy", rule(&new)),
        Handling::Refuse => format!("but {} would refuse it", rule(&new)),
    };
    let (client, keeps) = (open.identity.ends().client, rule(own));
    let event = Event {
        kind: EventKind::StreamRule,
        link: None,
        reason: Some(format!("{client} to {to} keeps {keeps}, {would}")),
        rule: Some(OtherRule {
            stream,
            from: own.rule_name().map(str::to_owned),
            to: new.rule_name().map(str::to_owned),
        }),
    };
    Some((event, new))
}

impl Primary {
    fn destination_of(&self, open: &Flow) -> Option<Destination> {
        let drivers = self.drivers();
        let mut carrying = drivers.iter().filter_map(|driver| {
            let stream = open.stream_of(driver)?;
            driver.transfers_of(&[stream]).pop()
        });
        destination(&carrying.next()?.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_read_as_it_is_shown() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:443", "a.example:25"] {
            let to = destination(text).unwrap();
            assert_eq!(to.to_string(), text);
        }
        assert_eq!(destination("a.example"), None);
    }
}
