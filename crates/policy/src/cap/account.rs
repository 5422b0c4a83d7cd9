//! Account of the bytes used of a cap.

use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::Date;
use mpbond_units::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cap, Period};

/// Other periods kept, so that a clock that was wrong for a time does not renew a cap: that of a
/// clock that starts in 1970, of one that was set wrong, the true one, and a spare one.
const OTHERS: usize = 4;

/// Interval of saving an account that changes.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// An account is saved earlier when it has changed by this part of the cap.
const SAVE_PARTS: u64 = 100;

/// Use of a cap by which the user is informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapEvent {
    /// The percentage of `warn` is used.
    Warning,
    /// All bytes are used.
    Reached,
}

/// Bytes used in a period. Serialized, it is what a daemon keeps over restarts.
///
/// The monthly account that a helper keeps beside its identity is read as one whose periods begin
/// on the first day of a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    #[serde(alias = "month")]
    period: FirstDay,
    /// First day of the next period; without it, the period is a month.
    #[serde(default)]
    next: Option<FirstDay>,
    used_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    informed: Option<Informed>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Other>,
    #[serde(skip)]
    saved: Option<Saved>,
}

/// Bytes of a cap that only their owner may use.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Reservation {
    period: FirstDay,
    bytes: u64,
}

impl Reservation {
    /// Number of bytes; zero when the cap is used up.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Bytes used in another period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Other {
    #[serde(alias = "month")]
    period: FirstDay,
    used_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    informed: Option<Informed>,
}

/// State at the last save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Saved {
    at: Timestamp,
    period: FirstDay,
    used_bytes: u64,
    informed: Option<Informed>,
}

/// The greatest event of which the user has been informed, with the values of the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Informed {
    event: CapEvent,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warn_percent: Option<u8>,
}

impl Account {
    /// An account of a period in which nothing has been used.
    pub const fn new(period: &Period) -> Self {
        Self {
            period: FirstDay(period.first_day),
            next: Some(FirstDay(period.next_day)),
            used_bytes: 0,
            informed: None,
            others: Vec::new(),
            saved: None,
        }
    }

    /// First day of the period.
    pub const fn first_day(&self) -> Date {
        self.period.0
    }

    /// Bytes used in the period. They may exceed the cap, after it was lowered or on standby.
    pub const fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes left.
    pub const fn left_bytes(&self, cap: &Cap) -> u64 {
        cap.bytes.saturating_sub(self.used_bytes)
    }

    /// Whether all bytes are used.
    pub const fn is_reached(&self, cap: &Cap) -> bool {
        self.left_bytes(cap) == 0
    }

    /// Takes the period of the present time. Bytes used in a period count when the clock returns
    /// to it.
    ///
    /// Periods of one reset day have no day in common. Where this one and the last one do, the
    /// reset day has been changed: all bytes used in the last one count in this one too.
    pub fn handle_period(&mut self, period: &Period) {
        let overlaps = self.overlaps(period);
        self.next = Some(FirstDay(period.next_day));
        let period = FirstDay(period.first_day);
        if self.period == period {
            return;
        }
        let known = self.others.iter().position(|other| other.period == period);
        let new = Other {
            period,
            used_bytes: 0,
            informed: None,
        };
        let next = known.map_or(new, |at| self.others.remove(at));
        self.others.push(Other {
            period: self.period,
            used_bytes: self.used_bytes,
            informed: self.informed,
        });
        if self.others.len() > OTHERS {
            self.others.remove(0);
        }
        self.period = next.period;
        if !overlaps || next.used_bytes > self.used_bytes {
            self.used_bytes = next.used_bytes;
            self.informed = next.informed;
        }
    }

    fn overlaps(&self, period: &Period) -> bool {
        let next = match self.next {
            Some(FirstDay(next)) => Some(next),
            None => self.period.0.checked_add(1.month()).ok(),
        };
        self.period.0 < period.next_day && next.is_some_and(|next| period.first_day < next)
    }

    /// Reserves up to `wanted` bytes that are to be sent or received, and never more than are left.
    /// Those that are not used are returned with [`give_back`](Self::give_back).
    pub fn reserve(&mut self, wanted: u64, cap: &Cap) -> Reservation {
        let bytes = wanted.min(self.left_bytes(cap));
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        Reservation {
            period: self.period,
            bytes,
        }
    }

    /// Returns the bytes of a reservation that were not used, to the period of the reservation.
    pub fn give_back(&mut self, reservation: Reservation, unused_bytes: u64) {
        let bytes = unused_bytes.min(reservation.bytes);
        let used = if self.period == reservation.period {
            Some(&mut self.used_bytes)
        } else {
            let mut others = self.others.iter_mut();
            let other = others.find(|other| other.period == reservation.period);
            other.map(|other| &mut other.used_bytes)
        };
        if let Some(used) = used {
            *used = used.saturating_sub(bytes);
        }
    }

    /// Counts bytes that have been sent or received without a reservation: those of an interface.
    pub const fn count(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
    }

    /// The event of which the user has not been informed in this period, once for each cap.
    pub fn poll_event(&mut self, cap: &Cap) -> Option<CapEvent> {
        let event = match cap.warn_percent {
            _ if self.is_reached(cap) => Some(CapEvent::Reached),
            // Without rounding: 75 % of 3 bytes are used with the third one.
            Some(percent) if 100 * wide(self.used_bytes) >= wide(cap.bytes) * wide(percent) => {
                Some(CapEvent::Warning)
            }
            _ => None,
        };
        let told = self.informed.and_then(|told| {
            let is_same = told.bytes == cap.bytes && told.warn_percent == cap.warn_percent;
            // Of another cap, only what holds of this one too.
            if is_same {
                Some(told.event)
            } else {
                event.min(Some(told.event))
            }
        });
        self.informed = event.max(told).map(|event| Informed {
            event,
            bytes: cap.bytes,
            warn_percent: cap.warn_percent,
        });
        event.filter(|_| event > told)
    }

    /// Whether the account should be saved: its bytes have changed, 30 s ago at least or by 1 % of
    /// the cap, or the user has been informed of an event.
    pub fn is_save_due(&self, now: Timestamp, cap: &Cap) -> bool {
        let Some(saved) = self.saved else {
            return self.used_bytes > 0;
        };
        let changed = self.used_bytes.abs_diff(saved.used_bytes);
        let much = changed >= (cap.bytes / SAVE_PARTS).max(1);
        let is_new = saved.period != self.period || saved.informed != self.informed;
        is_new || much || (changed > 0 && now.since(saved.at) >= SAVE_EVERY)
    }

    /// Notes that the account has been saved.
    pub const fn handle_saved(&mut self, now: Timestamp) {
        self.saved = Some(Saved {
            at: now,
            period: self.period,
            used_bytes: self.used_bytes,
            informed: self.informed,
        });
    }
}

fn wide(number: impl Into<u128>) -> u128 {
    number.into()
}

/// First day of a period: "2026-11-17", or "2026-11" for the first of that month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FirstDay(Date);

impl Serialize for FirstDay {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FirstDay {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let whole = match text.len() {
            7 => format!("{text}-01"),
            _ => text,
        };
        let wrong = |_| serde::de::Error::custom("expected a day such as \"2026-11-17\"");
        whole.parse().map(Self).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::cap::{AtCap, period_at};

    fn cap(bytes: u64) -> Cap {
        Cap {
            bytes,
            reset_day: 1,
            zone: TimeZone::UTC,
            warn_percent: Some(75),
            at_cap: AtCap::Off,
        }
    }

    fn period(day: &str) -> Period {
        let at = format!("{day}T12:00:00Z").parse().unwrap();
        period_at(at, 1, &TimeZone::UTC).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn a_cap_is_exact_to_the_byte() {
        let (mut account, cap) = (Account::new(&period("2026-11-05")), cap(1_000));
        assert_eq!(account.reserve(999, &cap).bytes(), 999);
        assert!(!account.is_reached(&cap));
        let last = account.reserve(2, &cap);
        assert_eq!(last.bytes(), 1);
        assert!(account.is_reached(&cap));
        assert_eq!(account.reserve(1, &cap).bytes(), 0);
        account.give_back(last, 7);
        assert_eq!(account.left_bytes(&cap), 1, "no more than was reserved");
        account.count(10);
        assert_eq!((account.used_bytes(), account.left_bytes(&cap)), (1_009, 0));
        account.count(u64::MAX);
        assert_eq!(account.used_bytes(), u64::MAX);
    }

    #[test]
    fn a_lower_cap_leaves_what_was_used() {
        let mut account = Account::new(&period("2026-11-05"));
        account.count(700);
        for (bytes, left) in [(1_500, 800), (700, 0), (100, 0), (701, 1), (1_000, 300)] {
            assert_eq!(account.left_bytes(&cap(bytes)), left, "{bytes}");
            assert_eq!(account.used_bytes(), 700);
        }
    }

    #[test]
    fn what_was_reserved_in_a_period_is_returned_to_it() {
        let (mut account, cap) = (Account::new(&period("2026-11-30")), cap(1_000));
        let reserved = account.reserve(600, &cap);
        account.handle_period(&period("2026-12-01"));
        account.count(500);
        account.give_back(reserved, 600);
        assert_eq!(account.used_bytes(), 500, "nothing of this period's");
        account.handle_period(&period("2026-11-30"));
        assert_eq!(account.used_bytes(), 0);
    }

    #[test]
    fn a_clock_that_was_wrong_renews_nothing() {
        let (mut account, cap) = (Account::new(&period("2026-11-05")), cap(1_000));
        account.count(700);
        for wrong in ["1970-01-01", "2099-01-01", "1970-01-01"] {
            account.handle_period(&period(wrong));
            assert_eq!(account.left_bytes(&cap), 1_000);
        }
        let text = toml::to_string(&account).unwrap();
        let mut account: Account = toml::from_str(&text).unwrap();
        account.handle_period(&period("2026-11-06"));
        assert_eq!(account.left_bytes(&cap), 300, "over restarts as well");
        account.handle_period(&period("2026-12-01"));
        assert_eq!(account.left_bytes(&cap), 1_000, "the next month");
        for year in 2100..2200 {
            account.handle_period(&period(&format!("{year}-01-01")));
        }
        assert_eq!(account.others.len(), OTHERS);
    }

    #[test]
    fn the_user_is_informed_once_of_each_event() {
        let (mut account, cap) = (Account::new(&period("2026-11-05")), cap(1_000));
        account.count(749);
        assert_eq!(account.poll_event(&cap), None);
        account.count(1);
        assert_eq!(account.poll_event(&cap), Some(CapEvent::Warning));
        assert_eq!(account.poll_event(&cap), None);
        let text = toml::to_string(&account).unwrap();
        let mut account: Account = toml::from_str(&text).unwrap();
        assert_eq!(account.poll_event(&cap), None, "nor after a restart");
        let reserved = account.reserve(u64::MAX, &cap);
        assert_eq!(account.poll_event(&cap), Some(CapEvent::Reached));
        account.give_back(reserved, 1);
        account.count(1);
        assert_eq!(account.poll_event(&cap), None);
        account.handle_period(&period("2026-12-01"));
        account.count(5_000);
        assert_eq!(
            account.poll_event(&cap),
            Some(CapEvent::Reached),
            "past the warning"
        );
        account.handle_period(&period("2026-11-30"));
        assert_eq!(account.poll_event(&cap), None);
    }

    #[test]
    fn a_changed_reset_day_renews_nothing() {
        let on = |day: &str, reset_day| {
            let at = format!("{day}T12:00:00Z").parse().unwrap();
            period_at(at, reset_day, &TimeZone::UTC).unwrap()
        };
        let mut account = Account::new(&on("2026-11-20", 1));
        account.count(700);
        account.handle_period(&on("2026-11-20", 17));
        assert_eq!(account.first_day().to_string(), "2026-11-17");
        assert_eq!(account.used_bytes(), 700);
        account.count(50);
        account.handle_period(&on("2026-11-20", 1));
        assert_eq!(account.used_bytes(), 750, "back again");
        let text = toml::to_string(&account).unwrap();
        let mut account: Account = toml::from_str(&text).unwrap();
        account.handle_period(&on("2026-11-21", 30));
        assert_eq!(account.used_bytes(), 750, "over a restart");
        account.handle_period(&on("2026-11-30", 30));
        assert_eq!(account.used_bytes(), 0, "the next period");
        // That of a helper has no reset day.
        let mut account: Account = toml::from_str("month = \"2026-11\"\nused_bytes = 9").unwrap();
        account.handle_period(&on("2026-11-20", 17));
        assert_eq!(account.used_bytes(), 9);
        account.handle_period(&on("2026-12-17", 17));
        assert_eq!(account.used_bytes(), 0);
    }

    #[test]
    fn the_user_is_informed_again_when_the_cap_has_changed() {
        let mut account = Account::new(&period("2026-11-05"));
        account.count(1_000);
        assert_eq!(account.poll_event(&cap(1_000)), Some(CapEvent::Reached));
        assert_eq!(account.poll_event(&cap(2_000)), None);
        account.count(500);
        assert_eq!(account.poll_event(&cap(2_000)), Some(CapEvent::Warning));
        assert_eq!(account.poll_event(&cap(1_500)), Some(CapEvent::Reached));
        assert_eq!(account.poll_event(&cap(1_600)), None, "94 %: more was said");
        account.count(100);
        assert_eq!(account.poll_event(&cap(1_600)), Some(CapEvent::Reached));
    }

    #[test]
    fn an_event_is_saved_at_once() {
        let (mut account, cap) = (Account::new(&period("2026-11-05")), cap(1_000));
        account.count(750);
        account.handle_saved(at(0));
        assert!(account.poll_event(&cap).is_some());
        assert!(account.is_save_due(at(0), &cap));
        account.handle_saved(at(0));
        assert!(!account.is_save_due(at(0), &cap));
    }

    #[test]
    fn an_account_is_saved_after_30_s_or_1_percent() {
        let (mut account, cap) = (Account::new(&period("2026-11-05")), cap(1_000));
        assert!(!account.is_save_due(at(0), &cap), "nothing used");
        account.count(1);
        assert!(account.is_save_due(at(0), &cap), "never saved");
        account.handle_saved(at(0));
        assert!(!account.is_save_due(at(1_000), &cap), "unchanged");
        account.count(9);
        assert!(!account.is_save_due(at(29), &cap));
        assert!(account.is_save_due(at(30), &cap));
        account.count(1);
        assert!(account.is_save_due(at(1), &cap), "1 %");
        account.handle_saved(at(1));
        account.handle_period(&period("2026-12-01"));
        assert!(account.is_save_due(at(1), &cap), "another period");
    }

    #[test]
    fn the_monthly_account_of_a_helper_is_read() {
        let text = "month = \"2026-11\"\nused_bytes = 700\n\n[[others]]\nmonth = \"1970-01\"\n\
                    used_bytes = 5\n";
        let mut account: Account = toml::from_str(text).unwrap();
        account.handle_period(&period("2026-11-05"));
        assert_eq!(account.used_bytes(), 700);
        account.handle_period(&period("1970-01-20"));
        assert_eq!(account.used_bytes(), 5);
        for bad in ["2026-13", "2026", "", "2026-11-31"] {
            let text = format!("period = \"{bad}\"\nused_bytes = 1\n");
            assert!(toml::from_str::<Account>(&text).is_err(), "{bad}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Reserve(u64),
        GiveBack(u64),
        Count(u64),
        Month(i8),
        Restart,
    }

    fn step() -> impl proptest::strategy::Strategy<Value = Step> {
        use proptest::prelude::*;
        prop_oneof![
            (0_u64..600).prop_map(Step::Reserve),
            (0_u64..600).prop_map(Step::GiveBack),
            (0_u64..50).prop_map(Step::Count),
            (1_i8..5).prop_map(Step::Month),
            Just(Step::Restart),
        ]
    }

    proptest::proptest! {
        #[test]
        fn every_byte_is_in_the_account_of_its_period(
            steps in proptest::collection::vec(step(), 0..60),
        ) {
            let cap = cap(1_000);
            let mut account = Account::new(&period("2026-01-15"));
            let (mut month, mut used) = (1_usize, [0_u64; 5]);
            let mut reserved = Vec::new();
            for step in steps {
                match step {
                    Step::Reserve(wanted) => {
                        let got = account.reserve(wanted, &cap);
                        let left = 1_000_u64.saturating_sub(used[month]);
                        proptest::prop_assert_eq!(got.bytes(), wanted.min(left));
                        used[month] += got.bytes();
                        reserved.push((month, got));
                    }
                    Step::GiveBack(unused) => {
                        if let Some((month, reservation)) = reserved.pop() {
                            used[month] -= unused.min(reservation.bytes());
                            account.give_back(reservation, unused);
                        }
                    }
                    Step::Count(bytes) => {
                        account.count(bytes);
                        used[month] += bytes;
                    }
                    Step::Month(next) => {
                        month = usize::try_from(next).unwrap();
                        account.handle_period(&period(&format!("2026-0{month}-15")));
                    }
                    Step::Restart => {
                        let text = toml::to_string(&account).unwrap();
                        account = toml::from_str(&text).unwrap();
                    }
                }
                proptest::prop_assert_eq!(account.used_bytes(), used[month]);
                proptest::prop_assert_eq!(account.is_reached(&cap), used[month] >= 1_000);
            }
        }
    }
}
