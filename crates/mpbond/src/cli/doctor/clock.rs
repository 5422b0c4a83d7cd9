//! This device's clock: months of budgets, times of tokens and logs follow it.

use std::time::{Duration, SystemTime};

use super::adjtimex::is_synchronised;
use super::finding::Findings;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A program is older than this only where the clock is ahead.
const PROGRAM_AGE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Accepted difference to the clock of the hardware.
const DRIFT: Duration = Duration::from_secs(120);

/// Checks the clock against the program's file and the clock of the hardware, and whether it is
/// synchronised.
pub(super) fn check(findings: &mut Findings) {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let built = program.and_then(|file| file.modified()).ok();
    let synchronised = is_synchronised();
    match problem(SystemTime::now(), built, hardware(), synchronised) {
        None => findings.ok("clock", "plausible"),
        Some(problem) => findings.warn(
            "clock",
            format!("{problem}; budgets, tokens and logs follow it"),
            "set it (`sudo timedatectl set-ntp true`)",
        ),
    }
}

fn problem(
    now: SystemTime,
    built: Option<SystemTime>,
    hardware: Option<SystemTime>,
    synchronised: Option<bool>,
) -> Option<String> {
    if let Some(built) = built {
        // A file may come from a machine in another time zone, with a clock in local time.
        if now + DAY < built {
            return Some(
                "this device's clock is behind: the program would be from the future".into(),
            );
        }
        if now > built + PROGRAM_AGE {
            return Some("this device's clock is years ahead, by the age of the program".into());
        }
    }
    let difference = hardware.map(|hardware| match now.duration_since(hardware) {
        Ok(ahead) => ("ahead of", ahead),
        Err(e) => ("behind", e.duration()),
    });
    if let Some((word, by)) = difference.filter(|(_, by)| *by > DRIFT) {
        let by = mpbond_units::human::span(by.as_secs_f64());
        return Some(format!(
            "this device's clock is {by} {word} that of its hardware"
        ));
    }
    (synchronised == Some(false))
        .then(|| "this device's clock is not synchronised, and may be wrong".to_owned())
}

/// Time of the hardware's clock, where there is one that runs in UTC (hwclock(8)).
fn hardware() -> Option<SystemTime> {
    let adjust = std::fs::read_to_string("/etc/adjtime").unwrap_or_default();
    if adjust.lines().nth(2) == Some("LOCAL") {
        return None;
    }
    let text = std::fs::read_to_string("/sys/class/rtc/rtc0/since_epoch").ok()?;
    let seconds = text.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_behind_and_ahead() {
        let built = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let now = built + 30 * DAY;
        let hour = DAY / 24;
        for (now, hardware, word) in [
            (now, None, None),
            (now, Some(now + DRIFT), None),
            (now, Some(now - DAY), Some("1 d ahead of")),
            (now, Some(now + hour), Some("behind that of its hardware")),
            (built - 2 * DAY, None, Some("from the future")),
            (built + 14 * 365 * DAY, None, Some("years ahead")),
        ] {
            let said = problem(now, Some(built), hardware, Some(true));
            assert_eq!(said.is_some(), word.is_some(), "{said:?}");
            let said = said.unwrap_or_default();
            assert!(said.contains(word.unwrap_or_default()), "{said}");
            // What is known to be wrong comes first.
            let said = problem(now, Some(built), hardware, Some(false)).unwrap();
            assert!(said.contains(word.unwrap_or("not synchronised")), "{said}");
        }
    }
}
