//! Hosts in namespaces, a real-time link player, and experiments as data.
//!
//! [`run()`] takes an experiment file, makes its hosts and links, runs the
//! real daemons, the baselines and a client in them, and gives a record of
//! what came out. The pieces:
//!
//! * [`experiment`]: what a file may say; checked before anything starts.
//! * [`isolate`]: everything happens in one PID namespace whose first process
//!   is the lab, so nothing outlives it.
//! * [`Host`], [`Network`]: network namespaces, devices, addresses, routes.
//! * [`player`]: the pure link models of `mpbond_sim`, in real time.
//! * `energy`: what a transfer costs all devices, by radio models.
//! * [`behind()`]: any program behind one emulated link.
//! * [`chain()`]: hosts in a row, and programs at any of them.
//! * [`shell()`]: a person's program in a host of an experiment.
//! * [`player_accuracy`]: how well the player keeps rate and delay here.
//! * [`origin()`]: an HTTP server whose files are known by their digest.
//! * [`recordings()`]: what recorded links give, alone and together.
//! * [`distances()`]: what a pipe gave at which distance.
//! * [`simulate()`]: the same experiments in virtual time, where no kernel is
//!   needed.
//! * [`RunReport`]: the record; [`report`]: pages of tables and pictures of it.
#![deny(unsafe_code)]

mod accuracy;
pub mod app;
mod behind;
mod bins;
mod chain;
mod client;
mod combine;
mod conditions;
mod content;
mod daemons;
mod device;
mod distances;
mod duration;
mod energy;
mod error;
pub mod experiment;
mod fetch;
mod fetcher;
mod foreground;
mod grid;
mod host;
mod ideal;
pub mod isolate;
mod json;
mod kibbutz;
mod link_progress;
mod links;
mod list;
mod machine;
mod origin;
mod paired;
mod paper;
mod plan;
pub mod player;
mod progress;
mod quantity;
mod record;
mod recordings;
pub mod report;
mod resume;
mod run;
mod shell;
mod simulate;
mod statistics;
mod summary;
mod sys;
mod table;
mod tap;
mod tether;
mod watch;
mod wiring;

pub use accuracy::{AccuracyReport, AccuracyRow, LINK_COUNTS, SPEEDS_MBPS, player_accuracy};
pub use behind::{BehindOptions, Forward, behind};
pub use chain::{ChainOptions, Hop, HopLink, chain};
pub use content::Content;
pub use device::Device;
pub use distances::{DistanceReport, distances};
pub use error::{Error, Result};
pub use host::Host;
pub use links::played_links;
pub use list::list;
pub use machine::date;
pub use origin::{Received, origin};
pub use quantity::Quantity;
pub use record::{
    Comparison, DeviceEnergy, Download, Energy, EnergySummary, Estimate, IdealProgress, Judgement,
    Lateness, LinkProgress, RunReport, Simulated, Standing, SubflowShare, Summary, Verdict,
};
pub use recordings::{RecordingOptions, RecordingReport, recordings};
pub use run::{RunOptions, run};
pub use shell::shell;
pub use simulate::{SimulateOptions, simulate};
pub use statistics::estimate;
pub use wiring::{LinkEnds, Network};
