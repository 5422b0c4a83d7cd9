//! Coexistence of Bluetooth and WiFi in the 2.4 GHz band ("Understanding the Networking Performance
//! of Wear OS", section 5.2, Figure 13), by one of two rules:
//!
//! - While both are busy, each loses a share of its rate. The shares are the published ones.
//! - Both radios of a device have one antenna, and WiFi goes first. A packet of Bluetooth during
//!   which WiFi sends or receives is lost, and one that would begin meanwhile waits. The loss of
//!   Bluetooth follows from the times of both radios' packets. WiFi loses nothing.

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
    rule: Rule,
    bluetooth_until: Option<Timestamp>,
    wifi_until: Option<Timestamp>,
}

#[derive(Debug, Clone)]
enum Rule {
    Shares {
        bluetooth_keeps: f64,
        wifi_keeps: f64,
        hold: Duration,
    },
    OneAntenna {
        /// Whether WiFi has used it during Bluetooth's last packet.
        is_hit: bool,
    },
}

impl Band {
    /// An unoccupied band, in which each radio loses a share of its rate.
    pub fn new(p: &CoexistenceParameters) -> Self {
        Self::unoccupied(Rule::Shares {
            // A radio that loses its whole rate would never pass a packet.
            bluetooth_keeps: (1.0 - p.bluetooth_loss.get()).max(0.01),
            wifi_keeps: (1.0 - p.wifi_loss.get()).max(0.01),
            hold: p.busy.duration(),
        })
    }

    /// An unoccupied band of a device whose radios have one antenna; WiFi goes first. Bluetooth has
    /// one link there.
    pub fn of_one_antenna() -> Self {
        Self::unoccupied(Rule::OneAntenna { is_hit: false })
    }

    fn unoccupied(rule: Rule) -> Self {
        Self {
            rule,
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
        match self.rule {
            Rule::Shares {
                bluetooth_keeps,
                wifi_keeps,
                hold,
            } => {
                let own = match user {
                    BandUser::Bluetooth => &mut self.bluetooth_until,
                    BandUser::Wifi => &mut self.wifi_until,
                };
                *own = Some(own.unwrap_or(now).max(now));
                let keeps = match (self.state(now), user) {
                    (BandState::Both, BandUser::Bluetooth) => bluetooth_keeps,
                    (BandState::Both, BandUser::Wifi) => wifi_keeps,
                    _ => 1.0,
                };
                let through = now + airtime.div_f64(keeps);
                let until = Some(through + hold);
                match user {
                    BandUser::Bluetooth => self.bluetooth_until = until,
                    BandUser::Wifi => self.wifi_until = until,
                }
                through
            }
            Rule::OneAntenna { ref mut is_hit } => match user {
                BandUser::Wifi => {
                    *is_hit |= self.bluetooth_until.is_some_and(|until| now < until);
                    let through = now + airtime;
                    self.wifi_until = self.wifi_until.max(Some(through));
                    through
                }
                BandUser::Bluetooth => {
                    *is_hit = false;
                    let through = self.wifi_until.map_or(now, |until| until.max(now)) + airtime;
                    self.bluetooth_until = Some(through);
                    through
                }
            },
        }
    }

    /// Whether Bluetooth's last packet is lost because WiFi used the antenna meanwhile. Asked when
    /// that packet is complete.
    pub fn has_hit_bluetooth(&self) -> bool {
        matches!(self.rule, Rule::OneAntenna { is_hit: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn wifi_hits_a_packet_of_bluetooth_that_it_meets_and_no_other() {
        for (wifi, hit) in [(12, true), (14, false)] {
            let mut band = Band::of_one_antenna();
            band.packet(at(9), BandUser::Wifi, ms(1));
            assert_eq!(band.packet(at(10), BandUser::Bluetooth, ms(4)), at(14));
            assert!(!band.has_hit_bluetooth(), "WiFi ended as it began");
            assert_eq!(band.packet(at(wifi), BandUser::Wifi, ms(1)), at(wifi + 1));
            assert_eq!(band.has_hit_bluetooth(), hit, "WiFi at {wifi} ms");
        }
    }

    #[test]
    fn bluetooth_waits_for_a_packet_of_wifi_and_begins_without_a_hit() {
        let mut band = Band::of_one_antenna();
        band.packet(at(9), BandUser::Wifi, ms(3));
        assert_eq!(band.packet(at(10), BandUser::Bluetooth, ms(4)), at(16));
        assert!(!band.has_hit_bluetooth());
        // The next packet of WiFi meets it; the next one of Bluetooth begins anew.
        band.packet(at(15), BandUser::Wifi, ms(1));
        assert!(band.has_hit_bluetooth());
        assert_eq!(band.packet(at(16), BandUser::Bluetooth, ms(4)), at(20));
        assert!(!band.has_hit_bluetooth());
    }
}
