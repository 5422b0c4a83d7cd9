//! Results kept as JSON lines, so that an interrupted run can be resumed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toml::Value;

use crate::content::hex;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scheme, Workload, decisive_keys};
use crate::record::Transfer;

/// Digits of a digest: enough that two versions of a file differ.
const DIGITS: usize = 16;

/// A file of results, one JSON text a line.
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens or creates the file, and gives each result to `take`, which returns the reason why it
    /// does not belong there. The beginning of a result at the end of the file is cut off: a run
    /// that was interrupted while writing leaves it.
    ///
    /// # Errors
    /// When a line is no result, or is not taken; the file is then unchanged.
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        mut take: impl FnMut(T) -> Result<(), String>,
    ) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let mut file = file.at("open", path)?;
        let mut whole_bytes = 0;
        let mut lacks_end = false;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if reader.read_until(b'\n', &mut line).at("read", path)? == 0 {
                break;
            }
            let is_whole = line.ends_with(b"\n");
            let result = match serde_json::from_slice(&line) {
                Err(e) if !is_whole && e.is_eof() && line.starts_with(b"{") => break,
                result => result.map_err(|e| format!("no result: {e}")),
            };
            result
                .and_then(&mut take)
                .map_err(|why| Error::Experiment(format!("{}:{number}: {why}", path.display())))?;
            whole_bytes += line.len() as u64;
            lacks_end = !is_whole;
        }
        drop(reader);
        file.set_len(whole_bytes).at("shorten", path)?;
        if lacks_end {
            file.write_all(b"\n").at("write", path)?;
        }
        let path = path.to_owned();
        Ok(Self { file, path })
    }

    /// Writes a result.
    pub fn add(&mut self, result: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(result)
            .map_err(|e| Error::run(format!("cannot keep a result: {e}")))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).at("write", &self.path)
    }
}

/// One line: a transfer, the name of its experiment, and its setting.
#[derive(Serialize, Deserialize)]
struct Line<D> {
    experiment: String,
    /// As of [`setting_of`]; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setting: Option<String>,
    transfer: D,
}

/// Results so far, and the file that keeps them.
pub(crate) struct Done<'e> {
    experiment: &'e Experiment,
    /// Digest of the experiment's file.
    digest: String,
    transfers: Vec<Transfer>,
    lines: Option<Lines>,
}

impl<'e> Done<'e> {
    /// Loads the results of experiment `e` from `path`.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or belongs to another experiment,
    /// or to one with the same name and another setting.
    pub fn open(e: &'e Experiment, path: Option<&Path>) -> Result<Self> {
        let digest = digest(e);
        let mut transfers = Vec::new();
        let take = |line: Line<Transfer>| {
            belongs(&line.experiment, &e.name)?;
            let (theirs, d) = (line.setting, line.transfer);
            if theirs.is_some_and(|theirs| !is_of(&theirs, e, &digest, &d)) {
                let why = "a result of another setting: the file or --at-most differs";
                return Err(why.to_owned());
            }
            transfers.push(d);
            Ok(())
        };
        let lines = path.map(|path| Lines::open(path, take)).transpose()?;
        Ok(Self {
            experiment: e,
            digest,
            transfers,
            lines,
        })
    }

    /// Whether this transfer has a result.
    pub fn has(&self, scheme: &Scheme, workload: &Workload, repetition: u32) -> bool {
        self.transfers.iter().any(|d| {
            d.name == *scheme.name.get_ref()
                && d.workload == *workload.name.get_ref()
                && d.repetition == repetition
        })
    }

    /// Adds a result.
    pub fn add(&mut self, transfer: Transfer) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.add(&Line {
                experiment: self.experiment.name.clone(),
                setting: setting_of(self.experiment, &self.digest, &transfer),
                transfer: &transfer,
            })?;
        }
        self.transfers.push(transfer);
        Ok(())
    }

    /// All results so far.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// All results.
    pub fn into_transfers(self) -> Vec<Transfer> {
        self.transfers
    }
}

/// Checks that a result is one of experiment `ours`.
pub(crate) fn belongs(experiment: &str, ours: &str) -> Result<(), String> {
    match experiment == ours {
        true => Ok(()),
        false => Err(format!(
            "a result of experiment \"{experiment}\" instead of \"{ours}\""
        )),
    }
}

/// Digest of the keys of the experiment's file on which results depend.
fn digest(e: &Experiment) -> String {
    let keys = Value::Table(decisive_keys(&e.text)).to_string();
    let mut digits = hex(&Sha256::digest(keys));
    digits.truncate(DIGITS);
    digits
}

/// The setting of a transfer: the file's digest, then what `--at-most` shortens of the scheme and
/// the workload. `None` where the run has left one of them out.
fn setting_of(e: &Experiment, digest: &str, d: &Transfer) -> Option<String> {
    let scheme = e.schemes.iter().find(|s| *s.name.get_ref() == d.name)?;
    let mut workloads = e.workloads.iter();
    let workload = workloads.find(|w| *w.name.get_ref() == d.workload)?;
    let usual = workload.application().map(|app| app.usual_time());
    let (usual, bytes) = (usual.unwrap_or_default(), workload.most_bytes());
    Some(format!("{digest} {:?} {usual:?} {bytes}", scheme.idle))
}

/// Whether a transfer with this setting has that of the run, of which only the digest is compared
/// where the run leaves out the scheme or the workload.
fn is_of(setting: &str, e: &Experiment, digest: &str, d: &Transfer) -> bool {
    match setting_of(e, digest, d) {
        Some(ours) => setting == ours,
        None => setting.split(' ').next() == Some(digest),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/single.toml");

    fn load() -> Experiment {
        Experiment::load(Path::new(FILE)).unwrap()
    }

    /// The experiment with another text of its file.
    fn with(from: &str, to: &str) -> Experiment {
        let text = load().text.replacen(from, to, 1);
        assert_ne!(text, load().text);
        Experiment::parse("t.toml", &text).unwrap()
    }

    fn transfer(workload: &str) -> Transfer {
        Transfer {
            workload: workload.to_owned(),
            ..Transfer::for_test("single", 0, 1.0)
        }
    }

    /// The file with the result of one transfer.
    fn kept(path: &Path) {
        let e = load();
        let mut done = Done::open(&e, Some(path)).unwrap();
        done.add(transfer("512 KiB up")).unwrap();
    }

    #[test]
    fn a_file_with_something_else_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let e = load();
        for text in [
            "{\"a\":1,\"b\":[2]}",
            "any text",
            "true",
            "t",
            "[[1",
            "{a",
            "\u{fc}ber",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Done::open(&e, Some(&path)).err().unwrap();
            assert_eq!(error.exit_code(), 2, "{text}");
            let error = error.to_string();
            assert!(error.contains("file:1: no result"), "{text}: {error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        // The line of another experiment, whose end an editor has removed.
        std::fs::remove_file(&path).unwrap();
        kept(&path);
        let text = std::fs::read_to_string(&path).unwrap();
        let other = text.trim_end().replace("\"single\"", "\"other\"");
        std::fs::write(&path, &other).unwrap();
        let error = Done::open(&e, Some(&path)).err().unwrap().to_string();
        assert!(error.contains("file:1: a result of"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
    }

    #[test]
    fn the_beginning_of_a_result_is_cut_off_and_a_whole_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        kept(&path);
        let whole = std::fs::read_to_string(&path).unwrap();
        let e = load();
        for length in [1, 2, 20, whole.len() - 2] {
            std::fs::write(&path, format!("{whole}{}", &whole[..length])).unwrap();
            let done = Done::open(&e, Some(&path)).unwrap();
            assert_eq!(done.transfers().len(), 1, "{length}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        }
        std::fs::write(&path, whole.trim_end()).unwrap();
        let mut done = Done::open(&e, Some(&path)).unwrap();
        done.add(transfer("512 KiB down")).unwrap();
        assert_eq!(
            Done::open(&e, Some(&path)).unwrap().into_transfers().len(),
            2
        );
        // Within a letter.
        std::fs::write(
            &path,
            [whole.as_bytes(), b"{\"experiment\":\"\xc2"].concat(),
        )
        .unwrap();
        assert_eq!(Done::open(&e, Some(&path)).unwrap().transfers().len(), 1);
    }

    #[test]
    fn results_of_another_setting_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        kept(&path);
        let refused = |e: &Experiment| {
            let error = Done::open(e, Some(&path)).err()?;
            assert_eq!(error.exit_code(), 2);
            Some(error.to_string())
        };
        assert_eq!(refused(&load()), None);
        let words = "file:1: a result of another setting: the file or --at-most differs";
        let slower = refused(&with("20 Mbit/s", "2 Mbit/s")).unwrap();
        assert!(slower.ends_with(words), "{slower}");
        // Keys that only say how results are shown.
        assert_eq!(refused(&with("title = \"plain", "title = \"simple")), None);
        let mut short = load();
        short.schemes[0].idle = Duration::from_secs(1);
        assert!(refused(&short).is_some());
        let mut short = load();
        short.workloads[1].length = Some(Duration::from_secs(6));
        assert!(refused(&short).is_some());
        // What the run leaves out has the digest of the file.
        short.workloads.truncate(1);
        assert_eq!(refused(&short), None);
        let mut other = with("20 Mbit/s", "2 Mbit/s");
        other.workloads.truncate(1);
        assert!(refused(&other).is_some());
        // Of an older file.
        let text = std::fs::read_to_string(&path).unwrap();
        let mut line: serde_json::Value = serde_json::from_str(&text).unwrap();
        line.as_object_mut().unwrap().remove("setting").unwrap();
        std::fs::write(&path, format!("{line}\n")).unwrap();
        assert_eq!(refused(&short), None);
        assert_eq!(refused(&with("20 Mbit/s", "2 Mbit/s")), None);
    }
}
