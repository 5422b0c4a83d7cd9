//! Selection of the schemes, workloads and repetitions that are to run.

use std::path::Path;

use super::options::RunOptions;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::schedule::shorten::shorten;

/// An experiment reduced to the selected parts.
pub(crate) struct Chosen {
    /// With the repetitions that are to run.
    pub experiment: Experiment,
    /// Repetitions of the file.
    pub planned: u32,
    /// A remark on what else was left out to shorten it.
    pub reduced: Option<String>,
}

/// The selected parts of the experiment in the file at `path`.
pub(crate) fn chosen(path: &Path, options: &RunOptions) -> Result<Chosen> {
    let mut experiment = Experiment::load(path)?;
    let planned = experiment.repetitions;
    if let Some(repetitions) = options.repetitions {
        experiment.repetitions = repetitions.max(1);
    }
    let without = experiment.leave_out_missing_recordings();
    if experiment.workloads.is_empty() {
        let without = without.unwrap_or_default();
        return Err(Error::Experiment(format!(
            "{}: nothing to run; {without}",
            path.display()
        )));
    }
    let wanted = |chosen: &[String], name: &str| {
        chosen.is_empty() || chosen.iter().any(|c| name.contains(c.as_str()))
    };
    let known = |list: Vec<&String>| {
        let list: Vec<&str> = list.into_iter().map(String::as_str).collect();
        format!("\"{}\"", list.join("\", \""))
    };
    let schemes = known(
        experiment
            .schemes
            .iter()
            .map(|s| s.name.get_ref())
            .collect(),
    );
    let workloads = known(
        experiment
            .workloads
            .iter()
            .map(|w| w.name.get_ref())
            .collect(),
    );
    experiment
        .schemes
        .retain(|s| wanted(&options.schemes, s.name.get_ref()));
    experiment
        .workloads
        .retain(|w| wanted(&options.workloads, w.name.get_ref()));
    if experiment.schemes.is_empty() {
        return Err(Error::Experiment(format!(
            "no scheme matches {:?}: {schemes}",
            options.schemes
        )));
    }
    if experiment.workloads.is_empty() {
        return Err(Error::Experiment(format!(
            "no workload matches {:?}: {workloads}",
            options.workloads
        )));
    }
    let shorter = match options.at_most {
        Some(most) => shorten(&mut experiment, most)?,
        None => None,
    };
    let reduced: Vec<String> = without.into_iter().chain(shorter).collect();
    Ok(Chosen {
        experiment,
        planned,
        reduced: (!reduced.is_empty()).then(|| reduced.join("; ")),
    })
}
