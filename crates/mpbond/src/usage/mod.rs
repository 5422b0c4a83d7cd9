//! Bytes used of caps of links, by day too, and of budgets of rules; joules of radios by day: the
//! accounts of a primary, kept in a file beside its identity.

mod budgets;
mod by_day;
mod host_zone;
mod interface_bytes;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use mpbond_policy::{Account, Cap, CapEvent, InterfaceCounter, Period, Reading, period_at};
use mpbond_units::Timestamp;
use serde::{Deserialize, Serialize};

pub use budgets::Budgets;
use by_day::ByDay;
pub use interface_bytes::InterfaceBytes;

use crate::account_file::{AccountFile, Version};

/// First day that a right clock can show: no daemon is older. A clock that has not been set starts
/// in 1970, or when its system was built.
const FIRST_DAY: Date = date(2026, 1, 1);

/// Days before the present one of which joules are shown.
const SHOWN_ENERGY: i64 = 6;

/// Days of which joules and bytes are kept of a link: those that are shown, or a period of a cap,
/// and more, so that days by a clock that was wrong for a time take none of their places.
const KEPT_ENERGY: usize = SHOWN_ENERGY as usize + 2;
const KEPT_BYTES: usize = 40;

/// Interval at which joules are written while they grow: what a crash may lose.
const SAVE_ENERGY_EVERY: Duration = Duration::from_secs(60);

/// Pause before another attempt to write what could not be written: looks are more frequent, and
/// each attempt writes the whole file.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The accounts of links that have or had a cap or a radio, and of rules that have or had a budget.
pub struct Usage {
    file: Arc<AccountFile>,
    /// That of this host.
    zone: TimeZone,
    accounts: File,
    /// When the newest version was made.
    saved: Timestamp,
    /// Whether there are more joules since.
    has_new_energy: bool,
    /// The text of the newest version.
    text: String,
}

/// What a cap is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Capped {
    /// The link of this name.
    Link(String),
    /// The rule of this name: its budget.
    Rule(String),
}

/// A radio of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RadioOf {
    /// That towards the Internet, of this device or of a helper.
    Link,
    /// This device's of a pipe.
    Pipe,
    /// The helper's of a pipe.
    FarPipe,
}

impl RadioOf {
    const ALL: [Self; 3] = [Self::Link, Self::Pipe, Self::FarPipe];
}

/// Use of one cap.
#[derive(Serialize, Deserialize)]
struct Used {
    account: Account,
    /// Counter of an own link's interface.
    #[serde(default)]
    interface: InterfaceCounter,
}

/// Accounts by names of links and of rules. Tables of later versions are passed over.
#[derive(Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    link: BTreeMap<String, Used>,
    #[serde(default)]
    rule: BTreeMap<String, Used>,
    /// Bytes of links that have or had a cap.
    #[serde(default, skip_serializing_if = "ByDay::is_empty")]
    days: ByDay,
    /// Joules of radios towards the Internet.
    #[serde(default, skip_serializing_if = "ByDay::is_empty")]
    energy: ByDay,
    /// Joules of this device's radios of pipes, and of the helpers'.
    #[serde(default, skip_serializing_if = "ByDay::is_empty")]
    pipe_energy: ByDay,
    #[serde(default, skip_serializing_if = "ByDay::is_empty")]
    far_pipe_energy: ByDay,
}

impl File {
    const fn energy(&self, radio: RadioOf) -> &ByDay {
        match radio {
            RadioOf::Link => &self.energy,
            RadioOf::Pipe => &self.pipe_energy,
            RadioOf::FarPipe => &self.far_pipe_energy,
        }
    }

    const fn energy_mut(&mut self, radio: RadioOf) -> &mut ByDay {
        match radio {
            RadioOf::Link => &mut self.energy,
            RadioOf::Pipe => &mut self.pipe_energy,
            RadioOf::FarPipe => &mut self.far_pipe_energy,
        }
    }

    fn get(&self, of: &Capped) -> Option<&Used> {
        match of {
            Capped::Link(name) => self.link.get(name),
            Capped::Rule(name) => self.rule.get(name),
        }
    }

    fn enter(&mut self, of: &Capped, new: impl FnOnce() -> Used) -> &mut Used {
        let (accounts, name) = match of {
            Capped::Link(name) => (&mut self.link, name),
            Capped::Rule(name) => (&mut self.rule, name),
        };
        accounts.entry(name.clone()).or_insert_with(new)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Used> {
        self.link.values_mut().chain(self.rule.values_mut())
    }
}

/// Bytes since the last time.
pub enum Moved {
    /// That of an interface's counter, with the bytes of all programs.
    Interface(Reading),
    /// Bytes that this daemon has moved.
    Bytes(u64),
}

impl Usage {
    /// The file of the accounts of the device with this identity.
    pub fn file_of(identity: &Path) -> PathBuf {
        identity.with_extension("usage")
    }

    /// Loads the accounts that were kept beside an identity.
    ///
    /// # Errors
    /// The file cannot be read, or has no accounts; in one line that names it.
    pub fn load(identity: &Path) -> io::Result<Self> {
        let file = AccountFile::new(Self::file_of(identity));
        let mut accounts: File = file.read()?.unwrap_or_default();
        accounts.days.bound(KEPT_BYTES);
        for radio in RadioOf::ALL {
            accounts.energy_mut(radio).bound(KEPT_ENERGY);
        }
        Ok(Self {
            file,
            zone: host_zone::read(),
            accounts,
            saved: Timestamp::ZERO,
            has_new_energy: false,
            text: String::new(),
        })
    }

    /// The present day in the time zone of this host.
    pub fn today(&self) -> Date {
        self.zone.to_datetime(jiff::Timestamp::now()).date()
    }

    /// Why the accounts cannot be written; `None` while they can.
    pub fn problem(&self) -> Option<String> {
        self.file.problem()
    }

    /// For people, that the clock has not been set: other periods than the present ones are
    /// charged. `None` without an account.
    pub fn clock_note(&self, today: Date) -> Option<String> {
        let has_account = !self.accounts.link.is_empty() || !self.accounts.rule.is_empty();
        (has_account && today < FIRST_DAY).then(|| {
            format!(
                "by the clock it is {today}: until the clock is set, bytes count for periods of \
                 caps and budgets of that time, and not for the present ones"
            )
        })
    }

    /// Adds to the joules of a link's radio on this day.
    pub fn spend(&mut self, (link, radio): (&str, RadioOf), day: Date, joules: f64) {
        if joules > 0.0 {
            let energy = self.accounts.energy_mut(radio);
            energy.add(link, day, joules, KEPT_ENERGY);
            self.has_new_energy = true;
        }
    }

    /// Joules of a link's radio on the last seven days up to this one, oldest first, without
    /// earlier days that have none.
    pub fn joules_by_day(&self, (link, radio): (&str, RadioOf), today: Date) -> Vec<(Date, f64)> {
        let first = today.saturating_sub(SHOWN_ENERGY.days());
        self.accounts.energy(radio).days(link, first, today)
    }

    /// Bytes of a link with a cap on the days of a period up to this one, oldest first, without
    /// earlier days that have none.
    pub fn bytes_by_day(&self, link: &str, period: &Period, today: Date) -> Vec<(Date, u64)> {
        let days = self.accounts.days.days(link, period.first_day, today);
        days.into_iter()
            .map(|(day, bytes)| (day, bytes as u64))
            .collect()
    }

    /// Counts what has moved of a cap, in the period of this time. Returns the event of which the
    /// user has not been informed.
    pub fn count(
        &mut self,
        of: &Capped,
        cap: &Cap,
        at: jiff::Timestamp,
        moved: Option<Moved>,
    ) -> Option<CapEvent> {
        let period = period_at(at, cap.reset_day, &cap.zone)?;
        let used = self.accounts.enter(of, || Used {
            account: Account::new(&period),
            interface: InterfaceCounter::default(),
        });
        used.account.handle_period(&period);
        let bytes = match moved {
            Some(Moved::Interface(reading)) => used.interface.handle_reading(reading),
            Some(Moved::Bytes(bytes)) => bytes,
            None => 0,
        };
        used.account.count(bytes);
        let event = used.account.poll_event(cap);
        if let (Capped::Link(link), true) = (of, bytes > 0) {
            let day = cap.zone.to_datetime(at).date();
            self.accounts.days.add(link, day, bytes as f64, KEPT_BYTES);
        }
        event
    }

    /// Bytes used of a cap in the period.
    pub fn used_bytes(&self, of: &Capped) -> u64 {
        let used = self.accounts.get(of);
        used.map_or(0, |used| used.account.used_bytes())
    }

    /// Whether a cap is used up.
    pub fn is_reached(&self, of: &Capped, cap: &Cap) -> bool {
        let used = self.accounts.get(of);
        used.is_some_and(|used| used.account.is_reached(cap))
    }

    /// Writes the file, if one of these caps' accounts or the joules should be saved, or all of
    /// them since nothing moves any more. Aside from the caller's thread, which is an event loop.
    pub fn save_aside(&mut self, now: Timestamp, caps: &[(Capped, Cap)], is_last: bool) {
        if !is_last && self.file.is_writing() {
            return;
        }
        if let Some(version) = self.version(now, caps, is_last) {
            tokio::task::spawn_blocking(move || version.write());
        }
    }

    /// Writes the file, if something has changed that is not on the disk, at the end of a process.
    pub fn save_at_end(&mut self, now: Timestamp, caps: &[(Capped, Cap)]) {
        if let Some(version) = self.version(now, caps, true) {
            version.write();
        }
    }

    /// The accounts, if they are to be written now.
    fn version(
        &mut self,
        now: Timestamp,
        caps: &[(Capped, Cap)],
        is_last: bool,
    ) -> Option<Version> {
        let age = now.since(self.saved);
        let is_failing = self.file.is_failing();
        if is_failing && !is_last && age < TRY_AGAIN_AFTER {
            return None;
        }
        let has_energy = self.has_new_energy && (is_last || age >= SAVE_ENERGY_EVERY);
        let is_due = has_energy
            || is_failing
            || (is_last && self.file.is_behind())
            || caps.iter().any(|(of, cap)| {
                let used = self.accounts.get(of);
                used.is_some_and(|used| is_last || used.account.is_save_due(now, cap))
            });
        // Names, numbers and days have a text. A write that changes nothing costs as much.
        let text = is_due.then(|| toml::to_string(&self.accounts).ok())??;
        if text == self.text && !is_failing && !self.file.is_behind() {
            return None;
        }
        self.text.clone_from(&text);
        self.has_new_energy = false;
        self.saved = now;
        self.accounts
            .all()
            .for_each(|used| used.account.handle_saved(now));
        Some(self.file.version(text))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jiff::tz::TimeZone;
    use mpbond_policy::AtCap;

    use super::*;

    const PHONE: (&str, RadioOf) = ("phone", RadioOf::Link);

    fn save(usage: &mut Usage, now: Timestamp, caps: &[(Capped, Cap)]) {
        if let Some(version) = usage.version(now, caps, false) {
            version.write();
        }
    }

    fn cap(bytes: u64) -> Cap {
        Cap {
            bytes,
            reset_day: 1,
            zone: TimeZone::UTC,
            warn_percent: Some(75),
            at_cap: AtCap::Off,
        }
    }

    fn time(at: &str) -> jiff::Timestamp {
        at.parse().unwrap()
    }

    fn reading(bytes: u64) -> Reading {
        Reading {
            interface: "wwan0".to_owned(),
            boot_id: "a".to_owned(),
            ifindex: 3,
            bytes,
        }
    }

    #[test]
    fn accounts_are_kept_and_the_user_is_informed_once() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let (cap, now) = (cap(1_000), time("2026-11-27T12:00:00Z"));
        let link = |name: &str| Capped::Link(name.to_owned());
        let (phone, mobile) = (link("my phone"), link("mobile"));
        let rule = Capped::Rule("my phone".to_owned());
        let caps = [(phone.clone(), cap.clone())];
        let mut usage = Usage::load(&identity).unwrap();
        let bytes = |n| Some(Moved::Bytes(n));
        assert_eq!(usage.count(&phone, &cap, now, bytes(700)), None);
        let warned = usage.count(&phone, &cap, now, bytes(100));
        assert_eq!(warned, Some(CapEvent::Warning));
        let first = |n| Some(Moved::Interface(reading(n)));
        assert_eq!(usage.count(&mobile, &cap, now, first(5_000)), None);
        assert_eq!(usage.count(&rule, &cap, now, bytes(5)), None);
        save(&mut usage, Timestamp::ZERO, &caps);
        let mut usage = Usage::load(&identity).unwrap();
        assert_eq!(usage.used_bytes(&phone), 800);
        assert_eq!(usage.used_bytes(&rule), 5);
        assert!(!usage.is_reached(&phone, &cap));
        assert_eq!(usage.count(&mobile, &cap, now, first(5_300)), None);
        assert_eq!(usage.used_bytes(&mobile), 300);
        let reached = usage.count(&phone, &cap, now, bytes(200));
        assert_eq!(reached, Some(CapEvent::Reached));
        assert!(usage.is_reached(&phone, &cap));
        // By day, in the zone of the cap.
        let period = period_at(now, 1, &TimeZone::UTC).unwrap();
        let days = |usage: &Usage, link: &str| {
            let days = usage.bytes_by_day(link, &period, jiff::civil::date(2026, 11, 28));
            let days = days.into_iter().map(|(day, bytes)| (day.day(), bytes));
            days.collect::<Vec<_>>()
        };
        let later = time("2026-11-28T00:00:00Z");
        assert_eq!(usage.count(&mobile, &cap, later, first(5_400)), None);
        assert_eq!(days(&usage, "mobile"), [(27, 300), (28, 100)]);
        assert_eq!(days(&usage, "my phone"), [(27, 1_000), (28, 0)]);
        assert_eq!(days(&usage, "other"), [(28, 0)]);
        assert_eq!(usage.clock_note(later.to_zoned(TimeZone::UTC).date()), None);
        let note = usage.clock_note(jiff::civil::date(1970, 1, 2)).unwrap();
        assert!(
            note.starts_with("by the clock it is 1970-01-02: "),
            "{note}"
        );
        let next = time("2026-12-01T00:00:00Z");
        assert_eq!(usage.count(&phone, &cap, next, None), None);
        assert!(!usage.is_reached(&phone, &cap));
    }

    #[test]
    fn joules_are_written_each_minute_and_at_the_end_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let again = |day: Date| Usage::load(&identity).unwrap().joules_by_day(PHONE, day);
        let day = jiff::civil::date(2026, 11, 27);
        let at = |s: u64| Timestamp::from_millis(s * 1_000);
        let mut usage = Usage::load(&identity).unwrap();
        usage.save_at_end(at(100), &[]);
        assert!(!Usage::file_of(&identity).exists(), "there is nothing");
        usage.spend(PHONE, day, 12.75);
        save(&mut usage, at(100), &[]);
        assert_eq!(again(day), [(day, 12.75)]);
        usage.spend(PHONE, day, 1.0);
        save(&mut usage, at(159), &[]);
        assert_eq!(again(day), [(day, 12.75)]);
        save(&mut usage, at(160), &[]);
        assert_eq!(again(day), [(day, 13.75)]);
        usage.spend(PHONE, day, 0.25);
        usage.save_at_end(at(161), &[]);
        assert_eq!(again(day), [(day, 14.0)]);
        // Accounts of caps are in the same file.
        let (cap, november) = (cap(1_000), time("2026-11-27T12:00:00Z"));
        let phone = Capped::Link("phone".to_owned());
        usage.count(&phone, &cap, november, Some(Moved::Bytes(700)));
        let caps = [(phone.clone(), cap)];
        usage.save_at_end(at(162), &caps);
        assert!(usage.version(at(163), &caps, true).is_none(), "unchanged");
        assert_eq!(again(day), [(day, 14.0)]);
        assert_eq!(Usage::load(&identity).unwrap().used_bytes(&phone), 700);
    }

    #[test]
    fn accounts_that_cannot_be_written_are_tried_again_after_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let identity = gone.join("identity.pem");
        let mut usage = Usage::load(&identity).unwrap();
        usage.spend(PHONE, jiff::civil::date(2026, 11, 27), 1.0);
        fs::remove_dir(&gone).unwrap();
        let at = |ms: u64| Timestamp::from_millis(100_000 + ms);
        save(&mut usage, at(0), &[]);
        assert!(usage.file.is_failing());
        // Nor because of a cap, of which a hundredth was used.
        let cap = cap(1_000_000);
        let phone = Capped::Link("phone".to_owned());
        usage.count(
            &phone,
            &cap,
            time("2026-11-27T12:00:00Z"),
            Some(Moved::Bytes(50_000)),
        );
        let caps = [(phone, cap)];
        for ms in [1, 50, 999] {
            assert!(usage.version(at(ms), &caps, false).is_none(), "{ms} ms");
        }
        fs::create_dir(&gone).unwrap();
        save(&mut usage, at(1_000), &[]);
        assert!(!usage.file.is_failing() && Usage::file_of(&identity).exists());
    }

    #[test]
    fn a_file_has_no_tables_without_entries_and_may_have_those_of_later_versions() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let file = Usage::file_of(&identity);
        let (cap, now) = (cap(1_000), time("2026-11-27T12:00:00Z"));
        let rule = Capped::Rule("backup".to_owned());
        let mut usage = Usage::load(&identity).unwrap();
        usage.count(&rule, &cap, now, Some(Moved::Bytes(700)));
        usage.save_at_end(Timestamp::ZERO, &[(rule.clone(), cap)]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("days") && !text.contains("energy"), "{text}");
        std::fs::write(&file, text + "[later]\nkey = 1\n").unwrap();
        assert_eq!(Usage::load(&identity).unwrap().used_bytes(&rule), 700);
    }

    #[test]
    fn a_file_without_accounts_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        std::fs::write(Usage::file_of(&identity), "nonsense").unwrap();
        let error = Usage::load(&identity).err().unwrap().to_string();
        assert!(error.contains("identity.usage: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
