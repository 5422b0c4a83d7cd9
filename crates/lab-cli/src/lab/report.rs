//! `mpbond lab report`: pages of tables and charts from records.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_lab::report::{self, Saved, Sheet};

/// Maximum size of a record: a transfer takes about a kilobyte.
const MAX_BYTES: u64 = 1 << 30;

/// Make a report of records: tables, charts, and published figures beside measured ones.
///
/// Records of one experiment are joined: an interrupted run and its continuation, or separate runs,
/// whose repetitions add up. They are refused if commit, kernel or experiment differ.
/// Without --html, --markdown or --svg the tables are printed as Markdown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond lab report out/*.json --html report.html
  mpbond lab report morning.json evening.json --markdown summary.md --svg pictures
  mpbond lab report fig09.json --experiment experiments/mpbond/fig09.toml --html report.html")]
pub(crate) struct ReportArgs {
    /// Records written by `lab run --json`.
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// Write one HTML file with everything in it.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write every picture into this folder, made when absent.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Take asserts and published figures from this experiment file instead of the record; may be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    experiment: Vec<PathBuf>,
    /// The report's title.
    #[arg(long, default_value = "Experiments with mpbond")]
    title: String,
}

impl ReportArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let lab = |e: mpbond_lab::Error| Failure::with_code(&e, e.exit_code());
        let mut records = Vec::new();
        let mut sheets = Vec::new();
        for path in &self.results {
            let text = read(path)?;
            let name = path.display().to_string();
            if let Some(sheet) = Sheet::parse(&name, &text).map_err(lab)? {
                sheets.push(sheet);
                continue;
            }
            records.push(Saved::parse(&name, &text).map_err(lab)?);
        }
        let mut experiments = Vec::new();
        for path in &self.experiment {
            experiments.push((path.display().to_string(), read(path)?));
        }
        let studies = report::join(records, &experiments).map_err(lab)?;
        if let Some(file) = &self.html {
            let page = report::to_html_with(&self.title, &mpbond_lab::date(), &studies, &sheets);
            write(file, &page)?;
        }
        if let Some(file) = &self.markdown {
            write(file, &report::to_markdown_with(&studies, &sheets))?;
        }
        if let Some(folder) = &self.svg {
            std::fs::create_dir_all(folder)
                .map_err(|e| Failure::run(format_args!("cannot make {}: {e}", folder.display())))?;
            for study in &studies {
                for (name, picture) in study.pictures() {
                    write(&folder.join(format!("{name}.svg")), &picture)?;
                }
            }
        }
        if self.html.is_none() && self.markdown.is_none() && self.svg.is_none() {
            print(&report::to_markdown_with(&studies, &sheets))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::input(format_args!("cannot read {}: {why}", path.display()))
    };
    let length = std::fs::metadata(path).map_err(|e| wrong(&e))?.len();
    if length > MAX_BYTES {
        return Err(wrong(&format_args!("{length} bytes are not a record")));
    }
    std::fs::read_to_string(path).map_err(|e| wrong(&e))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))
}
