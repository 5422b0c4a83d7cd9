//! Bytes that caps of links leave for a speed test.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

use mpbond_policy::period_at;
use mpbond_units::human;

use crate::config::{PathConfig, PrimaryConfig};
use crate::usage::{Capped, InterfaceBytes, Moved, Usage};
use crate::{addresses, status_socket, uplinks};

/// Part of what a cap leaves that a test moves: an interface counts headers and retransmissions
/// beside the octets of connections, and what is on its way at the end of a test still comes.
const PART: f64 = 0.9;

/// What a cap leaves in its period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Bytes that are left.
    pub bytes: u64,
    /// Bytes of the cap.
    pub of: u64,
    /// Day on which the next period begins, as 2026-12-01.
    pub resets: String,
}

impl Left {
    fn new(used: u64, of: u64, resets: String) -> Self {
        let bytes = of.saturating_sub(used);
        Self { bytes, of, resets }
    }
}

/// What the caps of a primary's links leave now, by the names of the links: as the primary that
/// runs counts, and by its account where it does not tell.
///
/// # Errors
/// The account is needed, and cannot be read.
pub fn left(config: &PrimaryConfig) -> io::Result<BTreeMap<String, Left>> {
    let mut left = as_counted(config);
    let policy = config.policy.as_ref().map(|source| source.policy());
    let cap = |name: &str| policy.as_ref()?.link(name)?.cap.clone();
    let paths = config.paths.iter().map(|path| (&path.name, Some(path)));
    let helpers = config.helpers.iter().map(|helper| (&helper.name, None));
    let caps = paths
        .chain(helpers)
        .filter(|(name, _)| !left.contains_key(*name));
    let caps = caps.filter_map(|(name, path)| Some((name.clone(), path, cap(name)?)));
    let caps: Vec<_> = caps.collect();
    if caps.is_empty() {
        return Ok(left);
    }
    let (mut usage, now) = (Usage::load(&config.identity)?, jiff::Timestamp::now());
    let counters = InterfaceBytes::of_this_host();
    for (name, path, cap) in caps {
        let of = Capped::Link(name.clone());
        // Bytes since the account was written are of the cap, too. A period may have ended.
        let interface = path.and_then(|path| interface(config, path));
        let reading = interface.and_then(|interface| counters.read(&interface));
        usage.count(&of, &cap, now, reading.map(Moved::Interface));
        if let Some(period) = period_at(now, cap.reset_day, &cap.zone) {
            let (used, resets) = (usage.used_bytes(&of), period.next_day.to_string());
            left.insert(name, Left::new(used, cap.bytes, resets));
        }
    }
    Ok(left)
}

/// What caps leave as the primary that runs counts.
fn as_counted(config: &PrimaryConfig) -> BTreeMap<String, Left> {
    let status = status_socket::ask(&config.status_socket).ok();
    let status = status.filter(|status| status.role == "primary");
    let links = status.into_iter().flat_map(|status| status.links);
    let caps = links.filter_map(|link| {
        let cap = link.cap?;
        Some((link.name, Left::new(cap.used_bytes, cap.bytes, cap.resets)))
    });
    caps.collect()
}

/// Interface of an own path: the configured one, or that of its address, or that on the route to
/// the proxy.
fn interface(config: &PrimaryConfig, path: &PathConfig) -> Option<String> {
    let towards = || uplinks::interface_towards(config.proxy.fixed().next()?.ip());
    let own = path.interface.clone();
    own.or_else(|| addresses::interface_of(path.source?))
        .or_else(towards)
}

/// Bytes that the test of a link may still move.
pub(super) struct Allowance(Cell<Option<u64>>);

/// A test that a cap ends before it has measured anything.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("its cap leaves too little to measure it; --over-cap measures it nevertheless")]
pub struct TooLittle;

impl Allowance {
    /// Of a link without a cap, or beyond it.
    pub(super) const fn unlimited() -> Self {
        Self(Cell::new(None))
    }

    /// What a test may move of what a cap leaves.
    ///
    /// # Errors
    /// The cap is used up.
    pub(super) fn of(left: Option<&Left>) -> anyhow::Result<Self> {
        let Some(left) = left else {
            return Ok(Self::unlimited());
        };
        if left.bytes == 0 {
            anyhow::bail!(
                "its cap of {} is used up until {}; --over-cap measures it nevertheless",
                human::bytes(left.of),
                left.resets
            );
        }
        Ok(Self(Cell::new(Some((left.bytes as f64 * PART) as u64))))
    }

    /// The part that one of `directions` that are still to be measured may move.
    pub(super) fn part(&self, directions: u64) -> Self {
        Self(Cell::new(self.0.get().map(|bytes| bytes / directions)))
    }

    /// Whether a test that has moved so many bytes has to end.
    pub(super) fn is_spent_by(&self, moved: u64) -> bool {
        self.0.get().is_some_and(|bytes| moved >= bytes)
    }

    /// Whether it has moved half of what it may: the rest is to be measured.
    pub(super) fn is_half_spent_by(&self, moved: u64) -> bool {
        self.is_spent_by(moved.saturating_mul(2))
    }

    /// A direction has moved so many bytes.
    pub(super) fn spend(&self, moved: u64) {
        let left = self.0.get().map(|bytes| bytes.saturating_sub(moved));
        self.0.set(left);
    }
}
