//! Devices, networks and faults of a day.
//!
//! Figures without a source are assumptions. NATs keep idle connections for 30 s to 30 min
//! (log-uniform): RFC 5382, section 5, asks for 2 h 4 min, and measurements of home gateways
//! (Hätönen et al., IMC 2010) and of cellular networks (Wang et al., SIGCOMM 2011) found many that
//! keep to far less.

use std::time::Duration;

use mpbond_session::HelperId;
use mpbond_units::BitRate;

use crate::link::{LinkChange, LinkConfig, Rate};
use crate::world::{Daemon, Dice, Fault, Happening, Nat, Portal, Route, TwoWay, When};

/// The laptop's network.
pub(super) const WIFI: usize = 0;
pub(super) const PHONE_PIPE: usize = 1;
pub(super) const PHONE_LTE: usize = 2;
pub(super) const WATCH_PIPE: usize = 3;
pub(super) const WATCH_LTE: usize = 4;

const OWN: usize = 0;
const PHONE: usize = 1;
const WATCH: usize = 2;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A time in which something is not as usual, for the causes of waits.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) what: &'static str,
}

/// All that happens on a day, by its time.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) faults: Vec<(Duration, Happening)>,
    pub(super) conditions: Vec<Condition>,
    /// Sleeps of the laptop.
    pub(super) sleeps: Vec<(Duration, Duration)>,
}

/// Links of the day: the laptop's WiFi, and pipe and LTE of the phone and of the watch.
pub(super) fn links() -> Vec<TwoWay> {
    let link = |name: &str, down: f64, up: f64, delay_ms: u64| {
        let one = |mbps| {
            let rate = Rate::Constant(BitRate::from_mbps(mbps));
            LinkConfig::new(rate).with_delay(Duration::from_millis(delay_ms))
        };
        TwoWay {
            up: one(up),
            down: one(down),
            ..TwoWay::symmetric(name, one(down))
        }
    };
    vec![
        link("laptop WiFi", 40.0, 10.0, 12),
        link("phone WiFi pipe", 40.0, 40.0, 2),
        link("phone LTE", 25.0, 10.0, 25),
        link("watch Bluetooth pipe", 1.2, 1.2, 15),
        link("watch LTE", 5.0, 2.0, 35),
    ]
}

/// Routes of the day, over [`links`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::direct("laptop", WIFI),
        Route::through("phone", HelperId(1), PHONE_PIPE, PHONE_LTE),
        Route::through("watch", HelperId(2), WATCH_PIPE, WATCH_LTE),
    ]
}

/// NATs of the first networks.
pub(super) fn nats(dice: &mut Dice) -> Vec<Option<Nat>> {
    let mut nats = vec![None; 5];
    for link in [WIFI, PHONE_LTE, WATCH_LTE] {
        nats[link] = Some(nat(dice));
    }
    nats
}

fn nat(dice: &mut Dice) -> Nat {
    Nat {
        timeout: Duration::from_secs_f64(dice.magnitude(30.0, 1_800.0)),
        resets: dice.once_in(3),
    }
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Schedule {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let mut day = Self::default();
        day.sleeps(dice);
        day.places(dice);
        day.phone(dice);
        day.watch(dice);
        day.add(s(12 * HOUR), Happening::Upgrade);
        day.note(s(12 * HOUR), s(10), "the proxy was upgraded");
        for who in [Daemon::Primary, Daemon::Primary, Daemon::Proxy] {
            let by = dice.ms(1, 10_000);
            let at = dice.ms(0, 24 * HOUR * 1_000);
            day.add(at, Happening::ClockJump { who, by });
        }
        day
    }

    fn add(&mut self, at: Duration, what: Happening) {
        self.faults.push((at, what));
    }

    fn note(&mut self, from: Duration, length: Duration, what: &'static str) {
        let to = from + length;
        self.conditions.push(Condition { from, to, what });
    }

    /// The laptop sleeps at night, and six times for 20 s to 90 min when its lid is closed.
    fn sleeps(&mut self, dice: &mut Dice) {
        let mut at = s(dice.between(5 * MINUTE, 40 * MINUTE));
        let mut until = s(6 * HOUR + dice.between(0, 90 * MINUTE));
        for part in 1..=7 {
            self.sleeps.push((at, until));
            let length = until - at;
            self.add(at, Happening::Sleep { length });
            self.note(at, length + s(1), "the laptop slept");
            at = s((7 + part * 2) * HOUR + dice.between(0, 25 * MINUTE));
            until = at + Duration::from_secs_f64(dice.magnitude(20.0, 90.0 * 60.0));
        }
    }

    /// Home, commute, office, a café at noon, office, commute, home: each with a network of its
    /// own. Networks drop out, and the home's address changes.
    fn places(&mut self, dice: &mut Dice) {
        let mut change = |day: &mut Self, hour: f64, gap: Duration, portal: Option<Portal>| {
            let at = Duration::from_secs_f64(hour * 3_600.0) + dice.ms(0, 600_000);
            let route = OWN;
            day.add(at, Happening::Depart { route, length: gap });
            day.note(at, gap + s(2), "the laptop had no network of its own");
            let link = WIFI;
            let nat = Some(nat(dice));
            day.add(at + gap, Happening::Network { link, nat, portal });
            if portal.is_some() {
                let signed_in = dice.ms(60_000, 420_000);
                let portal = None;
                day.add(
                    at + gap + signed_in,
                    Happening::Network { link, nat, portal },
                );
                day.note(
                    at + gap,
                    signed_in + s(12),
                    "a captive portal held the WiFi",
                );
            }
        };
        let portal = |dice: &mut bool| match std::mem::replace(dice, !*dice) {
            true => Portal::Swallows,
            false => Portal::Resets,
        };
        let mut swallows = true;
        let first = portal(&mut swallows);
        change(self, 8.2, s(45 * MINUTE), None);
        change(self, 12.3, s(20), Some(first));
        change(self, 13.3, s(30), None);
        change(self, 15.4, s(15), Some(portal(&mut swallows)));
        change(self, 16.2, s(15), None);
        change(self, 17.5, s(50 * MINUTE), None);
        for _ in 0..5 {
            let length = Duration::from_secs_f64(dice.magnitude(2.0, 90.0));
            self.silence(dice, WIFI, length, "the laptop's WiFi was silent");
        }
        for _ in 0..2 {
            let at = dice.ms(18 * HOUR * 1_000, 24 * HOUR * 1_000);
            let (route, nearer, told) = (OWN, true, [true, false]);
            let what = Happening::Sever {
                route,
                nearer,
                told,
            };
            self.add(at, what);
            self.note(at, s(2), "the laptop's address changed");
        }
    }

    /// Coverage holes and changes of address of the phone's LTE; the phone leaves the room; its
    /// budget may be used up in the evening.
    fn phone(&mut self, dice: &mut Dice) {
        for _ in 0..8 {
            let length = Duration::from_secs_f64(dice.magnitude(2.0, 120.0));
            self.silence(dice, PHONE_LTE, length, "the phone's LTE was silent");
        }
        for _ in 0..3 {
            let at = dice.ms(0, 24 * HOUR * 1_000);
            let (route, nearer, told) = (PHONE, false, [true, false]);
            let what = Happening::Sever {
                route,
                nearer,
                told,
            };
            self.add(at, what);
            self.note(at, s(2), "the phone's address changed");
        }
        for part in 0..4 {
            let at = s((7 + part * 4) * HOUR + dice.between(0, 2 * HOUR));
            let length = Duration::from_secs_f64(dice.magnitude(60.0, 3_600.0));
            self.away(PHONE, at, length, "the phone was away");
        }
        if dice.once_in(2) {
            let at = s(20 * HOUR + dice.between(0, 2 * HOUR));
            let length = s(24 * HOUR) - at;
            let route = PHONE;
            self.add(at, Happening::Refuse { route, length });
            self.note(at, length, "the phone's budget was used up");
        }
    }

    /// The watch is away twice, and its battery may end in the evening.
    fn watch(&mut self, dice: &mut Dice) {
        for part in 0..2 {
            let at = s((9 + part * 6) * HOUR + dice.between(0, 2 * HOUR));
            let length = Duration::from_secs_f64(dice.magnitude(120.0, 3_600.0));
            self.away(WATCH, at, length, "the watch was away");
        }
        if dice.once_in(2) {
            let at = s(19 * HOUR + dice.between(0, 2 * HOUR));
            self.away(WATCH, at, s(90 * MINUTE), "the watch's battery was empty");
        }
    }

    fn away(&mut self, route: usize, at: Duration, length: Duration, what: &'static str) {
        self.add(at, Happening::Depart { route, length });
        self.note(at, length, what);
    }

    fn silence(&mut self, dice: &mut Dice, link: usize, length: Duration, what: &'static str) {
        let at = dice.ms(0, 24 * HOUR * 1_000 - 200_000);
        for (at, change) in [(at, LinkChange::down()), (at + length, LinkChange::up())] {
            let (up, down) = (Some(change.clone()), Some(change));
            self.add(at, Happening::Link { link, up, down });
        }
        // TCP may wait as long again before it tries.
        self.note(at, length * 2, what);
    }

    /// Whether the laptop is awake from `at` for `length`.
    pub(super) fn is_awake(&self, at: Duration, length: Duration) -> bool {
        let mut sleeps = self.sleeps.iter();
        sleeps.all(|(from, to)| at + length < *from || at > *to)
    }

    /// Time within a wait for which the laptop slept.
    pub(super) fn slept(&self, from: Duration, to: Duration) -> Duration {
        let overlap = |(a, b): &(Duration, Duration)| {
            let (a, b) = ((*a).max(from), (*b).min(to));
            b.saturating_sub(a)
        };
        self.sleeps.iter().map(overlap).sum()
    }

    /// Keeps what happens within `length` from `from` on, and counts time from there.
    pub(super) fn within(mut self, from: Duration, length: Duration) -> Self {
        self.faults
            .retain(|(at, _)| *at >= from && *at < from + length);
        self.sleeps
            .retain(|(at, _)| *at >= from && *at < from + length);
        for (at, _) in &mut self.faults {
            *at -= from;
        }
        for (a, b) in &mut self.sleeps {
            (*a, *b) = (*a - from, *b - from);
        }
        self.conditions.retain(|c| c.to > from);
        for c in &mut self.conditions {
            (c.from, c.to) = (c.from.saturating_sub(from), c.to - from);
        }
        self
    }

    /// Leaves out what concerns the helpers.
    pub(super) fn without_helpers(&mut self) {
        self.faults.retain(|(_, what)| match what {
            Happening::Depart { route, .. }
            | Happening::Sever { route, .. }
            | Happening::Refuse { route, .. } => *route == OWN,
            Happening::Link { link, .. } => *link == WIFI,
            _ => true,
        });
        let of_helper = |c: &Condition| c.what.contains("phone") || c.what.contains("watch");
        self.conditions.retain(|c| !of_helper(c));
    }

    /// The faults of the scenario.
    pub(super) fn scenario_faults(&self) -> Vec<Fault> {
        let faults = self.faults.iter().map(|(at, what)| Fault {
            when: When::At(*at),
            what: what.clone(),
        });
        faults.collect()
    }
}
