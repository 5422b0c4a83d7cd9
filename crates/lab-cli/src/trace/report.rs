//! `mpbond trace report`: all analyses of one trace.

use std::path::PathBuf;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_systrace::ReportOptions;

use super::form::{FormArgs, make_folder, write};
use super::input::InputArgs;
use super::rules::{ClassArgs, FunctionArgs, IdleRuleArgs, WindowArgs};

/// All analyses of a trace: findings as text, then tables.
///
/// --html writes one self-contained page: findings, a timeline to zoom, and the paper's figures for
/// which the trace has data.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace report launch.html
  mpbond trace report launch.html --html report.html
  mpbond trace report launch.html --svg pictures
  mpbond trace report cpu.trace --csv tables --overhead 2.5us
  mpbond trace report launch.html --json | jq .findings")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Write one HTML page to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every figure as SVG into this folder, made when absent.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// The page's title [default: the file's name].
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    classes: ClassArgs,
    #[command(flatten)]
    idle: IdleRuleArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    #[command(flatten)]
    window: WindowArgs,
}

impl ReportArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut options = ReportOptions::default();
        self.classes.apply(&mut options)?;
        self.idle.apply(&mut options)?;
        self.functions.apply(&mut options)?;
        self.window.apply(&mut options);
        let report = self.input.report(&options)?;
        if let Some(page) = &self.html {
            let name = self.input.file.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            write(page, &report.html(self.title.as_ref().unwrap_or(&name)))?;
        }
        if let Some(folder) = &self.svg {
            make_folder(folder)?;
            for (name, picture) in report.pictures(&options.classes) {
                write(&folder.join(format!("{name}.svg")), &picture)?;
            }
        }
        if (self.html.is_some() || self.svg.is_some()) && !self.form.elsewhere() {
            return print(&findings(&report.findings()));
        }
        let tables = report.tables();
        self.form.show_tables(
            &tables.iter().collect::<Vec<_>>(),
            &findings(&report.findings()),
            &report.json(),
        )
    }
}

fn findings(list: &[String]) -> String {
    list.iter().map(|line| format!("* {line}\n")).collect()
}
