//! Interface whose addresses intercepted connections have.
//!
//! The address of a socket is chosen by the route to its destination, before packets are
//! intercepted. If it were that of the link with the default route, an intercepted connection would
//! fall silent for ever when the link loses that address, and there would be no connection without
//! a default route. The interface, a TUN that nothing reads, has addresses that stay, and
//! [routes](super::routing) that hold for intercepted destinations only
//! ([ADR 0016](../../../../docs/adr/0016-interface-of-interception.md)).
//!
//! A daemon that takes over creates a second one with the same addresses, and the first goes with
//! its guard: sockets are bound to the address, and not to an interface
//! ([ADR 0019](../../../../docs/adr/0019-upgrade-of-interception.md)).

use std::fs::File;
use std::io;
use std::thread::sleep;
use std::time::Instant;

use tracing::warn;

use super::config::RulesConfig;
use super::error::RulesError;
use super::family::Family;
use super::guard_time::{GUARD_TIME, LOOK_EVERY};
use super::routing::{self, Slot};
use super::tools::{batch, run, try_batch};
use super::tun;

/// Creates the interface of the first of these slots that is free, without addresses. Waits while
/// guards hold all of them.
pub(super) fn create(slots: &[Slot]) -> Result<(Slot, File), RulesError> {
    let deadline = Instant::now() + GUARD_TIME;
    loop {
        let mut last = None;
        for slot in slots {
            let name = slot.interface();
            match tun::create(name) {
                Ok(held) => return Ok((*slot, held)),
                Err(cause) => last = Some(RulesError::Tun { name, cause }),
            }
        }
        match last {
            Some(RulesError::Tun { cause, .. })
                if cause.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                sleep(LOOK_EVERY);
            }
            Some(error) => return Err(error),
            None => return Err(io::Error::from(io::ErrorKind::InvalidInput).into()),
        }
    }
}

/// Waits while a guard holds the interface of this slot.
pub(super) fn wait_until_free(slot: Slot) {
    let deadline = Instant::now() + GUARD_TIME;
    let is_there = || run("ip", &["link", "show", "dev", slot.interface()], None).is_ok();
    while is_there() && Instant::now() < deadline {
        sleep(LOOK_EVERY);
    }
}

/// Sets the interface up: its addresses, and routes that nothing leads to yet. Returns the families
/// for which that has worked, IPv4 among them.
pub(super) fn set_up(config: &RulesConfig, slot: Slot) -> Result<Vec<Family>, RulesError> {
    let set = |change: &[&str]| {
        let arguments = [&["link", "set", slot.interface()], change].concat();
        run("ip", &arguments, None)
    };
    // No address of its own accord, hence no packet.
    set(&["addrgenmode", "none"])?;
    set(&["up"])?;
    let mut families = Vec::new();
    for family in Family::intercepted(config) {
        let lines = routing::interface(config, slot, *family);
        match (batch(*family, &lines), family) {
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
pub(super) fn lead_to(
    config: &RulesConfig,
    slot: Slot,
    families: &[Family],
) -> Result<(), RulesError> {
    for family in families {
        if let Err(error) = batch(*family, &routing::to_interface(config, slot, *family)) {
            for family in families {
                try_batch(
                    *family,
                    &routing::away_from_interface(config, slot, *family),
                );
            }
            return Err(error);
        }
    }
    Ok(())
}
