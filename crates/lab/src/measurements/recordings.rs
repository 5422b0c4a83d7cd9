//! Throughput of recorded links, alone and added up (MPBond, section 3.2 and Figure 1).

use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond_sim::trace::{Combination, RateUnit};
use mpbond_units::duration_text;
use serde::Deserialize;

use crate::error::Result;
use crate::recordings::{RecordingOptions, recordings};
use crate::report::SheetTable;

use super::outcome::Outcome;

/// The least and the largest median of single links, and the least and the largest gain of
/// combinations of two and of three links over one of their links.
pub(super) const KEYS: [&str; 6] = [
    "median_least_mbps",
    "median_most_mbps",
    "gain_of_two_least_share",
    "gain_of_two_most_share",
    "gain_of_three_least_share",
    "gain_of_three_most_share",
];

/// Recordings of one experiment, by place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// Length of each part that is read.
    #[serde(with = "duration_text")]
    length: Duration,
    /// Length of the bins over which throughput is taken.
    #[serde(with = "duration_text")]
    bin: Duration,
    #[serde(rename = "place")]
    places: Vec<Place>,
}

/// Recordings that are added up as if they had been made at the same place and time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    name: String,
    /// Start of the part.
    #[serde(with = "duration_text")]
    offset: Duration,
    /// Files in Mahimahi's format, or tables of seconds and Mbit/s, relative to the experiment's
    /// file.
    recordings: Vec<PathBuf>,
}

impl Recorded {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.bin.is_zero() || self.bin > self.length {
            return Err("bin: longer than 0, and no longer than length".to_owned());
        }
        let three = |p: &Place| p.recordings.len() >= 3;
        if self.places.is_empty() || !self.places.iter().all(three) {
            return Err("place: at least one, each with three recordings or more".to_owned());
        }
        Ok(())
    }

    /// Reads the recordings, which are relative to `folder`. Places whose recordings are missing
    /// are left out; without any place there are no figures.
    ///
    /// # Errors
    /// When a recording is wrong.
    pub(super) fn measure(&self, folder: &Path) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut all = Vec::new();
        for place in &self.places {
            let files: Vec<PathBuf> = place.recordings.iter().map(|f| folder.join(f)).collect();
            if let Some(missing) = files.iter().find(|f| !f.exists()) {
                outcome.notes.push(format!(
                    "{} is left out: there is no {}",
                    place.name,
                    missing.display()
                ));
                continue;
            }
            let options = RecordingOptions {
                offset: place.offset,
                length: self.length,
                bin: self.bin,
                unit: RateUnit::MegabitPerSecond,
            };
            let report = recordings(&files, &options)?;
            outcome
                .tables
                .push(table(&place.name, &report.combinations));
            all.extend(report.combinations);
        }
        let single = all.iter().filter(|c| c.links.len() == 1);
        let medians: Vec<f64> = single.map(|c| c.throughput_mbps.p50).collect();
        let gains = |links: usize, of: fn(&Combination) -> Option<f64>| -> Vec<f64> {
            let combined = all.iter().filter(|c| c.links.len() == links);
            combined
                .filter_map(of)
                .map(|percent| percent / 100.0)
                .collect()
        };
        let values = [
            least(&medians),
            most(&medians),
            least(&gains(2, |c| c.least_gain_percent)),
            most(&gains(2, |c| c.most_gain_percent)),
            least(&gains(3, |c| c.least_gain_percent)),
            most(&gains(3, |c| c.most_gain_percent)),
        ];
        outcome.figures = KEYS.map(str::to_owned).into_iter().zip(values).collect();
        Ok(outcome)
    }
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn table(place: &str, combinations: &[Combination]) -> SheetTable {
    let row = |c: &Combination| {
        let t = c.throughput_mbps;
        let percent = |p: Option<f64>| p.map_or("-".to_owned(), |p| format!("{p:.1}"));
        let mut row = vec![c.links.join(" + ")];
        row.extend([t.mean, t.p5, t.p25, t.p50, t.p75, t.p95].map(|v| format!("{v:.2}")));
        row.extend([percent(c.least_gain_percent), percent(c.most_gain_percent)]);
        row
    };
    SheetTable {
        title: place.to_owned(),
        note: "throughput over bins, Mbit/s; gain of the mean over the best and the worst of the \
               links alone"
            .to_owned(),
        header: [
            "recordings",
            "mean",
            "5 %",
            "25 %",
            "median",
            "75 %",
            "95 %",
            "gain over best, %",
            "over worst, %",
        ]
        .map(str::to_owned)
        .to_vec(),
        words: vec![0],
        rows: combinations.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a constant rate, in Mbit/s.
    fn recording(folder: &Path, name: &str, rate: f64) -> PathBuf {
        let text: String = (0..10).map(|s| format!("{s} {rate}\n")).collect();
        std::fs::write(folder.join(name), text).unwrap();
        name.into()
    }

    fn places(folder: &Path, more: Vec<Place>) -> Recorded {
        let rates = [("a.txt", 2.0), ("b.txt", 4.0), ("c.txt", 8.0)];
        let here = Place {
            name: "here".to_owned(),
            offset: Duration::ZERO,
            recordings: rates
                .map(|(name, rate)| recording(folder, name, rate))
                .to_vec(),
        };
        Recorded {
            length: Duration::from_secs(5),
            bin: Duration::from_secs(1),
            places: [here].into_iter().chain(more).collect(),
        }
    }

    #[test]
    fn gains_are_those_of_sums_over_single_links() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = places(folder.path(), Vec::new())
            .measure(folder.path())
            .unwrap();
        // 2 + 8 over 8; 2 + 8 over 2; 14 over 8; 14 over 2.
        let wanted = [2.0, 8.0, 0.25, 4.0, 0.75, 6.0];
        for (key, wanted) in KEYS.iter().zip(wanted) {
            let got = outcome.figures[*key].unwrap();
            assert!(
                (got - wanted).abs() < 1e-9,
                "{key}: {got} instead of {wanted}"
            );
        }
        assert_eq!(outcome.tables[0].rows.len(), 7);
    }

    #[test]
    fn places_without_recordings_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = Place {
            name: "elsewhere".to_owned(),
            offset: Duration::ZERO,
            recordings: ["x", "y", "z"].map(PathBuf::from).to_vec(),
        };
        let mut recorded = places(folder.path(), vec![elsewhere]);
        let outcome = recorded.measure(folder.path()).unwrap();
        assert_eq!((outcome.tables.len(), outcome.notes.len()), (1, 1));
        recorded.places.remove(0);
        let nothing = recorded.measure(folder.path()).unwrap();
        assert!(nothing.figures.values().all(Option::is_none));
    }

    #[test]
    fn wrong_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorded = places(folder.path(), Vec::new());
        assert!(recorded.check().is_ok());
        recorded.bin = Duration::from_secs(6);
        assert!(recorded.check().unwrap_err().starts_with("bin"));
        recorded.bin = Duration::from_secs(1);
        recorded.places[0].recordings.pop();
        assert!(recorded.check().unwrap_err().starts_with("place"));
    }
}
