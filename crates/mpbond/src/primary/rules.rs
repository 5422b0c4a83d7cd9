//! Rules of the policy, applied to a new connection.

use mpbond_intercept::{Intercepted, Via};
use mpbond_policy::{Class, Origin, Verdict};
use mpbond_session::StreamClass;
use tracing::debug;

use super::classes::Given;
use super::identity::Identity;
use super::server_name::server_name;
use super::state::Primary;
use crate::policy::{Client, device, flow, stated};

/// Decision about a connection.
pub(super) enum Ruling {
    /// A session carries it.
    Carry(Given),
    /// It is connected without the proxy.
    Direct,
    /// It is refused.
    Refuse,
}

/// Decides about a connection. Without a policy, sessions carry all.
pub(super) async fn apply(
    primary: &Primary,
    connection: &Intercepted,
    identity: &Identity,
) -> Ruling {
    let Some(policy) = primary.policy.borrow().clone() else {
        return Ruling::Carry(Given::default());
    };
    let owner = identity.owner();
    let cgroup = match owner.and_then(|owner| owner.cgroup) {
        Some(id) if policy.depends_on_cgroups() => primary.cgroups.path_of(id).await,
        _ => None,
    };
    let mut flow = flow(&Client {
        via: connection.via(),
        address: connection.peer().ip(),
        destination: connection.destination(),
        owner,
        cgroup,
    });
    let device = device();
    let mut decision = policy.decide(&flow, &device);
    if connection.via() == Via::Transparent && policy.may_depend_on_domain(&decision) {
        // The client is connected already, and need not wait for an answer.
        let name = server_name(connection.socket()).await;
        flow.domain = stated(name.as_deref());
        decision = policy.decide(&flow, &device);
    }
    policy.count(&decision);
    let (peer, to) = (connection.peer(), connection.destination());
    let rule = decision.rule.map(|rule| rule.name);
    debug!(%peer, %to, rule, "policy applied");
    match decision.verdict {
        Verdict::Carry(carriage) => {
            let class = class(carriage.class);
            Ruling::Carry(match carriage.class_from {
                Origin::Rule => Given::Rule(class),
                Origin::Claim | Origin::Default => Given::Default(class),
            })
        }
        Verdict::Direct => Ruling::Direct,
        Verdict::Refuse => Ruling::Refuse,
    }
}

/// A policy's class in the session's type.
fn class(class: Class) -> StreamClass {
    match class {
        Class::Realtime => StreamClass::Realtime,
        Class::Interactive => StreamClass::Interactive,
        Class::Bulk => StreamClass::Bulk,
        Class::Background => StreamClass::Background,
    }
}
