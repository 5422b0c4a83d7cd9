//! `max_bytes_per_month`: counted over restarts, enforced byte by byte in the relays.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_net::relay::Budget;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::status::BudgetStatus;

/// What a crash may forget at the most is what passes in this time.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// Bytes used in a month, as the file beside the identity has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Account {
    month: String,
    used_bytes: u64,
}

/// A helper's monthly budget. Cheap to clone.
#[derive(Clone)]
pub(super) struct MonthlyBudget {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Arc<Budget>,
    max_bytes: u64,
    path: PathBuf,
    month: Mutex<String>,
    saved: Mutex<u64>,
}

impl MonthlyBudget {
    /// Goes on where the last run ended. The account is kept beside the identity.
    pub(super) fn load(identity: &Path, max_bytes: u64) -> io::Result<Self> {
        let path = identity.with_extension("budget");
        let month = month_of(SystemTime::now());
        let used = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let account: Account = toml::from_str(&text).map_err(|e| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{}: {}", path.display(), e.message()),
                    )
                })?;
                if account.month == month {
                    account.used_bytes
                } else {
                    0
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => return Err(e),
        };
        Ok(Self {
            inner: Arc::new(Inner {
                bytes: Arc::new(Budget::new(max_bytes.saturating_sub(used))),
                max_bytes,
                path,
                month: Mutex::new(month),
                saved: Mutex::new(used),
            }),
        })
    }

    /// What relays take from.
    pub(super) fn bytes(&self) -> Arc<Budget> {
        Arc::clone(&self.inner.bytes)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.inner.bytes.left_bytes() == 0
    }

    fn used(&self) -> u64 {
        self.inner
            .max_bytes
            .saturating_sub(self.inner.bytes.left_bytes())
    }

    pub(super) fn status(&self) -> BudgetStatus {
        BudgetStatus {
            month: lock(&self.inner.month).clone(),
            used_bytes: self.used(),
            max_bytes: Some(self.inner.max_bytes),
        }
    }

    /// Writes the account now and then, and begins a new one with the month.
    pub(super) fn keep(&self) -> impl Future<Output = ()> + 'static {
        let budget = self.clone();
        async move {
            loop {
                tokio::time::sleep(SAVE_EVERY).await;
                budget.turn_month(&month_of(SystemTime::now()));
                budget.save();
            }
        }
    }

    fn turn_month(&self, now: &str) {
        let mut month = lock(&self.inner.month);
        if *month != now {
            info!(month = now, "a new month: the budget is whole again");
            now.clone_into(&mut month);
            self.inner.bytes.set_left_bytes(self.inner.max_bytes);
        }
    }

    /// Writes the account, if it has changed; whole or not at all.
    pub(super) fn save(&self) {
        let used = self.used();
        let mut saved = lock(&self.inner.saved);
        if *saved == used {
            return;
        }
        let account = Account {
            month: lock(&self.inner.month).clone(),
            used_bytes: used,
        };
        let path = &self.inner.path;
        let new = path.with_extension("budget.new");
        let write = toml::to_string(&account)
            .map_err(io::Error::other)
            .and_then(|text| std::fs::write(&new, text))
            .and_then(|()| std::fs::rename(&new, path));
        match write {
            Ok(()) => *saved = used,
            Err(e) => warn!(path = %path.display(), error = %e, "can't keep the monthly account"),
        }
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
        b.turn_month("2099-01");
        assert!(!b.is_spent());
        std::fs::write(identity.with_extension("budget"), "nonsense").unwrap();
        let error = MonthlyBudget::load(&identity, 1_000).err().unwrap();
        assert!(error.to_string().contains("identity.budget"), "{error}");
    }
}
