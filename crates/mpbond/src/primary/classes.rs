//! Traffic class of a client's stream: the one that the client asks for with its user name, or else
//! that of the DSCP which its program has set on its socket, or else `bulk`.
//!
//! The kernel names the DSCP of sockets of this host. Clients on other hosts are `bulk`.

use std::cell::OnceCell;
use std::rc::Rc;

use mpbond_intercept::{Class, Intercepted};
use mpbond_net::sock_diag::SockDiag;
use mpbond_session::StreamClass;

use super::clients::Ends;
use super::dscp;
use super::state::Primary;
use crate::driver::ClassWatch;

/// Connection to the kernel, by which classes are looked up. Opened once.
#[derive(Clone, Default)]
pub(super) struct Classes(Rc<OnceCell<Option<SockDiag>>>);

impl Classes {
    /// The class by the DSCP of a client's socket; `None` if it has no socket on this host, or the
    /// kernel does not tell.
    fn by_dscp(&self, ends: Ends) -> Option<StreamClass> {
        let diag = self.0.get_or_init(|| SockDiag::open().ok());
        let owner = ends.owner(diag.as_ref()?)?;
        owner.dscp().map(dscp::class)
    }
}

/// The class of a client's stream, and the look-ups by which it follows the client's DSCP.
pub(super) fn of(primary: &Primary, connection: &Intercepted) -> (StreamClass, Option<ClassWatch>) {
    if let Some(class) = connection.intent().class {
        return (asked(class), None);
    }
    let (classes, ends) = (primary.classes.clone(), Ends::of(connection));
    match classes.by_dscp(ends) {
        Some(class) => {
            let watch = ClassWatch::new(primary.clock.now(), move || classes.by_dscp(ends));
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
