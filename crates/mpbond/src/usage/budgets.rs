//! Budgets of rules: bytes that their connections have moved, and whether they are used up.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use mpbond_policy::{Cap, CapEvent};
use mpbond_units::Timestamp;
use tokio::sync::Notify;

use super::{Capped, Moved, Usage};
use crate::driver::Budget;

/// Interval at which decisions about new connections count budgets, which finds out whether a
/// period has ended: that of many budgets takes longer than the rest of a decision.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Budgets of rules that have carried connections, by the names of the rules. For one thread.
#[derive(Default)]
pub struct Budgets {
    by_rule: HashMap<String, Counted>,
    counted: Option<Timestamp>,
    moved: Rc<Notify>,
}

/// A budget, with the bytes used of it when they were counted last.
struct Counted {
    budget: Rc<Budget>,
    seen: u64,
}

impl Budgets {
    /// The budget of the connections of a rule.
    pub fn of(&mut self, usage: &Usage, rule: &str, cap: &Cap) -> Rc<Budget> {
        let used = usage.used_bytes(&Capped::Rule(rule.to_owned()));
        let counted = self.by_rule.entry(rule.to_owned()).or_insert_with(|| {
            let (left, moved) = (cap.bytes.saturating_sub(used), Rc::clone(&self.moved));
            let budget = Rc::new(Budget::new(left, moved));
            Counted { budget, seen: 0 }
        });
        Rc::clone(&counted.budget)
    }

    /// Bytes that the connections of all rules have moved.
    pub fn used(&self) -> u64 {
        let used = self.by_rule.values().map(|counted| counted.budget.used());
        used.fold(0, u64::saturating_add)
    }

    /// Notifies those who wait when bytes of a budget move.
    pub fn moved(&self) -> Rc<Notify> {
        Rc::clone(&self.moved)
    }

    /// Counts what connections of a rule have moved until this time, and grants them what is left
    /// in its period. Returns the bytes used, and the event of which the user has not been
    /// informed.
    pub fn count(
        &mut self,
        usage: &mut Usage,
        (rule, cap): (&str, &Cap),
        at: jiff::Timestamp,
    ) -> (u64, Option<CapEvent>) {
        let of = Capped::Rule(rule.to_owned());
        let counted = self.by_rule.get_mut(rule);
        let moved = counted.map_or(0, |counted| {
            let used = counted.budget.used();
            used - std::mem::replace(&mut counted.seen, used)
        });
        let event = usage.count(&of, cap, at, Some(Moved::Bytes(moved)));
        let used = usage.used_bytes(&of);
        if let Some(Counted { budget, seen }) = self.by_rule.get(rule) {
            budget.set_limit(seen.saturating_add(cap.bytes.saturating_sub(used)));
        }
        (used, event)
    }

    /// Names of the rules of these budgets whose budgets are used up now. Once a second they are
    /// counted first, and what that returns is handed on. It takes no system call.
    pub fn spent<'p, I>(
        &mut self,
        usage: &mut Usage,
        budgets: impl Fn() -> I,
        now: Timestamp,
        mut counted: impl FnMut((&'p str, &'p Cap), (u64, Option<CapEvent>)),
    ) -> BTreeSet<String>
    where
        I: Iterator<Item = (&'p str, &'p Cap)>,
    {
        // A period may have ended.
        if self.is_due(now) {
            for of in budgets() {
                counted(of, self.count(usage, of, jiff::Timestamp::now()));
            }
        }
        let spent = budgets().filter(|(rule, cap)| self.is_spent(usage, rule, cap));
        spent.map(|(rule, _)| rule.to_owned()).collect()
    }

    /// Whether a decision is to count them, since the last one did so long ago.
    fn is_due(&mut self, now: Timestamp) -> bool {
        let is_due = self
            .counted
            .is_none_or(|counted| now.since(counted) >= COUNT_EVERY);
        if is_due {
            self.counted = Some(now);
        }
        is_due
    }

    /// Whether a rule's budget is used up, to the byte within the period of the last count.
    fn is_spent(&self, usage: &Usage, rule: &str, cap: &Cap) -> bool {
        match self.by_rule.get(rule) {
            Some(counted) => counted.budget.is_spent(),
            None => usage.is_reached(&Capped::Rule(rule.to_owned()), cap),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use jiff::tz::TimeZone;
    use mpbond_policy::AtCap;

    use super::*;

    fn cap() -> Cap {
        Cap {
            bytes: 1_000,
            reset_day: 1,
            zone: TimeZone::UTC,
            warn_percent: None,
            at_cap: AtCap::Off,
        }
    }

    #[test]
    fn a_budget_is_spent_at_its_last_byte_and_renewed_by_the_first_count_of_its_next_period() {
        let folder = tempfile::tempdir().unwrap();
        let mut usage = Usage::load(&folder.path().join("identity.pem")).unwrap();
        let cap = cap();
        let time = |at: &str| -> jiff::Timestamp { at.parse().unwrap() };
        let mut budgets = Budgets::default();
        let of = ("some", &cap);
        assert_eq!(
            budgets.count(&mut usage, of, time("2026-11-27T12:00:00Z")),
            (0, None)
        );
        assert!(!budgets.is_spent(&usage, "some", &cap));
        let budget = budgets.of(&usage, "some", &cap);
        budget.moved(999);
        assert!(!budgets.is_spent(&usage, "some", &cap));
        budget.moved(1);
        assert!(
            budgets.is_spent(&usage, "some", &cap),
            "before it is counted"
        );
        let counted = budgets.count(&mut usage, of, time("2026-11-30T23:59:59Z"));
        assert_eq!(counted, (1_000, Some(CapEvent::Reached)));
        assert!(budgets.is_spent(&usage, "some", &cap));
        // Over a restart of the daemon.
        assert!(Budgets::default().is_spent(&usage, "some", &cap));
        let renewed = budgets.count(&mut usage, of, time("2026-12-01T00:00:00Z"));
        assert_eq!(renewed, (0, None));
        assert!(!budgets.is_spent(&usage, "some", &cap));
    }

    #[test]
    fn bytes_of_any_rule_notify_those_who_wait() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::load(&folder.path().join("identity.pem")).unwrap();
        let mut budgets = Budgets::default();
        let [_one, other] = ["one", "other"].map(|rule| budgets.of(&usage, rule, &cap()));
        let notify = budgets.moved();
        let mut waits = std::pin::pin!(notify.notified());
        let mut context = Context::from_waker(Waker::noop());
        other.moved(0);
        assert!(waits.as_mut().poll(&mut context).is_pending());
        other.moved(1);
        assert!(waits.poll(&mut context).is_ready());
        assert_eq!(budgets.used(), 1);
    }

    #[test]
    fn decisions_find_spent_budgets_at_once_and_count_once_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let mut usage = Usage::load(&folder.path().join("identity.pem")).unwrap();
        let cap = cap();
        let mut budgets = Budgets::default();
        let [spent, _left] = ["spent", "left"].map(|rule| budgets.of(&usage, rule, &cap));
        let rules = || {
            ["spent", "left", "unused"]
                .map(|rule| (rule, &cap))
                .into_iter()
        };
        let mut decide = |ms: u64| {
            let mut counted = Vec::new();
            let now = Timestamp::from_millis(ms);
            let names = budgets.spent(&mut usage, rules, now, |(rule, _), (used, event)| {
                counted.push((rule, used, event.is_some()));
            });
            (names.into_iter().collect::<Vec<_>>(), counted)
        };
        let none = [
            ("spent", 0, false),
            ("left", 0, false),
            ("unused", 0, false),
        ];
        assert_eq!(decide(0), (Vec::new(), none.to_vec()));
        spent.moved(1_000);
        for ms in [1, 999] {
            assert_eq!(
                decide(ms),
                (vec!["spent".to_owned()], Vec::new()),
                "{ms} ms"
            );
        }
        let (names, counted) = decide(1_000);
        assert_eq!(names, ["spent"]);
        assert_eq!(counted[0], ("spent", 1_000, true));
        assert_eq!(counted[1..], none[1..]);
    }
}
