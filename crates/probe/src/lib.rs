//! Measurement of path delays, separated into the delay of the path and the overhead of this host
//! ("Toward Accurate Network Delay Measurement on Android Phones", section 2).
//!
//! Every probe has up to three clocks: the user's, around the system call; the kernel's; and the
//! wire's. Times of a missing clock are absent, never estimated.

#![deny(unsafe_code)]

mod asking;
mod background;
mod clock_offset;
mod datagram;
mod early;
mod error;
mod hostile;
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
mod tcp;
mod tls;
pub mod traffic;
mod wire_clock;

pub use clock_offset::{ClockOffset, ClockSegment, Exchange};
pub use error::ProbeError;
pub use hostile::hear;
pub use options::{Method, Options};
pub use record::{KernelSource, Pair, Probe, Stamps, Summary, UserSource, WireSource};
pub use server::{Server, ServerOptions};
pub use statistics::Distribution;
pub use wire_clock::{Enclosing, WireClockSkew, set_wire_times};

/// Sends probes according to `options` and calls `heard` for each as soon as it is answered or
/// lost.
///
/// Probes are reported in the order of their answers. Blocks until the last is answered or lost, or
/// `heard` returns `false`.
///
/// When probes cannot be sent at all. A lost probe is not an error.
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
