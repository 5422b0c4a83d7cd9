//! Links, as pure models in virtual time.
//!
//! Nothing here reads a clock or opens a socket: every call brings its instant
//! along, so the same model serves a simulated world and a real-time player.
//!
//! - [`link`]: one direction of a link: rate schedule, delay, queue, loss.
//! - [`trace`]: recorded rates, as Mahimahi packet opportunities or as a table.
//! - [`ideal`]: the least time that the links of a topology allow.
//! - [`tcp`]: a reliable byte channel that behaves as TCP does on such links.
//! - [`relay`]: two channels joined by a bounded buffer, as a helper joins them.
//! - [`world`]: whole sessions over such links, and plain TCP beside them.
//! - [`duration_text`]: spans as people write them in experiment files.
#![forbid(unsafe_code)]

pub mod duration_text;
pub mod ideal;
pub mod link;
pub mod relay;
pub mod tcp;
pub mod trace;
pub mod world;
