//! What a merge says of itself.

use serde::Serialize;

/// One capture in a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// Its name.
    pub file: String,
    /// Whole 802.11 frames.
    pub frames: u64,
    /// Frames whose check sequence is wrong, left out.
    pub damaged: u64,
    /// Records that are no 802.11 frames, left out.
    pub others: u64,
    /// Frames that the capture has twice, once left out.
    pub duplicates: u64,
    /// This clock minus the main one at the main capture's start, by the straight line.
    pub offset_us: f64,
    /// The median of this clock minus the main one.
    pub median_offset_us: f64,
    /// How much faster than the main clock, by the straight line.
    pub skew_ppm: f64,
    /// Distance of common frames from the clock relation, median.
    pub residual_median_us: f64,
    /// And the 95th percentile.
    pub residual_p95_us: f64,
    /// Lines that the clock relation is made of; 1 where the clocks go straight.
    pub clock_pieces: usize,
    /// Common frames that it rests on.
    pub reference_frames: usize,
    /// Share of numbered frames that it missed, estimated.
    pub loss: f64,
    /// Why reading it stopped early.
    pub incomplete: Option<String>,
}

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeReport {
    /// In the order given; the first is the main one.
    pub inputs: Vec<InputReport>,
    /// Transmissions, each once.
    pub merged_frames: u64,
    /// Of these, with a sequence number.
    pub numbered_frames: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// ACK and CTS, matched by time and what they follow.
    pub anonymous_frames: u64,
    /// Frames that the main capture did not have.
    pub recovered: u64,
    /// Estimated share of the numbered frames on the air that are here: capture-recapture, taking
    /// losses of sniffers to be independent.
    pub completeness: f64,
    /// Stamps of retransmissions that differ by more are two frames.
    pub tolerance_us: f64,
    /// Frames for which more than one transmission was near enough.
    pub ambiguous: u64,
}
