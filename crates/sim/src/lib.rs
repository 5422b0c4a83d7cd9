//! Network simulator in virtual time: link models, a TCP model, and whole multipath sessions.
//!
//! No part reads a clock or opens a socket. Every call takes the present instant, so that the same
//! link model serves a simulated world and a player in real time.
//!
//! - [`link`]: one direction of a link: rate schedule, delay, queue, loss.
//! - [`trace`]: recorded rates, as Mahimahi packet opportunities or as a table.
//! - [`ideal`]: lower bound of a transfer's time over the links of a topology.
//! - [`tcp`]: a byte stream with the behaviour of TCP on such links.
//! - [`stream`]: a socket behind which a process carries bytes over Bluetooth.
//! - [`hop`]: what both kinds of sockets have in common.
//! - [`relay`]: two connections joined by a bounded buffer, as at a helper.
//! - [`day`]: a day of a laptop and its helpers, with the faults of one.
//! - [`application`]: browsers and video players.
//! - [`wear`]: a server, a phone and a watch with Bluetooth and WiFi.
//! - [`rows`]: scenarios of the MPBond paper's setting, beside figures that are to be reached.
//! - [`world`]: whole sessions over such links, and plain TCP for comparison.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

pub mod application;
pub mod day;
pub mod hop;
pub mod ideal;
pub mod link;
pub mod relay;
pub mod rows;
pub mod stream;
pub mod tcp;
pub mod trace;
pub mod wear;
pub mod world;
