//! Transfers to a watch in virtual time: Bluetooth, a phone's proxy, WiFi (Wear OS paper).
//!
//! Each case is a run of [`mpbond_sim::wear`], repeated with other seeds where chance has a part.
//! docs/experiments.md lists the quantities.

mod case;
mod quantities;

use mpbond_statistics::Sample;
use serde::Deserialize;

use super::outcome::Outcome;
use crate::error::Result;
use crate::report::SheetTable;
use case::Case;
use quantities::QUANTITIES;

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    /// Number of runs of each case; figures are their means, or the greatest of them.
    #[serde(default = "one")]
    seeds: u32,
    #[serde(rename = "case")]
    cases: Vec<Case>,
    #[serde(default, rename = "compare")]
    compares: Vec<Compare>,
}

/// How much more one case has than another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    name: String,
    of: String,
    with: String,
}

fn one() -> u32 {
    1
}

impl Watch {
    /// `CASE: QUANTITY`, `CASE: greatest QUANTITY`, and, of comparisons, `NAME: QUANTITY
    /// more_share` and `NAME: QUANTITY ratio_times`.
    pub(super) fn keys(&self) -> Vec<String> {
        let of_cases = self.cases.iter().flat_map(|case| {
            let names = QUANTITIES.iter();
            names.flat_map(|(name, _)| {
                let case = &case.name;
                [
                    format!("{case}: {name}"),
                    format!("{case}: greatest {name}"),
                ]
            })
        });
        let of_compares = self.compares.iter().flat_map(|compare| {
            let names = QUANTITIES.iter();
            names.flat_map(|(name, _)| {
                let key = format!("{}: {name}", compare.name);
                [format!("{key} more_share"), format!("{key} ratio_times")]
            })
        });
        of_cases.chain(of_compares).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=1000).contains(&self.seeds) {
            return Err("seeds: 1 to 1000".to_owned());
        }
        if self.cases.is_empty() {
            return Err("case: at least one".to_owned());
        }
        for (n, case) in self.cases.iter().enumerate() {
            case.setup(1)
                .map_err(|why| format!("case \"{}\": {why}", case.name))?;
            if self.cases[..n].iter().any(|other| other.name == case.name) {
                return Err(format!("there are two cases \"{}\"", case.name));
            }
        }
        for name in self.compares.iter().flat_map(|c| [&c.of, &c.with]) {
            if !self.cases.iter().any(|case| case.name == *name) {
                return Err(format!("there is no case \"{name}\" to compare"));
            }
        }
        Ok(())
    }

    pub(super) fn measure(&self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut table = SheetTable {
            title: "Cases".to_owned(),
            note: "in virtual time; Bluetooth by the parameters of docs/adr/0023".to_owned(),
            header: vec!["case".to_owned()],
            words: vec![0],
            ..SheetTable::default()
        };
        let names = QUANTITIES.iter().map(|(name, _)| (*name).to_owned());
        table.header.extend(names);
        for case in &self.cases {
            let values = self.values(case);
            let named = QUANTITIES.iter().zip(&values);
            let notes = named.filter_map(|((name, _), of)| of.note(&case.name, name));
            outcome.notes.extend(notes);
            let samples: Vec<Sample> = values.iter().map(Values::sample).collect();
            let cell = |s: &Sample| s.mean().map_or("-".to_owned(), |v| format!("{v:.3}"));
            let mut row = vec![case.name.clone()];
            row.extend(samples.iter().map(cell));
            table.rows.push(row);
            for ((name, _), sample) in QUANTITIES.iter().zip(samples) {
                let case = &case.name;
                let keys = [
                    format!("{case}: {name}"),
                    format!("{case}: greatest {name}"),
                ];
                let values = [sample.mean(), sample.max()];
                outcome.figures.extend(keys.into_iter().zip(values));
            }
        }
        for compare in &self.compares {
            for (name, _) in QUANTITIES {
                let value = |case: &str| {
                    let key = format!("{case}: {name}");
                    outcome.figures.get(&key).copied().flatten()
                };
                let both = value(&compare.of).zip(value(&compare.with));
                let ratio = both.filter(|(_, with)| *with > 0.0).map(|(a, b)| a / b);
                let key = format!("{}: {name}", compare.name);
                let more = ratio.map(|ratio| ratio - 1.0);
                outcome.figures.insert(format!("{key} more_share"), more);
                outcome.figures.insert(format!("{key} ratio_times"), ratio);
            }
        }
        // Columns without any value.
        drop_empty(&mut table);
        outcome.tables.push(table);
        Ok(outcome)
    }

    /// Values of each quantity.
    fn values(&self, case: &Case) -> Vec<Values> {
        let runs = (1..=self.seeds).map(|seed| {
            let setup = case.setup(u64::from(seed)).ok()?;
            Some(mpbond_sim::wear::run(&setup))
        });
        let runs: Vec<_> = runs.collect();
        let of_all = |of: &quantities::Of| runs.iter().map(|run| of(run.as_ref()?)).collect();
        QUANTITIES
            .iter()
            .map(|(_, of)| Values(of_all(of)))
            .collect()
    }
}

/// Values of a quantity in all runs of a case; `None` where a run has none, as the time of a
/// transfer that did not end.
struct Values(Vec<Option<f64>>);

impl Values {
    /// The values, if all runs have one: those of some would be of the best runs only.
    fn sample(&self) -> Sample {
        let all: Option<Vec<f64>> = self.0.iter().copied().collect();
        Sample::new(all.unwrap_or_default())
    }

    /// A note on values that some runs lack, and others have.
    fn note(&self, case: &str, name: &str) -> Option<String> {
        let runs = self.0.len();
        let missing = self.0.iter().filter(|value| value.is_none()).count();
        (0 < missing && missing < runs).then(|| {
            format!("{case}: {missing} of {runs} runs have no {name}: there is no mean of it")
        })
    }
}

fn drop_empty(table: &mut SheetTable) {
    let columns = 0..table.header.len();
    let full: Vec<bool> = columns
        .map(|n| {
            table
                .rows
                .iter()
                .any(|row| row.get(n).is_some_and(|c| c != "-"))
        })
        .collect();
    let keep = |row: &mut Vec<String>| {
        let mut full = full.iter();
        row.retain(|_| full.next().copied().unwrap_or(true));
    };
    keep(&mut table.header);
    table.rows.iter_mut().for_each(keep);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(text: &str) -> Watch {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn two_cases_and_their_comparison() {
        let w = watch(
            "[[case]]\nname = \"a\"\nbytes = \"1 MB\"\n\
             [[case]]\nname = \"b\"\nbytes = \"1 MB\"\nkeeper = true\n\
             [[compare]]\nname = \"keeper\"\nof = \"b\"\nwith = \"a\"\n",
        );
        assert_eq!(w.check(), Ok(()));
        let outcome = w.measure().unwrap();
        let figure = |key: &str| outcome.figures[key].unwrap();
        // 8 Mbit at 1.267 Mbit/s, and one blackout of 0.8 s.
        assert!((figure("a: time_s") - 7.1).abs() < 0.1);
        assert!((figure("b: time_s") - 6.3).abs() < 0.1);
        let more = figure("keeper: time_s more_share");
        assert!((more + 0.113).abs() < 0.01, "{more}");
        assert_eq!(outcome.tables[0].rows.len(), 2);
        assert!(w.keys().iter().all(|key| outcome.figures.contains_key(key)));
    }

    #[test]
    fn the_greatest_of_three_runs_is_more_than_their_mean() {
        let w = watch(
            "seeds = 3\n[[case]]\nname = \"a\"\nrate = \"500 kbit/s\"\ndbm = -80.0\nseconds = 20\n",
        );
        let outcome = w.measure().unwrap();
        let figure = |key: &str| outcome.figures[key].unwrap();
        let (mean, greatest) = (figure("a: delay_sd_s"), figure("a: greatest delay_sd_s"));
        assert!(
            mean < greatest && greatest < 3.0 * mean,
            "{mean} {greatest}"
        );
    }

    #[test]
    fn there_is_no_mean_of_the_runs_that_ended_alone() {
        let of = |values: &[Option<f64>]| {
            let values = Values(values.to_vec());
            (values.sample().mean(), values.note("a", "time_s"))
        };
        assert_eq!(of(&[Some(1.0), Some(3.0)]), (Some(2.0), None));
        let note = "a: 1 of 2 runs have no time_s: there is no mean of it";
        assert_eq!(of(&[Some(1.0), None]), (None, Some(note.to_owned())));
        // It is none of the case.
        assert_eq!(of(&[None, None]), (None, None));
    }

    #[test]
    fn errors_name_the_case() {
        for (text, words) in [
            ("[[case]]\nname = \"a\"\n", "case \"a\": bytes, rate"),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\nrate = 1\n",
                "case \"a\": bytes, rate",
            ),
            (
                "[[case]]\nname = \"a\"\nrate = 10000000000000\n",
                "case \"a\": rate: 1 kbit/s to 100 Mbit/s",
            ),
            (
                "[[case]]\nname = \"a\"\nrates = [1000, 2000]\n",
                "case \"a\": rates: two of them, with",
            ),
            (
                "[[case]]\nname = \"a\"\nrates = [1000, 2]\nphase = \"1s\"\n",
                "case \"a\": rate: 1 kbit/s to 100 Mbit/s",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\nwifi_from = 5000\n",
                "case \"a\": wifi_from: needed by",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\nlost_after = \"41s\"\n",
                "case \"a\": lost_after: 1ms to",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"wifi\"\n",
                "wifi",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"wifi\"\n\
                 wifi = { rate = 2, rtt = \"1ms\", on_air = 1 }\n",
                "on_air: not less than",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"wifi\"\n\
                 wifi = { rate = 1, rtt = \"1ms\", on_air = 2, band = \"band-2.4ghz\" }\n",
                "on_air: needs band",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"reactive\"\n\
                 wifi = { rate = 2, rtt = \"1ms\", join = \"1s\", by_standards = true }\n",
                "join: not beside by_standards",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"reactive\"\n\
                 wifi = { rate = 2, rtt = \"1ms\", dhcp_loss = 0.5 }\n",
                "dhcp_loss: needs by_standards",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"reactive\"\n\
                 wifi = { rate = 2, rtt = \"1ms\", by_standards = true, dhcp_loss = 1.0 }\n",
                "dhcp_loss: 0 to 0.9",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\npaths = \"on-demand\"\n\
                 wifi = { rate = 2, rtt = \"1ms\", connects = \"lost\" }\n",
                "connects: needs paths",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\nwatch = \"lte-2012\"\n",
                "lte-2012",
            ),
            (
                "[[case]]\nname = \"a\"\nbytes = 1\n\
                 [[compare]]\nname = \"c\"\nof = \"a\"\nwith = \"b\"\n",
                "no case \"b\"",
            ),
        ] {
            let why = watch(text).check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
