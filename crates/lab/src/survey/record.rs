//! Results of a survey.

use std::collections::BTreeMap;

use mpbond_units::Size;
use serde::Serialize;

use super::case::{SurveyScheme, SurveyStart};
use crate::experiment::Direction;

/// Copies that hedge an end count apart up to this share of a transfer (ADR 0022).
const HEDGES_APART: f64 = 0.01;

/// One transfer over one setting with one scheme: means over its seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Seed of the setting; none of recorded links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of the setting.
    pub setting: u32,
    /// Name of a pair of recorded links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    /// Whether its links lose or delay packets at random.
    pub rough: bool,
    /// Properties of its links: `ps_mbps`, `hs_delay_ms`, `pipe2_loss` and so on. The rate of a
    /// recorded link is the mean of a minute.
    #[serde(flatten)]
    pub links: BTreeMap<String, f64>,
    /// Devices, the primary included.
    pub devices: u8,
    /// State of the connections before the transfer.
    pub start: SurveyStart,
    /// Direction.
    pub direction: Direction,
    /// Size.
    pub transfer: Size,
    /// Scheme.
    pub scheme: SurveyScheme,
    /// Time of the transfer.
    pub seconds: f64,
    /// The fastest link, chosen on other seeds, and what carried the transfer over it.
    pub best_link: String,
    /// Time over the best link alone.
    pub best_link_seconds: f64,
    /// Ratio of the time to that over the best link.
    pub ratio: f64,
    /// Slower than the best link by over 3 % and over 5 ms; with random losses or delays only if
    /// the 95 % interval excludes 3 %.
    pub slower: bool,
    /// Ratio of mpbond's time over the best link's path alone to that of plain TCP there.
    pub alone_over_tcp: Option<f64>,
    /// Fluid bound.
    pub ideal_seconds: f64,
    /// Bound with slow start from an initial window of 10 segments.
    pub slow_start_seconds: f64,
    /// Time of a scheduler that knows what each path brings alone.
    pub clairvoyant_seconds: Option<f64>,
    /// Ratio of bytes that were sent twice to those of the transfer.
    pub redundant_share: f64,
    /// The same of copies that hedge an end.
    pub hedged_share: f64,
    /// Bytes that were sent twice.
    pub redundant_bytes: f64,
    /// The same, of the transfer with the most.
    pub redundant_bytes_max: u64,
    /// Transfers that did not end well; they enter no mean.
    pub failed: u32,
    /// Number of transfers with each scheme.
    pub transfers: u32,
    /// The command that measures it again.
    pub replay: String,
}

impl Row {
    /// Kind of the setting's links.
    pub(super) fn links_are(&self) -> &'static str {
        match (&self.pair, self.rough) {
            (Some(_), _) => "recorded",
            (None, true) => "rough",
            (None, false) => "smooth",
        }
    }

    /// Share of bytes that were sent twice, without those that hedged an end up to
    /// [`HEDGES_APART`].
    pub(super) fn copies_beyond_hedges(&self) -> f64 {
        self.redundant_share - self.hedged_share.min(HEDGES_APART)
    }
}

/// Figures of one kind of transfer over all settings of a kind.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// Scheme.
    pub scheme: SurveyScheme,
    /// Kind of links: `smooth`, `rough` (they lose or delay packets at random), `recorded`.
    pub links: &'static str,
    /// Devices.
    pub devices: u8,
    /// State of the connections before the transfer.
    pub start: SurveyStart,
    /// Direction.
    pub direction: Direction,
    /// Size; `None`: all sizes together.
    pub transfer: Option<Size>,
    /// Number of rows.
    pub rows: usize,
    /// Ratio to the best link: median, 95th percentile, maximum.
    pub ratio: [f64; 3],
    /// Share of rows that are slower than the best link ([`Row::slower`]).
    pub slower_share: f64,
    /// The setting with the largest ratio, and the command that measures it again.
    pub worst: String,
    /// Ratio to the bound with slow start: median and 95th percentile.
    pub over_slow_start: [f64; 2],
    /// Ratio to the clairvoyant scheduler: median and 95th percentile.
    pub over_clairvoyant: [f64; 2],
    /// Share of bytes that were sent twice: median, 95th percentile, maximum.
    pub redundant_share: [f64; 3],
    /// Bytes that were sent twice: maximum.
    pub redundant_bytes: u64,
    /// Rows in which mpbond over the best link alone was slower than plain TCP there by over 3 %.
    pub alone_slower: usize,
    /// Transfers that did not end well.
    pub failed: u32,
}

/// A wanted bound on a survey's rows.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Scheme.
    pub scheme: SurveyScheme,
    /// Quantity, and the rows that it is of.
    pub name: String,
    /// Number of those rows.
    pub rows: usize,
    /// Value; a share, a ratio or bytes.
    pub value: f64,
    /// Maximum that is wanted.
    pub at_most: f64,
    /// Value and maximum as text.
    pub text: [String; 2],
    /// Whether the value is at most that.
    pub holds: bool,
    /// The command that measures the worst row again, of a figure that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<String>,
}

/// A survey.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// Seeds of the settings; none of recorded links.
    pub seed: Vec<u64>,
    /// Version of the source, where it is known.
    pub commit: String,
    /// Transfers of each row, as asked for; [`Row::transfers`] tells those of long ones.
    pub seeds: u32,
    /// One row for each setting, transfer and scheme.
    pub settings: Vec<Row>,
    /// Figures of each kind of transfer.
    pub summary: Vec<Group>,
    /// What is wanted of the rows, and whether it holds.
    pub figures: Vec<Figure>,
}
