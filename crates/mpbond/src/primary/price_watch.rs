//! Prices of helpers: looks at the links while bytes move, and tells the session for which bursts a
//! helper is woken.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::civil::Date;
use mpbond_manager::LinkId;
use mpbond_price::Radio;
use mpbond_session::{IDLE_LONG, LeastBurst, SubflowId, SubflowState, SubflowStats};
use mpbond_units::BitRate;

use super::links::LinkConfig;
use super::state::Primary;
use crate::driver::Driver;
use crate::pricing::{Moved, OwnLink, UNPRICED, differ};
use crate::status::{DayJoules, LinkEnergy, WokenFor};

/// Interval of looks while bytes move: a transfer of a second has some.
const EVERY: Duration = Duration::from_millis(200);

/// Interval while none do, until the session reports that they move again.
const QUIET: Duration = Duration::from_secs(1);

/// Looks at the links of a session until it has long been quiet.
async fn watch(primary: Rc<Primary>, driver: Driver) {
    let mut seen = HashMap::new();
    primary.look(&driver, &mut seen, Duration::ZERO);
    loop {
        let quiet = driver.inspect(|session, clock, _| session.quiet_for(clock.now()));
        if quiet >= IDLE_LONG || driver.has_ended() {
            break;
        }
        let wait = if quiet < QUIET { EVERY } else { QUIET };
        let before = primary.clock.now();
        tokio::time::sleep(wait).await;
        primary.look(&driver, &mut seen, primary.clock.now().since(before));
    }
    primary.save_energy(true);
    let mut watched = primary.prices.watched.borrow_mut();
    watched.take_if(|handle| handle.is_of(&driver));
}

impl Primary {
    /// Bytes move, after a pause or under another policy.
    pub(super) fn watch_prices(self: &Rc<Self>, driver: &Driver) {
        let policy = self.policy.borrow();
        let price = policy
            .as_ref()
            .and_then(|policy| policy.joules_per_second());
        let mut watched = self.prices.watched.borrow_mut();
        let is_watched = watched.as_ref().is_some_and(|handle| handle.is_of(driver));
        if price.is_some() && !is_watched {
            *watched = Some(driver.handle());
            crate::task::spawn_local(watch(Rc::clone(self), driver.clone()));
        }
    }

    fn radio(&self, link: &str) -> Option<&'static Radio> {
        self.policy.borrow().as_ref()?.radio(link)
    }

    /// Enters the bytes of this time, and applies the sizes that follow.
    fn look(&self, driver: &Driver, seen: &mut HashMap<SubflowId, Moved>, time: Duration) {
        let now = self.clock.now();
        let subflows = driver.inspect(|session, _, _| session.subflows(now));
        let mut links: Vec<(&str, Moved)> = Vec::new();
        for s in &subflows {
            let total = Moved {
                down: s.bytes_in,
                up: s.bytes_out,
            };
            let before = seen.insert(s.id, total).unwrap_or_default();
            let Moved { down, up } = total.since(before);
            match links.iter_mut().find(|(name, _)| *name == s.name) {
                Some((_, sum)) => (sum.down, sum.up) = (sum.down + down, sum.up + up),
                None => links.push((&s.name, Moved { down, up })),
            }
        }
        // The first look only learns where counting begins.
        if !time.is_zero() {
            let mut meter = self.prices.meter.borrow_mut();
            let mut usage = self.limits.usage.borrow_mut();
            let today = usage.today();
            let mut has_spent = false;
            for (name, moved) in links {
                let joules = meter.moved((now, time), name, moved, self.radio(name));
                usage.spend(name, today, joules);
                has_spent |= joules > 0.0;
            }
            if has_spent {
                self.prices.moved.notify_waiters();
            }
        }
        self.save_energy(false);
        self.price(driver, &subflows);
    }

    /// Keeps the joules over a restart. A process that has taken over keeps them itself.
    fn save_energy(&self, is_last: bool) {
        if !*self.handed_over.borrow() {
            let mut usage = self.limits.usage.borrow_mut();
            match is_last {
                true => usage.save_last(self.clock.now(), &[]),
                false => usage.save_aside(self.clock.now(), &[]),
            }
        }
    }

    /// A helper has reported the rate at which bytes reach it, and how many it can hold.
    pub(super) fn far_link_measured(
        &self,
        link: LinkId,
        rate: Option<BitRate>,
        store: Option<u64>,
    ) {
        let name = self.link_name(link);
        if self.radio(&name).is_some() {
            let mut meter = self.prices.meter.borrow_mut();
            meter.reported(&name, rate, store);
        }
    }

    /// Applies the prices that follow from the policy and what is known of the links.
    pub(super) fn apply_prices(&self) {
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            self.price(&driver, &self.subflows());
        }
    }

    fn price(&self, driver: &Driver, subflows: &[SubflowStats]) {
        let mut in_force = self.prices.in_force.borrow_mut();
        in_force.retain(|id, _| subflows.iter().any(|s| s.id == *id));
        let policy = self.policy.borrow();
        let price = policy.as_ref().and_then(|p| p.joules_per_second());
        let names: Vec<String> = self.own_links();
        let own: Vec<OwnLink<'_>> = names.iter().map(|n| (&**n, self.radio(n))).collect();
        let meter = self.prices.meter.borrow();
        let now = self.clock.now();
        for s in subflows {
            if s.helper.is_none() || s.state == SubflowState::Express {
                continue;
            }
            let wanted = match (price, self.radio(&s.name)) {
                (Some(price), Some(radio)) => {
                    meter.least_bursts(now, price, &own, (&s.name, radio))
                }
                _ => [UNPRICED; 2],
            };
            let before = in_force.get(&s.id).copied().unwrap_or([UNPRICED; 2]);
            if before.iter().zip(&wanted).any(|(a, b)| differ(a, b)) {
                driver.set_least_bursts(s.id, wanted);
                in_force.insert(s.id, wanted);
            }
        }
    }

    /// Names of the own links that are used together.
    fn own_links(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.links.borrow().each(|_, link| {
            if let LinkConfig::Path(path) = link
                && !path.backup
            {
                names.push(path.name.clone());
            }
        });
        names
    }

    /// Joules of a link's radio on the last days.
    fn joules_by_day(&self, link: &str) -> Vec<DayJoules> {
        let usage = self.limits.usage.borrow();
        let days = usage.joules_by_day(link, usage.today()).into_iter();
        let day = |(day, joules): (Date, f64)| DayJoules {
            day: day.to_string(),
            joules,
        };
        days.map(day).collect()
    }

    /// Whether the radio of a link is awake, by its bytes and its model; `None` without one.
    pub(super) fn is_awake(&self, link: &str) -> Option<bool> {
        let radio = self.radio(link)?;
        let meter = self.prices.meter.borrow();
        Some(meter.is_awake(self.clock.now(), link, radio))
    }

    /// Energy of a link, if its radio is named.
    pub(super) fn energy_of(&self, link: &str, subflows: &[SubflowStats]) -> Option<LinkEnergy> {
        let radio = self.radio(link)?;
        let in_force = self.prices.in_force.borrow();
        // An express of the same name has none.
        let mut of_link = subflows.iter().filter(|s| s.name == link);
        let sizes = of_link.find_map(|s| in_force.get(&s.id));
        let size = |least: &LeastBurst| (least.bytes < LeastBurst::NEVER).then_some(least.bytes);
        Some(LinkEnergy {
            radio: radio.name.to_owned(),
            joules: self.prices.meter.borrow().joules(link),
            days: self.joules_by_day(link),
            woken_for: sizes.map(|[up, down]| WokenFor {
                download_bytes: size(down),
                upload_bytes: size(up),
            }),
        })
    }
}
