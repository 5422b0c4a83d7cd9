//! Monthly budget (`max_bytes_per_month`): kept across restarts, enforced to the byte in the
//! relays.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_net::relay::Budget;
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::account_file::{AccountFile, Version};
use crate::status::BudgetStatus;

/// Interval of writing the account. A crash forgets at most the bytes of this time.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// First month that a right clock can show: no daemon is older. A clock that has not been set
/// starts in 1970, or when its system was built.
const FIRST_MONTH: &str = "2026-01";

/// Bytes used in a month: the file beside the identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Account {
    month: String,
    used_bytes: u64,
    /// Recent other months, so that a clock that was wrong for a time does not renew a month's
    /// budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Month>,
}

/// Bytes used in another month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Month {
    month: String,
    used_bytes: u64,
}

/// Other months kept: that of a clock that starts in 1970, of one that was set wrong, the true one,
/// and a spare one.
const OTHERS: usize = 4;

impl Account {
    /// The account of `month`.
    fn turn(&mut self, month: &str) {
        if self.month == month {
            return;
        }
        let known = self.others.iter().position(|m| m.month == month);
        let used_bytes = known.map_or(0, |at| self.others.remove(at).used_bytes);
        self.others.push(Month {
            month: std::mem::replace(&mut self.month, month.to_owned()),
            used_bytes: std::mem::replace(&mut self.used_bytes, used_bytes),
        });
        if self.others.len() > OTHERS {
            self.others.remove(0);
        }
    }
}

/// The budget of a helper that does not run, as its last run has written it beside the identity.
///
/// # Errors
/// The account cannot be read.
pub fn budget_of(identity: &Path, max_bytes: u64) -> io::Result<BudgetStatus> {
    MonthlyBudget::load(identity, max_bytes).map(|budget| budget.status())
}

/// The state in which the bytes left were last set. They tell the use since; the use before may be
/// more than the budget, which may have been lowered.
#[derive(Clone, Copy)]
struct Granted {
    max_bytes: u64,
    used_before: u64,
}

impl Granted {
    fn bytes(self) -> u64 {
        self.max_bytes.saturating_sub(self.used_before)
    }

    /// Bytes used when so many are left.
    fn used(self, left_bytes: u64) -> u64 {
        let granted = self.used_before.saturating_add(self.bytes());
        granted.saturating_sub(left_bytes)
    }
}

/// A helper's monthly budget. Cheap to clone.
#[derive(Clone)]
pub(super) struct MonthlyBudget {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Arc<Budget>,
    granted: Mutex<Granted>,
    file: Arc<AccountFile>,
    /// State at the last update.
    account: Mutex<Account>,
    /// The newest version of the file.
    saved: Mutex<Option<Account>>,
}

impl MonthlyBudget {
    /// Loads the account of the last run, which is kept beside the identity.
    pub(super) fn load(identity: &Path, max_bytes: u64) -> io::Result<Self> {
        Self::read(
            AccountFile::new(identity.with_extension("budget")),
            max_bytes,
        )
    }

    /// Loads it once more, after another process has written it. Nothing has been used here yet.
    pub(super) fn load_again(&self) -> io::Result<()> {
        let max_bytes = lock(&self.inner.granted).max_bytes;
        let now = Self::read(Arc::clone(&self.inner.file), max_bytes)?;
        self.grant(max_bytes, now.used());
        lock(&self.inner.account).clone_from(&lock(&now.inner.account));
        lock(&self.inner.saved).clone_from(&lock(&now.inner.saved));
        Ok(())
    }

    fn read(file: Arc<AccountFile>, max_bytes: u64) -> io::Result<Self> {
        let month = month_of(SystemTime::now());
        let saved: Option<Account> = file.read()?;
        let mut account = saved.clone().unwrap_or_else(|| Account {
            month: month.clone(),
            used_bytes: 0,
            others: Vec::new(),
        });
        account.turn(&month);
        let granted = Granted {
            max_bytes,
            used_before: account.used_bytes,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                bytes: Arc::new(Budget::new(granted.bytes())),
                granted: Mutex::new(granted),
                file,
                account: Mutex::new(account),
                saved: Mutex::new(saved),
            }),
        })
    }

    /// The budget that relays consume.
    pub(super) fn bytes(&self) -> Arc<Budget> {
        Arc::clone(&self.inner.bytes)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.inner.bytes.left_bytes() == 0
    }

    fn used(&self) -> u64 {
        lock(&self.inner.granted).used(self.inner.bytes.left_bytes())
    }

    /// Sets the bytes left from a budget and the bytes used of it.
    fn grant(&self, max_bytes: u64, used_before: u64) {
        let granted = Granted {
            max_bytes,
            used_before,
        };
        *lock(&self.inner.granted) = granted;
        self.inner.bytes.set_left_bytes(granted.bytes());
    }

    /// Changes the budget; what was used of it stays used.
    pub(super) fn set_max_bytes(&self, max_bytes: u64) {
        self.grant(max_bytes, self.used());
    }

    pub(super) fn status(&self) -> BudgetStatus {
        BudgetStatus {
            month: lock(&self.inner.account).month.clone(),
            used_bytes: self.used(),
            max_bytes: Some(lock(&self.inner.granted).max_bytes),
        }
    }

    /// Why the account cannot be written; `None` while it can.
    pub(super) fn problem(&self) -> Option<String> {
        self.inner.file.problem()
    }

    /// For people, that the clock has not been set: another month than the present one is charged.
    pub(super) fn clock_note(&self) -> Option<String> {
        let month = lock(&self.inner.account).month.clone();
        (month.as_str() < FIRST_MONTH).then(|| {
            format!(
                "by the clock it is {month}: until the clock is set, bytes count for that month, \
                 and not for the present one"
            )
        })
    }

    /// Writes the account at intervals, and begins a new one with each month.
    pub(super) fn keep(&self) -> impl Future<Output = ()> + 'static {
        let budget = self.clone();
        async move {
            loop {
                tokio::time::sleep(SAVE_EVERY).await;
                budget.turn_month(&month_of(SystemTime::now()));
                if !budget.inner.file.is_writing()
                    && let Some(version) = budget.version()
                {
                    tokio::task::spawn_blocking(move || version.write());
                }
            }
        }
    }

    fn turn_month(&self, now: &str) {
        let mut account = lock(&self.inner.account);
        if account.month != now {
            account.used_bytes = self.used();
            account.turn(now);
            let used = account.used_bytes;
            info!(month = now, used, "new month: its budget applies");
            let max_bytes = lock(&self.inner.granted).max_bytes;
            self.grant(max_bytes, used);
        }
    }

    /// Writes the account, if it has changed or is not on the disk yet. Waits for the disk.
    pub(super) fn save(&self) {
        if let Some(version) = self.version() {
            version.write();
        }
    }

    /// The account, if it has changed since it was written, or has not been written yet.
    fn version(&self) -> Option<Version> {
        let account = {
            let mut account = lock(&self.inner.account);
            account.used_bytes = self.used();
            account.clone()
        };
        let mut saved = lock(&self.inner.saved);
        let is_kept = saved.as_ref() == Some(&account) && !self.inner.file.is_behind();
        if is_kept || (saved.is_none() && account.used_bytes == 0) {
            return None;
        }
        // Months and numbers have a text.
        let text = toml::to_string(&account).ok()?;
        *saved = Some(account);
        Some(self.inner.file.version(text))
    }
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The calendar month of an instant (UTC), as 2026-11.
fn month_of(at: SystemTime) -> String {
    let days = at
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() / 86_400);
    // Days to civil date: years are counted from March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(d: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(d * 86_400 + 86_399)
    }

    #[test]
    fn months_by_the_calendar() {
        for (days, want) in [
            (0, "1970-01"),
            (30, "1970-01"),
            (31, "1970-02"),
            (11_016, "2000-02"), // 29 February 2000
            (11_017, "2000-03"),
            (19_722, "2023-12"),
            (19_723, "2024-01"),
            (20_777, "2026-11"),
        ] {
            assert_eq!(month_of(day(days)), want, "day {days}");
        }
    }

    #[test]
    fn an_account_that_cannot_be_written_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let identity = gone.join("identity.pem");
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        b.bytes().set_left_bytes(300);
        // As with a full disk: no new file can be made.
        std::fs::remove_dir(&gone).unwrap();
        b.save();
        assert_eq!(b.status().used_bytes, 700);
        std::fs::create_dir(&gone).unwrap();
        b.save();
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        assert_eq!(b.status().used_bytes, 700, "written when it could be");
    }

    #[test]
    fn another_budget_leaves_what_was_used() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        let bytes = b.bytes();
        bytes.set_left_bytes(300);
        for (max, left) in [(1_500, 800), (700, 0), (100, 0), (701, 1), (1_000, 300)] {
            b.set_max_bytes(max);
            let status = b.status();
            assert_eq!((status.used_bytes, status.max_bytes), (700, Some(max)));
            assert_eq!(bytes.left_bytes(), left, "{max}");
        }
        b.set_max_bytes(100);
        b.save();
        let b = MonthlyBudget::load(&identity, 100).unwrap();
        assert!(b.is_spent());
        assert_eq!(b.status().used_bytes, 700, "also where less is allowed now");
    }

    #[test]
    fn the_account_outlives_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        b.bytes().set_left_bytes(300);
        b.save();
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        assert_eq!(b.status().used_bytes, 700);
        // A cap that was lowered below what is used leaves nothing.
        assert!(MonthlyBudget::load(&identity, 500).unwrap().is_spent());
        // A month of its own has a budget of its own, and a clock that was wrong for a while
        // gives none twice.
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        let true_month = b.status().month;
        assert_eq!(b.clock_note(), None);
        for wrong in ["1970-01", "2099-01", "1970-01"] {
            b.turn_month(wrong);
            assert_eq!(b.status().used_bytes, 0);
            assert_eq!(b.clock_note().is_some(), wrong == "1970-01");
        }
        b.save();
        b.turn_month(&true_month);
        assert_eq!(b.status().used_bytes, 700);
        b.turn_month("2099-01");
        b.save();
        let b = MonthlyBudget::load(&identity, 1_000).unwrap();
        assert_eq!(b.status().used_bytes, 700, "over restarts as well");
        for n in 0..100 {
            b.turn_month(&format!("2001-{n}"));
        }
        b.save();
        let text = std::fs::read_to_string(identity.with_extension("budget")).unwrap();
        assert_eq!(text.matches("month =").count(), OTHERS + 1, "{text}");
        std::fs::write(identity.with_extension("budget"), "nonsense").unwrap();
        let error = MonthlyBudget::load(&identity, 1_000).err().unwrap();
        assert!(error.to_string().contains("identity.budget"), "{error}");
    }
}
