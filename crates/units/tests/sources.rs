//! The mechanical rules of CONTRIBUTING.md for Rust sources: module summaries, line width, module
//! layout, file length and citations of RFCs.
#![allow(clippy::unwrap_used)] // test code

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum columns of a line, not counting the content of string literals.
const MAX_COLUMNS: usize = 100;

/// Maximum lines of a file.
const MAX_LINES: usize = 700;

/// All Rust files of the workspace, sorted, with paths relative to its root.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["crates", "fuzz"] {
        walk(&root.join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Fails with one line per violation, if there is any.
fn assert_none(violations: &[String]) {
    let mut list = String::new();
    for violation in violations {
        writeln!(list, "{violation}").unwrap();
    }
    assert!(
        violations.is_empty(),
        "{} violations:\n{list}",
        violations.len()
    );
}

#[test]
fn every_file_begins_with_a_module_summary() {
    let lacks = |text: &str| !text.starts_with("//! ");
    let files = sources().into_iter().filter(|(_, text)| lacks(text));
    let violations: Vec<_> = files.map(|(path, _)| path.display().to_string()).collect();
    assert_none(&violations);
}

#[test]
fn no_file_exceeds_700_lines() {
    let lines = |text: &str| text.lines().count();
    let violations: Vec<_> = sources()
        .iter()
        .filter(|(_, text)| lines(text) > MAX_LINES)
        .map(|(path, text)| format!("{}: {} lines", path.display(), lines(text)))
        .collect();
    assert_none(&violations);
}

#[test]
fn modules_with_children_are_mod_rs() {
    let all = sources();
    let has_children = |folder: &Path| all.iter().any(|(path, _)| path.starts_with(folder));
    let violations: Vec<_> = all
        .iter()
        .filter(|(path, _)| has_children(&path.with_extension("")))
        .map(|(path, _)| format!("{}: move it to mod.rs", path.display()))
        .collect();
    assert_none(&violations);
}

#[test]
fn no_line_exceeds_100_columns() {
    let mut violations = Vec::new();
    for (path, text) in sources() {
        let mut state = State::Code;
        for (number, line) in (1..).zip(text.lines()) {
            let columns = columns(line, &mut state);
            if columns > MAX_COLUMNS && !line.contains("://") {
                violations.push(format!("{}:{number}: {columns} columns", path.display()));
            }
        }
    }
    assert_none(&violations);
}

/// A marker within a comment is left behind when lines are joined by a script.
#[test]
fn no_comment_contains_its_own_marker_again() {
    let mut violations = Vec::new();
    for (path, text) in sources() {
        for (n, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let marker = words.next().filter(|w| matches!(*w, "//" | "///" | "//!"));
            if marker.is_some_and(|marker| words.any(|w| w == marker)) {
                violations.push(format!("{}:{}", path.display(), n + 1));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn rfcs_are_cited_with_a_comma_and_the_word_section() {
    let bad = |line: &str| {
        let after = line.split("RFC ").skip(1);
        let number = |text: &str| {
            text.trim_start_matches(|c: char| c.is_ascii_digit())
                .to_owned()
        };
        let misses_comma = after.map(number).any(|rest| rest.starts_with(" section"));
        // The sign itself, so that this line is not a violation.
        line.contains('\u{a7}') || misses_comma
    };
    let mut violations = Vec::new();
    for (path, text) in sources() {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| bad(line)) {
            violations.push(format!("{}:{number}: {}", path.display(), line.trim()));
        }
    }
    assert_none(&violations);
}

/// Lexical state at the start of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Code,
    /// In a string literal.
    Text,
    /// In a raw string literal with this number of `#`.
    Raw(usize),
}

/// Columns of a line without the content of string literals, which rustfmt does not break either.
fn columns(line: &str, state: &mut State) -> usize {
    let chars: Vec<char> = line.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or(' ');
    let hashes = |i: usize| chars.iter().skip(i).take_while(|c| **c == '#').count();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut i, mut columns) = (0, 0);
    while i < chars.len() {
        let before = at(i.wrapping_sub(1));
        let (step, counted) = match (*state, at(i)) {
            (State::Code, '/') if at(i + 1) == '/' => (chars.len() - i, chars.len() - i),
            (State::Code, '"') => {
                *state = State::Text;
                (1, 1)
            }
            (State::Code, 'r') if at(i + 1 + hashes(i + 1)) == '"' && !is_word(before) => {
                *state = State::Raw(hashes(i + 1));
                (2 + hashes(i + 1), 2 + hashes(i + 1))
            }
            // A character literal; a lifetime has no apostrophe at its end.
            (State::Code, '\'') if at(i + 1) == '\\' => {
                let end = (i + 3..chars.len()).find(|n| at(*n) == '\'');
                let length = end.map_or(1, |end| end + 1 - i);
                (length, length)
            }
            (State::Code, '\'') if at(i + 2) == '\'' => (3, 3),
            (State::Code, _) => (1, 1),
            (State::Text, '\\') => (2, 0),
            (State::Text, '"') => {
                *state = State::Code;
                (1, 1)
            }
            (State::Raw(count), '"') if hashes(i + 1) >= count => {
                *state = State::Code;
                (1 + count, 1 + count)
            }
            (State::Text | State::Raw(_), _) => (1, 0),
        };
        (i, columns) = (i + step, columns + counted);
    }
    columns
}

#[test]
fn content_of_literals_is_not_counted() {
    let mut state = State::Code;
    for (line, expected, after) in [
        ("let a = 1; // \"x\"", 17, State::Code),
        (r#"f("abc\"def", 'a')"#, 10, State::Code),
        (
            r#"match c { '"' => '\'', '\u{22}' => "x" }"#,
            39,
            State::Code,
        ),
        ("fn f<'a>(x: &'a str) -> &'a str {", 33, State::Code),
        ("let s = \"begins", 9, State::Text),
        ("goes on", 0, State::Text),
        ("ends\";", 2, State::Code),
        ("let r = r#\"a \" b", 11, State::Raw(1)),
        ("\"#;", 3, State::Code),
    ] {
        assert_eq!(columns(line, &mut state), expected, "{line}");
        assert_eq!(state, after, "{line}");
    }
}
