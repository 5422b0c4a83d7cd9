//! Rules of the policy, applied to a new connection; traffic classes and paths of connections.

mod awake;
pub(super) mod claims;
pub(super) mod classes;
mod dscp;
pub(super) mod other_rules;
pub(super) mod paths;
pub(super) mod ruling;

use std::rc::Rc;
use std::time::Instant;

use mpbond_intercept::{Intercepted, Via};
use mpbond_policy::Flow;
use tracing::{debug, info};

use super::state::Primary;
use crate::policy::{Client, InForce, Reading, flow, looked_up, stated};
use crate::primary::connections::{identity::Identity, reach::Reach};
use crate::primary::fronts::server_name::server_name;
use claims::claimed;
use ruling::{Decided, Handling, Kept, Ruling};

impl Primary {
    /// Gives a flow that has an address and no name those for which the DNS stub has answered its
    /// client with this address; this host, where the client is unknown.
    pub(super) fn guess_name(&self, flow: &mut Flow) {
        if let (None, Some((address, _))) = (flow.domain.get(), flow.ip.get()) {
            let client = flow.source.get().map(|(client, _)| *client);
            let asker = client.filter(|client| Reach::of(*client) != Reach::Any);
            let names = self.known_names.of(Instant::now(), asker, *address);
            flow.domain = looked_up(&names).unwrap_or_else(|| flow.domain.clone());
        }
    }
}

impl Ruling {
    /// Whether it was made by the policy that is in force now.
    pub(super) fn is_current(&self, primary: &Primary) -> bool {
        let policy = primary.policy.borrow();
        policy.as_ref().map(Rc::as_ptr) == self.policy.as_ref().map(Rc::as_ptr)
    }

    /// Notes, once, that a connection is handled like this.
    pub(super) fn note(&mut self, primary: &Primary, connection: &Intercepted) {
        let Some(policy) = &self.policy else { return };
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        policy.count(self.rule);
        let (peer, to) = (connection.peer(), connection.destination());
        let rule = self.rule.and_then(|rule| policy.name(rule));
        let (handling, rule) = (self.handling, rule.unwrap_or("default"));
        debug!(%peer, %to, rule, ?handling, "policy applied");
        if handling == Handling::Refuse && primary.refused_by_rules.is_due() {
            info!(%peer, %to, rule, "connections are refused by the policy");
        }
    }
}

/// Decides about a connection by the policy that is in force when the decision is made.
pub(super) async fn apply(
    primary: &Primary,
    connection: &Intercepted,
    identity: &Identity,
) -> Ruling {
    loop {
        let policy = primary.policy.borrow().clone();
        let ruling = match policy {
            Some(policy) => apply_one(primary, policy, connection, identity).await,
            None => Ruling::without_policy(Kept::default()),
        };
        // Facts may take a moment to find out.
        if ruling.is_current(primary) {
            return ruling;
        }
    }
}

async fn apply_one(
    primary: &Primary,
    policy: Rc<InForce>,
    connection: &Intercepted,
    identity: &Identity,
) -> Ruling {
    let owner = identity.owner();
    let cgroup = match policy.depends_on_cgroups() {
        true => identity.group(&primary.cgroups).await,
        false => None,
    };
    let address = connection.peer().ip();
    let mut flow = flow(&Client {
        via: connection.via(),
        address,
        destination: connection.destination(),
        owner,
        cgroup,
        claim: claimed(connection, owner),
    });
    let device = primary.device(match policy.depends_on_batteries() {
        true => primary.power.read().await,
        false => Reading::default(),
    });
    let mut decision = policy.decide(&flow, &device);
    if decision.undecided.is_some()
        && let Some(within) = policy.wait_for_name(&flow, &device)
    {
        if connection.via() == Via::Transparent {
            // The client is connected already, and need not wait for an answer.
            let name = server_name(connection.socket(), within).await;
            flow.domain = stated(name.as_deref());
        }
        primary.guess_name(&mut flow);
        decision = policy.decide(&flow, &device);
    }
    if owner.is_none()
        && decision.undecided.is_some()
        && let Some(refusal) = policy.refused_by_socket(&flow, &device)
        && Reach::of(address) == Reach::Any
    {
        // A program of this host that has closed its socket, say, to have no owner.
        decision = refusal;
    }
    let decided = Decided::from(&decision);
    let is_found_out = flow.ip.get().is_some() && flow.domain.get().is_some();
    let kept = Kept {
        names: is_found_out.then(|| Rc::new(flow.domain)),
        claim: flow.claim.class,
    };
    Ruling::new(policy, &decided, kept)
}
