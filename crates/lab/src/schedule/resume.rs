//! Results kept as JSON lines, so that an interrupted run can be resumed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toml::Value;

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Scheme, Workload, decisive_keys, read_recording};
use crate::record::Transfer;
use crate::transfer::content::hex;

/// Digits of a digest: enough that two versions of a file differ.
const DIGITS: usize = 16;

/// Reason why a result is refused.
const OTHER_SETTING: &str =
    "a result of another setting: the file, one that it names, or --at-most differs";

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
    /// As of [`Digests::setting_of`]; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setting: Option<String>,
    transfer: D,
}

/// Results so far, and the file that keeps them.
pub(crate) struct Done<'e> {
    experiment: &'e Experiment,
    digests: Digests,
    transfers: Vec<Transfer>,
    lines: Option<Lines>,
}

impl<'e> Done<'e> {
    /// Loads the results of experiment `e` from `path`.
    ///
    /// # Errors
    /// When a line is no result (the last one may be incomplete), or belongs to another experiment,
    /// or to one with the same name and another setting; when a file that the experiment names
    /// cannot be read.
    pub fn open(e: &'e Experiment, path: Option<&Path>) -> Result<Self> {
        let digests = Digests::of(e)?;
        let mut transfers = Vec::new();
        let take = |line: Line<Transfer>| {
            belongs(&line.experiment, &e.name)?;
            let (theirs, d) = (line.setting, line.transfer);
            if theirs.is_some_and(|theirs| !digests.are_of(&theirs, e, &d)) {
                return Err(OTHER_SETTING.to_owned());
            }
            transfers.push(d);
            Ok(())
        };
        let lines = path.map(|path| Lines::open(path, take)).transpose()?;
        Ok(Self {
            experiment: e,
            digests,
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
                setting: self.digests.setting_of(self.experiment, &transfer),
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

/// Digests of the files on which results depend.
struct Digests {
    /// Of the keys of the experiment's file.
    own: String,
    /// Of the files that it names, by workload, where there are any.
    named: BTreeMap<String, String>,
}

impl Digests {
    fn of(e: &Experiment) -> Result<Self> {
        let keys = Value::Table(decisive_keys(&e.text)).to_string();
        let mut of_files: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut named = BTreeMap::new();
        for workload in &e.workloads {
            let mut all = String::new();
            for path in e.files_of(workload) {
                if !of_files.contains_key(&path) {
                    let text = read_recording(&path).at("read", &path)?;
                    of_files.insert(path.clone(), digest(text.as_bytes()));
                }
                all.extend(of_files.get(&path).map(String::as_str));
            }
            if !all.is_empty() {
                named.insert(workload.name.get_ref().clone(), digest(all.as_bytes()));
            }
        }
        let own = digest(keys.as_bytes());
        Ok(Self { own, named })
    }

    /// The setting of a transfer: the digest of the experiment's file, then what `--at-most`
    /// shortens of the scheme and the workload, then the digest of the files that it names, if it
    /// names any. `None` where the run has left out the scheme or the workload.
    fn setting_of(&self, e: &Experiment, d: &Transfer) -> Option<String> {
        let scheme = e.schemes.iter().find(|s| *s.name.get_ref() == d.name)?;
        let mut workloads = e.workloads.iter();
        let workload = workloads.find(|w| *w.name.get_ref() == d.workload)?;
        let usual = workload.application().map(|app| app.usual_time());
        let (usual, bytes) = (usual.unwrap_or_default(), workload.most_bytes());
        let named = self.named.get(&d.workload);
        let named = named.map_or(String::new(), |digest| format!(" {digest}"));
        let own = &self.own;
        Some(format!("{own} {:?} {usual:?} {bytes}{named}", scheme.idle))
    }

    /// Whether a transfer with this setting has that of the run, of which only the digest of the
    /// experiment's file is compared where the run leaves out the scheme or the workload.
    fn are_of(&self, setting: &str, e: &Experiment, d: &Transfer) -> bool {
        match self.setting_of(e, d) {
            Some(ours) => setting == ours,
            None => setting.split(' ').next() == Some(&self.own),
        }
    }
}

/// The first digits of a SHA-256.
fn digest(bytes: &[u8]) -> String {
    let mut digits = hex(&Sha256::digest(bytes));
    digits.truncate(DIGITS);
    digits
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
        let words = format!("file:1: {OTHER_SETTING}");
        let slower = refused(&with("20 Mbit/s", "2 Mbit/s")).unwrap();
        assert!(slower.ends_with(&words), "{slower}");
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

    /// Recordings of links and of their changes, lists of pages and profiles of radios are named by
    /// the file. Those of other settings do not count.
    #[test]
    fn results_with_other_files_beside_the_experiment_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let rates = |from: u32| (from..9).map(|s| format!("{s} 4\n")).collect::<String>();
        let page = "page = { list = \"page.txt\" }";
        let recorded = |name: &str| format!("{{ profile = \"{name}\", unit = \"Mbit/s\" }}");
        let text = load().text.replacen("bytes = \"512 KiB\"", page, 1);
        let text = format!("client = \"fetch\"\n{text}")
            + &format!(
                "[[energy]]\nname = \"m\"\nwwan = \"lte-2012\"\npipe = \"wifi-s4\"\n\
                 profiles = [\"radios.toml\"]\n\
                 [[setting]]\nname = \"a\"\n\
                 link.lte = {{ down = {}, change = [{{ at = \"1s\", down = {} }}] }}\n\
                 [[setting]]\nname = \"b\"\nlink.lte = {{ down = {} }}\n",
                recorded("rate.txt"),
                recorded("later.txt"),
                recorded("other.txt"),
            );
        write("t.toml", &text);
        for name in ["rate.txt", "later.txt", "other.txt"] {
            write(name, &rates(0));
        }
        let list = "20000 www at 0ms\n";
        write("page.txt", list);
        write("radios.toml", "# none\n");
        let path = folder.path().join("results");
        let open = || {
            let e = Experiment::load(&folder.path().join("t.toml")).unwrap();
            Done::open(&e, Some(&path)).err().map(|e| e.to_string())
        };
        {
            let e = Experiment::load(&folder.path().join("t.toml")).unwrap();
            let mut done = Done::open(&e, Some(&path)).unwrap();
            done.add(transfer("512 KiB down, a")).unwrap();
        }
        assert_eq!(open(), None);
        let longer = format!("{list}1000 www after 1\n");
        for (name, before, other) in [
            ("rate.txt", rates(0), rates(1)),
            ("later.txt", rates(0), rates(1)),
            ("page.txt", list.to_owned(), longer),
            (
                "radios.toml",
                "# none\n".to_owned(),
                "# others\n".to_owned(),
            ),
        ] {
            write(name, &other);
            let error = open().unwrap_or_default();
            assert!(error.ends_with(OTHER_SETTING), "{name}: {error}");
            write(name, &before);
            assert_eq!(open(), None, "{name}");
        }
        write("other.txt", &rates(1));
        assert_eq!(open(), None);
    }
}
