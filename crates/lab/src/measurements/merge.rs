//! Merging of sniffers' captures, compared with generated truth (delay measurement paper, sections
//! 3.1 and 3.2).

use crate::error::{Error, Result};
use crate::report::SheetTable;
use mpbond_capture::wifi::truth::{Air, Dice, Heard, Verdict, judge};
use mpbond_capture::wifi::{MergeReport, Merged, Sniffer, Times, merge};
use serde::Deserialize;

use super::outcome::Outcome;

/// Keys of figures. Each figure is the worst over all seeds, except `loss_share`, a mean.
pub(super) const KEYS: [&str; 10] = [
    "loss_share",
    "complete_share",
    "recovered_share",
    "exactly_once_share",
    "twice_share",
    "false_merges_share",
    "ack_wrong_share",
    "error_p95_us",
    "recovered_error_p95_us",
    "skew_error_ppm",
];

/// Parameters of the generator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Merge {
    /// Number of runs, each with its own random numbers.
    seeds: u32,
    /// Duration of each capture.
    seconds: f64,
    /// Share of frames that each sniffer misses.
    loss: f64,
    /// Standard deviation of timestamps.
    jitter_us: f64,
    /// Speeds of the clocks of the second, third, ... sniffer relative to the first one's.
    skews_ppm: Vec<f64>,
}

/// Offsets of the main sniffer's clock against the others: no clock is set.
const OFFSETS_S: [f64; 4] = [1.25, -3.5, 0.03, 60.0];

impl Merge {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=1000).contains(&self.seeds) {
            return Err("seeds: 1 to 1000".to_owned());
        }
        if !(1.0..=3600.0).contains(&self.seconds) {
            return Err("seconds: 1 to 3600".to_owned());
        }
        if !(0.0..0.9).contains(&self.loss) {
            return Err("loss: a share below 0.9".to_owned());
        }
        if !(0.0..=1000.0).contains(&self.jitter_us) {
            return Err("jitter_us: 0 to 1000".to_owned());
        }
        let skews = &self.skews_ppm;
        if !(1..=4).contains(&skews.len()) || skews.iter().any(|s| s.is_nan() || s.abs() > 1000.0) {
            return Err(
                "skews_ppm: one for each of 1 to 4 other sniffers, 1000 at most".to_owned(),
            );
        }
        Ok(())
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let seeds = if quick { 1 } else { self.seeds };
        let mut worst: Option<(Verdict, f64)> = None;
        let mut losses = Vec::new();
        let mut table = SheetTable {
            title: "Each run".to_owned(),
            note: "shares of the numbered frames that any sniffer had; ACK and CTS apart; times \
                   against the truth"
                .to_owned(),
            header: [
                "seed",
                "missed by each, %",
                "complete, %",
                "recovered, %",
                "once, %",
                "twice, %",
                "false, %",
                "ACK wrong, %",
                "error p95, us",
                "of recovered, us",
                "skew error, ppm",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..SheetTable::default()
        };
        for seed in 1..=seeds {
            let (verdict, skew_error, loss) = self.once(seed)?;
            let percent = |share: f64| format!("{:.3}", share * 100.0);
            let missed: Vec<String> = loss.iter().map(|l| format!("{:.2}", l * 100.0)).collect();
            table.rows.push(vec![
                seed.to_string(),
                missed.join(" "),
                percent(verdict.complete),
                percent(verdict.recovered),
                percent(verdict.exactly_once),
                percent(verdict.twice),
                percent(verdict.false_merges),
                percent(verdict.anonymous_wrong),
                format!("{:.2}", verdict.error_p95_us),
                format!("{:.2}", verdict.recovered_error_p95_us),
                format!("{skew_error:.3}"),
            ]);
            losses.extend(loss);
            worst = Some(match worst {
                None => (verdict, skew_error),
                Some((v, s)) => (worse(&v, &verdict), s.max(skew_error)),
            });
        }
        let mut outcome = Outcome::default();
        if let Some((v, skew_error)) = worst {
            let loss = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
            let values = [
                loss,
                v.complete,
                v.recovered,
                v.exactly_once,
                v.twice,
                v.false_merges,
                v.anonymous_wrong,
                v.error_p95_us,
                v.recovered_error_p95_us,
                skew_error,
            ];
            let keys = KEYS.map(str::to_owned).into_iter();
            outcome.figures = keys.zip(values.map(Some)).collect();
        }
        outcome.tables.push(table);
        Ok(outcome)
    }

    /// The comparison with the truth, the largest error of a clock's speed in ppm, and the share of
    /// frames that each sniffer missed according to the merge.
    fn once(&self, seed: u32) -> Result<(Verdict, f64, Vec<f64>)> {
        let mut dice = Dice::new(u64::from(seed) * 0x9e37_79b9);
        let air = Air::generate(self.seconds, &mut dice);
        let mut heard = vec![air.heard(&mut dice, self.loss, self.jitter_us, |t| t)];
        for (skew, offset_s) in self.skews_ppm.iter().zip(OFFSETS_S) {
            let clock = |t: f64| t * (1.0 + skew * 1e-6) + offset_s;
            heard.push(air.heard(&mut dice, self.loss, self.jitter_us, clock));
        }
        let sniffers = sniffers(&heard)?;
        let merged: Merged<'_> = merge(&sniffers, Times::Consensus).map_err(Error::run)?;
        let verdict = judge(&merged, &air, &heard, |t| t);
        let r: &MergeReport = &merged.report;
        let skews = r.inputs.iter().skip(1).zip(&self.skews_ppm);
        let skew_error = skews
            .map(|(i, skew)| (i.skew_ppm - skew).abs())
            .fold(0.0, f64::max);
        Ok((
            verdict,
            skew_error,
            r.inputs.iter().map(|i| i.loss).collect(),
        ))
    }
}

fn sniffers(heard: &[Heard]) -> Result<Vec<Sniffer>> {
    let all = heard.iter().enumerate();
    all.map(|(i, h)| {
        Sniffer::read(&format!("sniffer {}", i + 1), &h.capture[..]).map_err(Error::run)
    })
    .collect()
}

fn worse(a: &Verdict, b: &Verdict) -> Verdict {
    Verdict {
        exactly_once: a.exactly_once.min(b.exactly_once),
        twice: a.twice.max(b.twice),
        false_merges: a.false_merges.max(b.false_merges),
        anonymous_wrong: a.anonymous_wrong.max(b.anonymous_wrong),
        complete: a.complete.min(b.complete),
        recovered: a.recovered.min(b.recovered),
        error_median_us: a.error_median_us.max(b.error_median_us),
        error_p95_us: a.error_p95_us.max(b.error_p95_us),
        recovered_error_p95_us: a.recovered_error_p95_us.max(b.recovered_error_p95_us),
    }
}
