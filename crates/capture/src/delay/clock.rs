//! Relation of the phone's clock to the server's, with error bounds.

use mpbond_statistics::clock::{self, ClockFit, DirectionClock};
use serde::Serialize;

/// Phone's clock relative to the server's, derived from segments and ACKs captured at both. The
/// line of the whole capture is absent where there are several segments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClockBound {
    /// Rate of the phone's clock relative to the server's, minus 1, in ppm: middle of the possible
    /// range.
    pub skew_ppm: Option<f64>,
    /// Phone's clock minus the server's in the middle of the capture, in µs.
    pub offset_us: Option<f64>,
    /// Largest error of the offset, in µs; of d1 as well.
    pub offset_error_us: Option<f64>,
    /// No line fits the whole capture: a clock was set, or its rate changed.
    pub drifted: bool,
    /// Number of packets whose stamps contradict those before and after them.
    pub crossed: u64,
    /// Segments, in order.
    pub segments: Vec<ClockSegment>,
}

/// Part of a capture in which one line relates the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockSegment {
    /// Beginning, in s since that of the first segment, by the server's clock.
    pub from_s: f64,
    /// End.
    pub to_s: f64,
    /// Half the width of the possible range of the skew, in ppm.
    pub skew_error_ppm: f64,
    /// Relation for delays from server to phone: the phone's clock minus the server's.
    pub out: DirectionClock,
    /// Relation for delays from phone to server: the server's clock minus the phone's.
    #[serde(rename = "in")]
    pub back: DirectionClock,
}

impl ClockBound {
    pub(super) fn of(fit: &ClockFit) -> Option<Self> {
        let found = fit.segments();
        let start_ns = found.iter().map(|s| s.from_ns).min()?;
        let segments = found.iter().map(|s| ClockSegment::of(s, start_ns));
        let segments: Vec<_> = segments.collect();
        let only = match segments.as_slice() {
            [only] => Some(only.out),
            _ => None,
        };
        Some(Self {
            skew_ppm: only.map(|c| c.skew_ppm),
            offset_us: only.map(|c| c.offset_us),
            offset_error_us: only.map(|c| c.offset_error_us),
            drifted: fit.drifted(),
            crossed: fit.crossed(),
            segments,
        })
    }

    /// Largest error of all segments.
    pub(super) fn worst_us(&self) -> Option<f64> {
        let all = self.segments.iter().map(|s| s.out.offset_error_us);
        all.reduce(f64::max)
    }
}

impl ClockSegment {
    fn of(s: &clock::Segment, start_ns: u64) -> Self {
        let [out, back] = s.directions();
        Self {
            from_s: (s.from_ns - start_ns) as f64 / 1e9,
            to_s: (s.to_ns - start_ns) as f64 / 1e9,
            skew_error_ppm: s.skew_error_ppm,
            out,
            back,
        }
    }
}
