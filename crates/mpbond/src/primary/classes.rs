//! Traffic class of a client's stream: the one that the client asks for with its user name, or else
//! that of the DSCP which its program has set on its socket, or else `bulk`.
//!
//! The kernel names the DSCP of sockets of this host. Clients on other hosts are `bulk`.

use mpbond_intercept::{Class, Intercepted};
use mpbond_session::StreamClass;

use super::clients::{Ends, Owners};
use super::dscp;
use super::state::Primary;
use crate::driver::ClassWatch;

/// The class by the DSCP of a client's socket; `None` if it has no socket on this host, or the
/// kernel does not tell.
fn by_dscp(owners: &Owners, ends: Ends) -> Option<StreamClass> {
    owners.of(ends)?.dscp().map(dscp::class)
}

/// The class of a client's stream, and the look-ups by which it follows the client's DSCP.
pub(super) fn of(primary: &Primary, connection: &Intercepted) -> (StreamClass, Option<ClassWatch>) {
    if let Some(class) = connection.intent().class {
        return (asked(class), None);
    }
    let (owners, ends) = (primary.owners.clone(), Ends::of(connection));
    match by_dscp(&owners, ends) {
        Some(class) => {
            let watch = ClassWatch::new(primary.clock.now(), move || by_dscp(&owners, ends));
            (class, Some(watch))
        }
        None => (StreamClass::Bulk, None),
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
