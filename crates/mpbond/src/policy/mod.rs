//! The policy in force at a primary, and the facts on which its rules depend.

mod cgroups;
mod device;
mod facts;
mod in_force;

pub use crate::power::Reading;
pub use cgroups::Cgroups;
pub use device::device;
pub use facts::{Client, Program, flow, looked_up, program, stated};
pub use in_force::InForce;
