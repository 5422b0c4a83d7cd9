//! Periods of a cap.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Period of a cap, from the begin of a reset day to that of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its first day; the name of the period.
    pub first_day: Date,
    /// First day of the next one.
    pub next_day: Date,
    /// Its first instant.
    pub begins: Timestamp,
    /// The first instant of the next one.
    pub ends: Timestamp,
}

/// The period that contains an instant.
///
/// It begins at the begin of `reset_day` in `zone`; in a month without this day, on the month's
/// last day, so that February has a reset too. Where the clock is set forward at midnight, the day
/// begins at the first instant after that. `None` at the ends of the calendar.
pub fn period_at(at: Timestamp, reset_day: u8, zone: &TimeZone) -> Option<Period> {
    let today = zone.to_datetime(at).date();
    // Three candidates are enough: the civil date and the instant differ by a day at most.
    let month = today.first_of_month();
    let mut first_day = reset_in(month.checked_sub(1.month()).ok()?, reset_day)?;
    let mut begins = begin_of(first_day, zone)?;
    for later in [
        month,
        month.checked_add(1.month()).ok()?,
        month.checked_add(2.months()).ok()?,
    ] {
        let next_day = reset_in(later, reset_day)?;
        let ends = begin_of(next_day, zone)?;
        if (begins..ends).contains(&at) {
            return Some(Period {
                first_day,
                next_day,
                begins,
                ends,
            });
        }
        (first_day, begins) = (next_day, ends);
    }
    None
}

/// The reset day of a month.
fn reset_in(month: Date, reset_day: u8) -> Option<Date> {
    let day = i8::try_from(reset_day)
        .ok()?
        .clamp(1, month.days_in_month());
    month.with().day(day).build().ok()
}

fn begin_of(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let begin = day.to_zoned(zone.clone()).ok()?;
    Some(begin.start_of_day().ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(rules: &str) -> TimeZone {
        TimeZone::posix(rules).unwrap()
    }

    fn berlin() -> TimeZone {
        zone("CET-1CEST,M3.5.0,M10.5.0/3")
    }

    fn period(at: &str, day: u8, zone: &TimeZone) -> (String, String, String) {
        let found = period_at(at.parse().unwrap(), day, zone).unwrap();
        (
            found.first_day.to_string(),
            found.begins.to_string(),
            found.ends.to_string(),
        )
    }

    #[test]
    fn a_period_begins_at_midnight_of_its_zone() {
        let (first, begins, ends) = period("2026-11-16T22:59:59Z", 17, &berlin());
        assert_eq!(first, "2026-10-17");
        assert_eq!(begins, "2026-10-16T22:00:00Z", "summer time");
        assert_eq!(ends, "2026-11-16T23:00:00Z", "winter time");
        let (first, ..) = period("2026-11-16T23:00:00Z", 17, &berlin());
        assert_eq!(first, "2026-11-17", "the first instant");
    }

    #[test]
    fn in_a_shorter_month_the_last_day_is_the_reset_day() {
        let utc = TimeZone::UTC;
        for (at, first, last) in [
            ("2026-02-27T23:59:59Z", "2026-01-31", "2026-02-28T00:00:00Z"),
            ("2026-02-28T00:00:00Z", "2026-02-28", "2026-03-31T00:00:00Z"),
            ("2026-03-30T12:00:00Z", "2026-02-28", "2026-03-31T00:00:00Z"),
            ("2028-02-29T00:00:00Z", "2028-02-29", "2028-03-31T00:00:00Z"),
            ("2026-04-30T00:00:00Z", "2026-04-30", "2026-05-31T00:00:00Z"),
        ] {
            let (first_day, _, ends) = period(at, 31, &utc);
            assert_eq!((first_day.as_str(), ends.as_str()), (first, last), "{at}");
        }
        assert_eq!(period("2027-02-28T05:00:00Z", 30, &utc).0, "2027-02-28");
        assert_eq!(period("2027-02-28T05:00:00Z", 28, &utc).0, "2027-02-28");
    }

    #[test]
    fn the_first_day_is_the_calendar_month() {
        let (first, begins, ends) = period("2026-12-31T23:59:59Z", 1, &TimeZone::UTC);
        assert_eq!(first, "2026-12-01");
        assert_eq!(begins, "2026-12-01T00:00:00Z");
        assert_eq!(ends, "2027-01-01T00:00:00Z");
    }

    #[test]
    fn a_midnight_that_does_not_exist_or_exists_twice() {
        // The clock is set forward at 0:00 of the second Sunday of September, which is the 13th.
        let forward = zone("<-04>4<-03>,M9.2.0/0,M4.1.0/0");
        let (_, begins, _) = period("2026-09-20T12:00:00Z", 13, &forward);
        assert_eq!(begins, "2026-09-13T04:00:00Z");
        let (first, _, ends) = period("2026-09-13T03:59:59Z", 13, &forward);
        assert_eq!(
            (first.as_str(), ends.as_str()),
            ("2026-08-13", "2026-09-13T04:00:00Z")
        );
        // It is set back at 0:00 of the first Sunday of April, the 5th, to 23:00 of the 4th.
        let (first, _, ends) = period("2026-04-05T03:30:00Z", 5, &forward);
        assert_eq!(first, "2026-03-05", "the second 23:30 of the 4th");
        assert_eq!(ends, "2026-04-05T04:00:00Z");
    }

    #[test]
    fn the_ends_of_the_calendar_have_no_period() {
        assert_eq!(period_at(Timestamp::MIN, 1, &TimeZone::UTC), None);
        assert_eq!(period_at(Timestamp::MAX, 1, &TimeZone::UTC), None);
    }

    proptest::proptest! {
        #[test]
        fn periods_follow_one_another(
            seconds in -10_000_000_000_i64..10_000_000_000,
            day in 1_u8..=31,
            offset in proptest::bool::ANY,
        ) {
            let zone = if offset { berlin() } else { zone("<-04>4<-03>,M9.2.0/0,M4.1.0/0") };
            let at = Timestamp::from_second(seconds).unwrap();
            let own = period_at(at, day, &zone).unwrap();
            proptest::prop_assert!(own.begins <= at && at < own.ends);
            let next = period_at(own.ends, day, &zone).unwrap();
            proptest::prop_assert_eq!(next.begins, own.ends);
            proptest::prop_assert_eq!(period_at(own.begins, day, &zone), Some(own));
            let days = (own.ends.as_second() - own.begins.as_second()) / 3600;
            proptest::prop_assert!((27 * 24..=32 * 24).contains(&days), "{} hours", days);
        }
    }
}
