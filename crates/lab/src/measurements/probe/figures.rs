//! Figures of the measurement: their names, order and values.

use mpbond_probe::Distribution;

/// Equations 1 to 3; Δd_u by the kernel's timestamps, which only a native program asks for; its
/// outgoing and incoming parts, when the program's clock is Unix time, and the first minus the
/// second.
pub(super) const QUANTITIES: [&str; 7] = [
    "delta_d",
    "delta_d_u",
    "delta_d_k",
    "delta_d_u_stamps",
    "delta_d_u_out",
    "delta_d_u_in",
    "asymmetry",
];
/// Statistics of each quantity, in ms; the last is the interquartile range.
pub(super) const OF: [&str; 4] = ["mean", "median", "p99", "iqr"];
/// Means over tests of several trials, in ms. Inflation is the excess over the mean d_n.
pub(super) const TESTS: [&str; 6] = [
    "test_min",
    "test_mean",
    "test_max",
    "inflation_min",
    "inflation_mean",
    "inflation_max",
];

/// What a test reports, its smallest d_u, minus each d_n and d_k of the test, and minus the
/// smallest ones (Figure 5).
pub(super) const REPORTS: [&str; 4] = [
    "report_each_d",
    "report_each_d_u",
    "report_min_d",
    "report_min_d_u",
];

/// Name of a figure.
pub(super) fn key(case: &str, rtt_ms: u32, quantity: &str, of: &str) -> String {
    format!("{case} at {rtt_ms}: {quantity} {of}_ms")
}

/// The statistics in the order of [`OF`], in µs.
pub(super) fn values(d: &Distribution) -> [f64; 4] {
    [d.mean, d.median, d.p99, d.p75 - d.p25]
}
