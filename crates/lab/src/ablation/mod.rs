//! Ablations: each mechanism of the sender left out, in virtual time.
//!
//! Worlds ([`subject`]) are simulated with configurations that leave out sets of mechanisms
//! ([`plan`]). An *effect* is the difference between two configurations of which one lacks one
//! mechanism more ([`effect`]): of those with all others (*left out*), or of those with no other
//! (*alone*). Both have the same worlds with the same seeds.

mod effect;
mod measure;
mod options;
mod page;
mod plan;
mod record;
mod subject;
mod table;

use std::path::Path;

use mpbond_radio::Profiles;
use mpbond_sim::world::Mechanism;

pub use effect::{Change, Effect};
pub use options::AblationOptions;
pub use record::{Ablation, Finding};

use crate::error::{Doing, Error, Result};
use crate::figures::json;
use crate::figures::print::print;
use crate::machine;
use crate::simulate::{Progress, on_all_processors};
use effect::Pair;
use measure::Measured;
use plan::{Comparison, Plan};
use subject::Subject;

/// Measures what mechanisms gain, prints tables, writes the record, and returns it.
///
/// # Errors
/// [`Error::Experiment`] for options that select no world; others when a file cannot be written.
pub fn ablation(options: &AblationOptions) -> Result<Ablation> {
    let subjects = subject::subjects(options);
    if subjects.is_empty() {
        return Err(Error::Experiment(
            "no world is selected: there are no settings, rows and random worlds".to_owned(),
        ));
    }
    let plan = match options.mechanisms.as_slice() {
        [] => Plan::new(&Mechanism::ALL),
        some => Plan::new(some),
    };
    let profiles = Profiles::shipped().map_err(Error::run)?;
    let configurations = &plan.configurations;
    // Those of its start: files may change while it runs.
    let (date, commit) = (machine::date(), machine::commit(Path::new(".")));
    let progress = Progress::new(options.quiet, subjects.len() * configurations.len());
    // All configurations of a world in a row: what else the machine does affects all of them.
    let measured = on_all_processors(subjects.len(), options.threads, progress, |number| {
        let subject = &subjects[number];
        let all = configurations.iter();
        all.map(|left_out| measure::measure(subject, *left_out, &profiles))
            .collect()
    })?;
    let by_subject: Vec<&[Measured]> = measured.chunks(configurations.len()).collect();
    let findings = plan.comparisons.iter();
    let report = Ablation {
        commit: commit.unwrap_or_default(),
        seed: options.seed.clone(),
        settings: options.settings,
        repeat: options.repeat,
        worlds: options.worlds,
        subjects: subjects.len(),
        configurations: configurations.len(),
        cpu_s: measured.iter().map(|m| m.cpu_s).sum(),
        findings: findings
            .map(|comparison| finding(comparison, &subjects, &by_subject))
            .collect(),
    };
    if let Some(path) = &options.json {
        let text = json::lines(&report)
            .map_err(|e| Error::run(format!("cannot write the record: {e}")))?;
        std::fs::write(path, text).at("write", path)?;
    }
    if let Some(path) = &options.html {
        std::fs::write(path, page::to_html(&report, &date)).at("write", path)?;
    }
    if let Some(path) = &options.markdown {
        std::fs::write(path, table::to_markdown(&report)).at("write", path)?;
    }
    if !options.quiet {
        for alone in [false, true] {
            let (title, verdicts) = (table::title(alone), table::verdicts(&report, alone));
            print(&format!("{title}\n\n{}\n\n", verdicts.to_text()))?;
        }
    }
    Ok(report)
}

fn finding(comparison: &Comparison, subjects: &[Subject], measured: &[&[Measured]]) -> Finding {
    let results = subjects.iter().zip(measured);
    let all: Vec<(&str, Pair)> = results
        .map(|(subject, by_configuration)| {
            let with = by_configuration[comparison.with];
            let without = by_configuration[comparison.without];
            (&*subject.group, (&*subject.name, with, without))
        })
        .collect();
    let mut groups: Vec<&str> = Vec::new();
    for (group, _) in &all {
        if !groups.contains(group) {
            groups.push(group);
        }
    }
    let effects = groups.into_iter().map(|group| {
        let pairs = all.iter().filter(|(g, _)| *g == group);
        Effect::of(group, &pairs.map(|(_, pair)| *pair).collect::<Vec<_>>())
    });
    let effects: Vec<Effect> = effects.collect();
    let [with, without] = [comparison.with, comparison.without]
        .map(|number| measured.iter().map(|m| m[number].cpu_s).sum::<f64>());
    Finding {
        mechanism: comparison.mechanism.name(),
        alone: comparison.alone,
        gains: effects.iter().flat_map(Effect::gains).collect(),
        costs: effects.iter().flat_map(Effect::costs).collect(),
        effects,
        cpu: without / with - 1.0,
    }
}

#[cfg(test)]
mod tests;
