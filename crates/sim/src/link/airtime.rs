//! Media: how long a packet occupies one that several links share.
//!
//! In 802.11 every frame costs time beside its octets: contention, preambles, and the
//! acknowledgement by the MAC. A short packet such as a TCP ACK therefore costs nearly half as much
//! as a full one.

use std::time::Duration;

use mpbond_units::BitRate;

/// Octets that an 802.11 frame adds to an IP packet: MAC header 24, LLC and SNAP 8, FCS 4.
const FRAME_BYTES: u32 = 36;
/// Size of a full IP packet.
const PACKET_BYTES: u32 = 1500;

/// A medium: carries the packets of several links, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Medium {
    /// Rate of the medium itself, as of a cell that devices share: a packet occupies the medium for
    /// its bytes at this rate, besides the time at its link's own rate. `None`: a packet occupies
    /// the medium while its link sends it, as on a WiFi channel, where a slow station slows all.
    pub rate: Option<BitRate>,
    /// Time that each packet occupies the medium in addition, on a medium without a rate; a link's
    /// rate is then that of the frame's octets. 802.11g at 54 Mbit/s: 159 µs, the sum of DIFS 28,
    /// mean back-off 67.5, PLCP 26, SIFS 10 and ACK 28.
    pub frame_overhead: Duration,
    /// Whether Bluetooth of the same device has the same antenna; it loses what meets packets of
    /// this medium, and these lose nothing ([`Band::of_one_antenna`]). With `rate`, a packet is on
    /// the air for its bytes at that rate.
    ///
    /// [`Band::of_one_antenna`]: mpbond_radio::machine::Band::of_one_antenna
    pub shares_antenna: bool,
}

impl Medium {
    /// Octets that each packet has in addition on the medium.
    pub fn frame_bytes(&self) -> u32 {
        match self.frame_overhead.is_zero() {
            true => 0,
            false => FRAME_BYTES,
        }
    }

    /// Time for which a packet of so many IP bytes occupies a medium without a rate.
    pub fn airtime(&self, rate: BitRate, bytes: u32) -> Duration {
        let octets = bytes.saturating_add(self.frame_bytes());
        self.frame_overhead + rate.time_for(octets.into())
    }

    /// Maximum rate of IP packets in one direction, on a link with `rate`.
    pub fn goodput(&self, rate: BitRate) -> BitRate {
        if self.frame_overhead.is_zero() || rate.bps() == 0 {
            return rate;
        }
        let octets = PACKET_BYTES + self.frame_bytes();
        // Without rounding to nanoseconds, so that it is a bound.
        let seconds = f64::from(octets) / rate.bytes_per_sec() + self.frame_overhead.as_secs_f64();
        let bps = (f64::from(PACKET_BYTES) * 8.0 / seconds).ceil();
        BitRate::from_bps(bps as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wifi() -> Medium {
        Medium {
            frame_overhead: Duration::from_micros(159),
            ..Medium::default()
        }
    }

    #[test]
    fn a_packet_takes_the_airtime_that_a_group_gives_it() {
        let us = |bytes| wifi().airtime(BitRate::from_mbps(54.0), bytes).as_micros();
        assert_eq!((us(1500), us(52)), (386, 172));
    }

    #[test]
    fn goodput_is_that_of_full_packets() {
        let rate = BitRate::from_mbps(54.0);
        // 12000 bits in 386.6 us.
        let mbps = wifi().goodput(rate).mbps();
        assert!((mbps - 31.04).abs() < 0.01, "{mbps}");
        assert_eq!(wifi().goodput(BitRate::ZERO), BitRate::ZERO);
        assert_eq!(Medium::default().goodput(rate), rate);
    }
}
