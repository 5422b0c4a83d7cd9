//! Constants of drivers: how often the kernel's view of paths is read, and how much is handed to a
//! socket. Daemons and the simulator use the same.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

/// Interval at which the kernel's view of a path is read while data flows: a fraction of the
/// shortest round-trip times of interest, and rare beside the records of the fastest paths.
pub const PATH_INFO_EVERY: Duration = Duration::from_millis(1);

/// Octets handed to a socket in one write(2): one record on ordinary paths, so that decisions are
/// made late; more on fast ones, where system calls dominate the cost.
const ROOM_BYTES: u64 = 16 << 10;
const FAST_ROOM_BYTES: u64 = 256 << 10;
const FAST: BitRate = BitRate::from_bps(300_000_000);

/// Unsent octets kept by the kernel: what the path takes in this time, so that it does not run dry
/// while a wake-up is under way.
const LOWAT_TIME: Duration = Duration::from_millis(5);
const LOWAT_BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(1 << 20);

/// Whether to read the kernel's view of a path that was last read at `last`. `sending` is
/// [`Session::is_sending`](crate::Session::is_sending).
pub fn is_path_info_due(now: Timestamp, last: Option<Timestamp>, sending: bool) -> bool {
    last.is_none_or(|last| sending && now.since(last) >= PATH_INFO_EVERY)
}

/// Octets for [`Session::handle_room`](crate::Session::handle_room) on a path with this delivery
/// rate, once its socket has taken everything.
pub fn room_bytes(rate: BitRate) -> u64 {
    match rate > FAST {
        true => FAST_ROOM_BYTES,
        false => ROOM_BYTES,
    }
}

/// TCP_NOTSENT_LOWAT of a path with this delivery rate.
pub fn notsent_lowat_bytes(rate: BitRate) -> u64 {
    let bytes = rate.bytes_in(LOWAT_TIME);
    bytes.clamp(*LOWAT_BYTES.start(), *LOWAT_BYTES.end())
}

/// TCP_NOTSENT_LOWAT to set on a socket whose path has this delivery rate; `None` while `present`
/// is near enough. Zero: none was set yet.
pub fn tuned_lowat_bytes(present: u64, rate: BitRate) -> Option<u64> {
    let wanted = notsent_lowat_bytes(rate);
    (wanted > present * 3 / 2 || wanted < present / 2).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_water_mark_follows_the_rate_beyond_half_as_much_again() {
        let tuned = |present, mbps| tuned_lowat_bytes(present, BitRate::from_mbps(mbps));
        // 5 ms at 26 Mbit/s are 16 KiB, the least.
        assert_eq!(tuned(0, 0.0), Some(16 << 10));
        assert_eq!(tuned(16 << 10, 26.0), None);
        assert_eq!(tuned(16 << 10, 39.0), None);
        assert_eq!(tuned(16 << 10, 40.0), Some(25_000));
        assert_eq!(tuned(25_000, 20.0), None);
        assert_eq!(tuned(62_500, 30.0), Some(18_750));
        assert_eq!(tuned(62_500, 10_000.0), Some(1 << 20));
    }
}
