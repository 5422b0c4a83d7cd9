//! Delays of a path, measured so that it shows where they come from: what the path takes, and what
//! this host adds (delay measurement paper, section 2).
//!
//! Every probe has up to three clocks: the user's, around the call; the kernel's; and that of the
//! wire. A clock that is not there is missing, never made up.

#![deny(unsafe_code)]

mod asking;
mod background;
mod clock_offset;
mod datagram;
mod error;
mod message;
mod options;
mod picture;
mod place;
mod record;
mod server;
mod stamping;
mod statistics;
mod stream;
mod sys;
mod tls;
pub mod traffic;

pub use clock_offset::{ClockOffset, Exchange};
pub use error::ProbeError;
pub use options::{Method, Options};
pub use record::{KernelSource, Pair, Probe, Stamps, Summary, UserSource, WireSource};
pub use server::{Server, ServerOptions};
pub use statistics::Distribution;

/// Sends probes as `options` say, and tells `heard` of each as soon as it is answered or given up.
///
/// The order is that of answers. Blocks until the last is answered or given up, or `heard` says
/// `false`.
///
/// # Errors
/// When the probes cannot be sent at all. A lost probe is no error.
pub fn run(
    options: &Options,
    mut heard: impl FnMut(&Probe) -> bool,
) -> Result<Summary, ProbeError> {
    options.check()?;
    let _background = background::Background::start(options)?;
    let mut summary = record::Collector::new(options.method);
    let mut each = |probe: Probe| {
        let go_on = heard(&probe);
        summary.take(probe);
        go_on
    };
    match options.method {
        Method::Icmp | Method::Udp => datagram::run(options, &mut each)?,
        Method::Syn | Method::Rst | Method::Http | Method::Tls => stream::run(options, &mut each)?,
    }
    Ok(summary.finish())
}
