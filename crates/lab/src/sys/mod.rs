//! System calls without a safe wrapper elsewhere, one module for each family. Nothing outside of
//! this folder is `unsafe`.
#![allow(unsafe_code)]

pub(crate) mod clone3;
pub(crate) mod mptcp;
pub(crate) mod packet;
pub(crate) mod sched;
pub(crate) mod setns;
pub(crate) mod tap;
pub(crate) mod terminal;
pub(crate) mod tun;
pub(crate) mod udp;
