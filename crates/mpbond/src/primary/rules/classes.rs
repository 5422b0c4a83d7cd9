//! Treatment of a client's stream. Its traffic class is that of the rule which selects it; else the
//! one that the client claims, with its user name or else with the DSCP which its program has set
//! on its socket, unless that is `bulk`; else the default, `bulk` unless the policy has another
//! one.
//! Paths and priority are those of the rule.
//!
//! The kernel names the DSCP of sockets of this host. Clients on other hosts have none.

use std::time::Duration;

use mpbond_intercept::Intercepted;
use mpbond_policy::{Class, Multipath, Origin};
use mpbond_session::{StreamClass, Treatment};

use super::claims::{by_dscp, claimed};
use super::ruling::Ruling;
use crate::driver::{ClassWatch, Driver};
use crate::primary::connections::identity::Identity;
use crate::primary::state::Primary;

/// Treatment of a client's connection.
pub(in crate::primary) struct Treated {
    pub(in crate::primary) treatment: Treatment,
    pub(in crate::primary) multipath: Multipath,
    /// The look-ups by which its class follows the client's DSCP.
    pub(in crate::primary) watch: Option<ClassWatch>,
}

/// Time for which a client's connection waits for a radio that is awake: one of class background,
/// as its rule says, but no longer than its program.
pub(in crate::primary) fn wait_for_radio(
    connection: &Intercepted,
    identity: &Identity,
    ruling: &Ruling,
) -> Duration {
    let (class, _) = ruling.class(claimed(connection, identity.owner()));
    if class != Class::Background {
        return Duration::ZERO;
    }
    let delay = Some(ruling.delay()).filter(|delay| !delay.is_zero());
    let deadline = connection.intent().deadline;
    let waits = delay.into_iter().chain(deadline);
    waits.min().unwrap_or_default()
}

/// The treatment of a client's connection that this session carries.
pub(in crate::primary) fn of(
    primary: &Primary,
    connection: &Intercepted,
    identity: &Identity,
    ruling: &Ruling,
    session: &Driver,
) -> Treated {
    let owner = identity.owner();
    let claimed = claimed(connection, owner);
    let (class, origin) = ruling.class(claimed);
    let has_dscp = owner.is_some_and(|owner| owner.dscp().is_some());
    let follows = origin != Origin::Rule && connection.intent().class.is_none() && has_dscp;
    let watch = follows.then(|| {
        let (owners, ends) = (primary.owners.clone(), identity.ends());
        let ruling = ruling.clone();
        let look = move || {
            let (class, _) = ruling.class(by_dscp(owners.of(ends)?));
            Some(stream(class))
        };
        ClassWatch::new(primary.clock.now(), look)
    });
    // With a proxy that keeps no streams to paths it may use several.
    let multipath = match session.obeys_paths() {
        true => ruling.multipath(claimed),
        false => Multipath::Aggregate,
    };
    let treatment = Treatment {
        class: stream(class),
        priority: ruling.priority(),
        paths: primary.paths_for(ruling, multipath, None),
    };
    Treated {
        treatment,
        multipath,
        watch,
    }
}

/// A policy's class in the session's type.
pub(in crate::primary) fn stream(class: Class) -> StreamClass {
    match class {
        Class::Realtime => StreamClass::Realtime,
        Class::Interactive => StreamClass::Interactive,
        Class::Bulk => StreamClass::Bulk,
        Class::Background => StreamClass::Background,
    }
}
