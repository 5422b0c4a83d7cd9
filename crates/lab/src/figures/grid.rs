//! Tables as text for terminals, as HTML and as Markdown.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use mpbond_plot::escaped;

/// Rows of text under a header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grid {
    header: Vec<String>,
    /// Numbers of the columns aligned left: those with words.
    left: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// An empty table. The columns in `left` are aligned left.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>, left: &[usize]) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            left: left.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Text with aligned columns.
    pub fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.header);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if !self.left.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.add_rows(&self.rows);
        table.to_string()
    }

    /// HTML `table` element; line breaks within cells are kept.
    pub fn to_html(&self) -> String {
        let class = |index: usize| {
            if self.left.contains(&index) {
                ""
            } else {
                " class=\"n\""
            }
        };
        let mut out = String::from("<div class=\"wide\"><table>\n<tr>");
        for (i, text) in self.header.iter().enumerate() {
            let _ = write!(out, "<th{}>{}</th>", class(i), escaped(text));
        }
        out.push_str("</tr>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (i, text) in row.iter().enumerate() {
                let lines: Vec<String> = text.lines().map(escaped).collect();
                let _ = write!(out, "<td{}>{}</td>", class(i), lines.join("<br>"));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table></div>\n");
        out
    }

    /// Markdown table (GitHub's).
    pub fn to_markdown(&self) -> String {
        let mut out = String::from("|");
        for text in &self.header {
            let _ = write!(out, " {} |", cell(text));
        }
        out.push_str("\n|");
        for index in 0..self.header.len() {
            let rule = if self.left.contains(&index) {
                " --- |"
            } else {
                " ---: |"
            };
            out.push_str(rule);
        }
        out.push('\n');
        for row in &self.rows {
            out.push('|');
            for text in row {
                let _ = write!(out, " {} |", cell(text));
            }
            out.push('\n');
        }
        out
    }
}

/// Escapes a cell of a Markdown table, so that it neither ends the cell or row nor becomes mark-up.
pub(crate) fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '\\' | '*' | '_' | '`' | '[' | ']' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
