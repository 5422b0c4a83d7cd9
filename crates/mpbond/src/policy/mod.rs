//! The policy in force at a primary, and the facts on which its rules depend.

mod cgroups;
mod device;
mod facts;
mod in_force;

pub(crate) use cgroups::Cgroups;
pub(crate) use device::device;
pub(crate) use facts::{Client, flow};
pub(crate) use in_force::InForce;
