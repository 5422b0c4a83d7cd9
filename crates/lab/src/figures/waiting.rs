//! Waiting for a processor, as a table, and disturbed transfers as lines.

use crate::figures::grid::Grid;
use crate::figures::statistics::estimate;
use crate::machine_use::Waited;
use crate::record::{RunReport, Transfer};

/// Title of [`waiting`], and what its columns are.
pub(crate) const WAITING: &str = "Waiting for a processor, % of the time";
pub(crate) const WAITING_NOTE: &str = "time for which threads of daemons, client, origin and links \
    could run and waited, added up, and the mean steal of the processors: mean and largest of all \
    transfers; of the largest, the process that waited longest, and steal";

/// Waiting of every scheme and workload; empty where it was not measured.
pub(crate) fn waiting(all: &[Transfer]) -> Grid {
    let header = [
        "transfer",
        "scheme",
        "disturbed",
        "mean",
        "largest",
        "longest of it",
        "steal",
    ];
    let mut grid = Grid::new(header, &[0, 1, 2, 5]);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for d in all {
        let name = (d.workload.as_str(), d.name.as_str());
        if d.waited.is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    for (workload, scheme) in names {
        let of = |d: &&Transfer| d.workload == workload && d.name == scheme;
        let measured: Vec<&Waited> = (all.iter().filter(of))
            .filter_map(|d| d.waited.as_ref())
            .collect();
        let mean = estimate(measured.iter().map(|w| w.share())).map(|e| e.mean);
        let Some(largest) = measured
            .iter()
            .max_by(|a, b| a.share().total_cmp(&b.share()))
        else {
            continue;
        };
        let of_time = |seconds: f64| format!("{:.2}", largest.share_of(seconds) * 100.0);
        grid.row(vec![
            workload.to_owned(),
            scheme.to_owned(),
            disturbed(all, workload, scheme),
            mean.map_or("-".into(), |share| format!("{:.2}", share * 100.0)),
            format!("{:.2}", largest.share() * 100.0),
            (largest.longest.as_ref()).map_or("-".into(), |(name, seconds)| {
                format!("{name}: {}", of_time(*seconds))
            }),
            of_time(largest.steal_s),
        ]);
    }
    grid
}

/// "2 of 20, left out": number of disturbed transfers, and whether they enter figures.
fn disturbed(all: &[Transfer], workload: &str, scheme: &str) -> String {
    let of = |d: &&Transfer| d.workload == workload && d.name == scheme;
    let count = all.iter().filter(of).count();
    let disturbed = all.iter().filter(of).filter(|d| d.is_disturbed());
    let (left_out, counted): (Vec<_>, Vec<_>) = disturbed.partition(|d| d.left_out);
    let what = match (left_out.len(), counted.len()) {
        (0, 0) => "",
        (_, 0) => ", left out",
        (0, _) => ", counted",
        // Of joined records, each is judged by itself.
        _ => ", some counted",
    };
    format!("{} of {count}{what}", left_out.len() + counted.len())
}

impl RunReport {
    /// Disturbed transfers in sentences, one with those that are left out, with all of their
    /// repetitions, and one with those that enter figures.
    pub(crate) fn disturbed_words(&self) -> Vec<String> {
        let all = self.transfers.len();
        let left_out = self.transfers.iter().filter(|d| d.left_out).count();
        let counted = self.transfers.iter();
        let counted = counted.filter(|d| d.is_disturbed() && !d.left_out).count();
        let mut words = Vec::new();
        if left_out > 0 {
            words.push(format!(
                "{left_out} of {all} transfers are of disturbed repetitions and enter no figure"
            ));
        }
        if counted > 0 {
            words.push(format!(
                "{counted} of {all} transfers were disturbed and enter figures, since too few \
                 repetitions were not: their times may be too long"
            ));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::repetitions::leave_out_disturbed;

    fn transfer(name: &str, repetition: u32, waited_s: f64, busy: bool) -> Transfer {
        Transfer {
            waited: Some(Waited {
                seconds: 10.0,
                waited_s,
                longest: Some(("mpbond proxy".to_owned(), waited_s / 2.0)),
                steal_s: 0.1,
            }),
            disturbed: busy.then(|| "busy".to_owned()),
            ..Transfer::for_test(name, repetition, 10.0)
        }
    }

    #[test]
    fn waiting_is_shown_with_what_was_left_out() {
        let mut all = vec![
            transfer("a", 0, 0.1, false),
            transfer("a", 1, 0.1, false),
            transfer("a", 2, 0.9, true),
            transfer("b", 2, 0.9, true),
            Transfer::for_test("c", 0, 1.0),
        ];
        assert_eq!(disturbed(&all, "w", "a"), "1 of 3, counted");
        leave_out_disturbed(&mut all, 3);
        let text = waiting(&all).to_markdown();
        let rows: Vec<Vec<&str>> = (text.lines().skip(2))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let longest = "mpbond proxy: 4.50";
        assert_eq!(
            rows,
            [
                [
                    "w",
                    "a",
                    "1 of 3, left out",
                    "4.67",
                    "10.00",
                    longest,
                    "1.00"
                ],
                [
                    "w",
                    "b",
                    "1 of 1, left out",
                    "10.00",
                    "10.00",
                    longest,
                    "1.00"
                ],
            ]
        );
        assert!(waiting(&all[4..]).is_empty());
        assert_eq!(disturbed(&all, "w", "c"), "0 of 1");
    }
}
