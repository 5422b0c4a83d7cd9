//! Errors of a daemon that another start does not mend.

use std::io;

use mpbond_net::identity::IdentityError;

use crate::account_file::Damaged;
use crate::status_socket::AnotherDaemon;

/// Whether a daemon has ended since its key or an account beside it is damaged, the key may be read
/// by others, or another daemon of its role runs.
pub fn is_lasting(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let key = cause.downcast_ref::<IdentityError>();
        let io = cause.downcast_ref::<io::Error>();
        let account = io.and_then(io::Error::get_ref);
        matches!(
            key,
            Some(IdentityError::Malformed { .. } | IdentityError::Readable { .. })
        ) || account.is_some_and(|account| account.is::<Damaged>())
            || cause.is::<AnotherDaemon>()
    })
}
