//! The policy's decision about a connection.

use std::rc::Rc;
use std::time::Duration;

use mpbond_policy::{
    Admission, Cap, Class, Decision, Device, DomainName, Fact, LinkState, Multipath, Origin, Phase,
    Unusable, Verdict,
};

use crate::policy::InForce;

/// Handling of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::primary) enum Handling {
    /// A session carries it.
    Carry,
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

/// Decision of a policy, of which nothing is borrowed.
pub(super) struct Decided {
    /// Index of the rule; `None` for the default.
    rule: Option<usize>,
    handling: Handling,
}

impl From<&Decision<'_>> for Decided {
    fn from(decision: &Decision<'_>) -> Self {
        Self {
            rule: decision.rule.map(|rule| rule.index),
            handling: match decision.verdict {
                Verdict::Carry(_) => Handling::Carry,
                Verdict::Direct => Handling::Direct,
                Verdict::Refuse => Handling::Refuse,
            },
        }
    }
}

/// Decision about a connection.
#[derive(Clone)]
pub(in crate::primary) struct Ruling {
    /// The policy by which it was made. Without one, sessions carry all.
    pub(in crate::primary) policy: Option<Rc<InForce>>,
    /// Index of the rule; `None` for the default.
    pub(in crate::primary) rule: Option<usize>,
    pub(in crate::primary) handling: Handling,
    pub(in crate::primary) is_counted: bool,
    /// The facts that cannot be found out again while the connection is open.
    pub(in crate::primary) kept: Kept,
}

/// Facts of a connection that are known when it is opened only.
#[derive(Clone, Default)]
pub(in crate::primary) struct Kept {
    /// Names of a destination that its client has named by an address.
    pub(super) names: Option<Rc<Fact<Vec<DomainName>>>>,
    /// Class that its program claims.
    pub(super) claim: Option<Class>,
}

impl Ruling {
    /// The decision of a policy.
    pub(super) fn new(policy: Rc<InForce>, decision: &Decided, kept: Kept) -> Self {
        Self {
            policy: Some(policy),
            rule: decision.rule,
            handling: decision.handling,
            is_counted: false,
            kept,
        }
    }

    /// Without a policy, a session carries all.
    pub(super) const fn without_policy(kept: Kept) -> Self {
        Self {
            policy: None,
            rule: None,
            handling: Handling::Carry,
            is_counted: false,
            kept,
        }
    }

    /// Whether another decision about the same connection is of a rule of the same name, and means
    /// the same treatment of it while it is open, with these links.
    pub(super) fn is_like(
        &self,
        other: &Self,
        current: Option<&InForce>,
        links: &[LinkState],
    ) -> bool {
        let treatment = |ruling: &Self| {
            let claim = self.kept.claim;
            let may_use = |link| ruling.may_use(current, link, Phase::Open);
            (
                ruling.handling,
                ruling.class(claim).0,
                ruling.multipath(claim),
                ruling.priority(),
                links.iter().map(may_use).collect::<Vec<_>>(),
            )
        };
        self.rule_name() == other.rule_name() && treatment(self) == treatment(other)
    }

    /// Name of the rule that has selected the connection, if one has.
    pub(in crate::primary) fn rule_name(&self) -> Option<&str> {
        self.policy.as_ref()?.name(self.rule?)
    }

    /// Whether it excludes links, or may do so.
    pub(in crate::primary) fn is_restricted(&self) -> bool {
        let policy = self.policy.as_ref();
        policy.is_some_and(|policy| policy.restricts(self.rule))
    }

    /// Use of several paths by a connection with this claim.
    pub(super) fn multipath(&self, claimed: Option<Class>) -> Multipath {
        let policy = self.policy.as_ref();
        policy.map_or(Multipath::Aggregate, |p| p.multipath(self.rule, claimed))
    }

    /// Time for which a new connection waits for a path, or one of the class background for a radio
    /// that is awake.
    pub(super) fn delay(&self) -> Duration {
        let policy = self.policy.as_ref();
        policy.map_or(Duration::ZERO, |policy| policy.delay(self.rule))
    }

    /// Whether a new connection waits.
    pub(in crate::primary) fn may_wait(&self) -> bool {
        !self.delay().is_zero()
    }

    /// The rule that has selected the connection, and its budget, if it has one.
    pub(in crate::primary) fn budget(&self) -> Option<(&str, &Cap)> {
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

    /// Line of this rule in its policy.
    pub(in crate::primary) fn rule_line(&self) -> Option<usize> {
        self.policy.as_ref()?.line(self.rule?)
    }

    /// The reason for which a connection may not use a link. What the policy says of the link
    /// itself is that of the current one, if there is one.
    pub(in crate::primary) fn unusable(
        &self,
        current: Option<&InForce>,
        link: &LinkState,
        phase: Phase,
    ) -> Option<Unusable> {
        match (&self.policy, current) {
            (Some(own), current) => current.unwrap_or(own).unusable(own, self.rule, link, phase),
            // It was opened before there was a policy.
            (None, Some(current)) => current.unusable_by_any(link, phase),
            (None, None) => (!link.works).then_some(Unusable::NotWorking),
        }
    }

    /// Whether a connection may use a link, be it that it does not work now.
    pub(super) fn may_use(
        &self,
        current: Option<&InForce>,
        link: &LinkState,
        phase: Phase,
    ) -> bool {
        let link = LinkState {
            works: true,
            ..link.clone()
        };
        self.unusable(current, &link, phase).is_none()
    }

    /// Priority of a connection that is carried.
    pub(super) fn priority(&self) -> u8 {
        let policy = self.policy.as_ref();
        policy.map_or(0, |policy| policy.priority(self.rule))
    }

    /// Class of a connection that is carried, with this claim, and the origin of the class.
    pub(in crate::primary) fn class(&self, claimed: Option<Class>) -> (Class, Origin) {
        let policy = self.policy.as_ref();
        let class = policy.and_then(|policy| policy.class(self.rule, claimed));
        class.unwrap_or(match claimed {
            Some(class) => (class, Origin::Claim),
            None => (Class::Bulk, Origin::Default),
        })
    }
}
