//! Medians, intervals and asserts.

use crate::experiment::{Assert, Experiment};
use crate::record::{Download, Estimate, Judgement, Summary};

/// The median of `values` and its 95 % confidence interval; none without values.
pub fn estimate(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let upper = *values.get(n / 2)?;
    let lower = *values.get((n - 1) / 2)?;
    let interval = rank(n).and_then(|k| Some((*values.get(k - 1)?, *values.get(n - k)?)));
    Some(Estimate {
        median: (lower + upper) / 2.0,
        interval,
    })
}

/// The largest k for which the k-th smallest and k-th largest of n values
/// enclose the median with 95 % confidence, whatever the distribution: each
/// value falls below the median with probability 1/2, so what lies outside
/// has the binomial tail P(X < k) on either side.
fn rank(n: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut tail = 0.0;
    let mut best = None;
    for k in 1..=n / 2 {
        tail += probability; // P(X = k - 1)
        if tail > 0.025 {
            break;
        }
        best = Some(k);
        probability *= (n - k + 1) as f64 / k as f64;
    }
    best
}

/// One summary for every workload and scheme of the experiment that has run.
pub(crate) fn summaries(e: &Experiment, downloads: &[Download]) -> Vec<Summary> {
    let mut all = Vec::new();
    for workload in &e.workloads {
        for scheme in &e.schemes {
            let (workload, scheme) = (workload.name.get_ref(), scheme.name.get_ref());
            let of_both = |d: &&Download| d.workload == *workload && d.name == *scheme;
            let mine: Vec<&Download> = downloads.iter().filter(of_both).collect();
            let fit: Vec<&Download> = mine.iter().copied().filter(|d| d.fit).collect();
            if mine.is_empty() {
                continue;
            }
            let over = |figure: &dyn Fn(&Download) -> Option<f64>| {
                estimate(fit.iter().filter_map(|d| figure(d)))
            };
            all.push(Summary {
                workload: workload.clone(),
                scheme: scheme.clone(),
                fit: fit.len(),
                unfit: mine.len() - fit.len(),
                seconds: over(&|d| Some(d.seconds)),
                ratio: over(&|d| Some(d.ratio)),
                redundant_share: over(&|d| Some(d.redundant_bytes? as f64 / d.bytes as f64)),
                finish_spread_s: over(&Download::finish_spread_s),
                finish_spread_share: over(&|d| Some(d.finish_spread_s()? / d.seconds)),
                longest_stall_s: over(&|d| Some(d.longest_stall_s)),
            });
        }
    }
    all
}

/// Every assert, for every scheme and workload it concerns.
pub(crate) fn judge(e: &Experiment, summaries: &[Summary]) -> Vec<Judgement> {
    let mut all = Vec::new();
    for assert in &e.asserts {
        for summary in summaries {
            let is = |wanted: &Option<toml::Spanned<String>>, name: &str| {
                wanted.as_ref().is_none_or(|w| w.get_ref() == name)
            };
            if is(&assert.scheme, &summary.scheme) && is(&assert.workload, &summary.workload) {
                judge_one(assert, summary, summaries, &mut all);
            }
        }
    }
    all
}

fn judge_one(a: &Assert, s: &Summary, summaries: &[Summary], all: &mut Vec<Judgement>) {
    let mut push = |what: &str, target: Option<f64>, got: Option<Estimate>, at_most: bool| {
        let Some(target) = target else { return };
        let measured = got.map(|e| e.median);
        all.push(Judgement {
            workload: s.workload.clone(),
            scheme: s.scheme.clone(),
            what: format!("{what} {}", if at_most { "at most" } else { "at least" }),
            target,
            measured,
            holds: measured.map(|m| if at_most { m <= target } else { m >= target }),
        });
    };
    push("ratio to ideal", a.max_ratio, s.ratio, true);
    push("seconds", a.max_seconds, s.seconds, true);
    push(
        "redundant share",
        a.max_redundant_share,
        s.redundant_share,
        true,
    );
    push(
        "finish spread (s)",
        a.max_finish_spread_s,
        s.finish_spread_s,
        true,
    );
    push(
        "finish spread (share)",
        a.max_finish_spread_share,
        s.finish_spread_share,
        true,
    );
    push(
        "finish spread (s)",
        a.min_finish_spread_s,
        s.finish_spread_s,
        false,
    );
    push("longest stall (s)", a.max_stall_s, s.longest_stall_s, true);
    if let Some(other) = &a.not_slower_than {
        let reference = summaries
            .iter()
            .find(|o| o.workload == s.workload && o.scheme == *other.get_ref())
            .and_then(|o| o.seconds);
        let what = format!("seconds of \"{}\",", other.get_ref());
        push(&what, reference.map(|e| e.median), s.seconds, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial_tables() {
        // Known: n = 20 takes the 6th and 15th value (95.9 %), n = 10 the 2nd
        // and 9th (97.9 %), n = 6 the extremes (96.9 %), n = 5 nothing.
        assert_eq!(rank(20), Some(6));
        assert_eq!(rank(10), Some(2));
        assert_eq!(rank(6), Some(1));
        assert_eq!(rank(5), None);
        assert_eq!(rank(0), None);
    }

    #[test]
    fn median_and_interval() {
        let e = estimate((1..=20).rev().map(f64::from)).unwrap();
        assert_eq!(e.median, 10.5);
        assert_eq!(e.interval, Some((6.0, 15.0)));
        assert_eq!(estimate([3.0]).unwrap().median, 3.0);
        assert_eq!(estimate([]), None);
    }
}
