//! The mpbond daemons in their hosts: starting, querying, stopping.

mod config;
mod processes;
mod setup;
mod shares;
mod status;

pub(crate) use processes::{Daemons, log_tail};
pub(crate) use setup::Setup;
pub(crate) use shares::Shares;
