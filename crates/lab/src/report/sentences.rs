//! Results of an experiment in sentences.

use crate::record::RunReport;

/// Maximum number of workloads with a sentence of their own.
const MAX_WORKLOADS: usize = 6;

/// Differences below this are none.
const SAME: f64 = 0.005;

/// The gain of several devices, and the fastest scheme of each workload.
pub(super) fn of(report: &RunReport) -> Vec<String> {
    let mut all: Vec<String> = report
        .gain_text()
        .map(|gain| gain + ".")
        .into_iter()
        .collect();
    let mut workloads: Vec<&str> = Vec::new();
    for s in &report.summary {
        if !workloads.contains(&s.workload.as_str()) {
            workloads.push(&s.workload);
        }
    }
    if workloads.len() <= MAX_WORKLOADS {
        all.extend(workloads.iter().filter_map(|w| fastest(report, w)));
    }
    all
}

/// "10 MiB: mpbond is the fastest with 6.85 s; min-rtt takes 43 % longer."
fn fastest(report: &RunReport, workload: &str) -> Option<String> {
    let mine = report.summary.iter().filter(|s| s.workload == workload);
    let mut times: Vec<(&str, f64)> = mine
        .filter_map(|s| Some((s.scheme.as_str(), s.seconds?.mean)))
        .filter(|(_, seconds)| *seconds > 0.0)
        .collect();
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (&(best, least), others) = times.split_first()?;
    let (&(worst, most), between) = others.split_last()?;
    let longer = |seconds: f64| match seconds / least - 1.0 {
        more if more < SAME => "takes as long".to_owned(),
        more => format!("takes {:.0} % longer", more * 100.0),
    };
    let next = between.first().map_or(String::new(), |(name, seconds)| {
        format!("{} {}, ", quoted(name), longer(*seconds))
    });
    let (best, worst) = (quoted(best), quoted(worst));
    Some(format!(
        "{workload}: {best} is the fastest with {least:.2} s; {next}{worst} {}.",
        longer(most)
    ))
}

/// A name that has commas in quotation marks, since commas also separate what the sentence lists.
fn quoted(name: &str) -> String {
    if name.contains(',') {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}
