//! Report of a merge.

use serde::Serialize;

/// One input of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// File name.
    pub file: String,
    /// Number of intact 802.11 frames.
    pub frames: u64,
    /// Number of frames with a wrong check sequence, left out.
    pub damaged: u64,
    /// Number of records that are not 802.11 frames, left out.
    pub others: u64,
    /// Number of frames that the capture has twice; one of each is left out.
    pub duplicates: u64,
    /// This clock minus the main one at the main capture's start, by the straight line.
    pub offset_us: f64,
    /// Median of this clock minus the main one.
    pub median_offset_us: f64,
    /// Skew relative to the main clock, by the straight line.
    pub skew_ppm: f64,
    /// Distance of common frames from the clock relation, median.
    pub residual_median_us: f64,
    /// Distance of common frames from the clock relation, 95th percentile.
    pub residual_p95_us: f64,
    /// Number of pieces of the clock relation; 1 for a steady clock.
    pub clock_pieces: usize,
    /// Number of common frames used.
    pub reference_frames: usize,
    /// Number of common frames discarded, as their distance from the clock relation is too large.
    pub outliers: usize,
    /// Estimated share of numbered frames that it missed.
    pub loss: f64,
    /// Reason why reading stopped early.
    pub incomplete: Option<String>,
}

/// Report of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeReport {
    /// Inputs in the order given; the first is the main one.
    pub inputs: Vec<InputReport>,
    /// Number of transmissions.
    pub merged_frames: u64,
    /// Number of transmissions with a sequence number.
    pub numbered_frames: u64,
    /// Number of these that are retransmissions.
    pub retransmissions: u64,
    /// Number of ACKs and CTSs, matched by time and preceding frame.
    pub anonymous_frames: u64,
    /// Number of frames that the main capture did not have.
    pub recovered: u64,
    /// Estimated share of the numbered frames on the air that are contained, by capture-recapture,
    /// assuming independent losses of sniffers.
    pub completeness: f64,
    /// Tolerance between time stamps of retransmissions: with a larger difference they are two
    /// frames.
    pub tolerance_us: f64,
    /// Number of frames with more than one transmission within the tolerance.
    pub ambiguous: u64,
}
