//! Experiments with multipath transport over emulated links: in real time with the daemons, or in
//! virtual time with the session and the path manager. In virtual time, control connections are not
//! modelled.
//!
//! An *experiment* is a TOML file ([`experiment::Experiment`]). It names
//!
//! * **hosts** and the **links** between them, with rates, delays, queues and losses, constant or
//!   recorded, and changes at given times;
//! * **schemes**, the transports that are compared: `mpbond` (the daemons), `single` (plain TCP
//!   over one link), `kibbutz` (kernel Multipath TCP over a tethered helper), `combine`
//!   (COMBINE: byte ranges fetched by helpers) and `external` (programs other than mpbond);
//! * **workloads**: a file of a given size, a download of a given duration, a page, a video, a
//!   stream, chunks with pauses, messages beside a download;
//! * **asserts**, which must hold, and **published figures**, which are shown beside the measured
//!   ones.
//!
//! In each repetition, every scheme in turn carries every workload once. A slow change of the
//! machine's load therefore affects all schemes similarly.
//!
//! # Two ways to run an experiment
//!
//! [`run()`] works in real time. Each host is a network namespace. Each link is a model of
//! `mpbond_sim` between two network devices; one thread plays all of them ([`player`]). Daemons,
//! baselines and clients are real programs on the kernel's TCP. All processes are in one PID
//! namespace whose first process is a copy of the lab ([`isolate`]), so none of them outlives a
//! run. The player measures its own lateness. An *unfit* transfer is excluded from all tables and
//! asserts. In real time a transfer is unfit if
//!
//! * more than 1 % of the packets were delayed beyond their due time by more than the experiment's
//!   `max_lateness`, or packets were lost between hosts and links;
//! * the bytes did not pass through the daemons, with the scheme `mpbond`;
//! * the scheduler `fixed-ratio` did not keep its share;
//! * its connections had other traffic classes than those that the client states;
//! * the client failed, with other schemes than `mpbond`;
//! * Multipath TCP used one path only, with the scheme `kibbutz`.
//!
//! [`simulate()`] runs the same file in virtual time: no namespaces, no root, hundreds of transfers
//! a second. It covers the schemes `mpbond` and `single`, and the workloads whose application is a
//! model; the report lists what it leaves out, with the reason. In virtual time a transfer is unfit
//! if `fixed-ratio` did not keep its share, or if it did not end.
//!
//! Both return a [`RunReport`]:
//!
//! * every [`Transfer`] with its time, its bytes per subflow, its energy by radio models, and the
//!   least time that its links permit (the ideal bound);
//! * a [`Summary`] for each scheme and workload;
//! * a [`Judgement`] for each assert, and a [`Comparison`] for each published figure.
//!
//! [`report`] joins reports and renders them as HTML and Markdown.
//!
//! ```
//! use mpbond_lab::experiment::Experiment;
//!
//! let file = r#"
//!     name = "alone"
//!     host = [
//!         { name = "phone", role = "primary" },
//!         { name = "proxy", role = "proxy", address = "203.0.113.1" },
//!         { name = "web", role = "origin", address = "198.51.100.1" },
//!     ]
//!     link = [
//!         { name = "lte", from = "phone", to = "proxy", down = 8, up = 8, delay = "25ms" },
//!         { name = "core", from = "proxy", to = "web" },
//!     ]
//!     scheme = [{ name = "tcp", scheme = "single" }]
//!     workload = [{ name = "file", direction = "down", bytes = "1 MB" }]
//! "#;
//! let experiment = Experiment::parse("alone.toml", file)?;
//! // 1 MB and its headers at 8 Mbit/s, and the preparation of the transfer.
//! assert_eq!(experiment.expected_duration()?.as_secs(), 1);
//! # Ok::<(), mpbond_lab::Error>(())
//! ```
//!
//! # Other entry points
//!
//! | | |
//! | --- | --- |
//! | [`emulate()`] | a program behind one emulated link |
//! | [`chain()`] | hosts in a row, with programs and captures at any of them |
//! | [`shell()`] | an interactive program in a host of an experiment |
//! | [`origin()`] | the HTTP server that transfers fetch from |
//! | [`player_accuracy()`] | accuracy of emulated links on this machine |
//! | [`recordings()`], [`distances()`] | statistics of recorded links, and of pipes by distance |
//! | [`list()`] | the experiments in a folder |
//! | `ablation()` | gain of each mechanism of the sender (feature `measurements`) |
//! | `survey()` | several devices against the best link (feature `measurements`) |
//! | `bulk` | plain transfers for measurements of processor time (feature `measurements`) |
//! | `measurements` | measurements other than transfers (feature `measurements`) |
#![deny(unsafe_code)]

#[cfg(feature = "measurements")]
mod ablation;
mod accuracy;
mod baselines;
#[cfg(feature = "measurements")]
pub mod bulk;
mod chain;
mod daemons;
mod distances;
mod emulate;
mod error;
pub mod experiment;
mod figures;
pub mod isolate;
mod list;
mod machine;
mod machine_use;
#[cfg(feature = "measurements")]
pub mod measurements;
mod network;
pub mod player;
mod program;
mod record;
mod recordings;
pub mod report;
mod run;
mod schedule;
mod shell;
mod simulate;
#[cfg(feature = "measurements")]
mod survey;
mod sys;
mod transfer;

#[cfg(feature = "measurements")]
pub use ablation::{Ablation, AblationOptions, Change, Effect, Finding, ablation};
pub use accuracy::{AccuracyReport, AccuracyRow, LINK_COUNTS, SPEEDS_MBPS, player_accuracy};
pub use chain::{ChainOptions, Hop, HopLink, chain};
pub use distances::{DistanceReport, distances};
pub use emulate::{EmulateOptions, Forward, emulate};
pub use error::{Error, Result};
pub use figures::quantity::Quantity;
pub use figures::statistics::estimate;
pub use list::list;
pub use machine::date;
pub use machine_use::{Use as MachineUse, Waited};
pub use network::device::Device;
pub use network::host::Host;
pub use network::links::played_links;
pub use network::wiring::{LinkEnds, Network};
pub use record::{
    Comparison, DeviceEnergy, Energy, EnergySummary, Estimate, IdealProgress, Judgement, Lateness,
    LinkProgress, MessageTimes, RunReport, Simulated, Standing, SubflowShare, Summary, Transfer,
    Verdict,
};
pub use recordings::{RecordingOptions, RecordingReport, recordings};
pub use run::{Part, RunOptions, run};
pub use shell::shell;
pub use simulate::{SimulateOptions, simulate};
#[cfg(feature = "measurements")]
pub use survey::{
    PAIRS_FILE, Survey, SurveyOptions, SurveyPairs, SurveyScheme, SurveyStart, survey,
};
pub use transfer::content::Content;
pub use transfer::origin::{Received, origin};
