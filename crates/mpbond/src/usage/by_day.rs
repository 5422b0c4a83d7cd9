//! Bytes of capped links, and joules of radios, by calendar day: parts of the file of accounts.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// Links of which days are kept, as many as a policy can have. Links that are no longer configured
/// keep theirs.
const MAX_LINKS: usize = 256;

/// A day as it is written, `2026-11-27`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Day(Date);

impl TryFrom<String> for Day {
    type Error = jiff::Error;

    fn try_from(text: String) -> Result<Self, jiff::Error> {
        Date::from_str(&text).map(Self)
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.0.to_string()
    }
}

/// Bytes or joules of a link; bytes are exact up to 9 PB. In a file, below zero or infinite is as
/// good as nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
struct Amount(f64);

impl From<f64> for Amount {
    fn from(amount: f64) -> Self {
        let is_sound = amount.is_finite() && amount >= 0.0;
        Self(if is_sound { amount } else { 0.0 })
    }
}

impl From<Amount> for f64 {
    fn from(amount: Amount) -> Self {
        amount.0
    }
}

/// Amounts by names of links and by calendar days.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ByDay(BTreeMap<String, BTreeMap<Day, Amount>>);

impl ByDay {
    /// Whether no link has any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds to the amount of a link on a day. So many days up to this one are kept of each link,
    /// and so many after it, which are true ones if the clock is behind: a clock that has not been
    /// set starts in 1970, or when its system was built.
    pub(super) fn add(&mut self, link: &str, day: Date, amount: f64, kept: usize) {
        let days = match self.0.get_mut(link) {
            Some(days) => days,
            None => self.0.entry(link.to_owned()).or_default(),
        };
        let sum = days.entry(Day(day)).or_default();
        *sum = Amount::from(sum.0 + amount);
        let later = (Excluded(Day(day)), Unbounded);
        while let Some((&beyond, _)) = days.range(later).rev().nth(kept) {
            days.remove(&beyond);
        }
        while let Some((&beyond, _)) = days.range(..=Day(day)).rev().nth(kept) {
            days.remove(&beyond);
        }
        self.bound(kept);
    }

    /// Amounts of a link from one day to this one, oldest first, without earlier days that have
    /// none.
    pub(super) fn days(&self, link: &str, first: Date, today: Date) -> Vec<(Date, f64)> {
        let all = self.0.get(link).into_iter().flatten();
        let days = all.map(|(day, amount)| (day.0, amount.0));
        let mut days: Vec<_> = days
            .filter(|(day, _)| (first..=today).contains(day))
            .collect();
        if days.last().is_none_or(|(day, _)| *day != today) {
            days.push((today, 0.0));
        }
        days
    }

    /// Drops what is beyond the bounds: of each link the oldest days, where it has more than twice
    /// as many as are kept up to a day, and the links whose last day is the oldest.
    pub(super) fn bound(&mut self, kept: usize) {
        for days in self.0.values_mut() {
            while days.len() > 2 * kept {
                days.pop_first();
            }
        }
        while self.0.len() > MAX_LINKS {
            let last = |(_, days): &(&String, &BTreeMap<Day, Amount>)| {
                days.last_key_value().map(|(day, _)| *day)
            };
            let oldest = self.0.iter().min_by_key(last).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.0.remove(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_days_are_shown_and_a_wrong_clock_loses_none() {
        let week = |energy: &ByDay, link: &str, today: &str| {
            let today = day(today);
            energy.days(link, today.saturating_sub(6.days()), today)
        };
        let mut energy = ByDay::default();
        for n in 10..=19 {
            let today = day(&format!("2026-11-{n}"));
            energy.add("phone", today, f64::from(n), 8);
            energy.add("phone", today, 0.5, 8);
        }
        let today = day("2026-11-19");
        let shown = week(&energy, "phone", "2026-11-19");
        let wanted: Vec<_> = (13..=19)
            .map(|n| (day(&format!("2026-11-{n}")), f64::from(n) + 0.5))
            .collect();
        assert_eq!(shown, wanted);
        assert_eq!(week(&energy, "own", "2026-11-19"), [(today, 0.0)]);
        // The clock is wrong for a time, either way.
        energy.add("phone", day("1970-01-01"), 1.0, 8);
        energy.add("phone", day("2099-01-01"), 1.0, 8);
        assert_eq!(week(&energy, "phone", "2026-11-19"), wanted);
        // Days without traffic have no joules.
        let later = day("2026-11-24");
        let with_later = [&wanted[5..], &[(later, 0.0)]].concat();
        assert_eq!(week(&energy, "phone", "2026-11-24"), with_later);
        assert_eq!(week(&energy, "phone", "2026-11-26").len(), 1);
        for n in 0..20 {
            energy.add("phone", later.saturating_add(n.days()), 1.0, 8);
        }
        let first = day("2026-12-06");
        assert_eq!(energy.0["phone"].range(Day(first)..).count(), 9);
        assert_eq!(energy.0["phone"].len(), 9, "and 2099-01-01");
    }

    #[test]
    fn days_of_a_clock_that_was_ahead_give_way_to_true_ones() {
        let mut energy = ByDay::default();
        for n in 1..=8 {
            energy.add("phone", day("2027-11-20").saturating_add(n.days()), 9.0, 8);
        }
        for n in 20..=29 {
            let today = day(&format!("2026-11-{n}"));
            energy.add("phone", today, 0.5, 8);
            energy.add("phone", today, 0.25, 8);
            let shown = energy.days("phone", today, today);
            assert_eq!(shown, [(today, 0.75)]);
        }
        let week = energy.days("phone", day("2026-11-23"), day("2026-11-29"));
        assert_eq!(week.len(), 7, "{week:?}");
        assert_eq!(energy.0["phone"].len(), 16);
    }

    /// It starts each time when its system was built, until it is set.
    #[test]
    fn days_of_a_clock_that_is_behind_take_no_place_of_true_ones() {
        let mut energy = ByDay::default();
        let true_days = || (13..=20).map(|n| day(&format!("2026-11-{n}")));
        for today in true_days() {
            energy.add("phone", today, 0.5, 8);
        }
        let wanted: Vec<_> = true_days().map(|day| (day, 0.5)).collect();
        let shown = |energy: &ByDay| energy.days("phone", day("2026-11-13"), day("2026-11-20"));
        for run_days in [5, 1, 20] {
            for n in 0..run_days {
                energy.add("phone", day("2026-03-01").saturating_add(n.days()), 9.0, 8);
                assert_eq!(shown(&energy), wanted, "{run_days} days, after {n}");
            }
        }
        assert!(energy.0["phone"].len() <= 16);
        // It is set.
        energy.add("phone", day("2026-11-20"), 0.25, 8);
        energy.bound(8);
        let (today, before) = (day("2026-11-20"), &wanted[..7]);
        assert_eq!(shown(&energy), [before, &[(today, 0.75)]].concat());
    }

    #[test]
    fn what_a_file_says_is_bounded() {
        let text = "[phone]\n\"2026-11-27\" = -1.0\n\"2026-11-28\" = inf\n\"2026-11-29\" = 2\n";
        let mut energy: ByDay = toml::from_str(text).unwrap();
        let today = day("2026-11-29");
        let joules: Vec<f64> = energy
            .days("phone", day("2026-11-27"), today)
            .iter()
            .map(|d| d.1)
            .collect();
        assert_eq!(joules, [0.0, 0.0, 2.0]);
        energy.add("phone", today, f64::NAN, 8);
        assert_eq!(energy.days("phone", day("2026-11-27"), today)[2].1, 0.0);
        for n in 0..2 * MAX_LINKS {
            energy.add(&format!("link {n}"), day("2026-12-01"), 1.0, 8);
        }
        assert_eq!(energy.0.len(), MAX_LINKS);
        let gone = energy.days("phone", day("2026-11-27"), today);
        assert_eq!(gone, [(today, 0.0)], "the oldest has gone");
        for wrong in ["[phone]\n\"2026-11-31\" = 1.0", "phone = 3", "[a]\nb = 1.0"] {
            assert!(toml::from_str::<ByDay>(wrong).is_err(), "{wrong}");
        }
    }
}
