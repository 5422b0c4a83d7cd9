//! The order and the times of connection attempts (RFC 8305, sections 3 to 5).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::resolve::Family;

/// Time for which IPv6 addresses are waited for once there are IPv4 ones (RFC 8305, section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Time after an attempt at which the next one starts beside it (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of attempts for one connection: a name's owner decides how many addresses it has.
pub(super) const MAX_ATTEMPTS: usize = 8;

/// State of a connection in the making.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Addresses whose order is given.
    given: VecDeque<SocketAddr>,
    v6: Candidates,
    v4: Candidates,
    /// Family of the last attempt.
    last: Option<Family>,
    attempts: usize,
    under_way: usize,
    /// Until then, an attempt under way has time of its own.
    alone_until: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Candidates {
    addresses: VecDeque<SocketAddr>,
    answered_at: Option<Timestamp>,
}

/// Next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Start this attempt.
    Attempt(SocketAddr),
    /// Nothing until then.
    WaitUntil(Timestamp),
    /// Nothing until an answer arrives or an attempt ends.
    Wait,
    /// No attempt is left.
    Over,
}

impl Order {
    /// Addresses that are tried in this order; nothing is looked up.
    pub(super) fn given(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let answered = || Candidates {
            answered_at: Some(Timestamp::ZERO),
            ..Candidates::default()
        };
        Self {
            given: addresses.into_iter().collect(),
            v6: answered(),
            v4: answered(),
            ..Self::default()
        }
    }

    /// The look-up of a family has ended with these addresses.
    pub(super) fn answered(
        &mut self,
        family: Family,
        addresses: impl IntoIterator<Item = SocketAddr>,
        now: Timestamp,
    ) {
        let candidates = self.of(family);
        candidates.answered_at = Some(now);
        candidates.addresses.extend(addresses);
    }

    /// An attempt has failed: the next one need not wait.
    pub(super) fn failed(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.alone_until = None;
    }

    /// The next thing to do; an attempt is taken as started.
    pub(super) fn next(&mut self, now: Timestamp) -> Next {
        let is_spent = self.attempts >= MAX_ATTEMPTS;
        let queues = [&self.given, &self.v6.addresses, &self.v4.addresses];
        if is_spent || queues.iter().all(|queue| queue.is_empty()) {
            let answered = self.v6.answered_at.is_some() && self.v4.answered_at.is_some();
            return match self.under_way == 0 && (is_spent || answered) {
                true => Next::Over,
                false => Next::Wait,
            };
        }
        if self.attempts == 0
            && self.v6.answered_at.is_none()
            && let Some(at) = self.v4.answered_at
            && now < at + RESOLUTION_DELAY
        {
            return Next::WaitUntil(at + RESOLUTION_DELAY);
        }
        if let Some(until) = self.alone_until.filter(|until| now < *until) {
            return Next::WaitUntil(until);
        }
        let Some(address) = self.pop() else {
            return Next::Wait;
        };
        self.attempts += 1;
        self.under_way += 1;
        self.alone_until = Some(now + ATTEMPT_DELAY);
        Next::Attempt(address)
    }

    fn pop(&mut self) -> Option<SocketAddr> {
        if let Some(address) = self.given.pop_front() {
            return Some(address);
        }
        let families = match self.last {
            Some(Family::V6) => [Family::V4, Family::V6],
            Some(Family::V4) | None => [Family::V6, Family::V4],
        };
        let next = |family| Some((family, self.of(family).addresses.pop_front()?));
        let (family, address) = families.into_iter().find_map(next)?;
        self.last = Some(family);
        Some(address)
    }

    fn of(&mut self, family: Family) -> &mut Candidates {
        match family {
            Family::V6 => &mut self.v6,
            Family::V4 => &mut self.v4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    fn v6(n: u16) -> SocketAddr {
        format!("[2001:db8::{n}]:443").parse().unwrap()
    }

    fn v4(n: u16) -> SocketAddr {
        format!("192.0.2.{n}:443").parse().unwrap()
    }

    #[test]
    fn families_take_turns_every_250_ms_ipv6_first() {
        let mut order = Order::default();
        order.answered(Family::V6, (1..4).map(v6), ms(10));
        assert_eq!(order.next(ms(10)), Next::Attempt(v6(1)));
        assert_eq!(order.next(ms(10)), Next::WaitUntil(ms(260)));
        order.answered(Family::V4, (1..3).map(v4), ms(20));
        assert_eq!(order.next(ms(259)), Next::WaitUntil(ms(260)));
        assert_eq!(order.next(ms(260)), Next::Attempt(v4(1)));
        assert_eq!(order.next(ms(510)), Next::Attempt(v6(2)));
        assert_eq!(order.next(ms(760)), Next::Attempt(v4(2)));
        assert_eq!(order.next(ms(1_010)), Next::Attempt(v6(3)));
        assert_eq!(order.next(ms(1_011)), Next::Wait);
        for _ in 0..4 {
            order.failed();
            assert_eq!(order.next(ms(1_100)), Next::Wait);
        }
        order.failed();
        assert_eq!(order.next(ms(1_100)), Next::Over);
    }

    #[test]
    fn a_given_order_is_kept_250_ms_apart() {
        let mut order = Order::given([v4(1), v4(2), v6(1)]);
        assert_eq!(order.next(ms(0)), Next::Attempt(v4(1)));
        assert_eq!(order.next(ms(249)), Next::WaitUntil(ms(250)));
        assert_eq!(order.next(ms(250)), Next::Attempt(v4(2)));
        order.failed();
        assert_eq!(order.next(ms(251)), Next::Attempt(v6(1)));
        assert_eq!(order.next(ms(252)), Next::Wait);
        order.failed();
        order.failed();
        assert_eq!(order.next(ms(253)), Next::Over);
        assert_eq!(Order::given([]).next(ms(0)), Next::Over);
    }

    #[test]
    fn ipv4_waits_50_ms_for_ipv6_and_no_longer() {
        let mut order = Order::default();
        assert_eq!(order.next(ms(0)), Next::Wait);
        order.answered(Family::V4, [v4(1), v4(2)], ms(30));
        assert_eq!(order.next(ms(30)), Next::WaitUntil(ms(80)));
        assert_eq!(order.next(ms(80)), Next::Attempt(v4(1)));
        // Late, but next.
        order.answered(Family::V6, [v6(1)], ms(90));
        assert_eq!(order.next(ms(330)), Next::Attempt(v6(1)));

        let mut order = Order::default();
        order.answered(Family::V4, [v4(1)], ms(30));
        order.answered(Family::V6, [], ms(40));
        assert_eq!(order.next(ms(40)), Next::Attempt(v4(1)), "there is no IPv6");
        let mut order = Order::default();
        order.answered(Family::V4, [v4(1)], ms(30));
        order.answered(Family::V6, [v6(1)], ms(79));
        assert_eq!(order.next(ms(79)), Next::Attempt(v6(1)));
    }

    #[test]
    fn after_a_failure_the_next_attempt_starts_at_once() {
        let mut order = Order::default();
        order.answered(Family::V6, [v6(1)], ms(0));
        order.answered(Family::V4, [v4(1)], ms(0));
        assert_eq!(order.next(ms(0)), Next::Attempt(v6(1)));
        order.failed();
        assert_eq!(order.next(ms(1)), Next::Attempt(v4(1)));
        order.failed();
        assert_eq!(order.next(ms(2)), Next::Over);
    }

    #[test]
    fn attempts_are_bounded_and_a_name_without_addresses_is_over_at_once() {
        let mut order = Order::default();
        order.answered(Family::V6, (0..100).map(v6), ms(0));
        let mut attempts = 0;
        while let Next::Attempt(_) = order.next(ms(0)) {
            attempts += 1;
            order.failed();
        }
        assert_eq!(attempts, MAX_ATTEMPTS);
        assert_eq!(order.next(ms(1)), Next::Over);

        let mut order = Order::default();
        order.answered(Family::V6, [], ms(0));
        assert_eq!(order.next(ms(0)), Next::Wait);
        order.answered(Family::V4, [], ms(1));
        assert_eq!(order.next(ms(1)), Next::Over);
    }
}
