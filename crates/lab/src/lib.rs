//! Hosts in namespaces, a real-time link player, and experiments as data.
//!
//! [`run()`] takes an experiment file, makes its hosts and links, runs the
//! real daemons and an unmodified client in them, and gives a record of what
//! came out. The pieces:
//!
//! * [`experiment`]: what a file may say; checked before anything starts.
//! * [`isolate`]: everything happens in one PID namespace whose first process
//!   is the lab, so nothing outlives it.
//! * [`Host`], [`Network`]: network namespaces, devices, addresses, routes.
//! * [`player`]: the pure link models of `mpbond_sim`, in real time.
//! * [`behind()`]: any program behind one emulated link.
//! * [`shell()`]: a person's program in a host of an experiment.
//! * [`player_accuracy`]: how well the player keeps rate and delay here.
//! * [`origin()`]: an HTTP server whose files are known by their digest.
//! * [`RunReport`]: the record.
#![deny(unsafe_code)]

mod accuracy;
mod behind;
mod client;
mod content;
mod daemons;
mod device;
mod error;
pub mod experiment;
mod foreground;
mod host;
mod ideal;
pub mod isolate;
mod links;
mod machine;
mod origin;
mod plan;
pub mod player;
mod progress;
mod record;
mod resume;
mod run;
mod shell;
mod summary;
mod sys;
mod table;
mod wiring;

pub use accuracy::{AccuracyReport, AccuracyRow, LINK_COUNTS, SPEEDS_MBPS, player_accuracy};
pub use behind::{BehindOptions, Forward, behind};
pub use content::Content;
pub use device::Device;
pub use error::{Error, Result};
pub use host::Host;
pub use links::played_links;
pub use origin::{Received, origin};
pub use record::{
    Download, Estimate, Judgement, Lateness, RunReport, SubflowShare, Summary, Verdict,
};
pub use run::{RunOptions, run};
pub use shell::shell;
pub use summary::estimate;
pub use wiring::{LinkEnds, Network};
