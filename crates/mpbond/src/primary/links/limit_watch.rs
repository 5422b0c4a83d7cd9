//! Looks at the limits of links, and at paths that connections which have one at a time should
//! leave: while bytes move, at the first byte after a pause, and while a limit excludes a link.
//! Otherwise an idle primary does nothing for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::LinkId;
use mpbond_net::control::HelperState;
use mpbond_policy::{AtCap, Battery, Cap, CapEvent, Charge, Supply, period_at};
use mpbond_session::{IDLE_LONG, PathSet};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::LinkConfig;
use crate::api::EventKind;
use crate::driver::{Budget, Driver};
use crate::primary::connections::flows::Carried;
use crate::primary::rules::ruling::Ruling;
use crate::primary::state::Primary;
use crate::status::{CapStatus, DayBytes, SessionStatus};
use crate::usage::{Capped, Moved};
use crate::{addresses, uplinks};

/// Shortest and longest interval of looks while bytes move. A quarter of what is left of a cap may
/// pass in between, as fast as in the last interval; and an interval is at most twice the last one,
/// since a transfer may have begun in it.
const FAST: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_secs(2);

/// Time without a record after which the only path of a connection is asked.
const QUIET: Duration = Duration::from_millis(200);

/// Longest interval while none move, but a limit excludes a link: connections wait for the end of
/// that, or are refused until then. The level of a battery may rise without an event of the
/// kernel, and the time of day be set.
const EXCLUDED: Duration = Duration::from_secs(60);

/// Looks at the limits until bytes have long not moved and no limit excludes a link.
async fn watch(primary: Rc<Primary>) {
    let mut last = FAST;
    // Bytes of budgets, and since when there are no more: of connections that go direct, no session
    // tells that they move any.
    let (mut used, mut since) = (0, Instant::now());
    loop {
        let next = primary.look_at_limits(last).await;
        let now_used = primary.limits.budgets.borrow().used();
        if std::mem::replace(&mut used, now_used) != now_used {
            since = Instant::now();
        }
        let is_quiet = primary.quiet_for().min(since.elapsed()) >= IDLE_LONG;
        match (is_quiet, primary.limits.excludes_any()) {
            (true, false) => break,
            (true, true) => {
                primary.wait_while_excluded().await;
                // A transfer may begin now, as fast as any.
                last = FAST;
            }
            (false, _) => {
                let began = Instant::now();
                tokio::time::sleep(next).await;
                last = began.elapsed();
            }
        }
    }
    // A process that has taken over keeps it itself.
    if !*primary.handed_over.borrow() {
        let (now, caps) = (primary.clock.now(), primary.caps());
        primary.count_usage(&caps);
        let mut usage = primary.limits.usage.borrow_mut();
        usage.save_aside(now, &caps, true);
    }
    primary.limits.is_watched.set(false);
    if !primary.limits.is_awaited.replace(true) {
        let moved = primary.limits.budgets.borrow().moved();
        moved.notified().await;
        primary.limits.is_awaited.set(false);
        primary.watch_limits();
    }
}

/// Time until the period of a cap ends.
fn until_reset(cap: &Cap, now: jiff::Timestamp) -> Option<Duration> {
    let period = period_at(now, cap.reset_day, &cap.zone)?;
    // A timer of whole milliseconds may end just before.
    let until = Duration::try_from(period.ends.duration_since(now)).ok()?;
    Some(until + Duration::from_millis(1))
}

/// The level of a battery, and whether it is being charged, for people.
fn level_of(supply: Supply) -> Option<String> {
    let charging = match supply.is_charging {
        Some(true) => ", on mains",
        Some(false) | None => "",
    };
    Some(format!("{}%{charging}", supply.percent?))
}

impl Primary {
    /// Bytes move, after a pause or under another policy.
    pub(in crate::primary) fn watch_limits(self: &Rc<Self>) {
        self.watch_signals();
        let policy = self.policy.borrow();
        let has_limits = policy.as_ref().is_some_and(|policy| policy.has_limits());
        if !has_limits && !self.flows.has_single() {
            return;
        }
        match self.limits.is_watched.replace(true) {
            true => self.limits.moving.notify_one(),
            false => {
                crate::task::spawn_local(watch(Rc::clone(self)));
            }
        }
    }

    /// Time since bytes last moved, as far as a session is open.
    pub(super) fn quiet_for(&self) -> Duration {
        let drivers = self.drivers();
        let open = drivers.iter().filter(|driver| !driver.has_ended());
        let quiet =
            open.map(|driver| driver.inspect(|session, clock, _| session.quiet_for(clock.now())));
        quiet.min().unwrap_or(Duration::MAX)
    }

    pub(in crate::primary) fn drivers(&self) -> Vec<Driver> {
        let driver = self.driver.borrow();
        let retiring = self.retiring.borrow();
        driver.iter().chain(&*retiring).cloned().collect()
    }

    /// Waits until bytes move, for an event of this device's battery, for another level of a
    /// helper's, or for the end of a cap's period.
    async fn wait_while_excluded(&self) {
        let ends = self.periods_end_in(jiff::Timestamp::now());
        let budgets = self.limits.budgets.borrow().moved();
        let event = async {
            tokio::select! {
                () = self.limits.moving.notified() => {}
                () = budgets.notified() => {}
                () = self.power.changed() => {}
                () = self.limits.supply_told.notified() => {}
            }
        };
        let _ = timeout(ends.map_or(EXCLUDED, |ends| ends.min(EXCLUDED)), event).await;
    }

    /// Time until the first end of a period whose cap is used up.
    fn periods_end_in(&self, now: jiff::Timestamp) -> Option<Duration> {
        let caps = self.caps().into_iter();
        let reached = caps.filter(|(of, _)| match of {
            Capped::Link(link) => self.limits.is_reached(link),
            Capped::Rule(_) => false,
        });
        let ends = reached.filter_map(|(_, cap)| until_reset(&cap, now));
        ends.min()
    }

    /// Looks at caps and batteries, and applies what has changed, this time after the last look.
    /// Returns the time until the next one.
    async fn look_at_limits(&self, after: Duration) -> Duration {
        self.look_at_batteries().await;
        let caps = self.caps();
        self.limits.reached.replace(self.count_usage(&caps));
        if !*self.handed_over.borrow() {
            let mut usage = self.limits.usage.borrow_mut();
            usage.save_aside(self.clock.now(), &caps, false);
        }
        let next = self.next_look(&caps, after);
        let has_single = self.flows.has_single();
        if has_single || self.limits.have_changed() {
            self.apply_limits();
        }
        match has_single {
            true => next.min(self.ask_single_paths()),
            false => next,
        }
    }

    /// Asks the paths of connections that have one at a time whether they work, if nothing has come
    /// on them for a moment: a silent one is to be left soon, also if nothing is sent on it.
    /// Returns the time until the next look.
    fn ask_single_paths(&self) -> Duration {
        let now = self.clock.now();
        let used: HashSet<PathSet> = {
            let flows = self.flows.carried_now().into_iter();
            let flows = flows.filter(Carried::is_single);
            flows.filter_map(|flow| flow.paths()).collect()
        };
        let driver = self.driver.borrow().clone();
        for subflow in self.subflows() {
            let is_used = used.contains(&self.links.borrow().paths([&*subflow.name]));
            if is_used
                && now.since(subflow.heard) >= QUIET
                && let Some(driver) = &driver
            {
                driver.ask(subflow.id);
            }
        }
        QUIET
    }

    /// The limits of another policy.
    pub(in crate::primary) fn limits_changed(self: &Rc<Self>) {
        let policy = self.policy.borrow().clone();
        let floor = |name: &str| policy.as_ref()?.battery_floor(name);
        let mut batteries = self.limits.batteries.borrow_mut();
        batteries.retain(|name, _| floor(name).is_some());
        for (name, battery) in batteries.iter_mut() {
            battery.set_floor(floor(name));
        }
        drop(batteries);
        let links = self.links.borrow().all();
        let threshold = |name: &str| policy.as_ref()?.weak_below_dbm(name);
        let is_configured = |name: &str| links.iter().any(|(_, link)| link.name() == name);
        let compared = |name: &str| threshold(name).filter(|_| is_configured(name));
        self.weak_links.keep(compared);
        let reached = self.count_usage(&self.caps());
        self.limits.reached.replace(reached);
        self.apply_limits();
        self.watch_limits();
    }

    /// Caps of the links that are configured, and budgets of the rules.
    fn caps(&self) -> Vec<(Capped, Cap)> {
        let policy = self.policy.borrow();
        let Some(policy) = policy.as_ref() else {
            return Vec::new();
        };
        let links = self.links.borrow().all();
        let cap = |name: &str| Some((Capped::Link(name.to_owned()), policy.cap(name)?.clone()));
        let caps = links.iter().filter_map(|(_, link)| cap(link.name()));
        let budgets = policy.budgets();
        let budgets = budgets.map(|(name, cap)| (Capped::Rule(name.to_owned()), cap.clone()));
        caps.chain(budgets).collect()
    }

    /// Counts what has moved of caps and budgets until now. Returns the links whose caps are used
    /// up. A caller that excludes these links has to call it again later: a period may end.
    fn count_usage(&self, caps: &[(Capped, Cap)]) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let totals = self.bytes_of(caps);
        for (of, cap) in caps {
            match of {
                Capped::Link(name) => {
                    let moved = self.moved(name, &totals);
                    let mut usage = self.limits.usage.borrow_mut();
                    let event = usage.count(of, cap, jiff::Timestamp::now(), moved);
                    let used = usage.used_bytes(of);
                    self.cap_event(of, (cap, used), event);
                    if used >= cap.bytes {
                        reached.insert(name.clone());
                    }
                }
                Capped::Rule(name) => self.count_budget(name, cap),
            }
        }
        self.limits.seen.replace(totals);
        reached
    }

    /// Counts what connections of a rule have moved of its budget until now.
    fn count_budget(&self, rule: &str, cap: &Cap) {
        let mut usage = self.limits.usage.borrow_mut();
        let mut budgets = self.limits.budgets.borrow_mut();
        let (used, event) = budgets.count(&mut usage, (rule, cap), jiff::Timestamp::now());
        self.cap_event(&Capped::Rule(rule.to_owned()), (cap, used), event);
    }

    /// Time until the next look at caps, this time after the last one. A status that has counted in
    /// between makes no difference.
    fn next_look(&self, caps: &[(Capped, Cap)], after: Duration) -> Duration {
        let usage = self.limits.usage.borrow();
        let mut looked = self.limits.looked.borrow_mut();
        let mut next = SLOW.min(after * 2);
        for (of, cap) in caps {
            let used = usage.used_bytes(of);
            let before = looked.insert(of.clone(), used).unwrap_or(used);
            let (left, moved) = (cap.bytes.saturating_sub(used), used.saturating_sub(before));
            if left > 0 && moved > 0 {
                let part = after.mul_f64(left as f64 / moved as f64 / 4.0);
                next = next.min(part.max(FAST));
            }
        }
        next
    }

    /// The budget of a connection with this ruling, if its rule has one.
    pub(in crate::primary) fn budget_of(&self, ruling: &Ruling) -> Option<Rc<Budget>> {
        let (rule, cap) = ruling.budget()?;
        let usage = self.limits.usage.borrow();
        Some(self.limits.budgets.borrow_mut().of(&usage, rule, cap))
    }

    /// Names of the rules whose budgets are used up now. A decision about a new connection waits
    /// for it: it takes no system call, and writes nothing.
    pub(in crate::primary) fn spent_budgets(&self) -> BTreeSet<String> {
        let Some(policy) = self.policy.borrow().clone() else {
            return BTreeSet::new();
        };
        let mut usage = self.limits.usage.borrow_mut();
        let mut budgets = self.limits.budgets.borrow_mut();
        let (all, now) = (|| policy.budgets(), self.clock.now());
        budgets.spent(&mut usage, all, now, |(rule, cap), (used, event)| {
            self.cap_event(&Capped::Rule(rule.to_owned()), (cap, used), event);
        })
    }

    /// What has moved over a link since the last look.
    fn moved(&self, name: &str, totals: &HashMap<String, u64>) -> Option<Moved> {
        let links = self.links.borrow().all();
        let (id, link) = links.iter().find(|(_, link)| link.name() == name)?;
        let interface = match &**link {
            LinkConfig::Path(_) => self.interface_of(*id, link),
            LinkConfig::Pipe(_) => None,
        };
        if let Some(interface) = interface {
            return self
                .limits
                .interfaces
                .read(&interface)
                .map(Moved::Interface);
        }
        let total = totals.get(name).copied().unwrap_or_default();
        let seen = self.limits.seen.borrow();
        // What had moved when counting began is not of the cap.
        let before = seen.get(name).copied().unwrap_or(total);
        Some(Moved::Bytes(total.saturating_sub(before)))
    }

    /// Interface of a link, as far as it is known: the configured one or, of an own path, the one
    /// with the configured address, or on the route to the proxy.
    pub(super) fn interface_of(&self, id: LinkId, link: &LinkConfig) -> Option<String> {
        match link {
            LinkConfig::Path(path) => path.interface.clone().or_else(|| {
                let towards = || uplinks::interface_towards(self.known_addresses(id).first()?.ip());
                path.source
                    .and_then(addresses::interface_of)
                    .or_else(towards)
            }),
            LinkConfig::Pipe(pipe) => pipe.interface.clone(),
        }
    }

    /// Octets of the connections of each link with a cap since the start, both ways: at a helper
    /// those of its relays, which its own budget counts.
    fn bytes_of(&self, caps: &[(Capped, Cap)]) -> HashMap<String, u64> {
        let capped = caps.iter().filter_map(|(of, _)| match of {
            Capped::Link(name) => Some((name.clone(), 0)),
            Capped::Rule(_) => None,
        });
        let mut totals: HashMap<String, u64> = capped.collect();
        if !totals.is_empty() {
            let sessions: Vec<SessionStatus> = self.drivers().iter().map(Driver::status).collect();
            for path in self.log.totals().with(&sessions).1 {
                if let Some(total) = totals.get_mut(&path.name) {
                    *total += path.octets;
                }
            }
        }
        totals
    }

    fn cap_event(&self, of: &Capped, (cap, used): (&Cap, u64), event: Option<CapEvent>) {
        let Some(event) = event else { return };
        let kind = match event {
            CapEvent::Warning => EventKind::CapWarn,
            CapEvent::Reached => EventKind::CapReached,
        };
        let bytes = cap.bytes;
        let link = match of {
            Capped::Link(link) => link,
            Capped::Rule(rule) => {
                info!(rule, used, bytes, ?event, "budget of a rule");
                return self.happened_to(kind, None, Some(format!("budget of the rule {rule:?}")));
            }
        };
        match (event, cap.at_cap) {
            (CapEvent::Warning, _) => info!(link, used, bytes, "much of a link's cap is used"),
            (CapEvent::Reached, AtCap::Off) => {
                warn!(
                    link,
                    bytes, "the cap of a link is used up: it carries nothing more"
                );
            }
            (CapEvent::Reached, AtCap::Standby) => {
                warn!(link, bytes, "the cap of a link is used up: it stands by");
            }
        }
        self.happened_to(kind, Some(link), None);
    }

    /// Reads the levels of the batteries of links that have a floor.
    async fn look_at_batteries(&self) {
        let floors: Vec<_> = {
            let policy = self.policy.borrow();
            let links = self.links.borrow().all();
            let floor = |(id, link): &(LinkId, Rc<LinkConfig>)| {
                let floor = policy.as_ref()?.battery_floor(link.name())?;
                Some((*id, Rc::clone(link), floor))
            };
            links.iter().filter_map(floor).collect()
        };
        if floors.is_empty() {
            return;
        }
        let own = self.power.read().await.supply();
        let now = self.clock.now();
        let open = self.drivers().iter().map(Driver::streams_open).sum();
        for (id, link, floor) in floors {
            let supply = match &*link {
                LinkConfig::Path(_) => own,
                LinkConfig::Pipe(_) => self.limits.told(id).battery,
            };
            let percent = supply.percent;
            let name = link.name().to_owned();
            let mut batteries = self.limits.batteries.borrow_mut();
            let battery = batteries
                .entry(name)
                .or_insert_with(|| Battery::new(Some(floor)));
            let before = battery.charge();
            match percent {
                Some(percent) => battery.handle_level(now, percent, open),
                None => battery.handle_flows(now, open),
            }
            if battery.charge() != before {
                let (link, charge) = (link.name(), battery.charge());
                info!(link, ?percent, ?charge, "battery of a link's device");
                // Without an open flow, it does not drain before it is low.
                if before == Charge::Sufficient {
                    self.happened_to(EventKind::BatteryLow, Some(link), level_of(supply));
                }
            }
        }
    }

    /// A helper has told its state. A level that it does not know now stays what it was. A link
    /// that is metered now, or no longer, is soon treated so.
    pub(in crate::primary) fn helper_state(self: &Rc<Self>, link: LinkId, state: &HelperState) {
        let mut all = self.limits.helpers.borrow_mut();
        let told = all.entry(link).or_default();
        let supply = Supply {
            percent: state.battery_percent.or(told.battery.percent),
            is_charging: state.charging,
        };
        if std::mem::replace(&mut told.battery, supply) != supply {
            self.limits.supply_told.notify_one();
        }
        told.bytes_left = state.bytes_left;
        let before = std::mem::replace(&mut told.metered, state.metered);
        drop(all);
        if before == state.metered {
            return;
        }
        let waits = self.limits.metered_told.changed(self.clock.now());
        match waits {
            Some(Duration::ZERO) => self.apply_metered(),
            Some(wait) => {
                let primary = Rc::clone(self);
                crate::task::spawn_local(async move {
                    tokio::time::sleep(wait).await;
                    primary.apply_metered();
                });
            }
            None => {}
        }
    }

    /// Applies what helpers have told last of their links' being metered.
    fn apply_metered(&self) {
        self.limits.metered_told.applied(self.clock.now());
        self.links_came_or_went();
    }

    /// Has sessions keep to the limits.
    fn apply_limits(&self) {
        self.limits.applied.replace(self.limits.excluded());
        self.apply_ranks();
        self.apply_paths();
    }

    /// A link works now, or no longer, or is silent.
    pub(in crate::primary) fn links_came_or_went(&self) {
        if self.policy.borrow().is_some() {
            self.apply_limits();
        }
    }

    /// Makes the subflows of links that carry data only while no other one works backups, by their
    /// costs and caps, or since another pipe to the same helper is used, and those of others what
    /// they are by their configuration. Those that are used come first. Sets the costs by which
    /// sessions prefer one link to another.
    pub(in crate::primary) fn apply_ranks(&self) {
        let policy = self.policy.borrow().clone();
        let states = self.link_states();
        let behind = policy.as_ref().map(|policy| policy.behind(&states));
        let behind = behind.unwrap_or_default();
        let role = |(id, link): (LinkId, Rc<LinkConfig>)| {
            let stands_by = self.manager.borrow().is_standby(id);
            let backup = link.is_backup() || stands_by || behind.contains(&link.name());
            (backup, link)
        };
        let mut links: Vec<_> = self.links.borrow().all().into_iter().map(role).collect();
        links.sort_by_key(|(backup, _)| *backup);
        for (backup, link) in links {
            let name = link.name();
            let policy = policy.as_ref();
            let cost = policy.map_or(0, |policy| policy.cost(name, &states));
            for driver in self.drivers() {
                driver.set_rank_named(name, backup, cost);
            }
        }
    }

    /// Keeps what caps have used over a restart, at the end of the process. Waits for the disk.
    pub(in crate::primary) fn save_usage(&self) {
        let (now, caps) = (self.clock.now(), self.caps());
        self.count_usage(&caps);
        self.limits.usage.borrow_mut().save_at_end(now, &caps);
    }

    /// Whether a link may carry no bytes now. One that stands by behind its cap may.
    pub(in crate::primary) fn forbids_a_link(&self) -> bool {
        let policy = self.policy.borrow();
        let is_off = |link: &String| {
            let cap = policy.as_ref().and_then(|policy| policy.cap(link));
            cap.is_some_and(|cap| cap.at_cap == AtCap::Off)
        };
        let excluded = self.limits.excluded();
        !excluded.low.is_empty() || excluded.used_up.iter().any(is_off)
    }

    /// Counts what has moved until now, for a status: at an own link also what other programs have
    /// while no bytes of connections do. Links are excluded by the watch alone.
    pub(in crate::primary) fn count_for_status(&self) {
        if self
            .policy
            .borrow()
            .as_ref()
            .is_some_and(|p| p.has_limits())
        {
            self.count_usage(&self.caps());
        }
    }

    /// Use of the cap of a link.
    pub(in crate::primary) fn cap_of(&self, link: &str) -> Option<CapStatus> {
        let policy = self.policy.borrow();
        let cap = policy.as_ref()?.cap(link)?;
        let now = jiff::Timestamp::now();
        let period = period_at(now, cap.reset_day, &cap.zone)?;
        let usage = self.limits.usage.borrow();
        let days = usage.bytes_by_day(link, &period, cap.zone.to_datetime(now).date());
        let day = |(day, bytes): (jiff::civil::Date, u64)| DayBytes {
            day: day.to_string(),
            bytes,
        };
        let used_bytes = usage.used_bytes(&Capped::Link(link.to_owned()));
        Some(CapStatus {
            used_bytes,
            bytes: cap.bytes,
            used_up: used_bytes >= cap.bytes && cap.at_cap == AtCap::Off,
            resets: period.next_day.to_string(),
            days: days.into_iter().map(day).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_cap_ends_just_after_its_period() {
        let cap = Cap {
            bytes: 1,
            reset_day: 1,
            zone: jiff::tz::TimeZone::UTC,
            warn_percent: None,
            at_cap: AtCap::Off,
        };
        let now: jiff::Timestamp = "2026-11-30T23:59:59.5Z".parse().unwrap();
        let wait = until_reset(&cap, now).unwrap();
        assert_eq!(wait, Duration::from_millis(501));
        let day = |after: Duration| period_at(now + after, 1, &cap.zone).unwrap().first_day;
        assert_eq!(day(wait), jiff::civil::date(2026, 12, 1));
    }
}
