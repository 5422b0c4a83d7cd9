//! Handover between Bluetooth and WiFi by the strength of Bluetooth's signal (Wear OS paper,
//! section 6.4).
//!
//! | mode | WiFi |
//! | --- | --- |
//! | reactive | is woken when Bluetooth is lost, as Wear OS does |
//! | on demand | is woken and joined when Bluetooth's smoothed signal falls below -66 dBm |
//! | always on | is joined beforehand and kept, with a keep-alive every 4 minutes |
//!
//! In both proactive modes new data go to WiFi, and all that Bluetooth has in flight is sent again
//! there, as soon as WiFi is joined while the signal is weak. They return by the mirror rule, after
//! at least 5 s, or at once when WiFi is lost. Except always on, WiFi is switched off at the
//! return. A WiFi that has been joined after Bluetooth's signal, or Bluetooth itself, came back is
//! switched off when it has not been needed for 5 s.
//!
//! A WiFi that cannot be joined is tried again after 1 s, then after twice as long each time, up to
//! a minute. A WiFi that was joined and lost is tried again at once.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_manager::Kalman;
use mpbond_units::Timestamp;

use super::selection::Interface;

/// Strength below which Bluetooth is left, in dBm.
const THRESHOLD_DBM: f64 = -66.0;
/// Least time on WiFi, and time without need for it until it is switched off.
const DWELL: Duration = Duration::from_secs(5);
/// Interval of keep-alives on an idle WiFi connection.
pub const KEEP_ALIVE: Duration = Duration::from_secs(240);
/// Delay after the first attempt to join WiFi that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest delay after an attempt that failed.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(60);

/// Treatment of WiFi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandoverMode {
    /// Woken when Bluetooth is lost.
    Reactive,
    /// Woken when Bluetooth's signal is weak.
    OnDemand,
    /// Joined all the time.
    AlwaysOn,
}

/// State of WiFi, with the session's subflow on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WifiState {
    /// Switched off or lost.
    Off,
    /// On its way to be joined.
    Joining,
    /// The subflow works, but the signal is not acceptable.
    Poor,
    /// The subflow works.
    Joined,
}

/// Action of a handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandoverAction {
    /// Switch WiFi on, associate, and join a subflow.
    JoinWifi,
    /// Assign new data to an interface.
    Use {
        /// The interface.
        interface: Interface,
        /// Whether all that is in flight on the other one is sent again on it.
        reinject: bool,
    },
    /// Close the subflow on WiFi, and switch WiFi off.
    LeaveWifi,
    /// Send a keep-alive on WiFi.
    KeepAlive,
}

/// The handover.
#[derive(Debug)]
pub struct Handover {
    mode: HandoverMode,
    filter: Kalman,
    wifi: WifiState,
    bluetooth: bool,
    interface: Interface,
    /// When WiFi was taken last.
    on_wifi_since: Timestamp,
    /// When WiFi carried anything last.
    wifi_used: Timestamp,
    /// Since when WiFi is joined, or on its way, without need.
    unneeded_since: Option<Timestamp>,
    /// Delay after the next attempt to join WiFi that fails.
    retry_after: Duration,
    /// When WiFi may be joined again, after an attempt that failed.
    retry_at: Option<Timestamp>,
    actions: VecDeque<HandoverAction>,
}

impl Handover {
    /// A handover on Bluetooth, with WiFi off.
    pub fn new(mode: HandoverMode, now: Timestamp) -> Self {
        let mut handover = Self {
            mode,
            filter: Kalman::default(),
            wifi: WifiState::Off,
            bluetooth: true,
            interface: Interface::Bluetooth,
            on_wifi_since: now,
            wifi_used: now,
            unneeded_since: None,
            retry_after: RETRY_AFTER,
            retry_at: None,
            actions: VecDeque::new(),
        };
        if mode == HandoverMode::AlwaysOn {
            handover.join();
        }
        handover
    }

    /// Interface of new data.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// Smoothed strength of Bluetooth's signal, in dBm.
    pub fn signal_dbm(&self) -> Option<f64> {
        self.filter.estimate()
    }

    /// Takes a sample of Bluetooth's signal in dBm, every 0.2 s.
    pub fn handle_rssi(&mut self, now: Timestamp, dbm: f64) {
        self.filter.update(dbm);
        self.decide(now);
    }

    /// Bluetooth has been lost or found again.
    pub fn handle_bluetooth(&mut self, now: Timestamp, connected: bool) {
        if connected && !self.bluetooth {
            // Samples of before do not count.
            self.filter = Kalman::default();
        }
        self.bluetooth = connected;
        self.decide(now);
    }

    /// State of WiFi. A state that is not new does nothing.
    pub fn handle_wifi(&mut self, now: Timestamp, state: WifiState) {
        let before = std::mem::replace(&mut self.wifi, state);
        if before == state {
            return;
        }
        self.wifi_used = now;
        match (before, state) {
            (WifiState::Joining, WifiState::Off) => {
                self.retry_at = Some(now + self.retry_after);
                self.retry_after = (self.retry_after * 2).min(RETRY_AFTER_MOST);
            }
            (_, WifiState::Poor | WifiState::Joined) => {
                self.retry_after = RETRY_AFTER;
                self.retry_at = None;
            }
            _ => {}
        }
        self.decide(now);
    }

    /// Data have passed over WiFi.
    pub fn handle_wifi_used(&mut self, now: Timestamp) {
        self.wifi_used = self.wifi_used.max(now);
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<HandoverAction> {
        self.actions.pop_front()
    }

    /// Time of the next call of [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let all = [self.keep_alive_at(), self.retry_at, self.leave_at()];
        all.into_iter().flatten().min()
    }

    /// Sends a keep-alive, joins WiFi again, or switches it off, if it is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            self.wifi_used = now;
            self.actions.push_back(HandoverAction::KeepAlive);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.decide(now);
        }
        if self.leave_at().is_some_and(|at| at <= now) {
            self.leave();
        }
    }

    /// When a WiFi without need is switched off.
    fn leave_at(&self) -> Option<Timestamp> {
        let joined = matches!(self.wifi, WifiState::Poor | WifiState::Joined);
        self.unneeded_since
            .filter(|_| joined)
            .map(|since| since + DWELL)
    }

    fn keep_alive_at(&self) -> Option<Timestamp> {
        let kept = self.mode == HandoverMode::AlwaysOn && self.wifi == WifiState::Joined;
        kept.then(|| self.wifi_used + KEEP_ALIVE)
    }

    /// Whether data should leave Bluetooth.
    fn leaves(&self) -> bool {
        let weak = self.signal_dbm().is_some_and(|dbm| dbm < THRESHOLD_DBM);
        !self.bluetooth || self.mode != HandoverMode::Reactive && weak
    }

    fn decide(&mut self, now: Timestamp) {
        match self.interface {
            Interface::Bluetooth if self.leaves() => {
                if self.wifi == WifiState::Joined || self.wifi == WifiState::Poor && !self.bluetooth
                {
                    self.on_wifi_since = now;
                    self.switch(Interface::Wifi, true);
                }
            }
            Interface::Wifi if self.bluetooth => {
                let lost = self.wifi == WifiState::Off;
                let dwelt = now.since(self.on_wifi_since) >= DWELL;
                let strong = self.signal_dbm().is_some_and(|dbm| dbm >= THRESHOLD_DBM);
                if lost || dwelt && strong {
                    self.switch(Interface::Bluetooth, true);
                    if !lost && self.mode != HandoverMode::AlwaysOn {
                        self.leave();
                    }
                }
            }
            Interface::Bluetooth | Interface::Wifi => {}
        }
        let unneeded = self.interface == Interface::Bluetooth
            && self.mode != HandoverMode::AlwaysOn
            && self.wifi != WifiState::Off
            && !self.leaves();
        self.unneeded_since = unneeded.then(|| self.unneeded_since.unwrap_or(now));
        let wanted = self.mode == HandoverMode::AlwaysOn || self.leaves();
        if wanted && self.wifi == WifiState::Off && self.retry_at.is_none() {
            self.join();
        }
    }

    fn join(&mut self) {
        self.wifi = WifiState::Joining;
        self.actions.push_back(HandoverAction::JoinWifi);
    }

    fn leave(&mut self) {
        self.wifi = WifiState::Off;
        self.unneeded_since = None;
        self.actions.push_back(HandoverAction::LeaveWifi);
    }

    fn switch(&mut self, interface: Interface, reinject: bool) {
        self.interface = interface;
        let action = HandoverAction::Use {
            interface,
            reinject,
        };
        self.actions.push_back(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    const TO_WIFI: HandoverAction = HandoverAction::Use {
        interface: Interface::Wifi,
        reinject: true,
    };
    const TO_BLUETOOTH: HandoverAction = HandoverAction::Use {
        interface: Interface::Bluetooth,
        reinject: true,
    };

    /// Samples every 0.2 s from `from_ms` on; returns the actions with their times.
    fn samples(h: &mut Handover, from_ms: u64, dbm: &[f64]) -> Vec<(u64, HandoverAction)> {
        let mut all = Vec::new();
        for (n, dbm) in (0..).zip(dbm) {
            let ms = from_ms + n * 200;
            h.handle_rssi(at(ms), *dbm);
            while let Some(action) = h.poll_action() {
                all.push((ms, action));
            }
        }
        all
    }

    #[test]
    fn a_weak_signal_joins_wifi_and_then_moves_the_data() {
        let mut h = Handover::new(HandoverMode::OnDemand, at(0));
        assert_eq!(samples(&mut h, 0, &[-66.0; 10]), []);
        let joins = samples(&mut h, 2_000, &[-70.0; 5]);
        assert_eq!(joins, [(2_000, HandoverAction::JoinWifi)]);
        assert_eq!(h.interface(), Interface::Bluetooth, "until WiFi is joined");
        h.handle_wifi(at(4_000), WifiState::Poor);
        assert_eq!(h.poll_action(), None, "not acceptable");
        h.handle_wifi(at(4_100), WifiState::Joined);
        assert_eq!(h.poll_action(), Some(TO_WIFI));
        // A strong signal brings data back 5 s later.
        let back = samples(&mut h, 4_200, &[-50.0; 30]);
        assert_eq!(
            back,
            [(9_200, TO_BLUETOOTH), (9_200, HandoverAction::LeaveWifi)]
        );
    }

    #[test]
    fn lost_wifi_returns_at_once_and_a_single_sample_does_nothing() {
        let mut h = Handover::new(HandoverMode::AlwaysOn, at(0));
        assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi));
        h.handle_wifi(at(100), WifiState::Joined);
        let mut outlier = [-55.0; 20];
        outlier[10] = -85.0;
        assert_eq!(samples(&mut h, 200, &outlier), []);
        let moved = samples(&mut h, 5_000, &[-75.0; 20]);
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].1, TO_WIFI);
        h.handle_wifi(at(9_000), WifiState::Off);
        assert_eq!(h.poll_action(), Some(TO_BLUETOOTH));
        assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi), "again");
    }

    #[test]
    fn on_demand_wifi_that_is_lost_returns_to_bluetooth() {
        let mut h = Handover::new(HandoverMode::OnDemand, at(0));
        samples(&mut h, 0, &[-70.0; 2]);
        h.handle_wifi(at(500), WifiState::Joined);
        assert_eq!(h.poll_action(), Some(TO_WIFI));
        h.handle_wifi(at(600), WifiState::Off);
        assert_eq!(h.poll_action(), Some(TO_BLUETOOTH), "before 5 s are over");
    }

    #[test]
    fn reactive_waits_for_the_loss() {
        let mut h = Handover::new(HandoverMode::Reactive, at(0));
        assert_eq!(samples(&mut h, 0, &[-89.0; 50]), []);
        h.handle_bluetooth(at(12_900), false);
        assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi));
        h.handle_wifi(at(36_700), WifiState::Joined);
        assert_eq!(h.poll_action(), Some(TO_WIFI));
    }

    #[test]
    fn a_wifi_that_cannot_be_joined_is_tried_again_after_doubled_delays() {
        for mode in [HandoverMode::OnDemand, HandoverMode::AlwaysOn] {
            let mut h = Handover::new(mode, at(0));
            samples(&mut h, 0, &[-70.0; 2]);
            let mut ms = 1_000;
            for delay in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
                h.handle_wifi(at(ms), WifiState::Off);
                assert_eq!(samples(&mut h, ms, &[-70.0; 3]), [], "{mode:?}");
                assert_eq!(h.poll_timeout(), Some(at(ms + delay)), "{mode:?}");
                h.handle_timeout(at(ms + delay - 1));
                assert_eq!(h.poll_action(), None, "{mode:?}");
                h.handle_timeout(at(ms + delay));
                assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi), "{mode:?}");
                assert_eq!(h.poll_action(), None, "{mode:?}");
                assert_eq!(h.poll_timeout(), None, "{mode:?}");
                ms += delay + 500;
            }
            h.handle_wifi(at(ms), WifiState::Joined);
            assert_eq!(h.poll_action(), Some(TO_WIFI), "{mode:?}");
            // Lost, and not to be joined again: the delays begin anew.
            h.handle_wifi(at(ms + 100), WifiState::Off);
            assert_eq!(h.poll_action(), Some(TO_BLUETOOTH), "{mode:?}");
            assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi), "{mode:?}");
            h.handle_wifi(at(ms + 200), WifiState::Off);
            assert_eq!(h.poll_timeout(), Some(at(ms + 1_200)), "{mode:?}");
        }
    }

    #[test]
    fn a_strong_signal_ends_attempts_on_demand() {
        let mut h = Handover::new(HandoverMode::OnDemand, at(0));
        samples(&mut h, 0, &[-70.0; 2]);
        h.handle_wifi(at(500), WifiState::Off);
        samples(&mut h, 600, &[-40.0; 20]);
        h.handle_timeout(at(5_000));
        assert_eq!(h.poll_action(), None);
        assert_eq!(h.poll_timeout(), None);
    }

    #[test]
    fn wifi_joined_after_the_signal_has_recovered_is_left_when_unneeded_for_5_s() {
        for state in [WifiState::Joined, WifiState::Poor] {
            let mut h = Handover::new(HandoverMode::OnDemand, at(0));
            let joins = samples(&mut h, 0, &[-70.0; 2]);
            assert_eq!(joins, [(0, HandoverAction::JoinWifi)]);
            // Strong again at 400 ms, by one sample of -40 dBm.
            assert_eq!(samples(&mut h, 400, &[-40.0; 5]), []);
            assert!(h.signal_dbm().unwrap() >= THRESHOLD_DBM);
            assert_eq!(h.poll_timeout(), None, "not joined yet");
            h.handle_wifi(at(2_000), state);
            assert_eq!(h.poll_action(), None);
            let due = h.poll_timeout().unwrap();
            assert!((at(5_400)..=at(6_200)).contains(&due), "{due:?}");
            h.handle_timeout(due);
            assert_eq!(h.poll_action(), Some(HandoverAction::LeaveWifi));
            assert_eq!((h.poll_action(), h.poll_timeout()), (None, None));
            // Weak again: a new attempt.
            let joins = samples(&mut h, 8_000, &[-90.0; 20]);
            assert_eq!(joins.len(), 1);
            assert_eq!(joins[0].1, HandoverAction::JoinWifi);
        }
    }

    #[test]
    fn wifi_without_need_stays_when_the_signal_is_weak_again_within_5_s() {
        let mut h = Handover::new(HandoverMode::OnDemand, at(0));
        samples(&mut h, 0, &[-70.0; 2]);
        samples(&mut h, 400, &[-40.0; 5]);
        h.handle_wifi(at(2_000), WifiState::Joined);
        let moved = samples(&mut h, 2_200, &[-90.0; 10]);
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].1, TO_WIFI);
        assert_eq!(h.poll_timeout(), None);
    }

    #[test]
    fn reactive_wifi_joined_after_bluetooth_came_back_is_left() {
        let mut h = Handover::new(HandoverMode::Reactive, at(0));
        h.handle_bluetooth(at(1_000), false);
        assert_eq!(h.poll_action(), Some(HandoverAction::JoinWifi));
        h.handle_bluetooth(at(2_000), true);
        h.handle_wifi(at(9_000), WifiState::Joined);
        assert_eq!(h.poll_timeout(), Some(at(7_000)));
        h.handle_timeout(at(9_000));
        assert_eq!(h.poll_action(), Some(HandoverAction::LeaveWifi));
        // Always on, it stays.
        let mut h = Handover::new(HandoverMode::AlwaysOn, at(0));
        h.poll_action();
        h.handle_wifi(at(1_000), WifiState::Joined);
        h.handle_timeout(at(200_000));
        assert_eq!(h.poll_action(), None);
    }

    #[test]
    fn a_state_that_is_not_new_does_not_put_the_keep_alive_off() {
        let mut h = Handover::new(HandoverMode::AlwaysOn, at(0));
        h.poll_action();
        h.handle_wifi(at(1_000), WifiState::Joined);
        h.handle_wifi(at(2_000), WifiState::Joined);
        assert_eq!(h.poll_timeout(), Some(at(241_000)));
    }

    #[test]
    fn an_idle_wifi_connection_is_kept_every_four_minutes() {
        let mut h = Handover::new(HandoverMode::AlwaysOn, at(0));
        h.poll_action();
        assert_eq!(h.poll_timeout(), None);
        h.handle_wifi(at(1_000), WifiState::Joined);
        assert_eq!(h.poll_timeout(), Some(at(241_000)));
        h.handle_wifi_used(at(2_000));
        h.handle_timeout(at(241_000));
        assert_eq!(h.poll_action(), None);
        h.handle_timeout(at(242_000));
        assert_eq!(h.poll_action(), Some(HandoverAction::KeepAlive));
        assert_eq!(h.poll_timeout(), Some(at(482_000)));
    }
}
