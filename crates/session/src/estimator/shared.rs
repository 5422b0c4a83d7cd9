//! The link of a helper to the Internet, which its subflows share: several pipes to one helper are
//! not several links.

use mpbond_units::Timestamp;

/// What one subflow has on the link of its helper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Octets that wait for the link, or are on their way over it.
    pub(crate) bytes: u64,
    /// Rate of the subflow on it, in bytes per second, as measured lately.
    pub(crate) rate: f64,
}

/// Others on the link of a helper, as a subflow through it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shared {
    /// When it was so.
    pub(crate) at: Timestamp,
    /// The link is the near hop (the proxy sends), not the far one.
    pub(crate) is_near: bool,
    /// What the others have on it together: those that have something.
    pub(crate) others: Load,
}

impl Shared {
    /// Seconds in which the link carries what this subflow and the others have on it.
    pub(super) fn time_for(&self, now: Timestamp, own: Load) -> f64 {
        let rate = self.others.rate;
        let others = self.bytes(now);
        // Rates of subflows that have something at the same time are parts of the link's. One that
        // has nothing may have had all of it.
        let whole = match own.bytes {
            0 => rate.max(own.rate),
            _ => rate + own.rate,
        };
        (own.bytes as f64 + others) / whole.max(1.0)
    }

    /// What the others still have on the link, and its rate, for a limit of this subflow, which has
    /// had so much of it: rates add up to more than the link has, since each has been alone on it.
    pub(super) fn beside(&self, now: Timestamp, own_rate: f64) -> (u64, f64) {
        (self.bytes(now) as u64, own_rate.max(self.others.rate))
    }

    fn bytes(&self, now: Timestamp) -> f64 {
        let moved = self.others.rate * now.since(self.at).as_secs_f64();
        (self.others.bytes as f64 - moved).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_what_all_have_on_it_at_the_sum_of_their_rates() {
        let at = Timestamp::from_millis;
        let load = |bytes, rate| Load { bytes, rate };
        let shared = Shared {
            at: at(0),
            is_near: true,
            others: load(100_000, 5e5),
        };
        assert_eq!(shared.time_for(at(0), load(50_000, 5e5)), 0.15);
        // The others go on meanwhile.
        assert_eq!(shared.time_for(at(100), load(50_000, 5e5)), 0.1);
        assert_eq!(shared.time_for(at(900), load(0, 5e5)), 0.0);
        // One that is idle was alone on the link once, or is expected to be slow.
        assert_eq!(shared.time_for(at(0), load(0, 1e6)), 0.1);
        assert_eq!(shared.time_for(at(0), load(0, 1e4)), 0.2);
    }
}
