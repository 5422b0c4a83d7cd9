//! Applications' connections: which wait, which go into the session, which go direct, and what the
//! status tells of them.

pub(super) mod clients;
pub(super) mod confirmed;
pub(super) mod direct;
pub(super) mod flows;
pub(super) mod identity;
mod programs;
pub(super) mod reach;
pub(super) mod reached;
pub(super) mod rescue;
pub(super) mod room;
pub(super) mod waiting;
