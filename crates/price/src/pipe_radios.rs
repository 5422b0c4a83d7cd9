//! Power of a pipe's radios.

use mpbond_units::BitRate;

use crate::radio_cost::RadioCost;
use crate::radios::Radio;

/// Radios of a pipe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PipeRadios {
    /// That of the primary.
    pub near: &'static Radio,
    /// That of the helper, if it is named.
    pub far: Option<&'static Radio>,
}

impl PipeRadios {
    /// Power of the radios that are named while this rate goes down the pipe, to the primary, and
    /// that one up, in W; at rest, that of a download without bytes. Divided by the rate, it is the
    /// energy of a bit.
    ///
    /// The radios count as active all the time: by their models, gaps of up to 50 ms between
    /// packets are. At rates below 240 kbit/s, at which gaps of full packets are longer, the power
    /// is less, and below about 9 kbit/s that of WiFi is less than that of Bluetooth.
    pub fn watts(&self, down: BitRate, up: BitRate) -> f64 {
        let bps = [down, up].map(|rate| rate.bps() as f64);
        let both = bps[0] + bps[1];
        let shares = match both > 0.0 {
            true => bps.map(|bps| bps / both),
            false => [1.0, 0.0],
        };
        let flow =
            |i: usize, of: &RadioCost| of.active_watts * shares[i] + of.joules_per_bit * bps[i];
        let near = flow(0, &self.near.down) + flow(1, &self.near.up);
        // The helper sends what comes down.
        let far = self.far.map(|far| flow(0, &far.up) + flow(1, &far.down));
        near + far.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radios::radio;

    fn near(value: f64, expected: f64) {
        let error = (value - expected).abs();
        assert!(error < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn each_end_receives_and_sends_its_share_of_the_bytes() {
        let named = |name| radio(name).unwrap();
        let watch = named("watch-bt");
        let bluetooth = PipeRadios {
            near: watch,
            far: Some(named("phone-bt")),
        };
        let kbps = |kbps: u64| BitRate::from_bps(1_000 * kbps);
        let none = BitRate::ZERO;
        near(bluetooth.watts(kbps(100), none), 0.1172 + 0.200);
        near(bluetooth.watts(none, kbps(100)), 0.1115 + 0.174);
        let three_to_one = 0.75 * (0.1172 + 0.200) + 0.25 * (0.1115 + 0.174);
        near(bluetooth.watts(kbps(300), kbps(100)), three_to_one);
        near(bluetooth.watts(none, none), 0.1172 + 0.200);
        let alone = PipeRadios {
            near: watch,
            far: None,
        };
        near(alone.watts(kbps(100), none), 0.1172);
        // What a bit costs besides: 14.6 nJ down, 80.2 nJ up.
        let lte = PipeRadios {
            near: named("lte-2020-tmobile"),
            far: None,
        };
        near(lte.watts(kbps(10_000), none), 0.4 + 0.146);
        near(lte.watts(none, kbps(10_000)), 0.4 + 0.802);
    }
}
