//! Energy of a benchmark: from a power log aligned with the trace, or from a model of the CPU.

use std::io::BufRead;

use serde::Serialize;

use crate::trace::Trace;
use crate::usage::{CpuUsage, Run};

/// Width of the bins in which power and busy CPUs are compared, ns.
const BIN_NS: u64 = 10_000_000;

/// Minimum correlation of power and busy CPUs at the best alignment.
const LEAST_CORRELATION: f64 = 0.6;

/// Maximum correlation elsewhere, as a share of the best one; above it the alignment is ambiguous.
const RIVAL: f64 = 0.97;

/// Distance from the best alignment from which on another one is a rival, bins.
const RIVAL_BINS: i64 = 20;

/// Minimum length of the part that both have in common, bins.
const LEAST_BINS: usize = 20;

/// Maximum number of bins of one log: 300 s.
const MAX_BINS: usize = 30_000;

/// Maximum size of a CSV file, octets.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of rows of a CSV file.
const MAX_ROWS: usize = 4_000_000;

/// Slice of the trace that marks the instant of the marker in a power log.
const MARKER: &str = "power_marker";

/// Log of a power monitor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PowerLog {
    /// Time, s on the clock of the monitor, and power, mW.
    samples: Vec<(f64, f64)>,
    marker_s: Option<f64>,
}

/// Power of a busy CPU by frequency.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuPower {
    /// Frequency, kHz, and power of one busy CPU, mW.
    rows: Vec<(u32, f64)>,
}

/// Source of the power of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub enum PowerSource {
    /// A power monitor.
    Log(PowerLog),
    /// Σ busy(f) · p(f): CPU only, not measured.
    Model(CpuPower),
}

/// Energy of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Energy {
    pub mj: f64,
    /// Mean power, mW.
    pub mw: f64,
    pub model: bool,
}

/// Calls `row` for each line after the header that is not empty.
fn rows(
    input: impl BufRead,
    head: &str,
    mut row: impl FnMut(usize, &[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let mut input = input.take(MAX_BYTES + 1);
    let mut text = String::new();
    let mut count = 0;
    for line in 1usize.. {
        text.clear();
        let read = input.read_line(&mut text);
        if input.limit() == 0 {
            return Err(format!("longer than {} MiB: cut it", MAX_BYTES >> 20));
        }
        let n = read.map_err(|e| format!("line {line}: {e}"))?;
        if line == 1 && !text.trim().starts_with(head) {
            return Err(format!("line 1: the header is not \"{head}\""));
        }
        if n == 0 {
            break;
        }
        if line == 1 || text.trim().is_empty() {
            continue;
        }
        count += 1;
        if count > MAX_ROWS {
            return Err(format!("line {line}: more than {MAX_ROWS} rows: cut it"));
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        row(line, &cells)?;
    }
    Ok(())
}

fn number(line: usize, cell: Option<&&str>) -> Result<f64, String> {
    let value = cell.and_then(|c| c.parse::<f64>().ok());
    let value = value.filter(|v| v.is_finite() && v.abs() < 1e12);
    value.ok_or_else(|| format!("line {line}: no number"))
}

impl PowerLog {
    /// Parses CSV: `time_s,power_mw`, in time order. A third column that is not empty marks the
    /// instant at which the trace has the slice `power_marker`.
    ///
    /// # Errors
    /// One line with the line number and the cause.
    pub fn parse(input: impl BufRead) -> Result<Self, String> {
        let mut log = Self::default();
        rows(input, "time_s,power_mw", |line, cells| {
            let (at, mw) = (number(line, cells.first())?, number(line, cells.get(1))?);
            if log.samples.last().is_some_and(|l| l.0 > at) {
                return Err(format!(
                    "line {line}: the time is before that of the line above"
                ));
            }
            if cells.get(2).is_some_and(|c| !c.is_empty()) && log.marker_s.replace(at).is_some() {
                return Err(format!("line {line}: a second marker"));
            }
            log.samples.push((at, mw));
            Ok(())
        })?;
        if log.samples.len() < 2 {
            return Err("fewer than two samples".into());
        }
        Ok(log)
    }

    /// Energy between two times on the clock of the monitor, mJ; `None` if the log does not cover
    /// them.
    fn energy(&self, from: f64, to: f64) -> Option<f64> {
        let (first, last) = (self.samples.first()?.0, self.samples.last()?.0);
        if from < first || to > last {
            return None;
        }
        let pairs = self.samples.windows(2).filter_map(|w| match w {
            [a, b] => Some((a, b)),
            _ => None,
        });
        // A sample holds until the next one.
        Some(
            pairs
                .map(|(a, b)| (b.0.min(to) - a.0.max(from)).max(0.0) * a.1)
                .sum(),
        )
    }

    /// Time from the first sample to the last, s.
    fn seconds(&self) -> f64 {
        let ends = self.samples.first().zip(self.samples.last());
        ends.map_or(0.0, |(first, last)| last.0 - first.0)
    }

    /// Mean power of each bin from the first sample on.
    fn bins(&self) -> Vec<f64> {
        let Some((first, _)) = self.samples.first() else {
            return Vec::new();
        };
        let mut sums: Vec<(f64, u32)> = Vec::new();
        for (at, mw) in &self.samples {
            let i = ((at - first) * 1e9 / BIN_NS as f64) as usize;
            if i >= MAX_BINS {
                break;
            }
            sums.resize(sums.len().max(i + 1), (0.0, 0));
            if let Some(bin) = sums.get_mut(i) {
                *bin = (bin.0 + mw, bin.1 + 1);
            }
        }
        // A bin without samples has the power of the one before.
        let mut last = 0.0;
        (sums.into_iter())
            .map(|(sum, n)| {
                last = if n > 0 { sum / f64::from(n) } else { last };
                last
            })
            .collect()
    }
}

impl CpuPower {
    /// Parses CSV: `khz,busy_mw`.
    ///
    /// # Errors
    /// One line with the line number and the cause.
    pub fn parse(input: impl BufRead) -> Result<Self, String> {
        let mut list = Vec::new();
        rows(input, "khz,busy_mw", |line, cells| {
            let (khz, mw) = (number(line, cells.first())?, number(line, cells.get(1))?);
            if khz < 1.0 || mw < 0.0 {
                return Err(format!("line {line}: frequency and power must be positive"));
            }
            list.push((khz as u32, mw));
            Ok(())
        })?;
        list.sort_by_key(|r| r.0);
        if list.is_empty() {
            return Err("no frequencies".into());
        }
        Ok(Self { rows: list })
    }

    /// Power at the frequency nearest to the given one; at the highest if it is unknown (0).
    fn at(&self, khz: u32) -> f64 {
        let near = self.rows.iter().min_by_key(|r| r.0.abs_diff(khz));
        let highest = self.rows.last();
        let row = if khz == 0 { highest } else { near };
        row.map_or(0.0, |r| r.1)
    }
}

/// Energy in the window of a trace.
///
/// # Errors
/// One line, if the log cannot be aligned with the trace or does not cover it.
pub(super) fn energy_of(
    trace: &Trace,
    runs: &[Run],
    power: &PowerSource,
) -> Result<Energy, String> {
    let (start, end) = trace.window().unwrap_or_default();
    let seconds = ((end - start) as f64 / 1e9).max(1e-9);
    let (mj, model) = match power {
        PowerSource::Model(model) => (model_mj(trace, runs, model), true),
        PowerSource::Log(log) => {
            let from = start_in_log(trace, runs, log)?;
            let energy = log.energy(from, from + seconds);
            let energy = energy.ok_or("the power log does not cover the benchmark")?;
            (energy, false)
        }
    };
    let mw = mj / seconds;
    Ok(Energy { mj, mw, model })
}

fn model_mj(trace: &Trace, runs: &[Run], model: &CpuPower) -> f64 {
    let classes = crate::tasks::ClassRules::shipped();
    let Some(usage) = CpuUsage::of(trace, runs, &classes) else {
        return 0.0;
    };
    let by_frequency: f64 = (usage.frequencies.iter())
        .map(|f| f.busy_s * model.at(f.khz))
        .sum();
    let counted: f64 = usage.frequencies.iter().map(|f| f.busy_s).sum();
    let busy: f64 = usage.tasks.iter().map(|t| t.busy_s).sum();
    by_frequency + (busy - counted).max(0.0) * model.at(0)
}

/// Start of the trace's window on the clock of the power monitor, s.
fn start_in_log(trace: &Trace, runs: &[Run], log: &PowerLog) -> Result<f64, String> {
    let (start, _) = trace.window().unwrap_or_default();
    let marker = (trace.slices.iter()).find(|s| trace.strings.get(s.name) == MARKER);
    if let (Some(there), Some(here)) = (log.marker_s, marker) {
        return Ok(there + (start as f64 - here.start as f64) / 1e9);
    }
    if log.seconds() > MAX_BINS as f64 * BIN_NS as f64 / 1e9 {
        return Err("the power log is longer than 300 s: cut it, or mark it".into());
    }
    let busy = busy_bins(runs, start);
    let power = log.bins();
    let (lag, best, rival) = correlate(&busy, &power);
    if best < LEAST_CORRELATION {
        return Err(format!(
            "the power log has no marker, and its power follows the busy CPUs nowhere (highest \
             correlation {best:.2})"
        ));
    }
    if rival > RIVAL * best {
        return Err(format!(
            "the power log has no marker, and fits the busy CPUs at several places (correlation \
             {best:.2} and {rival:.2})"
        ));
    }
    let first = log.samples.first().map_or(0.0, |s| s.0);
    Ok(first + lag as f64 * BIN_NS as f64 / 1e9)
}

/// Mean number of busy CPUs in each bin.
fn busy_bins(runs: &[Run], start: u64) -> Vec<f64> {
    let mut bins: Vec<f64> = Vec::new();
    for r in runs.iter().filter(|r| r.task != 0) {
        let mut at = r.start.max(start);
        while at < r.end {
            let i = ((at - start) / BIN_NS) as usize;
            if i >= MAX_BINS {
                break;
            }
            let until = r.end.min(start.saturating_add((i as u64 + 1) * BIN_NS));
            bins.resize(bins.len().max(i + 1), 0.0);
            if let Some(bin) = bins.get_mut(i) {
                *bin += (until - at) as f64 / BIN_NS as f64;
            }
            at = until;
        }
    }
    bins
}

/// Lag of the power that has the highest correlation with the busy CPUs, that correlation, and the
/// highest one away from it.
fn correlate(busy: &[f64], power: &[f64]) -> (usize, f64, f64) {
    let lags = power.len().saturating_sub(busy.len().max(LEAST_BINS) - 1);
    let all: Vec<f64> = (0..lags)
        .map(|lag| correlation(busy, power.get(lag..).unwrap_or_default()))
        .collect();
    let best = (all.iter().enumerate()).max_by(|a, b| a.1.total_cmp(b.1));
    let Some((lag, best)) = best else {
        return (0, 0.0, 0.0);
    };
    let away = |i: usize| (i as i64 - lag as i64).abs() >= RIVAL_BINS;
    let others = all.iter().enumerate().filter(|(i, _)| away(*i));
    let rival = others.map(|(_, c)| *c).fold(0.0, f64::max);
    (lag, *best, rival)
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    if n < LEAST_BINS {
        return 0.0;
    }
    let (a, b) = (a.iter().take(n), b.iter().take(n));
    let mean = |x: &mut dyn Iterator<Item = &f64>| x.sum::<f64>() / n as f64;
    let (ma, mb) = (mean(&mut a.clone()), mean(&mut b.clone()));
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (x, y) in a.zip(b) {
        aa += (x - ma).powi(2);
        bb += (y - mb).powi(2);
        ab += (x - ma) * (y - mb);
    }
    if aa <= 0.0 || bb <= 0.0 {
        return 0.0;
    }
    ab / (aa * bb).sqrt()
}
