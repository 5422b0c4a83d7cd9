//! Prices of helpers: looks at the links while bytes move, and tells the session for which bursts a
//! helper is woken. Counts the joules of radios that are named.

use std::rc::Rc;
use std::time::Duration;

use jiff::civil::Date;
use mpbond_manager::LinkId;
use mpbond_net::control::RelayReport;
use mpbond_policy::Supply;
use mpbond_price::{PipeRadios, Radio};
use mpbond_session::{IDLE_LONG, LeastBurst, SubflowState, SubflowStats};
use mpbond_units::Timestamp;

use super::LinkConfig;
use super::prices::Seen;
use crate::driver::Driver;
use crate::pricing::{HelperLink, Moved, OwnLink, UNPRICED, differ};
use crate::primary::state::Primary;
use crate::status::{DayJoules, LinkEnergy, PipeEnergy, RadioEnergy, WokenFor};
use crate::usage::RadioOf;

/// Interval of looks while bytes move: a transfer of a second has some.
const EVERY: Duration = Duration::from_millis(200);

/// Interval while none do, until the session reports that they move again.
const QUIET: Duration = Duration::from_secs(1);

/// Looks at the links of a session until it has long been quiet.
async fn watch(primary: Rc<Primary>, driver: Driver) {
    let mut seen = primary.prices.resume(&driver);
    primary.look(&driver, &mut seen, Duration::ZERO);
    loop {
        if primary.look_at_supply().await {
            primary.apply_prices();
        }
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
    primary.prices.pause(&driver, seen);
}

impl Primary {
    /// Bytes move, after a pause or under another policy.
    pub(in crate::primary) fn watch_prices(self: &Rc<Self>, driver: &Driver) {
        let policy = self.policy.borrow();
        let has_price = policy.as_ref().is_some_and(|policy| policy.has_radios());
        let has_radios = has_price || self.links.borrow().has_radios();
        let mut watched = self.prices.watched.borrow_mut();
        let is_watched = watched.as_ref().is_some_and(|handle| handle.is_of(driver));
        if !has_radios {
            self.prices.stop_counting();
        } else if !is_watched {
            *watched = Some(driver.handle());
            crate::task::spawn_local(watch(Rc::clone(self), driver.clone()));
        }
    }

    /// Joules that a second is worth, by the batteries of this device and of a helper.
    pub(in crate::primary) fn joules_per_second(&self, helper: Supply) -> Option<f64> {
        let policy = self.policy.borrow();
        let own = self.prices.supply.get();
        policy.as_ref()?.joules_per_second(own, helper)
    }

    /// Reads the batteries of this device, if the price depends on them. Whether something else is
    /// known of them than before.
    pub(in crate::primary) async fn look_at_supply(&self) -> bool {
        let policy = self.policy.borrow().clone();
        if !policy.is_some_and(|policy| policy.price_follows_batteries()) {
            return false;
        }
        let supply = self.power.read().await.supply();
        self.prices.supply.replace(supply) != supply
    }

    /// Power supply of the helper of a link, as it has told it.
    fn supply_of(&self, link: &str) -> Supply {
        let links = self.links.borrow().all();
        let found = links.iter().find(|(_, known)| known.name() == link);
        found.map_or_else(Supply::default, |(id, _)| self.limits.told(*id).battery)
    }

    fn radio(&self, link: &str) -> Option<&'static Radio> {
        self.policy.borrow().as_ref()?.radio(link)
    }

    /// Enters the bytes of this time, and applies the sizes that follow. What moved before the
    /// first look after a pause has no time: its rate is not known, but its joules are.
    fn look(&self, driver: &Driver, seen: &mut Seen, time: Duration) {
        let now = self.clock.now();
        let subflows = driver.inspect(|session, _, _| session.subflows(now));
        self.count((now, time), seen.since(&subflows));
        self.save_energy(false);
        self.price(driver, &subflows);
    }

    fn count(&self, at: (Timestamp, Duration), links: Vec<(&str, Moved)>) {
        let mut meter = self.prices.meter.borrow_mut();
        let mut usage = self.limits.usage.borrow_mut();
        let today = usage.today();
        let mut has_spent = false;
        for (name, moved) in links {
            let joules = meter.moved(at, name, moved, self.radio(name));
            usage.spend((name, RadioOf::Link), today, joules);
            has_spent |= joules > 0.0;
            if let Some(radios) = self.radios_of_pipe(name) {
                let [near, far] = meter.moved_over_pipe(at, name, moved, radios);
                usage.spend((name, RadioOf::Pipe), today, near);
                usage.spend((name, RadioOf::FarPipe), today, far);
            }
        }
        if has_spent {
            self.prices.moved.notify_waiters();
        }
    }

    /// Keeps the joules over a restart. A process that has taken over keeps them itself.
    fn save_energy(&self, is_last: bool) {
        if !*self.handed_over.borrow() {
            let mut usage = self.limits.usage.borrow_mut();
            usage.save_aside(self.clock.now(), &[], is_last);
        }
    }

    /// A helper has reported the rate at which bytes reach it, how many it can hold, and whether
    /// its own traffic holds back what it carries.
    pub(in crate::primary) fn far_link_measured(&self, link: LinkId, report: &RelayReport) {
        let name = self.link_name(link);
        if self.radio(&name).is_some() {
            let (now, mut meter) = (self.clock.now(), self.prices.meter.borrow_mut());
            meter.relay_reported(now, &name, report);
        }
    }

    /// Applies the prices that follow from the policy and what is known of the links.
    pub(in crate::primary) fn apply_prices(&self) {
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            self.price(&driver, &self.subflows());
        }
    }

    fn price(&self, driver: &Driver, subflows: &[SubflowStats]) {
        let mut in_force = self.prices.in_force.borrow_mut();
        in_force.retain(|id, _| subflows.iter().any(|s| s.id == *id));
        let names: Vec<String> = self.own_links();
        let own: Vec<OwnLink<'_>> = names.iter().map(|n| (&**n, self.radio(n))).collect();
        let meter = self.prices.meter.borrow();
        let now = self.clock.now();
        for s in subflows {
            if s.helper.is_none() || s.state == SubflowState::Express {
                continue;
            }
            let price = self.joules_per_second(self.supply_of(&s.name));
            let wanted = match (price, self.radio(&s.name)) {
                (Some(price), Some(radio)) => {
                    let helper = HelperLink {
                        name: &s.name,
                        radio,
                        pipe: self.radios_of_pipe(&s.name),
                    };
                    meter.least_bursts(now, price, &own, helper)
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

    /// Radios of the pipe with this name, where they are named.
    fn radios_of_pipe(&self, name: &str) -> Option<PipeRadios> {
        let links = self.links.borrow().all();
        let found = links.iter().find(|(_, link)| link.name() == name);
        found.and_then(|(_, link)| link.radios())
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
    fn joules_by_day(&self, link: &str, radio: RadioOf) -> Vec<DayJoules> {
        let usage = self.limits.usage.borrow();
        let days = usage.joules_by_day((link, radio), usage.today());
        let days = days.into_iter();
        let day = |(day, joules): (Date, f64)| DayJoules {
            day: day.to_string(),
            joules,
        };
        days.map(day).collect()
    }

    /// Whether the radio of a link is awake, by its bytes and its model; `None` without one.
    pub(in crate::primary) fn is_awake(&self, link: &str) -> Option<bool> {
        let radio = self.radio(link)?;
        let meter = self.prices.meter.borrow();
        Some(meter.is_awake(self.clock.now(), link, radio))
    }

    /// Energy of a link, if its radio is named.
    pub(in crate::primary) fn energy_of(
        &self,
        link: &str,
        subflows: &[SubflowStats],
    ) -> Option<LinkEnergy> {
        let radio = self.radio(link)?;
        let in_force = self.prices.in_force.borrow();
        // An express of the same name has none.
        let mut of_link = subflows.iter().filter(|s| s.name == link);
        let sizes = of_link.find_map(|s| in_force.get(&s.id));
        let size = |least: &LeastBurst| (least.bytes < LeastBurst::NEVER).then_some(least.bytes);
        Some(LinkEnergy {
            radio: radio.name.to_owned(),
            joules: self.prices.meter.borrow().joules(link),
            days: self.joules_by_day(link, RadioOf::Link),
            woken_for: sizes.map(|[up, down]| WokenFor {
                download_bytes: size(down),
                upload_bytes: size(up),
            }),
        })
    }

    /// Energy of the radios of a pipe, if they are named.
    pub(in crate::primary) fn energy_of_pipe(&self, link: &str) -> Option<PipeEnergy> {
        let radios = self.radios_of_pipe(link)?;
        let [near, far] = self.prices.meter.borrow().joules_of_pipe(link);
        let energy = |radio: &Radio, of, joules| RadioEnergy {
            radio: radio.name.to_owned(),
            joules,
            days: self.joules_by_day(link, of),
        };
        Some(PipeEnergy {
            near: energy(radios.near, RadioOf::Pipe, near),
            far: radios.far.map(|radio| energy(radio, RadioOf::FarPipe, far)),
        })
    }
}
