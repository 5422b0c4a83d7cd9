//! Adaptive selection of an interface (Wear OS paper, section 5.2): begin with Bluetooth; take WiFi
//! when Bluetooth does not drain the phone's buffer; go back when WiFi is hardly used.
//!
//! As published, a source below the rate at which WiFi is left goes to and fro, wherever Bluetooth
//! stops for a moment: each of its blackouts fills the buffer. [`Rule::DemandAware`] goes to WiFi
//! only where Bluetooth is too slow for what arrives, and returns only where it is fast enough.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Bytes waiting at the phone above which Bluetooth counts as too slow (B).
const BUFFERED_BYTES: u64 = 10_000;
/// Time for which they must wait (T1).
const BUFFERED_FOR: Duration = Duration::from_millis(500);
/// Rate at which WiFi is hardly used.
const LOW_RATE: BitRate = BitRate::from_bps(500_000);
/// Time for which it must be (T2).
const LOW_FOR: Duration = Duration::from_secs(5);
/// Rate of Bluetooth, in quarters of what arrives, from which on it suffices.
const ENOUGH_QUARTERS: u64 = 5;

/// Interface that carries new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interface {
    /// Bluetooth to the phone.
    Bluetooth,
    /// WiFi of the watch.
    Wifi,
}

/// Rule by which an interface is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The published rule.
    Published,
    /// The published rule, where the rate of Bluetooth confirms it.
    DemandAware,
}

/// State of both interfaces, observed at least every 100 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// Bytes that wait at the phone.
    pub buffered_bytes: u64,
    /// Rate at which data have arrived over WiFi lately.
    pub wifi_rate: BitRate,
    /// Rate at which data have arrived for the watch lately, on either interface.
    pub demand: BitRate,
    /// Rate of Bluetooth while it had data to carry, when it last had; `None` when it never had.
    pub bluetooth_rate: Option<BitRate>,
}

/// The selection.
#[derive(Debug, Clone)]
pub struct Selection {
    rule: Rule,
    interface: Interface,
    /// Since when the condition for the other interface holds.
    since: Option<Timestamp>,
    switches: u64,
}

impl Selection {
    /// A selection that begins with Bluetooth.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            interface: Interface::Bluetooth,
            since: None,
            switches: 0,
        }
    }

    /// Interface that carries new data.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// Number of changes of the interface so far.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Takes an observation, and returns the interface if it changes.
    pub fn observe(&mut self, now: Timestamp, seen: &Observation) -> Option<Interface> {
        let (holds, for_at_least, to) = match self.interface {
            Interface::Bluetooth => {
                let waits = seen.buffered_bytes > BUFFERED_BYTES;
                let short = !self.rule_trusts_bluetooth(seen);
                (waits && short, BUFFERED_FOR, Interface::Wifi)
            }
            Interface::Wifi => {
                let low = seen.wifi_rate <= LOW_RATE;
                let enough = self.rule == Rule::Published || seen.bluetooth_suffices();
                (low && enough, LOW_FOR, Interface::Bluetooth)
            }
        };
        if !holds {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) < for_at_least {
            return None;
        }
        self.interface = to;
        self.since = None;
        self.switches += 1;
        Some(to)
    }

    fn rule_trusts_bluetooth(&self, seen: &Observation) -> bool {
        self.rule == Rule::DemandAware && seen.bluetooth_rate.is_some() && seen.bluetooth_suffices()
    }
}

impl Observation {
    /// Whether Bluetooth has a quarter more than is demanded. A rate that is not known suffices.
    fn bluetooth_suffices(&self) -> bool {
        let wanted = self.demand.bps().saturating_mul(ENOUGH_QUARTERS);
        self.bluetooth_rate
            .is_none_or(|rate| rate.bps().saturating_mul(4) >= wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn seen(buffered_bytes: u64, wifi_mbps: f64) -> Observation {
        Observation {
            buffered_bytes,
            wifi_rate: BitRate::from_mbps(wifi_mbps),
            demand: BitRate::from_mbps(wifi_mbps),
            bluetooth_rate: None,
        }
    }

    #[test]
    fn ten_kilobytes_for_half_a_second_select_wifi() {
        let mut s = Selection::new(Rule::Published);
        assert_eq!(s.interface(), Interface::Bluetooth);
        assert_eq!(s.observe(at(0), &seen(10_001, 0.0)), None);
        assert_eq!(
            s.observe(at(400), &seen(10_000, 0.0)),
            None,
            "it was drained"
        );
        assert_eq!(s.observe(at(500), &seen(10_001, 0.0)), None);
        assert_eq!(s.observe(at(999), &seen(10_001, 0.0)), None);
        let wifi = Some(Interface::Wifi);
        assert_eq!(s.observe(at(1_000), &seen(10_001, 0.0)), wifi);
        assert_eq!(s.switches(), 1);
    }

    #[test]
    fn half_a_megabit_for_five_seconds_selects_bluetooth() {
        let mut s = Selection::new(Rule::Published);
        s.observe(at(0), &seen(20_000, 0.0));
        s.observe(at(500), &seen(20_000, 0.0));
        assert_eq!(s.interface(), Interface::Wifi);
        assert_eq!(s.observe(at(600), &seen(0, 0.5)), None);
        assert_eq!(s.observe(at(5_500), &seen(0, 0.501)), None, "it is used");
        assert_eq!(s.observe(at(5_600), &seen(0, 0.5)), None);
        assert_eq!(s.observe(at(10_599), &seen(0, 0.0)), None);
        let bluetooth = Some(Interface::Bluetooth);
        assert_eq!(s.observe(at(10_600), &seen(0, 0.5)), bluetooth);
    }

    /// A source of 400 kbit/s over a link of 1.2 Mbit/s with blackouts of 0.8 s every 5.8 s.
    fn switches_in_a_minute(rule: Rule) -> u64 {
        let mut s = Selection::new(rule);
        let (mut buffered, demand) = (0_u64, BitRate::from_mbps(0.4));
        let link = BitRate::from_mbps(1.2);
        let step = Duration::from_millis(100);
        for n in 0..600 {
            let wifi = s.interface() == Interface::Wifi;
            if !wifi {
                buffered += demand.bytes_in(step);
            }
            if n % 58 >= 8 {
                buffered = buffered.saturating_sub(link.bytes_in(step));
            }
            let wifi_rate = if wifi { demand } else { BitRate::ZERO };
            let seen = Observation {
                buffered_bytes: buffered,
                wifi_rate,
                demand,
                bluetooth_rate: Some(link),
            };
            s.observe(at(n * 100), &seen);
        }
        s.switches()
    }

    #[test]
    fn a_low_constant_rate_oscillates_as_published_and_stays_by_demand() {
        assert!(switches_in_a_minute(Rule::Published) >= 8);
        assert_eq!(switches_in_a_minute(Rule::DemandAware), 0);
    }

    #[test]
    fn demand_beyond_bluetooth_selects_wifi_and_keeps_it() {
        let mut s = Selection::new(Rule::DemandAware);
        let mut seen = seen(20_000, 0.0);
        seen.demand = BitRate::from_mbps(1.0);
        seen.bluetooth_rate = Some(BitRate::from_mbps(1.2));
        s.observe(at(0), &seen);
        assert_eq!(s.observe(at(500), &seen), Some(Interface::Wifi));
        // WiFi is used for 450 kbit/s; that Bluetooth carried 500 kbit/s last is too little.
        seen.wifi_rate = BitRate::from_mbps(0.45);
        seen.demand = seen.wifi_rate;
        seen.bluetooth_rate = Some(BitRate::from_mbps(0.5));
        for n in 0..200 {
            assert_eq!(s.observe(at(600 + n * 100), &seen), None);
        }
        seen.bluetooth_rate = Some(BitRate::from_mbps(0.5625));
        s.observe(at(30_000), &seen);
        let bluetooth = Some(Interface::Bluetooth);
        assert_eq!(s.observe(at(35_000), &seen), bluetooth);
    }
}
