//! `mpbond trace query`: queries in SQL.

use std::path::PathBuf;

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_systrace::{Database, ReportOptions, SCHEMA, Table};

use super::form::FormArgs;
use super::input::InputArgs;
use super::rules::{ClassArgs, IdleRuleArgs};

/// Options that make the query optional.
#[cfg(not(feature = "parquet"))]
const OTHER_WAYS: [&str; 2] = ["save", "schema"];
#[cfg(feature = "parquet")]
const OTHER_WAYS: [&str; 3] = ["save", "schema", "parquet"];

/// Query a trace in SQL.
///
/// The trace becomes an SQLite database in memory; --schema prints its tables, --save keeps it.
/// Times are ns on the trace's clock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace query --schema
  mpbond trace query trace.dat 'SELECT name, count(*) FROM slice GROUP BY name ORDER BY 2 DESC'
  mpbond trace query trace.dat --save trace.sqlite")]
pub(crate) struct QueryArgs {
    /// The trace; "-" is standard input.
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// One SELECT statement.
    #[arg(value_name = "SQL", required_unless_present_any = OTHER_WAYS)]
    sql: Option<String>,
    /// Write the database to this file, which must not exist.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write each table as NAME.parquet into this folder, made when absent.
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FOLDER")]
    parquet: Option<PathBuf>,
    /// Print the tables and exit.
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    classes: ClassArgs,
    #[command(flatten)]
    idle: IdleRuleArgs,
}

impl QueryArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Some(file) = self.file.filter(|_| !self.schema) else {
            return print(SCHEMA);
        };
        let mut options = ReportOptions::default();
        self.classes.apply(&mut options)?;
        self.idle.apply(&mut options)?;
        let input = InputArgs {
            file,
            quiet: self.quiet,
        };
        let report = input.report(&options)?;
        let database = Database::of(&report, &options.classes)
            .map_err(|e| Failure::run(format_args!("cannot make the database: {e}")))?;
        if let Some(path) = &self.save {
            database
                .save(path)
                .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))?;
        }
        #[cfg(feature = "parquet")]
        if let Some(folder) = &self.parquet {
            super::form::make_folder(folder)?;
            let open = |name: &str| std::fs::File::create(folder.join(format!("{name}.parquet")));
            database.parquet(open).map_err(|e| {
                Failure::run(format_args!("cannot write to {}: {e}", folder.display()))
            })?;
        }
        let Some(sql) = &self.sql else {
            return Ok(());
        };
        let wrong = |e: String| Failure::input(format_args!("SQL: {}", e.replace('\n', " ")));
        let answer = database.query(sql).map_err(wrong)?;
        let cells = |row: &Vec<serde_json::Value>| row.iter().map(cell).collect();
        let table = Table {
            name: "answer",
            columns: answer.columns.clone(),
            rows: answer.rows.iter().map(cells).collect(),
        };
        self.form.show_tables(&[&table], "", &answer)
    }
}

/// A text without its quotes; empty for null.
fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
