//! Times of the week, as minutes since Monday 0:00 on the clock of the policy's zone.

use jiff::civil::DateTime;

use super::interval::Intervals;
use crate::value::{FromText, MAX_NAME_BYTES, whole_number};

const DAY: u16 = 24 * 60;
const WEEK: u16 = 7 * DAY;

/// Names of the days, from Monday.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A window such as "22:00-06:00" or "mon-fri 22:00-06:00".
///
/// A window that ends at or before its begin ends on the next day. It belongs to the day on which
/// it begins.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    text: String,
    /// First and last minute of each part within the week.
    minutes: Vec<(u128, u128)>,
}

impl FromText for Window {
    const EXPECTED: &'static str = "a time such as \"22:00-06:00\" or \"mon-fri 8:00-17:30\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = || Self::unexpected(text);
        if text.len() > MAX_NAME_BYTES {
            return Err(wrong());
        }
        let (days, hours) = match text.split_once(' ') {
            Some((days, hours)) => (days_of(days).ok_or_else(wrong)?, hours.trim()),
            None => ([true; 7], text),
        };
        let (begin, end) = hours.split_once('-').ok_or_else(wrong)?;
        let begin = minute_of(begin).filter(|m| *m < DAY).ok_or_else(wrong)?;
        let end = minute_of(end).ok_or_else(wrong)?;
        if begin == end {
            return Err(format!(
                "\"{text}\" is empty: it ends when it begins; a whole day is \"00:00-24:00\""
            ));
        }
        let length = if end > begin {
            end - begin
        } else {
            end + DAY - begin
        };
        let mut minutes = Vec::new();
        for (day, _) in (0..7_u16).zip(days).filter(|(_, chosen)| *chosen) {
            let first = day * DAY + begin;
            let last = first + length - 1;
            minutes.push((u128::from(first), u128::from(last.min(WEEK - 1))));
            if last >= WEEK {
                minutes.push((0, u128::from(last - WEEK)));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            minutes,
        })
    }
}

/// "mon", "mon-fri", "fri-mon" or "sat,sun".
fn days_of(text: &str) -> Option<[bool; 7]> {
    let mut days = [false; 7];
    let number = |name: &str| DAYS.iter().position(|d| d.eq_ignore_ascii_case(name));
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let length = (last + 7 - first) % 7;
        for day in first..=first + length {
            *days.get_mut(day % 7)? = true;
        }
    }
    Some(days)
}

/// "8:00" to "24:00".
fn minute_of(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    if !(1..=2).contains(&hours.len()) || minutes.len() != 2 {
        return None;
    }
    let hours = u16::try_from(whole_number(hours)?).ok()?;
    let minutes = u16::try_from(whole_number(minutes)?).ok()?;
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

/// The minutes of several windows.
///
/// # Errors
/// When two of them overlap: one of the two is not what was meant.
pub(crate) fn union(windows: &[Window]) -> Result<Intervals, String> {
    let mut parts: Vec<_> = windows
        .iter()
        .flat_map(|window| window.minutes.iter().map(move |part| (*part, &window.text)))
        .collect();
    parts.sort_unstable();
    for pair in parts.windows(2) {
        if let [(one, text), (other, other_text)] = pair
            && other.0 <= one.1
        {
            return Err(format!("\"{text}\" and \"{other_text}\" overlap"));
        }
    }
    Ok(Intervals::new(parts.into_iter().map(|(part, _)| part)))
}

/// The minute of the week.
pub(crate) fn minute_of_week(at: DateTime) -> u16 {
    let day = u16::from(at.weekday().to_monday_zero_offset().unsigned_abs());
    let hour = u16::from(at.hour().unsigned_abs());
    day * DAY + hour * 60 + u16::from(at.minute().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(windows: &[&str]) -> Result<Intervals, String> {
        let parse = |text: &&str| Window::from_text(text);
        union(&windows.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
    }

    /// 2 November 2026 is a Monday.
    fn at(day: i8, hour: i8, minute: i8) -> u128 {
        minute_of_week(DateTime::constant(2026, 11, 1 + day, hour, minute, 0, 0)).into()
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let nights = set(&["mon-fri 22:00-06:00"]).unwrap();
        for (day, hour, minute, inside) in [
            (1, 21, 59, false),
            (1, 22, 0, true),
            (2, 5, 59, true),
            (2, 6, 0, false),
            (1, 5, 0, false), // that of Sunday
            (6, 5, 59, true), // that of Friday
            (6, 22, 0, false),
        ] {
            assert_eq!(
                nights.contains(at(day, hour, minute)),
                inside,
                "{day} {hour}"
            );
        }
        let sunday = set(&["sun 23:00-1:00"]).unwrap();
        assert!(sunday.contains(at(7, 23, 30)) && sunday.contains(at(1, 0, 59)));
        assert!(!sunday.contains(at(1, 1, 0)) && !sunday.contains(at(7, 0, 30)));
    }

    #[test]
    fn whole_days_and_several_days() {
        let weekend = set(&["sat,sun 0:00-24:00"]).unwrap();
        assert!(weekend.contains(at(6, 0, 0)) && weekend.contains(at(7, 23, 59)));
        assert!(!weekend.contains(at(5, 23, 59)) && !weekend.contains(at(1, 0, 0)));
        assert_eq!(
            set(&["fri-mon 8:00-9:00"]),
            set(&["fri,sat,sun,mon 8:00-9:00"])
        );
        assert_eq!(set(&["20:00-0:00"]), set(&["20:00-24:00"]));
        assert_eq!(set(&["0:00-12:00", "12:00-24:00"]), set(&["00:00-24:00"]));
    }

    #[test]
    fn empty_and_overlapping_windows_are_refused() {
        let error = |windows: &[&str]| set(windows).unwrap_err();
        assert!(error(&["8:00-8:00"]).contains("is empty"));
        assert!(error(&["0:00-0:00"]).contains("is empty"));
        let overlap = "\"8:00-10:00\" and \"mon 9:59-11:00\" overlap";
        assert_eq!(error(&["8:00-10:00", "mon 9:59-11:00"]), overlap);
        assert!(set(&["8:00-10:00", "10:00-11:00"]).is_ok());
        assert!(error(&["22:00-06:00", "5:59-7:00"]).contains("overlap"));
        assert!(error(&["sun 22:00-06:00", "mon 5:00-7:00"]).contains("overlap"));
        for bad in [
            "",
            "8-9",
            "8:00",
            "24:00-6:00",
            "8:60-9:00",
            "8:00-25:00",
            "xyz 8:00-9:00",
        ] {
            assert!(error(&[bad]).contains("is not a time"), "{bad}");
        }
    }
}
