//! Clients that decide during a transfer which objects they request next: browsers and players.
//!
//! They are pure: worlds drive them in virtual time, the lab's threads in real time.

mod meter;
pub mod page;
pub mod video;
