//! Coexistence of Bluetooth and WiFi in the 2.4 GHz band ("Understanding the Networking Performance
//! of Wear OS", section 5.2, Figure 13): while both are busy, each loses part of its rate.

use std::time::Duration;

use mpbond_units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::{Param, Share, Span};

/// Parameters of the shared band.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoexistenceParameters {
    /// Share of its rate that Bluetooth loses while WiFi is busy.
    pub bluetooth_loss: Param<Share>,
    /// Share of its rate that WiFi loses while Bluetooth is busy.
    pub wifi_loss: Param<Share>,
    /// Time for which a radio counts as busy after a packet.
    pub busy: Param<Span>,
}

/// User of the band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BandUser {
    /// The Bluetooth radio.
    Bluetooth,
    /// The WiFi radio.
    Wifi,
}

/// Occupation of the band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BandState {
    /// No radio is busy.
    Free,
    /// One radio has the band to itself.
    Alone(BandUser),
    /// Both radios are busy and interfere.
    Both,
}

/// State machine of the shared band.
#[derive(Debug, Clone)]
pub struct Band {
    bluetooth_keeps: f64,
    wifi_keeps: f64,
    hold: Duration,
    bluetooth_until: Option<Timestamp>,
    wifi_until: Option<Timestamp>,
}

impl Band {
    /// An unoccupied band.
    pub fn new(p: &CoexistenceParameters) -> Self {
        Self {
            // A radio that loses its whole rate would never pass a packet.
            bluetooth_keeps: (1.0 - p.bluetooth_loss.get()).max(0.01),
            wifi_keeps: (1.0 - p.wifi_loss.get()).max(0.01),
            hold: p.busy.duration(),
            bluetooth_until: None,
            wifi_until: None,
        }
    }

    /// Occupation at `now`.
    pub fn state(&self, now: Timestamp) -> BandState {
        let busy = |until: Option<Timestamp>| until.is_some_and(|until| now <= until);
        match (busy(self.bluetooth_until), busy(self.wifi_until)) {
            (false, false) => BandState::Free,
            (true, false) => BandState::Alone(BandUser::Bluetooth),
            (false, true) => BandState::Alone(BandUser::Wifi),
            (true, true) => BandState::Both,
        }
    }

    /// Sends a packet of length `airtime` (without interference) at `now`; returns the time at
    /// which it is complete.
    pub fn packet(&mut self, now: Timestamp, user: BandUser, airtime: Duration) -> Timestamp {
        let own = match user {
            BandUser::Bluetooth => &mut self.bluetooth_until,
            BandUser::Wifi => &mut self.wifi_until,
        };
        *own = Some(own.unwrap_or(now).max(now));
        let keeps = match (self.state(now), user) {
            (BandState::Both, BandUser::Bluetooth) => self.bluetooth_keeps,
            (BandState::Both, BandUser::Wifi) => self.wifi_keeps,
            _ => 1.0,
        };
        let through = now + airtime.div_f64(keeps);
        let until = Some(through + self.hold);
        match user {
            BandUser::Bluetooth => self.bluetooth_until = until,
            BandUser::Wifi => self.wifi_until = until,
        }
        through
    }
}
