//! Traffic class of a client's stream: the one that the client asks for with its user name, or else
//! `bulk`.

use mpbond_intercept::{Class, Intercepted};
use mpbond_session::StreamClass;

/// The class of a client's stream.
pub(super) fn of(connection: &Intercepted) -> StreamClass {
    connection.intent().class.map_or(StreamClass::Bulk, asked)
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
