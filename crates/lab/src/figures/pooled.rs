//! Messages of all repetitions together, as a table.

use mpbond_statistics::Sample;

use crate::figures::grid::Grid;
use crate::record::Transfer;

/// Title of [`pooled`], and what its columns are.
pub(crate) const POOLED: &str = "Messages of all repetitions, time in s";
pub(crate) const POOLED_NOTE: &str = "messages that were due while another one was under way are \
    left out; the last column has them with the least that they would have taken, from their due \
    time to the answer of the other one";

/// Messages of every scheme and workload, over all fit transfers; empty without messages.
pub(crate) fn pooled(all: &[Transfer]) -> Grid {
    let header = [
        "workload",
        "scheme",
        "messages",
        "median",
        "95th percentile",
        "longest",
        "left out",
        "95th percentile with them",
    ];
    let mut grid = Grid::new(header, &[0, 1]);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for d in all.iter().filter(|d| d.fit && !d.messages.is_empty()) {
        let name = (d.workload.as_str(), d.name.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (workload, scheme) in names {
        let of = |d: &&Transfer| d.fit && d.workload == workload && d.name == scheme;
        let fit = || all.iter().filter(of).map(|d| &d.messages);
        let answered: Sample = fit().flat_map(|m| &m.answered).copied().collect();
        let all_due: Sample = fit()
            .flat_map(|m| m.answered.iter().chain(&m.left_out))
            .copied()
            .collect();
        let show = |sample: &Sample, share: f64| {
            let value = sample.quantile(share);
            value.map_or("-".into(), |value| format!("{value:.3}"))
        };
        grid.row(vec![
            workload.to_owned(),
            scheme.to_owned(),
            fit().map(|m| m.answered.len()).sum::<usize>().to_string(),
            show(&answered, 0.5),
            show(&answered, 0.95),
            show(&answered, 1.0),
            fit().map(|m| m.left_out.len()).sum::<usize>().to_string(),
            show(&all_due, 0.95),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MessageTimes;

    #[test]
    fn messages_of_fit_transfers_are_counted_together() {
        let transfer = |repetition, answered: &[f64], left_out: &[f64]| Transfer {
            messages: MessageTimes {
                answered: answered.to_vec(),
                left_out: left_out.to_vec(),
            },
            ..Transfer::for_test("helper only", repetition, 1.0)
        };
        let mut all = vec![
            transfer(0, &[0.1; 19], &[]),
            transfer(1, &[0.1, 2.0], &[1.5, 0.5]),
            transfer(2, &[9.0], &[]),
            Transfer::for_test("no messages", 0, 1.0),
        ];
        all[2].fit = false;
        let text = pooled(&all).to_text();
        let line = text.lines().find(|line| line.contains("helper only"));
        let fields: Vec<&str> = line.unwrap().split_whitespace().collect();
        let values = fields[fields.len() - 6..].to_vec();
        // Without those left out, two of 21 are beyond the 95th percentile.
        assert_eq!(values[0], "21");
        assert_eq!(values[1..4], ["0.100", "0.100", "2.000"]);
        assert_eq!(values[4], "2");
        assert!(values[5].parse::<f64>().unwrap() > 1.0, "{text}");
        assert!(!text.contains("no messages"));
        assert!(pooled(&all[3..]).is_empty());
    }
}
