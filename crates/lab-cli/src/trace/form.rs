//! Output formats: tables, JSON, CSV.

use std::path::{Path, PathBuf};

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_systrace::{Report, Table};
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// Print JSON; numbers have their unit in their name.
    #[arg(long, conflicts_with = "rows")]
    json: bool,
    /// Write each table, whole, as NAME.csv into this folder, made when absent.
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Maximum number of rows printed of a table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
}

impl FormArgs {
    /// Whether JSON or CSV was requested.
    pub(crate) fn elsewhere(&self) -> bool {
        self.json || self.csv.is_some()
    }

    /// Shows the tables of these names in order, or the value as JSON.
    pub(crate) fn show(
        &self,
        report: &Report,
        names: &[&str],
        value: &impl Serialize,
    ) -> Result<(), Failure> {
        let all = report.tables();
        let wanted = names
            .iter()
            .filter_map(|n| all.iter().find(|t| t.name == *n));
        self.show_tables(&wanted.collect::<Vec<_>>(), "", value)
    }

    /// Shows these tables below a heading, or the value as JSON.
    pub(crate) fn show_tables(
        &self,
        tables: &[&Table],
        heading: &str,
        value: &impl Serialize,
    ) -> Result<(), Failure> {
        if let Some(folder) = &self.csv {
            write_csv(folder, tables)?;
        }
        if self.json {
            return json(value);
        }
        if self.csv.is_some() {
            return Ok(());
        }
        let mut text = heading.to_owned();
        for table in tables {
            if !text.is_empty() {
                text.push('\n');
            }
            text += &table.text(self.rows);
        }
        print(&text)
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::run(format_args!("cannot make JSON: {e}")))?;
    print(&(text + "\n"))
}

fn write_csv(folder: &Path, tables: &[&Table]) -> Result<(), Failure> {
    make_folder(folder)?;
    for table in tables {
        write(&folder.join(format!("{}.csv", table.name)), &table.csv())?;
    }
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))
}

pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::run(format_args!("cannot make {}: {e}", folder.display())))
}
