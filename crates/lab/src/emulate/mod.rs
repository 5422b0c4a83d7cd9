//! A program behind one emulated link.
//!
//! There are two hosts: `inside`, where the program runs, and `outside`, at the far end of the
//! link. A relay in user space takes all connections at the far end and continues them from the
//! caller's own network ([`relay`]). So no rule, route or device is added to the caller's network,
//! nothing remains there however this ends, and it works alike for root and for ordinary users. In
//! exchange, TCP connections end at the far end of the link and others continue them, and besides
//! TCP only DNS is carried.

mod forward;
mod link;
mod relay;

pub use forward::Forward;
pub use link::{EmulateOptions, emulate};
