//! Interface whose addresses intercepted connections have.
//!
//! The address of a socket is chosen by the route to its destination, before packets are
//! intercepted. If it were that of the link with the default route, an intercepted connection would
//! fall silent for ever when the link loses that address, and there would be no connection without
//! a default route. The interface, a TUN that nothing reads, has addresses that stay, and
//! [routes](super::routing) that hold for intercepted destinations only
//! ([ADR 0016](../../../../docs/adr/0016-interface-of-interception.md)).

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracing::warn;

use super::guard::{GUARD_TIME, RulesError, batch, run, try_batch};
use super::routing::{self, Family};
use super::{RulesConfig, tun};

/// Name of the interface.
pub const INTERFACE: &str = "mpbond0";

/// Its addresses, in networks that are not used on the Internet: for benchmarks (RFC 2544, appendix
/// C.2.2), with "mp" in ASCII, and unique local (RFC 4193), with "mpbond".
pub(super) const V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0x6d, 0x70);
pub(super) const V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x7062, 0x6f6e, 0x64, 0, 0, 0, 1);

/// Interval at which an interface of an earlier guard is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Creates the interface, without addresses. Waits while an earlier guard holds it.
pub(super) fn create() -> Result<File, RulesError> {
    let deadline = Instant::now() + GUARD_TIME;
    loop {
        match tun::create(INTERFACE) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                sleep(LOOK_EVERY);
            }
            result => return result.map_err(RulesError::Tun),
        }
    }
}

/// Sets the interface up: its addresses, and routes that nothing leads to yet. Returns the families
/// for which that has worked, IPv4 among them.
pub(super) fn set_up(config: &RulesConfig) -> Result<Vec<Family>, RulesError> {
    // No address of its own accord, hence no packet.
    run(
        "ip",
        &["link", "set", INTERFACE, "addrgenmode", "none"],
        None,
    )?;
    run("ip", &["link", "set", INTERFACE, "up"], None)?;
    let mut families = Vec::new();
    for family in Family::intercepted(config) {
        match (batch(*family, &routing::interface(config, *family)), family) {
            (Ok(()), _) => families.push(*family),
            (Err(error), Family::V4) => return Err(error),
            // Most often because new interfaces have no IPv6 (`disable_ipv6`).
            (Err(error), Family::V6) => {
                warn!(%error, "IPv6 connections have the addresses of other interfaces");
            }
        }
    }
    Ok(families)
}

/// Leads applications' sockets to the interface.
pub(super) fn lead_to(config: &RulesConfig, families: &[Family]) -> Result<(), RulesError> {
    for family in families {
        if let Err(error) = batch(*family, &routing::to_interface(config, *family)) {
            for family in families {
                try_batch(*family, &routing::away_from_interface(config, *family));
            }
            return Err(error);
        }
    }
    Ok(())
}
