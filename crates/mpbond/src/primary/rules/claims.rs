//! Traffic class that a client claims: with its user name, or else with the DSCP which its program
//! has set on its socket, unless that is `bulk`.

use mpbond_intercept::{self as intercept, Intercepted};
use mpbond_net::sock_diag::SocketOwner;
use mpbond_policy::Class;

use super::dscp;

/// The class that a client claims.
pub(super) fn claimed(connection: &Intercepted, owner: Option<SocketOwner>) -> Option<Class> {
    match connection.intent().class {
        Some(class) => Some(asked(class)),
        None => owner.and_then(by_dscp),
    }
}

/// The class that a program claims by the DSCP of its socket. A code point of bulk data is that of
/// all programs that set none.
pub(in crate::primary) fn by_dscp(owner: SocketOwner) -> Option<Class> {
    let class = owner.dscp().map(dscp::class);
    class.filter(|class| *class != Class::Bulk)
}

/// An interceptor's class in the policy's type.
fn asked(class: intercept::Class) -> Class {
    match class {
        intercept::Class::Realtime => Class::Realtime,
        intercept::Class::Interactive => Class::Interactive,
        intercept::Class::Bulk => Class::Bulk,
        intercept::Class::Background => Class::Background,
    }
}
