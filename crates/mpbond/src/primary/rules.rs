//! Rules of the policy, applied to a new connection.

use std::rc::Rc;

use mpbond_intercept::{Intercepted, Via};
use mpbond_policy::{Admission, Cap, Class, Device, LinkState, Multipath, Origin, Phase, Verdict};
use tracing::{debug, info};

use super::claims::claimed;
use super::identity::Identity;
use super::reach::Reach;
use super::server_name::server_name;
use super::state::Primary;
use crate::policy::{Client, InForce, Reading, flow, stated};

/// Handling of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// A session carries it.
    Carry,
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

/// Decision about a connection.
#[derive(Clone)]
pub(super) struct Ruling {
    /// The policy by which it was made. Without one, sessions carry all.
    policy: Option<Rc<InForce>>,
    /// Index of the rule; `None` for the default.
    rule: Option<usize>,
    pub(super) handling: Handling,
    is_counted: bool,
}

impl Ruling {
    /// Whether it was made by the policy that is in force now.
    pub(super) fn is_current(&self, primary: &Primary) -> bool {
        let policy = primary.policy.borrow();
        policy.as_ref().map(Rc::as_ptr) == self.policy.as_ref().map(Rc::as_ptr)
    }

    /// Name of the rule that has selected the connection, if one has.
    pub(super) fn rule_name(&self) -> Option<&str> {
        self.policy.as_ref()?.name(self.rule?)
    }

    /// Whether it excludes links, or may do so.
    pub(super) fn is_restricted(&self) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| policy.restricts(self.rule))
    }

    /// Use of several paths by a connection with this claim.
    pub(super) fn multipath(&self, claimed: Option<Class>) -> Multipath {
        let policy = self.policy.as_ref();
        policy.map_or(Multipath::Aggregate, |p| p.multipath(self.rule, claimed))
    }

    /// Whether a new connection waits for a path.
    pub(super) fn may_wait(&self) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| policy.delays(self.rule))
    }

    /// The rule that has selected the connection, and its budget, if it has one.
    pub(super) fn budget(&self) -> Option<(&str, &Cap)> {
        let budget = self.policy.as_ref()?.budget(self.rule)?;
        Some((self.rule_name()?, budget))
    }

    /// Whether a new connection is accepted on this device.
    pub(super) fn admission(&self, device: &Device) -> Admission {
        let policy = self.policy.as_ref();
        policy.map_or(Admission::Now, |policy| policy.admit(self.rule, device))
    }

    /// The same for connections that are treated alike while one policy is in force.
    pub(super) fn key(&self) -> (Option<*const InForce>, Option<usize>) {
        (self.policy.as_ref().map(Rc::as_ptr), self.rule)
    }

    /// Whether a connection may use a link. What the policy says of the link itself is that
    /// of the current one, if there is one.
    pub(super) fn may_use(
        &self,
        current: Option<&InForce>,
        link: &LinkState,
        phase: Phase,
    ) -> bool {
        match (&self.policy, current) {
            (Some(own), current) => current.unwrap_or(own).may_use(own, self.rule, link, phase),
            // It was opened before there was a policy.
            (None, Some(current)) => current.may_use(current, None, link, phase),
            (None, None) => true,
        }
    }

    /// Priority of a connection that is carried.
    pub(super) fn priority(&self) -> u8 {
        let policy = self.policy.as_ref();
        policy.map_or(0, |policy| policy.priority(self.rule))
    }

    /// Class of a connection that is carried, with this claim, and the origin of the class.
    pub(super) fn class(&self, claimed: Option<Class>) -> (Class, Origin) {
        let policy = self.policy.as_ref();
        let class = policy.and_then(|policy| policy.class(self.rule, claimed));
        class.unwrap_or(match claimed {
            Some(class) => (class, Origin::Claim),
            None => (Class::Bulk, Origin::Default),
        })
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
            None => Ruling {
                policy: None,
                rule: None,
                handling: Handling::Carry,
                is_counted: false,
            },
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
    let cgroup = match owner.and_then(|owner| owner.cgroup) {
        Some(id) if policy.depends_on_cgroups() => primary.cgroups.path_of(id).await,
        _ => None,
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
    if connection.via() == Via::Transparent
        && decision.undecided.is_some()
        && let Some(within) = policy.wait_for_name(&flow, &device)
    {
        // The client is connected already, and need not wait for an answer.
        let name = server_name(connection.socket(), within).await;
        flow.domain = stated(name.as_deref());
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
    let rule = decision.rule.map(|rule| rule.index);
    let handling = match decision.verdict {
        Verdict::Carry(_) => Handling::Carry,
        Verdict::Direct => Handling::Direct,
        Verdict::Refuse => Handling::Refuse,
    };
    Ruling {
        policy: Some(policy),
        rule,
        handling,
        is_counted: false,
    }
}
