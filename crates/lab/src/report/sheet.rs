//! Results whose subject is no transfer: tables, what had to come out, and the paper's figures
//! beside ours.

use std::fmt::Write as _;

use mpbond_plot::escaped;
use serde::{Deserialize, Serialize};

use super::markdown::cell;
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::record::Verdict;

/// The record of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Which measurement; records of transfers have no such field.
    pub measure: String,
    /// The experiment's name.
    pub experiment: String,
    /// One line for the reader.
    pub title: String,
    /// When, UTC (RFC 3339).
    pub date: String,
    /// The repository's commit.
    pub commit: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// What had to come out.
    pub checks: Vec<Check>,
    /// What the paper found.
    pub paper: Vec<Beside>,
    /// What was measured.
    pub tables: Vec<SheetTable>,
    /// What the reader has to know of it.
    pub notes: Vec<String>,
    /// The experiment's file.
    pub file: String,
}

/// Something that had to come out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub what: String,
    /// What it had to be.
    pub wanted: String,
    /// What it was.
    pub got: String,
    /// Whether it is; `None` when that could not be judged.
    pub holds: Option<bool>,
}

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Where it stands in the paper.
    pub figure: String,
    /// What it is of.
    pub what: String,
    /// As published.
    pub published: String,
    /// As measured here.
    pub ours: String,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SheetTable {
    /// Its title.
    pub title: String,
    /// What its columns mean.
    pub note: String,
    /// Names of columns, with their units.
    pub header: Vec<String>,
    /// Columns of words, not numbers.
    pub words: Vec<usize>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// The record, where `text` is one of a measurement; `None` where it is of something else.
    ///
    /// # Errors
    /// [`Error::Experiment`] naming `source`, line and reason.
    pub fn parse(source: &str, text: &str) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Kind {
            measure: Option<String>,
        }
        match serde_json::from_str::<Kind>(text) {
            Ok(Kind { measure: Some(_) }) => {}
            _ => return Ok(None),
        }
        serde_json::from_str(text).map(Some).map_err(|e| {
            let why = e.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            let line = e.line();
            Error::Experiment(format!(
                "{source}:{line}: no record of a measurement: {why}"
            ))
        })
    }

    /// With name, title and text of the experiment's file at `path`, here and now.
    pub fn begin(
        measure: &str,
        path: &std::path::Path,
        name: &str,
        title: &str,
        file: &str,
    ) -> Self {
        Self {
            measure: measure.to_owned(),
            experiment: name.to_owned(),
            title: title.to_owned(),
            date: crate::machine::date(),
            commit: crate::machine::commit(path),
            kernel: crate::machine::kernel(),
            file: file.to_owned(),
            ..Self::default()
        }
    }

    /// The measurement as a whole.
    pub fn verdict(&self) -> Verdict {
        if self.checks.iter().any(|c| c.holds == Some(false)) {
            Verdict::Failed
        } else if self.checks.iter().any(|c| c.holds.is_none()) {
            Verdict::Unfit
        } else {
            Verdict::Passed
        }
    }

    fn grids(&self) -> Vec<(&str, &str, Grid)> {
        let mut all = Vec::new();
        let mut beside = Grid::new(["figure", "of", "published", "here"], &[0, 1, 2, 3]);
        for b in &self.paper {
            let row = [&b.figure, &b.what, &b.published, &b.ours];
            beside.row(row.map(Clone::clone).to_vec());
        }
        let mut checks = Grid::new(["what", "wanted", "got", ""], &[0, 1, 2, 3]);
        for c in &self.checks {
            let word = match c.holds {
                Some(true) => "holds",
                Some(false) => "MISSED",
                None => "not judged",
            };
            let row = [&c.what, &c.wanted, &c.got].map(Clone::clone);
            checks.row(row.into_iter().chain([word.to_owned()]).collect());
        }
        all.push(("Beside the paper", "", beside));
        all.push(("What had to come out", "", checks));
        for t in &self.tables {
            let mut grid = Grid::new(t.header.iter().map(String::as_str), &t.words);
            for row in &t.rows {
                // A row of another length would be no table.
                let mut row = row.clone();
                row.resize(t.header.len(), String::new());
                grid.row(row);
            }
            all.push((&t.title, &t.note, grid));
        }
        all.retain(|(.., grid)| !grid.is_empty());
        all
    }

    fn provenance(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown");
        format!("Commit {commit}, Linux {}, {}.", self.kernel, self.date)
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}: {}\n", self.experiment, self.title);
        for (title, note, grid) in self.grids() {
            let _ = writeln!(out, "\n{title}");
            for line in grid.to_text().lines() {
                let _ = writeln!(out, "  {}", line.trim_end());
            }
            if !note.is_empty() {
                let _ = writeln!(out, "  ({note})");
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        let _ = writeln!(out, "\n{}", self.verdict().words());
        out
    }

    /// As a section of Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = format!(
            "\n### {}: {}\n\n{}\n",
            cell(&self.experiment),
            cell(&self.title),
            cell(&self.provenance())
        );
        for (title, note, grid) in self.grids() {
            let _ = write!(out, "\n{}", cell(title));
            if !note.is_empty() {
                let _ = write!(out, " ({})", cell(note));
            }
            let _ = write!(out, ":\n\n{}", grid.to_markdown());
        }
        for note in &self.notes {
            let _ = write!(out, "\n{}\n", cell(note));
        }
        out
    }

    /// As a section of an HTML page.
    pub(super) fn to_html(&self) -> String {
        let (class, words) = match self.verdict() {
            Verdict::Passed => ("passed", "passed"),
            Verdict::Failed => ("failed", "FAILED"),
            Verdict::Unfit => ("unfit", "not everything could be judged"),
        };
        let mut out = format!(
            "<h2>{}: {} <span class=\"verdict {class}\">{words}</span></h2>\n<p class=\"meta\">{}</p>\n",
            escaped(&self.experiment),
            escaped(&self.title),
            escaped(&self.provenance())
        );
        for (title, note, grid) in self.grids() {
            let _ = writeln!(out, "<h3>{}</h3>", escaped(title));
            if !note.is_empty() {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
            }
            out.push_str(&grid.to_html());
        }
        for note in &self.notes {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
        }
        let _ = writeln!(
            out,
            "<details><summary>The experiment's file</summary><pre>{}</pre></details>",
            self.file
                .lines()
                .map(escaped)
                .collect::<Vec<_>>()
                .join("\n")
        );
        out
    }

    /// Its line in an overview of all.
    pub(super) fn overview(&self) -> Vec<String> {
        let held = self.checks.iter().filter(|c| c.holds == Some(true)).count();
        vec![
            self.experiment.clone(),
            self.title.clone(),
            "-".to_owned(),
            "-".to_owned(),
            format!("{held} of {}", self.checks.len()),
            "-".to_owned(),
            self.verdict().words().to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        Sheet {
            measure: "merge".to_owned(),
            experiment: "a|b".to_owned(),
            title: "<title>".to_owned(),
            checks: vec![Check {
                what: "share".to_owned(),
                wanted: "over 1 %".to_owned(),
                got: "2 %".to_owned(),
                holds: Some(true),
            }],
            paper: vec![Beside {
                figure: "Table 5".to_owned(),
                what: "x".to_owned(),
                published: "1 ms".to_owned(),
                ours: "2 ms".to_owned(),
            }],
            tables: vec![SheetTable {
                title: "T".to_owned(),
                header: vec!["a".to_owned(), "b".to_owned()],
                rows: vec![vec!["1".to_owned()]],
                ..SheetTable::default()
            }],
            ..Sheet::default()
        }
    }

    #[test]
    fn a_record_comes_back_and_others_are_left() {
        let text = serde_json::to_string(&sheet()).unwrap();
        assert_eq!(Sheet::parse("it", &text).unwrap(), Some(sheet()));
        assert_eq!(Sheet::parse("it", "{\"downloads\": []}").unwrap(), None);
        assert_eq!(Sheet::parse("it", "no JSON").unwrap(), None);
        let e = Sheet::parse("it", "{\"measure\": \"merge\",\n\"title\": 3}").unwrap_err();
        assert!(e.to_string().starts_with("it:2: no record"), "{e}");
    }

    #[test]
    fn what_names_hold_is_no_mark_up() {
        let s = sheet();
        let page = super::super::to_html_with("t", "d", &[], std::slice::from_ref(&s));
        assert!(page.contains("&lt;title&gt;") && !page.contains("<title>:"));
        let text = super::super::to_markdown_with(&[], std::slice::from_ref(&s));
        assert!(text.contains("### a\\|b: &lt;title&gt;"), "{text}");
        assert!(
            s.to_text().contains("over 1 %  2 %  holds"),
            "{}",
            s.to_text()
        );
    }

    #[test]
    fn a_missed_check_fails_and_an_open_one_leaves_open() {
        let mut s = sheet();
        assert_eq!(s.verdict(), Verdict::Passed);
        s.checks.push(Check {
            holds: None,
            ..s.checks[0].clone()
        });
        assert_eq!(s.verdict(), Verdict::Unfit);
        s.checks.push(Check {
            holds: Some(false),
            ..s.checks[0].clone()
        });
        assert_eq!(s.verdict(), Verdict::Failed);
    }
}
