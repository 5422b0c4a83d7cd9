//! Parameters of an application for one connection, given with its user name:
//! `NAME,class=background`.
//!
//! Everything before the first comma is the name that credentials are compared with; it may be
//! empty. SOCKS5 and SOCKS 4 have the user name in their handshake, HTTP in `Proxy-Authorization`
//! (Basic).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mpbond_units::duration_text;

/// Shortest interval between two warnings about invalid parameters.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Least and longest deadline, as for `delay` in a policy.
const DEADLINES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

/// Traffic class that an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Calls and games.
    Realtime,
    /// Messages, pages, terminals.
    Interactive,
    /// Downloads and uploads.
    Bulk,
    /// Backups, updates, synchronisation.
    Background,
}

/// Parameters of an application for one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// Class of its traffic.
    pub class: Option<Class>,
    /// Time for which a connection of class background may wait before it begins.
    pub deadline: Option<Duration>,
}

/// Error in the part of a user name behind the first comma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIntent {
    /// No `KEY=VALUE` with a known key.
    #[error("user name: only class=CLASS and deadline=SPAN may follow a comma")]
    Key,
    /// A key occurs twice.
    #[error("user name: a key is given twice")]
    Twice,
    /// The value of `class` is unknown.
    #[error("user name: the class is none of realtime, interactive, bulk, background")]
    Class,
    /// A deadline of a class that does not wait.
    #[error("user name: a deadline is for class=background, other classes never wait")]
    DeadlineOfClass,
    /// The value of `deadline` is no span of time, or not within its bounds.
    #[error("user name: the deadline is no span of time such as 30s, from 1s to 1h")]
    Deadline,
}

impl Intent {
    /// Divides a user name into the name for credentials and the parameters behind it.
    ///
    /// # Errors
    /// [`BadIntent`] for an unknown key or value.
    pub(crate) fn split(user: &[u8]) -> (&[u8], Result<Self, BadIntent>) {
        let mut parts = user.split(|octet| *octet == b',');
        let name = parts.next().unwrap_or_default();
        (name, Self::read(parts))
    }

    /// Parameters behind a user name where no credentials are required, so that any name will do.
    /// It may have commas: without `=` behind the first comma, the whole user name is the name.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub(crate) fn of_any_name(user: &[u8]) -> Result<Self, BadIntent> {
        let mut behind = user.split(|octet| *octet == b',').skip(1);
        match behind.any(|part| part.contains(&b'=')) {
            true => Self::split(user).1,
            false => Ok(Self::default()),
        }
    }

    fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<Self, BadIntent> {
        let mut intent = Self::default();
        for part in parts {
            let part = std::str::from_utf8(part).map_err(|_| BadIntent::Key)?;
            match part.split_once('=') {
                Some(("class", name)) if intent.class.is_none() => {
                    intent.class = Some(class(name)?);
                }
                Some(("deadline", span)) if intent.deadline.is_none() => {
                    intent.deadline = Some(deadline(span)?);
                }
                Some(("class" | "deadline", _)) => return Err(BadIntent::Twice),
                _ => return Err(BadIntent::Key),
            }
        }
        match (intent.class, intent.deadline) {
            (None | Some(Class::Background), _) | (_, None) => Ok(intent),
            (Some(_), Some(_)) => Err(BadIntent::DeadlineOfClass),
        }
    }
}

fn class(name: &str) -> Result<Class, BadIntent> {
    match name {
        "realtime" => Ok(Class::Realtime),
        "interactive" => Ok(Class::Interactive),
        "bulk" => Ok(Class::Bulk),
        "background" => Ok(Class::Background),
        _ => Err(BadIntent::Class),
    }
}

fn deadline(span: &str) -> Result<Duration, BadIntent> {
    let [least, longest] = DEADLINES;
    let span = duration_text::parse(span).ok();
    span.filter(|span| (least..=longest).contains(span))
        .ok_or(BadIntent::Deadline)
}

/// Rate limiter of the warnings of one front.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Option<Instant>>);

impl Warnings {
    /// Whether a warning may be written at this instant: the first time, and a minute after the
    /// last.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = match self.0.lock() {
            Ok(last) => last,
            Err(poisoned) => poisoned.into_inner(),
        };
        let due = last.is_none_or(|last| now.saturating_duration_since(last) >= WARN_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_may_have_parameters_behind_it() {
        let background = Intent {
            class: Some(Class::Background),
            deadline: None,
        };
        let soon = Intent {
            deadline: Some(Duration::from_secs(30)),
            ..background
        };
        for (user, name, want) in [
            ("", "", Ok(Intent::default())),
            ("anna", "anna", Ok(Intent::default())),
            ("anna,class=background", "anna", Ok(background)),
            (",class=background", "", Ok(background)),
            ("anna,", "anna", Err(BadIntent::Key)),
            ("anna,class", "anna", Err(BadIntent::Key)),
            ("anna,Class=bulk", "anna", Err(BadIntent::Key)),
            ("anna,weight=7", "anna", Err(BadIntent::Key)),
            ("anna,class=", "anna", Err(BadIntent::Class)),
            ("anna,class=urgent", "anna", Err(BadIntent::Class)),
            ("anna,class=bulk,class=bulk", "anna", Err(BadIntent::Twice)),
            ("anna,class=background,deadline=30s", "anna", Ok(soon)),
            ("anna,deadline=0.5min,class=background", "anna", Ok(soon)),
            (
                "anna,class=bulk,deadline=30s",
                "anna",
                Err(BadIntent::DeadlineOfClass),
            ),
            (
                "anna,deadline=30s,class=realtime",
                "anna",
                Err(BadIntent::DeadlineOfClass),
            ),
            (
                "anna,deadline=1s,deadline=1s",
                "anna",
                Err(BadIntent::Twice),
            ),
            ("anna,deadline=", "anna", Err(BadIntent::Deadline)),
            ("anna,deadline=30", "anna", Err(BadIntent::Deadline)),
            ("anna,deadline=999ms", "anna", Err(BadIntent::Deadline)),
            ("anna,deadline=1.1h", "anna", Err(BadIntent::Deadline)),
        ] {
            assert_eq!(
                Intent::split(user.as_bytes()),
                (name.as_bytes(), want),
                "{user:?}"
            );
        }
        assert_eq!(
            Intent::split(b"\xff,\xff"),
            (&b"\xff"[..], Err(BadIntent::Key))
        );
    }

    #[test]
    fn where_no_credentials_are_required_a_name_may_have_commas() {
        let interactive = Intent {
            class: Some(Class::Interactive),
            deadline: None,
        };
        for (user, want) in [
            ("", Ok(Intent::default())),
            ("anna,laptop", Ok(Intent::default())),
            (",", Ok(Intent::default())),
            ("team=a,laptop", Ok(Intent::default())),
            ("team=a,class=interactive", Ok(interactive)),
            ("anna,class=interactive", Ok(interactive)),
            ("anna,laptop,class=interactive", Err(BadIntent::Key)),
            ("anna,class=urgent", Err(BadIntent::Class)),
            ("anna,weight=7", Err(BadIntent::Key)),
        ] {
            assert_eq!(Intent::of_any_name(user.as_bytes()), want, "{user:?}");
        }
        assert_eq!(Intent::of_any_name(b"\xff,\xff"), Ok(Intent::default()));
    }

    #[test]
    fn a_warning_is_due_once_a_minute() {
        let warnings = Warnings::default();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let due = [0, 1, 59, 60, 61, 120].map(|s| warnings.is_due(at(s)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }

    proptest! {
        #[test]
        fn any_user_name_is_read_or_refused(
            user in proptest::collection::vec(any::<u8>(), 0..255),
        ) {
            let (name, _) = Intent::split(&user);
            prop_assert!(user.starts_with(name) && !name.contains(&b','));
        }
    }
}
