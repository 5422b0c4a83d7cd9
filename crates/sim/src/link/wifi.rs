//! Rate of WiFi at a distance by a textbook model, for pipes whose ends move apart and for which no
//! recording exists.
//!
//! The signal is the transmit power less the path loss of Recommendation ITU-R
//! P.1238 for one floor of an office, `20 log10(MHz) + N log10(m) - 28` dB,
//! and less a margin for small antennas, bodies and fading. It is received at
//! the fastest rate of 802.11n (one stream, 20 MHz, long guard interval) whose
//! minimum receiver sensitivity (IEEE 802.11-2016, table 19-23) it reaches.
//! The model has no contention, no other stations and no fluctuation.

use mpbond_units::BitRate;
use serde::Serialize;

/// Channel 6, the middle of the 2.4 GHz band.
const FREQUENCY_MHZ: f64 = 2437.0;
/// Typical transmit power of phones.
const SENT_DBM: f64 = 15.0;
/// Distance power loss coefficients N: free space with a line of sight; otherwise offices at 2.4
/// GHz, walls included.
const N_IN_SIGHT: f64 = 20.0;
const N_WALLS: f64 = 30.0;
/// Share of the PHY rate for IP packets in aggregates of moderate length; the rest is preambles,
/// contention and acknowledgements.
const IP_SHARE: f64 = 0.65;
/// Minimum distance of the path loss formula.
const LEAST_M: f64 = 1.0;
/// Receiver sensitivity in dBm and PHY rate in Mbit/s, fastest first.
const RATES: [(f64, f64); 8] = [
    (-64.0, 65.0),
    (-65.0, 58.5),
    (-66.0, 52.0),
    (-70.0, 39.0),
    (-74.0, 26.0),
    (-77.0, 19.5),
    (-79.0, 13.0),
    (-82.0, 6.5),
];

/// Placement of the two ends of a WiFi link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WifiPlace {
    /// Distance in metres.
    pub wifi_at_m: f64,
    /// Whether walls are between them.
    pub walls: bool,
    /// Additional loss of the signal, in dB.
    pub margin_db: f64,
}

impl WifiPlace {
    /// The error in it, if there is one.
    pub(super) fn complaint(&self) -> Option<&'static str> {
        if !(0.0..=10_000.0).contains(&self.wifi_at_m) {
            return Some("wifi_at_m is a distance from 0 to 10000 m");
        }
        let margin = (0.0..=100.0).contains(&self.margin_db);
        (!margin).then_some("margin_db is a loss from 0 to 100 dB")
    }

    /// The signal at the far end, in dBm.
    pub fn signal_dbm(&self) -> f64 {
        let n = if self.walls { N_WALLS } else { N_IN_SIGHT };
        let distance = self.wifi_at_m.max(LEAST_M).log10();
        let loss = 20.0 * FREQUENCY_MHZ.log10() + n * distance - 28.0;
        SENT_DBM - loss - self.margin_db
    }

    /// Rate for IP packets; zero out of range.
    pub fn rate(&self) -> BitRate {
        let signal = self.signal_dbm();
        let received = RATES.iter().find(|(needed, _)| signal >= *needed);
        BitRate::from_mbps(received.map_or(0.0, |(_, mbps)| mbps * IP_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(wifi_at_m: f64, walls: bool, margin_db: f64) -> WifiPlace {
        WifiPlace {
            wifi_at_m,
            walls,
            margin_db,
        }
    }

    #[test]
    fn signals_by_hand() {
        // 20 log10(2437) is 67.737 dB.
        for (place, dbm) in [
            (place(1.0, false, 0.0), 15.0 - 39.737),
            (place(0.1, false, 0.0), 15.0 - 39.737),
            (place(10.0, false, 0.0), 15.0 - 59.737),
            (place(10.0, true, 0.0), 15.0 - 69.737),
            (place(100.0, true, 10.0), 15.0 - 99.737 - 10.0),
        ] {
            let got = place.signal_dbm();
            assert!((got - dbm).abs() < 0.001, "{place:?}: {got} for {dbm}");
        }
    }

    #[test]
    fn the_rate_falls_with_distance_and_ends() {
        // With walls and 15 dB at 10 m the signal is -69.7 dBm: 39 Mbit/s in the air.
        let rate = place(10.0, true, 15.0).rate();
        assert_eq!(rate, BitRate::from_mbps(39.0 * IP_SHARE));
        for walls in [false, true] {
            let rates: Vec<u64> = (0..400)
                .map(|m| place(f64::from(m), walls, 15.0).rate().bps())
                .collect();
            assert!(rates.is_sorted_by(|near, far| near >= far));
            assert_eq!(rates.first(), Some(&42_250_000));
            assert_eq!(rates.last(), Some(&0));
        }
        let in_sight = place(25.0, false, 15.0).rate();
        assert!(in_sight > place(25.0, true, 15.0).rate());
    }
}
