//! Records of measurements that are not transfers: tables, checks, and the paper's figures beside
//! ours.

use std::fmt::Write as _;

use mpbond_plot::escaped;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::figures::grid::{Grid, cell};
use crate::record::Verdict;

/// The record of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Kind of measurement; records of transfers have no such field.
    pub measure: String,
    /// The experiment's name.
    pub experiment: String,
    /// One line for readers.
    pub title: String,
    /// Time of the measurement, UTC (RFC 3339).
    pub date: String,
    /// Commit of the repository.
    pub commit: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// The experiment's own checks.
    pub checks: Vec<Check>,
    /// Published figures beside ours.
    pub paper: Vec<Beside>,
    /// Measured values.
    pub tables: Vec<SheetTable>,
    /// Charts, as SVG.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<String>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// Text of the experiment's file.
    pub file: String,
}

/// A check of a measured figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The figure.
    pub what: String,
    /// Its bounds.
    pub wanted: String,
    /// Its value.
    pub got: String,
    /// Whether the value is within the bounds; `None` when there is no value.
    pub holds: Option<bool>,
}

/// A published figure beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Figure or section of the paper.
    pub figure: String,
    /// The quantity.
    pub what: String,
    /// The published value.
    pub published: String,
    /// The value measured here.
    pub ours: String,
    /// Whether ours has the published sign, in words, where that is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SheetTable {
    /// Its title.
    pub title: String,
    /// Explanation of its columns.
    pub note: String,
    /// Names of columns, with units.
    pub header: Vec<String>,
    /// Numbers of the columns that hold text.
    pub words: Vec<usize>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// The record in `text`; `None` when it is a record of transfers.
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
                "{source}:{line}: not a record of a measurement: {why}"
            ))
        })
    }

    /// An empty record with name, title and text of the experiment's file at `path`, this machine
    /// and the present time.
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

    /// The verdict on all checks.
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
        let has_order = self.paper.iter().any(|b| b.order.is_some());
        let mut header = vec!["figure", "of", "published", "here"];
        header.extend(has_order.then_some("order"));
        let mut beside = Grid::new(header, &[0, 1, 2, 3, 4]);
        for b in &self.paper {
            let row = [&b.figure, &b.what, &b.published, &b.ours];
            let mut row = row.map(Clone::clone).to_vec();
            row.extend(has_order.then(|| b.order.clone().unwrap_or_default()));
            beside.row(row);
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
        all.push(("Published figures", "", beside));
        all.push(("Own asserts", "", checks));
        for t in &self.tables {
            let mut grid = Grid::new(t.header.iter().map(String::as_str), &t.words);
            for row in &t.rows {
                // All rows get the length of the header.
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

    /// The record as text for a terminal.
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
        let _ = writeln!(out, "\n{}", self.verdict().words(!self.checks.is_empty()));
        out
    }

    /// The record as a section of Markdown.
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

    /// The record as a section of an HTML page.
    pub(super) fn to_html(&self) -> String {
        let words = self.verdict().words(!self.checks.is_empty());
        let class = match self.verdict() {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Unfit => "unfit",
        };
        let mut out = format!(
            "<h2>{}: {} <span class=\"verdict {class}\">{words}</span></h2>\n\
             <p class=\"meta\">{}</p>\n",
            escaped(&self.experiment),
            escaped(&self.title),
            escaped(&self.provenance())
        );
        for picture in &self.pictures {
            // As an image: whatever a record contains, an image runs no script.
            let _ = writeln!(
                out,
                "<p><img class=\"chart\" alt=\"{}: chart\" src=\"data:image/svg+xml,{}\"></p>",
                escaped(&self.experiment),
                in_url(picture)
            );
        }
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

    /// Its line in an overview of all experiments.
    pub(super) fn overview(&self) -> Vec<String> {
        let held = self.checks.iter().filter(|c| c.holds == Some(true)).count();
        vec![
            self.experiment.clone(),
            self.title.clone(),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            match self.checks.len() {
                0 => "-".to_owned(),
                all => format!("{held} of {all} hold"),
            },
            "-".to_owned(),
            self.verdict().words(!self.checks.is_empty()).to_owned(),
        ]
    }
}

/// A text as part of a URL in an attribute (RFC 3986, section 2.1).
fn in_url(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'-' | b'.' | b'/' | b':' | b'=' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
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
                order: None,
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
    fn a_record_is_read_and_others_are_ignored() {
        let text = serde_json::to_string(&sheet()).unwrap();
        assert_eq!(Sheet::parse("it", &text).unwrap(), Some(sheet()));
        assert_eq!(Sheet::parse("it", "{\"transfers\": []}").unwrap(), None);
        assert_eq!(Sheet::parse("it", "no JSON").unwrap(), None);
        let e = Sheet::parse("it", "{\"measure\": \"merge\",\n\"title\": 3}").unwrap_err();
        assert!(e.to_string().starts_with("it:2: not a record"), "{e}");
    }

    #[test]
    fn names_are_escaped_in_markup() {
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
    fn an_order_is_told_in_words_in_all_formats() {
        let mut s = sheet();
        let page = |s: &Sheet| super::super::to_html_with("t", "d", &[], std::slice::from_ref(s));
        assert!(!s.to_text().contains("order") && !page(&s).contains("<th>order"));
        s.paper[0].order = Some("the other way round".to_owned());
        s.paper.push(Beside {
            order: None,
            ..s.paper[0].clone()
        });
        assert!(
            s.to_text().contains("2 ms  the other way round\n"),
            "{}",
            s.to_text()
        );
        assert!(s.to_markdown().contains("| 2 ms | the other way round |"));
        assert!(
            s.to_markdown().contains("| 2 ms |  |"),
            "{}",
            s.to_markdown()
        );
        assert!(page(&s).contains("<td>2 ms</td><td>the other way round</td>"));
    }

    /// A chart is shown as an image, and markup of a record stays inside of it.
    #[test]
    fn charts_are_images_that_run_nothing() {
        let mut s = sheet();
        s.pictures = vec!["<svg>\"><script>x()</script>µ</svg>".to_owned()];
        let page = super::super::to_html_with("t", "d", &[], std::slice::from_ref(&s));
        let image = "src=\"data:image/svg+xml,%3Csvg%3E%22%3E%3Cscript%3Ex%28%29%3C/script%3E";
        assert!(
            page.contains(image) && !page.contains("<script>x"),
            "{page}"
        );
        assert!(page.contains("%C2%B5%3C/svg%3E\""), "{page}");
        let text = serde_json::to_string(&s).unwrap();
        assert_eq!(Sheet::parse("it", &text).unwrap(), Some(s));
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
