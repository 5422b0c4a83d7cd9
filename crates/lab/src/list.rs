//! The experiments in a folder.

use std::path::{Path, PathBuf};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scope};
use crate::figures::grid::Grid;
use crate::schedule::pace::in_words;

/// Maximum depth of folders, since links can form loops.
const MAX_DEPTH: usize = 8;

/// The experiments in `folder` and its subfolders, as a table: file, title, expected duration,
/// extent of simulation, and published figures. Errors in single experiments appear in the table.
///
/// # Errors
/// [`Error::System`] where a folder cannot be read, [`Error::Experiment`] where it has no
/// experiment.
pub fn list(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    find(folder, MAX_DEPTH, &mut files)?;
    files.sort();
    if files.is_empty() {
        return Err(Error::Experiment(format!(
            "no experiment (*.toml) in {}",
            folder.display()
        )));
    }
    let header = ["file", "title", "takes about", "simulated", "paper"];
    let mut grid = Grid::new(header, &[0, 1, 3, 4]);
    for file in files {
        let name = file.display().to_string();
        if let Some(title) = measurement(&file) {
            grid.row([&name, &title, "-", "no", "-"].map(Into::into).to_vec());
            continue;
        }
        let row = match Experiment::load(&file) {
            Ok(e) => {
                let takes = e.expected_duration().map(in_words);
                let mut figures: Vec<&str> = Vec::new();
                for paper in &e.papers {
                    let figure = paper.figure.get_ref();
                    if !figures.contains(&figure.as_str()) {
                        figures.push(figure);
                    }
                }
                let figures = figures.join(", ");
                // Running it will report the missing recording.
                let takes = takes.unwrap_or_else(|_| "?".into());
                let title = e.title.clone();
                let simulated = Scope::of(e).word().to_owned();
                vec![name, title, takes, simulated, figures]
            }
            // Other TOML files may exist; errors in experiments should be visible.
            Err(e) => vec![name, format!("(not runnable: {e})"), "-".into(), "-".into()],
        };
        grid.row(row);
    }
    let lines: Vec<String> = grid
        .to_text()
        .lines()
        .map(|l| l.trim_end().to_owned())
        .collect();
    Ok(lines.join("\n") + "\n")
}

/// The title of a measurement that is no transfer.
pub(crate) fn measurement(file: &Path) -> Option<String> {
    let table: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
    table.get("measure")?;
    Some(table.get("title")?.as_str()?.to_owned())
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).at("list", folder)? {
        let path = entry.at("list", folder)?.path();
        if path.is_dir() {
            if depth > 0 {
                find(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
