//! Bytes that caps of links leave for a speed test.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

use mpbond_policy::period_at;
use mpbond_units::human;

use crate::config::PrimaryConfig;
use crate::status_socket;
use crate::usage::{Capped, Usage};

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
/// runs counts, or else by its account.
///
/// # Errors
/// No primary answers, and the account cannot be read.
pub fn left(config: &PrimaryConfig) -> io::Result<BTreeMap<String, Left>> {
    if let Ok(status) = status_socket::ask(&config.status_socket)
        && status.role == "primary"
    {
        let caps = status.links.into_iter().filter_map(|link| {
            let cap = link.cap?;
            Some((link.name, Left::new(cap.used_bytes, cap.bytes, cap.resets)))
        });
        return Ok(caps.collect());
    }
    let Some(source) = &config.policy else {
        return Ok(BTreeMap::new());
    };
    let paths = config.paths.iter().map(|path| &path.name);
    let names = paths.chain(config.helpers.iter().map(|helper| &helper.name));
    let caps = names.filter_map(|name| {
        let cap = source.policy().link(name)?.cap.as_ref()?;
        Some((name, cap))
    });
    let (mut usage, now) = (Usage::load(&config.identity)?, jiff::Timestamp::now());
    let left = caps.filter_map(|(name, cap)| {
        let of = Capped::Link(name.clone());
        // A period may have ended.
        usage.count(&of, cap, now, None);
        let period = period_at(now, cap.reset_day, &cap.zone)?;
        let left = Left::new(
            usage.used_bytes(&of),
            cap.bytes,
            period.next_day.to_string(),
        );
        Some((name.clone(), left))
    });
    Ok(left.collect())
}

/// Bytes that the test of a link may still move.
pub(super) struct Allowance(Cell<Option<u64>>);

/// A test that a cap ends before it has measured anything.
#[derive(Debug, thiserror::Error)]
#[error("its cap leaves too little to measure it; --over-cap measures it nevertheless")]
pub(super) struct TooLittle;

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

    /// A direction has moved so many bytes.
    pub(super) fn spend(&self, moved: u64) {
        let left = self.0.get().map(|bytes| bytes.saturating_sub(moved));
        self.0.set(left);
    }
}
