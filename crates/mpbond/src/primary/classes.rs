//! Traffic class of a client's stream: that of the rule which selects it; else the one that the
//! client asks for with its user name; else that of the DSCP which its program has set on its
//! socket, unless that is `bulk`; else the default, `bulk` unless the policy has another one.
//!
//! The kernel names the DSCP of sockets of this host. Clients on other hosts have none.

use mpbond_intercept::{Class, Intercepted};
use mpbond_session::StreamClass;

use super::dscp;
use super::identity::{Ends, Identity, Owners};
use super::state::Primary;
use crate::driver::ClassWatch;

/// Class by the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// That of the rule, which no client changes.
    Rule(StreamClass),
    /// That of streams whose clients claim none.
    Default(StreamClass),
}

impl Default for Given {
    fn default() -> Self {
        Self::Default(StreamClass::Bulk)
    }
}

/// The class by the DSCP of a client's socket now; `None` if it has no socket on this host, or the
/// kernel does not tell.
fn by_dscp(owners: &Owners, ends: Ends) -> Option<StreamClass> {
    owners.of(ends)?.dscp().map(dscp::class)
}

/// The class of a client's stream, and the look-ups by which it follows the client's DSCP.
pub(super) fn of(
    primary: &Primary,
    connection: &Intercepted,
    identity: &Identity,
    given: Given,
) -> (StreamClass, Option<ClassWatch>) {
    let default = match given {
        Given::Rule(class) => return (class, None),
        Given::Default(class) => class,
    };
    if let Some(class) = connection.intent().class {
        return (asked(class), None);
    }
    // A code point of bulk data is that of all programs that set none.
    let claimed = move |class| match class {
        StreamClass::Bulk => default,
        class => class,
    };
    match identity.owner().and_then(|owner| owner.dscp()) {
        Some(dscp) => {
            let (owners, ends) = (primary.owners.clone(), identity.ends());
            let look = move || by_dscp(&owners, ends).map(claimed);
            let watch = ClassWatch::new(primary.clock.now(), look);
            (claimed(dscp::class(dscp)), Some(watch))
        }
        None => (default, None),
    }
}

/// An interceptor's class in the session's type.
fn asked(class: Class) -> StreamClass {
    match class {
        Class::Realtime => StreamClass::Realtime,
        Class::Interactive => StreamClass::Interactive,
        Class::Bulk => StreamClass::Bulk,
        Class::Background => StreamClass::Background,
    }
}
