//! Experiments as data: one TOML file says which hosts there are, how they are
//! linked, what is compared, and what has to come out.
//!
//! ```toml
//! name = "demo"
//! repetitions = 1
//!
//! [[host]]
//! name = "primary"
//! role = "primary"                # primary, helper, proxy, origin
//! # ... one proxy and one origin, each with an `address`; any helpers
//!
//! [[link]]                        # "down" flows from `to` to `from`
//! name = "lte"
//! from = "primary"                # primary-proxy, primary-helper, helper-proxy
//! to = "proxy"
//! down = "8 Mbit/s"               # a rate, a schedule or a recording
//! up = "8 Mbit/s"
//! delay = "25ms"                  # one way
//! queue = "100ms"                 # more a link may have: `Link`
//!
//! [[link]]                        # no rates: a plain wire
//! name = "core"
//! from = "proxy"
//! to = "origin"
//!
//! [[scheme]]
//! name = "two devices"
//! scheme = "mpbond"               # or single, kibbutz, combine, external
//! devices = 2
//! interception = "socks5"         # socks5, http, transparent
//!
//! [[workload]]
//! name = "10 MiB"
//! direction = "down"
//! bytes = "10 MiB"
//! ```

mod application;
mod assert;
mod beside;
mod check;
mod decisive;
mod energy_model;
mod external;
mod file;
mod link;
mod load;
mod page;
mod paper;
mod place;
mod recording;
mod scheme;
mod scope;
mod selection;
mod setting;
mod terms;
mod variants;
mod workload;

pub(crate) use application::LEAST_OF_PAGE;
pub use application::{Application, Chunks, Messages, Page, Stamp, Stream, Video};
pub use assert::Assert;
pub(crate) use decisive::decisive_keys;
pub use energy_model::{EnergyModel, EnergyPrice};
pub use external::External;
pub(crate) use external::with_addresses;
pub use file::{Experiment, HostSpec};
pub(crate) use link::bluetooth_radio;
pub use link::{BluetoothSpec, Change, Duplex, Link, MediumSpec, WifiBand};
pub use page::page_objects;
pub use paper::{PaperFigure, Published};
pub(crate) use recording::read_recording;
pub use scheme::{Carrier, HandOver, Pipes, Scheme, Start};
pub(crate) use scope::{Scope, leave_out};
pub use setting::{LinkSetting, Setting};
pub(crate) use terms::name_of;
pub use terms::{Client, Connection, Direction, Interception, Role};
pub use workload::{Fault, Workload};

#[cfg(test)]
mod tests;
