//! Rate of a link that a helper lends while its own programs use it.

use mpbond_units::BitRate;

/// Part of the capacity that is lent while the link is not used otherwise. The rest lets own
/// traffic begin without a queue.
const IDLE_PERCENT: u64 = 97;

/// Part of the own traffic's rate that is left to it. It can grow by a quarter with each
/// measurement, so that a download that competes with a relay soon has the link.
const OWN_PERCENT: u64 = 125;

/// Part of the capacity that is lent in any case, so that relays do not fail. Own traffic has more
/// than 95 % then.
const FLOOR_PERCENT: u64 = 2;

/// The rate at which all relays of a link together may carry data in one direction, from the link's
/// capacity and the rate of own traffic in the last interval.
///
/// Own traffic goes first: relays get what it leaves, less some room in which it can grow. The rate
/// of own traffic alone does not show how much more it would take; the room makes it visible.
/// `None`, no limit, where the capacity has not been measured or is zero: a link whose relays carry
/// nothing would never be measured.
pub fn lent_rate(capacity: Option<BitRate>, own: BitRate) -> Option<BitRate> {
    let capacity = capacity.filter(|capacity| *capacity > BitRate::ZERO)?;
    let part = |rate: BitRate, percent: u64| {
        let bps = u128::from(rate.bps()) * u128::from(percent) / 100;
        u64::try_from(bps).unwrap_or(u64::MAX)
    };
    let left = part(capacity, IDLE_PERCENT).saturating_sub(part(own, OWN_PERCENT));
    Some(BitRate::from_bps(left.max(part(capacity, FLOOR_PERCENT))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(capacity: BitRate, own: BitRate) -> BitRate {
        lent_rate(Some(capacity), own).unwrap()
    }

    #[test]
    fn without_a_measured_capacity_there_is_no_limit() {
        assert_eq!(lent_rate(None, mbps(1.0)), None);
        assert_eq!(lent_rate(Some(BitRate::ZERO), mbps(1.0)), None);
    }

    fn mbps(mbps: f64) -> BitRate {
        BitRate::from_mbps(mbps)
    }

    #[test]
    fn an_idle_lender_lends_97_percent() {
        assert_eq!(lent(mbps(100.0), BitRate::ZERO), mbps(97.0));
    }

    #[test]
    fn own_traffic_of_constant_rate_is_left_a_quarter_more() {
        assert_eq!(lent(mbps(100.0), mbps(40.0)), mbps(47.0));
    }

    #[test]
    fn the_floor_is_lent_in_any_case() {
        for own in [mbps(80.0), mbps(100.0), BitRate::from_bps(u64::MAX)] {
            assert_eq!(lent(mbps(100.0), own), mbps(2.0));
        }
        let most = BitRate::from_bps(u64::MAX);
        assert!(lent(most, BitRate::ZERO) < most);
    }

    /// An own download takes whatever relays leave.
    #[test]
    fn an_own_download_has_95_percent_after_10_measurements() {
        let capacity = mbps(100.0);
        let mut rate = lent(capacity, BitRate::ZERO);
        let mut shares = Vec::new();
        for _ in 0..10 {
            let own = BitRate::from_bps(capacity.bps() - rate.bps());
            rate = lent(capacity, own);
            shares.push(own.mbps());
        }
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares[9] >= 95.0, "{shares:?}");
        assert!(shares[8] < 95.0, "it yields step by step: {shares:?}");
    }
}
