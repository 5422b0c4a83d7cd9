//! `mpbond trace suite`: the paper's tables and figures over a folder of recordings.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use mpbond_command::{Failure, note, print};
use mpbond_systrace::{
    CpuPower, PowerLog, PowerSource, Report, ReportOptions, SuiteBuilder, SuiteError, Table,
};

use super::form::{FormArgs, make_folder, write};
use super::input::{bad, open, warn};
use super::rules::{ClassArgs, FunctionArgs, IdleRuleArgs};

/// Tables and figures of the MobiSys '16 paper over a folder of recordings.
///
/// Files are named SCENARIO-N.*: repetition N of a scenario (trace record --list-scenarios). Their
/// content decides: system traces, method traces of System Server, profiles with hardware counters,
/// and power logs (CSV with the header time_s,power_mw; a third column marks the instant at which
/// the trace has the slice power_marker). Means and standard deviations stand beside the published
/// values.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace record --adb --scenario lch.set --repeat 3 -o watch
  mpbond trace suite watch --html watch.html
  mpbond trace suite watch --json | jq '.claims[] | {table, what, measured, holds}'
  mpbond trace suite watch --cpu-power cortex-a7.csv --svg pictures")]
pub(crate) struct SuiteArgs {
    /// Folder with the recordings.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Write one HTML page with pictures to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every figure as SVG into this folder, made when absent.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Power of a busy CPU by frequency (CSV: khz,busy_mw), for recordings without a power log.
    #[arg(long, value_name = "FILE")]
    cpu_power: Option<PathBuf>,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    classes: ClassArgs,
    #[command(flatten)]
    idle: IdleRuleArgs,
    #[command(flatten)]
    functions: FunctionArgs,
}

/// Files of one repetition.
#[derive(Default)]
struct Files {
    traces: Vec<PathBuf>,
    power: Option<PathBuf>,
}

impl SuiteArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.classes.apply(&mut options)?;
        self.idle.apply(&mut options)?;
        self.functions.apply(&mut options)?;
        let model = match &self.cpu_power {
            Some(file) => Some(PowerSource::Model(parse(file, CpuPower::parse)?)),
            None => None,
        };
        let mut suite = SuiteBuilder::default();
        for ((scenario, n), files) in recordings(&self.folder)? {
            let log = match &files.power {
                Some(file) => Some(PowerSource::Log(parse(file, PowerLog::parse)?)),
                None => None,
            };
            let power = log.as_ref().or(model.as_ref());
            for file in &files.traces {
                let input = open(file, self.quiet)?;
                let report = Report::of(input, &options).map_err(|e| bad(file, &e))?;
                warn(file, report.summary.incomplete.as_deref());
                match suite.add((&scenario, n), report, &options, power) {
                    Ok(()) => {}
                    Err(e @ SuiteError::Second(_)) => return Err(second(file, &e)),
                    Err(e) => note!("mpbond trace: {}: {e}", file.display()),
                }
            }
        }
        let suite = suite.finish();
        let title = self.folder.display().to_string();
        if let Some(page) = &self.html {
            write(page, &suite.html(&title))?;
        }
        if let Some(folder) = &self.svg {
            make_folder(folder)?;
            for (name, picture) in suite.pictures() {
                write(&folder.join(format!("{name}.svg")), &picture)?;
            }
        }
        if (self.html.is_some() || self.svg.is_some()) && !self.form.elsewhere() {
            let held = suite
                .claims
                .iter()
                .filter(|c| c.holds == Some(true))
                .count();
            let judged = suite.claims.iter().filter(|c| c.holds.is_some()).count();
            return print(&format!(
                "{} scenarios; {held} of {judged} statements of the paper hold, {} without data\n",
                suite.scenarios.len(),
                suite.claims.len() - judged
            ));
        }
        let tables = suite.tables();
        let tables: Vec<&Table> = tables.iter().collect();
        self.form.show_tables(&tables, "", &suite)
    }
}

fn parse<T>(
    file: &Path,
    parser: impl Fn(BufReader<File>) -> Result<T, String>,
) -> Result<T, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::input(format_args!("{}: {e}", file.display()));
    let input = File::open(file).map_err(|e| wrong(&e))?;
    parser(BufReader::new(input)).map_err(|e| wrong(&e))
}

/// Refusal of a second recording of one kind.
fn second(file: &Path, why: &SuiteError) -> Failure {
    let file = file.display();
    Failure::input(format_args!(
        "{file}: {why}; remove one, or give it a number of its own"
    ))
}

/// Files of a folder by scenario and repetition; other names are listed on standard error.
fn recordings(folder: &Path) -> Result<BTreeMap<(String, u32), Files>, Failure> {
    let cannot = |e: std::io::Error| Failure::input(format_args!("{}: {e}", folder.display()));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        names.push(entry.map_err(cannot)?.path());
    }
    names.sort();
    let mut list: BTreeMap<(String, u32), Files> = BTreeMap::new();
    let mut others = Vec::new();
    for path in names {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let Some(key) = name.as_deref().and_then(scenario) else {
            others.push(path);
            continue;
        };
        let files = list.entry(key).or_default();
        if path.extension().is_some_and(|e| e == "csv") {
            if files.power.is_some() {
                return Err(second(&path, &SuiteError::Second("power log")));
            }
            files.power = Some(path);
        } else {
            files.traces.push(path);
        }
    }
    if list.is_empty() {
        return Err(Failure::input(format_args!(
            "{}: no recording in it; they are named SCENARIO-N.*, such as lch.set-1.atrace",
            folder.display()
        )));
    }
    for path in others {
        note!(
            "mpbond trace: {}: left out, its name is not SCENARIO-N.*",
            path.display()
        );
    }
    Ok(list)
}

/// Scenario and repetition by the name of a file: `lch.set-2.atrace` is the second of `lch.set`.
fn scenario(name: &str) -> Option<(String, u32)> {
    let (scenario, rest) = name.rsplit_once('-')?;
    let digits = rest.split('.').next()?;
    (!scenario.is_empty()).then_some((scenario.to_owned(), digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_recordings() {
        let of = |name| scenario(name).map(|(s, n)| format!("{s} {n}"));
        assert_eq!(of("lch.set-2.atrace").as_deref(), Some("lch.set 2"));
        assert_eq!(of("my-app-10.power.csv").as_deref(), Some("my-app 10"));
        assert_eq!(of("update-1").as_deref(), Some("update 1"));
        for other in ["README.md", "-1.atrace", "update-x.atrace", "update.atrace"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
