//! State machines of the radio types, one file each.

mod bluetooth;
mod bluetooth_link;
mod bus;
mod coexistence;
mod cpu;
mod flat;
mod ladder;
mod lte;
mod nr;
mod umts;
mod wifi;

pub use bluetooth::{BluetoothEnd, BluetoothParameters, Mode, Role};
pub use bluetooth_link::{BluetoothLink, End, LmpRequest};
pub use bus::BusParameters;
pub use coexistence::{Band, BandState, BandUser, CoexistenceParameters};
pub use cpu::{Cluster, CoreSample, Cpu, CpuParameters};
pub use flat::FlatParameters;
pub use ladder::Duty;
pub(crate) use ladder::Ladder;
pub use lte::LteParameters;
pub use nr::{Inactive, NrParameters};
pub(crate) use umts::Umts;
pub use umts::{IdleToFach, UmtsParameters};
pub use wifi::{WifiParameters, WifiPower};
