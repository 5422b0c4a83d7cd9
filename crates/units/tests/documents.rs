//! docs/security.md and docs/failure.md say what tests show: every row of a table with a column of
//! tests names some, and these exist.
#![allow(clippy::unwrap_used)] // test code

use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of all functions and modules of the workspace.
fn names() -> HashSet<String> {
    let mut names = HashSet::new();
    let mut folders = vec![root().join("crates"), root().join("fuzz")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let words: Vec<&str> = text
                    .split(|c: char| c != '_' && !c.is_alphanumeric())
                    .collect();
                let named = words.windows(2).filter(|w| matches!(w[0], "fn" | "mod"));
                names.extend(named.map(|w| w[1].to_owned()));
            }
        }
    }
    names
}

/// Cells of a row of a table.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut in_code = false;
    for c in line.trim().trim_matches('|').chars() {
        match c {
            '|' if !in_code => cells.push(String::new()),
            _ => {
                in_code ^= c == '`';
                cells.last_mut().unwrap().push(c);
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Rows of tables with a column *test*: number of the line, and that cell.
fn rows(text: &str) -> Vec<(usize, String)> {
    let mut rows = Vec::new();
    let mut column = None;
    let mut before = "";
    for (line, number) in text.lines().zip(1..) {
        if !line.starts_with('|') {
            column = None;
        } else if line.starts_with("| ---") {
            column = cells(before).iter().position(|cell| cell == "test");
        } else if let Some(column) = column {
            let cells = cells(line);
            let is_heading = cells.first().is_some_and(|cell| cell.starts_with("**"));
            if !is_heading {
                rows.push((number, cells.get(column).cloned().unwrap_or_default()));
            }
        }
        before = line;
    }
    rows
}

/// Code in a cell that may be the name of a test.
fn tests(cell: &str) -> impl Iterator<Item = &str> {
    let is_name = |code: &&str| {
        code.contains('_') && code.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    cell.split('`').skip(1).step_by(2).filter(is_name)
}

#[test]
fn every_row_names_its_tests_and_they_exist() {
    let names = names();
    let mut violations = Vec::new();
    for document in ["docs/security.md", "docs/failure.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        let rows = rows(&text);
        assert!(rows.len() > 50, "{document}: {} rows", rows.len());
        for (line, cell) in rows {
            let refers = ["the same", "as the next"].contains(&cell.as_str());
            if !refers && (!cell.contains('`') || cell.contains("no test")) {
                violations.push(format!("{document}:{line}: no test in \"{cell}\""));
            }
            let unknown = tests(&cell).filter(|name| !names.contains(*name));
            violations.extend(unknown.map(|name| format!("{document}:{line}: there is no {name}")));
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
