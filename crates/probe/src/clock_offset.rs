//! Offset of another host's clock, from exchanges (RFC 5905, section 8), with an error bound.

use serde::{Deserialize, Serialize};

use crate::record::difference_us;

/// Time stamps of an exchange, in ns since the Unix epoch by the clock of the host that took them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Sent by this host.
    pub t1_ns: u64,
    /// Received by the server.
    pub t2_ns: u64,
    /// Sent by the server.
    pub t3_ns: u64,
    /// Received by this host.
    pub t4_ns: u64,
}

/// Offset of the server's clock from this host's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockOffset {
    /// Middle of the possible range, in µs.
    pub offset_us: f64,
    /// Half the width of the possible range, in µs, however the delay divides over the two
    /// directions. One-way delays have the same error.
    pub error_us: f64,
    /// The clocks drifted apart during the run: no offset fits all exchanges, and the middle is an
    /// estimate.
    pub drifted: bool,
}

impl ClockOffset {
    /// Offset from exchanges; `None` without any. Nothing arrives before it was sent, so each
    /// exchange bounds the offset from both sides; the tightest bounds apply.
    pub fn of(exchanges: impl IntoIterator<Item = Exchange>) -> Option<Self> {
        let mut bounds = Bounds::default();
        for e in exchanges {
            bounds.take(e);
        }
        bounds.offset()
    }
}

/// Bounds of the offset after the exchanges so far, in µs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds(Option<(f64, f64)>);

impl Bounds {
    pub(crate) fn take(&mut self, e: Exchange) {
        let high = difference_us(e.t1_ns, e.t2_ns);
        let low = difference_us(e.t4_ns, e.t3_ns);
        self.0 = Some(match self.0 {
            None => (low, high),
            Some((l, h)) => (l.max(low), h.min(high)),
        });
    }

    pub(crate) fn offset(&self) -> Option<ClockOffset> {
        let (low, high) = self.0?;
        Some(ClockOffset {
            offset_us: f64::midpoint(low, high),
            error_us: (high - low).abs() / 2.0,
            drifted: high < low,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The true offset lies within the bound, whatever the delays are.
        #[test]
        fn the_bound_holds(
            offset_us in -1_000_000_i64..1_000_000,
            ways in proptest::collection::vec((1_u64..100_000, 0_u64..500, 1_u64..100_000), 1..50),
        ) {
            let base = 10_u64.pow(18);
            let exchanges = ways.iter().enumerate().map(|(i, (out, inside, back))| {
                let t1 = base + i as u64 * 1_000_000_000;
                let there = |ns: u64| ns.checked_add_signed(offset_us * 1000).unwrap();
                Exchange {
                    t1_ns: t1,
                    t2_ns: there(t1 + out * 1000),
                    t3_ns: there(t1 + (out + inside) * 1000),
                    t4_ns: t1 + (out + inside + back) * 1000,
                }
            });
            let found = ClockOffset::of(exchanges).unwrap();
            prop_assert!(!found.drifted);
            prop_assert!((found.offset_us - offset_us as f64).abs() <= found.error_us + 1e-3);
            let least = ways.iter().map(|w| w.0).min().unwrap()
                + ways.iter().map(|w| w.2).min().unwrap();
            prop_assert!((found.error_us - least as f64 / 2.0).abs() < 1e-3);
        }
    }
}
