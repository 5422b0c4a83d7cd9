//! Whether the proxy can be reached, since when it can't, and that people are told.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::{Primary, WAIT_FOR_PATH};
use crate::config::OnProxyLoss;
use crate::driver::Driver;

/// A silent subflow that comes back does not say so: while there is one, it is looked at so often.
/// It is given up after 15 s.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A time without a working path to the proxy, from the start of the daemon on.
pub(super) struct Outage {
    since: Cell<Option<Instant>>,
    /// People have been told.
    told: Cell<bool>,
}

impl Outage {
    /// Nothing is joined yet.
    pub(super) fn new() -> Self {
        Self {
            since: Cell::new(None),
            told: Cell::new(false),
        }
    }
}

impl Primary {
    /// The session, if new streams have a way to go now. Notes since when they have none.
    ///
    /// Where connections may go direct, a silent way is none. Where they would be refused, they had
    /// better wait on it.
    pub(super) fn usable_now(&self) -> Option<Driver> {
        let driver = self.driver.borrow().clone();
        let driver = driver.filter(|driver| match self.config.on_proxy_loss {
            OnProxyLoss::Direct => driver.is_usable(),
            OnProxyLoss::Fail => driver.is_joined(),
        });
        match &driver {
            Some(_) => self.outage.since.set(None),
            None if self.outage.since.get().is_none() => {
                self.outage.since.set(Some(Instant::now()));
            }
            None => {}
        }
        driver
    }

    /// How long a new connection may still wait for a path: those that come when one has been
    /// missing for longer than that do not wait at all.
    pub(super) fn patience(&self) -> Duration {
        let out = self.outage.since.get().map(|since| since.elapsed());
        WAIT_FOR_PATH.saturating_sub(out.unwrap_or_default())
    }

    /// What people should know of it.
    pub(super) fn outage_note(&self) -> Option<String> {
        let since = self.outage.since.get().filter(|_| self.outage.told.get())?;
        let what = self.meanwhile();
        let seconds = since.elapsed().as_secs();
        Some(format!(
            "no path to the proxy has worked for {seconds} s: {what}"
        ))
    }

    fn meanwhile(&self) -> &'static str {
        match self.config.on_proxy_loss {
            OnProxyLoss::Direct => "new connections go direct, over one path",
            OnProxyLoss::Fail => "new connections are refused",
        }
    }
}

/// Says so when the proxy can't be reached for longer than connections wait, and when it can again.
pub(super) async fn tell(primary: Rc<Primary>) {
    let mut changed = primary.usable.subscribe();
    loop {
        let driver = primary.driver.borrow().clone();
        let usable = primary.usable_now().is_some();
        let told = primary.outage.told.get();
        let patience = primary.patience();
        let look_again = match (usable, told) {
            (true, true) => {
                primary.outage.told.set(false);
                info!("the proxy is reached again: new connections go over it");
                None
            }
            (true, false) => None,
            (false, false) if patience.is_zero() => {
                primary.outage.told.set(true);
                warn!("no path to the proxy works: {}", primary.meanwhile());
                continue;
            }
            (false, false) => Some(patience),
            (false, true) => driver.is_some_and(|d| d.is_joined()).then_some(LOOK_EVERY),
        };
        let changed = changed.changed();
        let ended = match look_again {
            Some(span) => timeout(span, changed).await.is_ok_and(|c| c.is_err()),
            None => changed.await.is_err(),
        };
        if ended {
            return;
        }
    }
}
