//! Battery of a device that carries others' data, compared with the floor of its link.

use serde::Serialize;

/// Battery of the device of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Charge {
    /// At or above the floor, or there is no battery or no floor.
    Sufficient,
    /// Below the floor for a short time: open flows continue, new ones are not accepted.
    Draining,
    /// Below the floor: no flow uses the link.
    Low,
}
