//! References between documents, code and tests. Every row of docs/security.md and docs/failure.md
//! names tests, and these exist; so does every record of docs/adr that a file cites.
#![allow(clippy::unwrap_used)] // test code

use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files with one of these extensions in these folders of the repository.
fn files(folders: &[&str], extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if extensions
                .iter()
                .any(|&e| path.extension().is_some_and(|x| x == e))
            {
                files.push(path);
            }
        }
    }
    files
}

/// Names of all functions and modules of the workspace.
fn names() -> HashSet<String> {
    let mut names = HashSet::new();
    for path in files(&["crates", "fuzz"], &["rs"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let words: Vec<&str> = text
            .split(|c: char| c != '_' && !c.is_alphanumeric())
            .collect();
        let named = words.windows(2).filter(|w| matches!(w[0], "fn" | "mod"));
        names.extend(named.map(|w| w[1].to_owned()));
    }
    names
}

/// Numbers of the records that a line cites: `adr/` or `ADR ` and four digits.
fn cited_records(line: &str) -> impl Iterator<Item = &str> {
    let after = ["adr/", "ADR "].into_iter();
    let rests = after.flat_map(|mark| line.split(mark).skip(1));
    let numbers = rests.filter_map(|rest| rest.get(..4));
    numbers.filter(|number| number.bytes().all(|b| b.is_ascii_digit()))
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

#[test]
fn every_cited_record_exists() {
    let records: HashSet<String> = files(&["docs/adr"], &["md"])
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.get(..4).map(str::to_owned))
        .collect();
    let mut citing = files(
        &["crates", "fuzz", "docs", "experiments", "dist"],
        &["rs", "md", "toml", "sh"],
    );
    citing.extend(["ARCHITECTURE.md", "CHANGELOG.md"].map(|file| root().join(file)));
    let (mut found, mut violations) = (0, Vec::new());
    for path in citing {
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, number) in text.lines().zip(1..) {
            for record in cited_records(line) {
                found += 1;
                if !records.contains(record) {
                    violations.push(format!("{}:{number}: no ADR {record}", path.display()));
                }
            }
        }
    }
    assert!(found > 50, "{found} citations");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
