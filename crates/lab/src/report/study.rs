//! All results of one experiment.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::experiment::{Experiment, decisive_keys, leave_out};
use crate::figures::{oracle, paper, summary};
use crate::record::{IdealProgress, RunReport, Simulated, Transfer};

/// A record as reports read it, without what can be computed again.
#[derive(Debug, Clone, Deserialize)]
pub struct Saved {
    /// The experiment's name.
    pub experiment: String,
    /// Start of the run, UTC (RFC 3339).
    pub date: String,
    /// Commit of the repository.
    pub commit: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// All transfers.
    pub transfers: Vec<Transfer>,
    /// Text of the experiment's file.
    #[serde(default)]
    pub file: Option<String>,
    /// Curves of the fluid bound.
    #[serde(default)]
    pub ideal: Vec<IdealProgress>,
    /// What a short run left out.
    #[serde(default)]
    pub reduced: Option<String>,
    /// Seeds and omissions of a simulation.
    #[serde(default)]
    pub simulated: Option<Simulated>,
    /// Name of the file that it was read from.
    #[serde(skip)]
    pub source: String,
}

impl Saved {
    /// Reads a record from its JSON text; `source` names it in errors.
    ///
    /// # Errors
    /// [`Error::Experiment`] naming file, line and reason.
    pub fn parse(source: &str, text: &str) -> Result<Self> {
        let mut saved: Self = serde_json::from_str(text).map_err(|e| {
            let why = e.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            let line = e.line();
            Error::Experiment(format!("{source}:{line}: not a record of the lab: {why}"))
        })?;
        source.clone_into(&mut saved.source);
        Ok(saved)
    }

    /// The record of a run that has just ended.
    pub fn of_run(source: &str, report: &RunReport) -> Self {
        Self {
            experiment: report.experiment.clone(),
            date: report.date.clone(),
            commit: report.commit.clone(),
            kernel: report.kernel.clone(),
            transfers: report.transfers.clone(),
            file: report.file.clone(),
            ideal: report.ideal.clone(),
            reduced: report.reduced.clone(),
            simulated: report.simulated.clone(),
            source: source.to_owned(),
        }
    }
}

/// One of the runs of a study.
#[derive(Debug, Clone)]
pub struct Provenance {
    pub(crate) source: String,
    pub(crate) date: String,
    pub(crate) transfers: usize,
    /// What a short run left out.
    pub(crate) reduced: Option<String>,
    /// Seeds and omissions of a simulation.
    pub(crate) simulated: Option<Simulated>,
}

/// All results of one experiment under one setting.
#[derive(Debug)]
pub struct Study {
    pub(crate) experiment: Experiment,
    pub(crate) runs: Vec<Provenance>,
    pub(crate) report: RunReport,
}

impl Study {
    /// The record of all its runs together, with new summaries.
    pub fn report(&self) -> &RunReport {
        &self.report
    }
}

/// Joins records of the same experiment, in the order of their dates, and summarizes each anew.
/// `experiments` are names and texts of experiment files: their titles, asserts and published
/// figures replace those in the records.
///
/// A transfer that is in two records (because one run continued the other) counts once, as the
/// later record has it; repetitions of separate runs get numbers of their own.
///
/// # Errors
/// [`Error::Experiment`] when records differ in setting, commit or kernel, or when a record does
/// not contain its setting.
pub fn join(mut records: Vec<Saved>, experiments: &[(String, String)]) -> Result<Vec<Study>> {
    records.sort_by(|a, b| a.date.cmp(&b.date));
    let mut named: Vec<(&str, Experiment)> = Vec::new();
    for (file, text) in experiments {
        let experiment = Experiment::parse(file, text)?;
        if !records.iter().any(|r| r.experiment == experiment.name) {
            return Err(Error::Experiment(format!(
                "{file}: there is no record of its experiment \"{}\"",
                experiment.name
            )));
        }
        named.push((file, experiment));
    }
    let mut studies: Vec<Study> = Vec::new();
    for record in records {
        let found = studies
            .iter_mut()
            .find(|s| s.report.experiment == record.experiment);
        match found {
            Some(study) => add(study, record)?,
            None => {
                let own = named.iter().position(|(_, e)| e.name == record.experiment);
                studies.push(begin(record, own.map(|i| named.swap_remove(i)))?);
            }
        }
    }
    for study in &mut studies {
        sum_up(study);
    }
    Ok(studies)
}

fn begin(record: Saved, named: Option<(&str, Experiment)>) -> Result<Study> {
    let source = &record.source;
    let wrong = |why: String| Error::Experiment(format!("{source}: {why}"));
    let experiment = match (named, &record.file) {
        (Some((file, experiment)), kept) => {
            if let Some(kept) = kept
                && let Some(key) = difference(kept, &experiment.text)
            {
                return Err(wrong(format!("the run differs from {file} in `{key}`")));
            }
            experiment
        }
        (None, Some(text)) => Experiment::parse(&format!("{source} (its experiment)"), text)?,
        (None, None) => {
            return Err(wrong(
                "it does not contain its experiment: give the file by --experiment".into(),
            ));
        }
    };
    if experiment.name != record.experiment {
        return Err(wrong(format!(
            "the record of \"{}\" contains the file of \"{}\"",
            record.experiment, experiment.name
        )));
    }
    let mut experiment = experiment;
    if record.simulated.is_some() {
        // A simulation neither judges nor compares what needs the kernel.
        leave_out(&mut experiment);
    }
    known_names(&experiment, &record)?;
    Ok(Study {
        runs: vec![provenance(&record, record.transfers.len())],
        report: RunReport {
            experiment: record.experiment,
            title: experiment.title.clone(),
            date: record.date,
            commit: record.commit,
            kernel: record.kernel,
            simulated: record.simulated,
            transfers: record.transfers,
            summary: Vec::new(),
            asserts: Vec::new(),
            paper: Vec::new(),
            file: Some(experiment.text.clone()),
            ideal: record.ideal,
            reduced: None,
        },
        experiment,
    })
}

/// Checks that the experiment knows every transfer; unknown ones would be missing in tables.
fn known_names(e: &Experiment, record: &Saved) -> Result<()> {
    for (i, d) in record.transfers.iter().enumerate() {
        let scheme = e.schemes.iter().any(|s| *s.name.get_ref() == d.name);
        let workload = e.workloads.iter().any(|w| *w.name.get_ref() == d.workload);
        if !scheme || !workload {
            return Err(Error::Experiment(format!(
                "{}: transfer {}: scheme \"{}\" with \"{}\" is not in experiment \"{}\"",
                record.source,
                i + 1,
                d.name,
                d.workload,
                e.name
            )));
        }
    }
    Ok(())
}

fn provenance(record: &Saved, transfers: usize) -> Provenance {
    Provenance {
        source: record.source.clone(),
        date: record.date.clone(),
        transfers,
        reduced: record.reduced.clone(),
        simulated: record.simulated.clone(),
    }
}

fn add(study: &mut Study, record: Saved) -> Result<()> {
    let first = study.runs.first().map_or("", |r| r.source.as_str());
    let refuse = |why: String| {
        let source = &record.source;
        let text = format!("{source}: cannot be joined with {first}: {why}");
        Err(Error::Experiment(text))
    };
    let text = |commit: &Option<String>| commit.clone().unwrap_or_else(|| "unknown".into());
    if record.commit != study.report.commit {
        let (a, b) = (text(&record.commit), text(&study.report.commit));
        return refuse(format!("commit {a}, not {b}"));
    }
    match (&record.simulated, &study.report.simulated) {
        (Some(_), None) => return refuse("it is simulated, the other is not".into()),
        (None, Some(_)) => return refuse("the other is simulated, it is not".into()),
        _ => {}
    }
    if record.kernel != study.report.kernel {
        let (a, b) = (&record.kernel, &study.report.kernel);
        return refuse(format!("kernel {a}, not {b}"));
    }
    if let Some(kept) = &record.file
        && let Some(key) = difference(kept, &study.experiment.text)
    {
        return refuse(format!("`{key}` of the experiment differs"));
    }
    known_names(&study.experiment, &record)?;
    let have = &mut study.report.transfers;
    let next = have.iter().map(|d| d.repetition + 1).max().unwrap_or(0);
    let mut new: Vec<Transfer> = Vec::new();
    for d in &record.transfers {
        match have.iter_mut().find(|h| is_same(h, d)) {
            // Of the earlier run, too few repetitions may have been undisturbed.
            Some(same) => (same.fit, same.left_out) = (d.fit, d.left_out),
            None => new.push(d.clone()),
        }
    }
    // A run that continued another has the same transfers; a separate run starts at repetition 0,
    // and its repetitions are additional ones. Transfers of other seeds are no pairs.
    let clash = new.iter().any(|d| {
        have.iter()
            .filter(|h| h.repetition == d.repetition)
            .any(|h| h.seed != d.seed || (&h.name, &h.workload) == (&d.name, &d.workload))
    });
    let shift = if clash { next } else { 0 };
    study.runs.push(provenance(&record, new.len()));
    // Short runs may lack workloads.
    let ideal = &mut study.report.ideal;
    for curve in record.ideal {
        let same = |c: &IdealProgress| (&c.scheme, &c.workload) == (&curve.scheme, &curve.workload);
        if !ideal.iter().any(same) {
            ideal.push(curve);
        }
    }
    have.extend(new.into_iter().map(|mut d| {
        d.repetition += shift;
        d
    }));
    Ok(())
}

/// Whether two records contain the same transfer. Times of separate transfers differ by
/// nanoseconds; those of the same one may differ in the last bit, after having been written and
/// read.
fn is_same(a: &Transfer, b: &Transfer) -> bool {
    if let (Some(one), Some(other)) = (a.seed, b.seed) {
        return (one, &a.name, &a.workload) == (other, &b.name, &b.workload);
    }
    let near = |a: f64, b: f64| (a - b).abs() < 0.5e-9;
    (a.repetition, &a.name, &a.workload) == (b.repetition, &b.name, &b.workload)
        && near(a.seconds, b.seconds)
        && near(a.longest_stall_s, b.longest_stall_s)
}

fn sum_up(study: &mut Study) {
    let (e, report) = (&study.experiment, &mut study.report);
    // Of the transfers that count in all records together.
    oracle::compare(e, &mut report.transfers);
    report.summary = summary::summaries(e, &report.transfers);
    report.asserts = summary::judge(e, &report.transfers, &report.summary);
    report.paper = paper::comparisons(e, &report.transfers);
}

/// The first key in which two experiments differ, ignoring keys that only say how results are
/// judged or shown, and how many there are.
fn difference(a: &str, b: &str) -> Option<String> {
    let (a, b) = (decisive_keys(a), decisive_keys(b));
    let differs = |key: &&String| a.get(*key) != b.get(*key);
    a.keys().chain(b.keys()).find(differs).cloned()
}
