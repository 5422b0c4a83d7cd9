//! Report of the player's accuracy.

use std::fmt;
use std::time::Duration;

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

/// Targets of the project.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_DELAY_ERROR: Duration = Duration::from_micros(500);

/// Result of [`player_accuracy`].
///
/// [`player_accuracy`]: super::player_accuracy
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyReport {
    /// A row for each number of links and speed.
    pub rows: Vec<AccuracyRow>,
    /// Whether both directions of each link were full, or only down.
    pub both_ways: bool,
    /// Whether the player had real-time priority.
    pub realtime: bool,
}

/// Accuracy with some number of links at one speed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// Number of links.
    pub links: usize,
    /// Rate of each link.
    pub rate: BitRate,
    /// Measured rate of the least accurate link, in IP bytes.
    pub measured: BitRate,
    /// Measured over nominal rate, minus one.
    pub rate_error: f64,
    /// One-way delay beyond the link's delay and the time of sending: median over an idle link
    /// while all others are full, in ms.
    pub delay_error_p50_ms: f64,
    /// 99th percentile of the same.
    pub delay_error_p99_ms: f64,
    /// Lateness of all packets, median, in ms.
    pub lateness_p50_ms: f64,
    /// 99th percentile of the same.
    pub lateness_p99_ms: f64,
    /// Share of a core that the player used.
    pub core_share: f64,
}

impl AccuracyRow {
    /// Whether the rate is within 1 %, and within 0.5 ms are the median of the delay and the 99th
    /// percentile of the lateness.
    pub fn holds(&self) -> bool {
        let limit_ms = MAX_DELAY_ERROR.as_secs_f64() * 1e3;
        self.rate_error.abs() <= MAX_RATE_ERROR
            && self.delay_error_p50_ms.abs() <= limit_ms
            && self.lateness_p99_ms <= limit_ms
    }
}

impl fmt::Display for AccuracyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = if self.realtime { "with" } else { "without" };
        let ways = if self.both_ways { "both ways" } else { "down" };
        writeln!(
            f,
            "link player, {priority} real-time priority, links full {ways}"
        )?;
        writeln!(
            f,
            "{:>5} {:>12} {:>9} {:>12} {:>9} {:>13} {:>9} {:>7}",
            "links", "each", "rate off", "delay off", "p99", "lateness p50", "p99", "core"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>5} {:>12} {:>7.3} % {:>9.3} ms {:>6.3} ms {:>10.3} ms {:>6.3} ms {:>5.1} %  {}",
                row.links,
                row.rate.to_string(),
                row.rate_error * 100.0,
                row.delay_error_p50_ms,
                row.delay_error_p99_ms,
                row.lateness_p50_ms,
                row.lateness_p99_ms,
                row.core_share * 100.0,
                if row.holds() { "ok" } else { "MISSED" }
            )?;
        }
        write!(
            f,
            "targets: rate within 1 %, delay and p99 of lateness within 0.5 ms"
        )
    }
}
