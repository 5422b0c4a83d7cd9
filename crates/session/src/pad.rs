//! The pipe-aware delay (PAD) of a subflow: how long a byte that is handed to it now takes to
//! reach the far end (MPBond section 4.3.2).
//!
//! The paper has the formula for the downlink: the sender is the proxy, the first hop the HS-Path,
//! the second the pipe. It holds on the uplink with the hops exchanged, so the functions here call
//! the hops *near*, which leaves the sender, and *far*, which is behind the helper.

use std::time::Duration;

/// One hop of a subflow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    /// Throughput in bytes per second; must be positive.
    pub throughput: f64,
    /// One-way delay in seconds (half the round-trip time, as MPBond section 4.3.2 approximates
    /// it).
    pub one_way_delay: f64,
}

/// PAD of a direct subflow, first case: `OWD_ps + B_s / Th_ps`. Bytes and seconds.
pub fn direct(b_s: u64, hop: Hop) -> f64 {
    hop.one_way_delay + b_s as f64 / hop.throughput
}

/// Whether the helper's buffer still holds bytes when the sender's is empty: the condition
/// `B_p / B_s + 1 > Th_p / Th_hs` that tells the second case from the third. Products are
/// compared, so that an empty sender's buffer needs no division.
pub fn far_hop_limits(b_near: u64, b_far: u64, near: Hop, far: Hop) -> bool {
    (b_near as f64 + b_far as f64) * near.throughput > b_near as f64 * far.throughput
}

/// PAD of a subflow through a helper by the time `sojourn_s` that a byte was measured to spend
/// there (MPBond section 6.2, "Estimating Pipe Buffering").
pub fn by_measured_delay(b_near: u64, sojourn_s: f64, near: Hop, far: Hop) -> f64 {
    direct(b_near, near) + sojourn_s + far.one_way_delay
}

/// PAD of a subflow through a helper, second and third case.
///
/// `b_near` are the bytes at the sender (B_s), `b_far` those at the helper (B_p on the downlink,
/// B_h on the uplink).
pub fn through_helper(b_near: u64, b_far: u64, near: Hop, far: Hop) -> f64 {
    let delays = near.one_way_delay + far.one_way_delay;
    if far_hop_limits(b_near, b_far, near, far) {
        delays + (b_near as f64 + b_far as f64) / far.throughput
    } else {
        delays + b_near as f64 / near.throughput
    }
}

/// A PAD in seconds as a span; absurd values end at an hour.
pub fn to_duration(pad_s: f64) -> Duration {
    const MAX_S: f64 = 3_600.0;
    if pad_s.is_finite() {
        Duration::from_secs_f64(pad_s.clamp(0.0, MAX_S))
    } else {
        Duration::from_secs_f64(MAX_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn hop(throughput: f64, one_way_delay: f64) -> Hop {
        Hop {
            throughput,
            one_way_delay,
        }
    }

    /// Worked out by hand, in units of 1 MB/s, bytes and seconds.
    #[test]
    fn three_cases() {
        const MB: f64 = 1e6;
        struct Case {
            b_near: u64,
            b_far: u64,
            near: Hop,
            far: Hop,
            pad: f64,
            far_limits: bool,
        }
        let cases = [
            // HS 1 MB/s, pipe 0.5 MB/s, both buffers filled: 300 kB over 0.5 MB/s.
            Case {
                b_near: 100_000,
                b_far: 200_000,
                near: hop(MB, 0.025),
                far: hop(0.5 * MB, 0.002),
                pad: 0.627,
                far_limits: true,
            },
            // Pipe twice as fast as the HS-Path, helper empty: the HS-Path alone counts.
            Case {
                b_near: 100_000,
                b_far: 0,
                near: hop(0.5 * MB, 0.025),
                far: hop(MB, 0.002),
                pad: 0.227,
                far_limits: false,
            },
            // On the border, B_p/B_s + 1 = Th_p/Th_hs = 2: third case; both formulas agree.
            Case {
                b_near: 100_000,
                b_far: 100_000,
                near: hop(0.5 * MB, 0.025),
                far: hop(MB, 0.002),
                pad: 0.227,
                far_limits: false,
            },
            // One byte beyond the border: second case.
            Case {
                b_near: 100_000,
                b_far: 100_001,
                near: hop(0.5 * MB, 0.025),
                far: hop(MB, 0.002),
                pad: 0.227_000_001 + 1e-6 - 1e-9,
                far_limits: true,
            },
            // Nothing at the sender, something at the helper: it must drain first.
            Case {
                b_near: 0,
                b_far: 50_000,
                near: hop(MB, 0.025),
                far: hop(MB, 0.002),
                pad: 0.077,
                far_limits: true,
            },
            // Nothing anywhere: the delays alone, by the third case.
            Case {
                b_near: 0,
                b_far: 0,
                near: hop(MB, 0.025),
                far: hop(MB, 0.002),
                pad: 0.027,
                far_limits: false,
            },
        ];
        for (i, c) in cases.iter().enumerate() {
            let got = through_helper(c.b_near, c.b_far, c.near, c.far);
            assert!((got - c.pad).abs() < 1e-9, "case {i}: {got} != {}", c.pad);
            assert_eq!(
                far_hop_limits(c.b_near, c.b_far, c.near, c.far),
                c.far_limits,
                "case {i}"
            );
        }
        assert!((direct(250_000, hop(MB, 0.025)) - 0.275).abs() < 1e-12);
    }

    #[test]
    fn absurd_values_stay_spans() {
        assert_eq!(to_duration(f64::INFINITY), Duration::from_secs(3_600));
        assert_eq!(to_duration(f64::NAN), Duration::from_secs(3_600));
        assert_eq!(to_duration(-1.0), Duration::ZERO);
    }
}
