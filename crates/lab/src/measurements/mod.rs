//! Experiments without transfers: `mpbond lab run` runs their files, and `mpbond lab report`
//! reports their records, as those of other experiments. docs/experiments.md describes them.

mod airtime;
mod busy;
mod child;
mod core_power;
mod cpu;
mod cpu_share;
mod handover;
mod kernel;
mod merge;
mod meter;
mod options;
mod order;
mod outcome;
mod parts;
mod probe;
mod recordings;
mod tap;
mod watch;
mod wire;

use std::path::{Path, PathBuf};

use crate::error::{Doing, Error, Result};
use crate::report::{Beside, Check, Sheet};
pub use options::Options;
use order::Order;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;
/// Note in the record of a short run, by which a full one knows it.
const SHORT_RUN: &str = "a short run, just to see that it works";

/// A checked file of such an experiment.
pub struct Measurement {
    path: PathBuf,
    text: String,
    measure: String,
    head: Head,
    kind: Kind,
}

enum Kind {
    Airtime(airtime::Airtime),
    Causes(probe::Causes),
    Cpu(cpu::Cpu),
    CpuShare(cpu_share::Shares),
    Handover(handover::Handover),
    Kernel(kernel::Kernel),
    Merge(merge::Merge),
    Meter(meter::Meters),
    Parts(parts::Parts),
    Probe(probe::Probes),
    Recordings(recordings::Recorded),
    Watch(watch::Watch),
    Wire(wire::Wires),
}

/// Keys of all such files.
#[derive(Debug, Deserialize)]
struct Head {
    name: String,
    title: String,
    /// Whether `experiments/run` runs nothing beside it.
    #[serde(default, rename = "alone")]
    _alone: bool,
    #[serde(default, rename = "check")]
    checks: Vec<Wanted>,
    #[serde(default, rename = "paper")]
    papers: Vec<Published>,
}

/// Bounds of a figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Key of the figure.
    of: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

/// A published figure beside ours.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    figure: String,
    of: String,
    what: String,
    published: String,
    /// The published sign of a saving.
    order: Option<Order>,
}

/// Parses a part of a file; errors name the wrong line.
fn part<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| {
            1 + text
                .get(..span.start)
                .unwrap_or_default()
                .matches('\n')
                .count()
        });
        let why = e.message().replace('\n', "; ");
        Error::Experiment(format!("{}:{line}: {why}", path.display()))
    })
}

impl Measurement {
    /// The measurement in the file; `None` for an experiment with transfers, and for a file that
    /// cannot be read, whose error the loader of those experiments reports.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let fits = std::fs::metadata(path).is_ok_and(|m| m.len() <= MAX_BYTES);
        let Some(text) = fits.then(|| std::fs::read_to_string(path).ok()).flatten() else {
            return Ok(None);
        };
        let Ok(table) = text.parse::<toml::Table>() else {
            return Ok(None);
        };
        let Some(measure) = table.get("measure") else {
            return Ok(None);
        };
        let measure = measure.as_str().unwrap_or_default().to_owned();
        let head: Head = part(path, &text)?;
        // Each kind rejects keys that neither it nor the head knows.
        let own = own_part(table);
        let wrong = |why: String| Error::Experiment(format!("{}: {why}", path.display()));
        let kind = match measure.as_str() {
            "airtime" => Kind::Airtime(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "cpu" => Kind::Cpu(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "cpu-share" => Kind::CpuShare(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "handover" => Kind::Handover(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "runtime-parts" => Kind::Causes(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "kernel-parts" => Kind::Kernel(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "merge" => Kind::Merge(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "meter" => Kind::Meter(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "delay-parts" => Kind::Parts(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "probe" => Kind::Probe(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "recordings" => Kind::Recordings(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "watch" => Kind::Watch(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            "kernel-wire" => Kind::Wire(own.try_into().map_err(|e| wrong(one_line(&e)))?),
            other => {
                return Err(wrong(format!(
                    "there is no measure \"{other}\": airtime, cpu, cpu-share, delay-parts, \
                     handover, kernel-parts, kernel-wire, merge, meter, probe, recordings, runtime-parts, \
                     watch"
                )));
            }
        };
        let row = Self {
            path: path.to_owned(),
            text,
            measure,
            head,
            kind,
        };
        row.check().map_err(wrong)?;
        Ok(Some(row))
    }

    fn keys(&self) -> Vec<String> {
        match &self.kind {
            Kind::Airtime(airtime) => airtime.keys(),
            Kind::Cpu(cpu) => cpu.keys(),
            Kind::Causes(causes) => causes.keys(),
            Kind::CpuShare(shares) => shares.keys(),
            Kind::Handover(_) => handover::KEYS.map(str::to_owned).to_vec(),
            Kind::Kernel(kernel) => kernel.keys(),
            Kind::Merge(_) => merge::KEYS.map(str::to_owned).to_vec(),
            Kind::Meter(meters) => meters.keys(),
            Kind::Parts(parts) => parts.keys(),
            Kind::Probe(probes) => probes.keys(),
            Kind::Recordings(_) => recordings::KEYS.map(str::to_owned).to_vec(),
            Kind::Watch(watch) => watch.keys(),
            Kind::Wire(wires) => wires.keys(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let keys = self.keys();
        let asked = self.head.checks.iter().map(|c| &c.of);
        for of in asked.chain(self.head.papers.iter().map(|p| &p.of)) {
            if !keys.contains(of) {
                return Err(format!("there is no figure \"{of}\": {}", keys.join(", ")));
            }
        }
        for paper in self.head.papers.iter().filter(|p| p.order.is_some()) {
            Order::check(&paper.of)?;
        }
        let free = self.head.checks.iter();
        if let Some(c) = free
            .into_iter()
            .find(|c| c.at_least.is_none() && c.at_most.is_none())
        {
            return Err(format!("the check of \"{}\" wants nothing", c.of));
        }
        match &self.kind {
            Kind::Airtime(airtime) => airtime.check(),
            Kind::Cpu(cpu) => cpu.check(),
            Kind::Causes(causes) => causes.check(),
            Kind::CpuShare(shares) => shares.check(),
            Kind::Handover(handover) => handover.check(),
            Kind::Kernel(kernel) => kernel.check(),
            Kind::Merge(merge) => merge.check(),
            Kind::Meter(meters) => meters.check(),
            Kind::Parts(parts) => parts.check(),
            Kind::Probe(probes) => probes.check(),
            Kind::Recordings(recorded) => recorded.check(),
            Kind::Watch(watch) => watch.check(),
            Kind::Wire(wires) => wires.check(),
        }
    }

    /// The record in `file`, if it is one of exactly this text and all checks were judged. That of
    /// a short run is for short runs only.
    ///
    /// # Errors
    /// When the file cannot be read, or has something else in it than a record of this experiment.
    fn kept(&self, file: &Path, quick: bool) -> Result<Option<Sheet>> {
        let text = match std::fs::read(file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.at("read", file)?,
        };
        if text.is_empty() {
            return Ok(None);
        }
        let source = file.display().to_string();
        let sheet = Sheet::parse(&source, &String::from_utf8_lossy(&text))?;
        let Some(sheet) = sheet.filter(|sheet| sheet.experiment == self.head.name) else {
            return Err(Error::Experiment(format!(
                "{source}: no record of experiment \"{}\", which would replace it: name another \
                 file",
                self.head.name
            )));
        };
        let judged = sheet.checks.iter().all(|c| c.holds.is_some());
        let whole = quick || !sheet.notes.iter().any(|note| note == SHORT_RUN);
        Ok((sheet.file == self.text && judged && whole).then_some(sheet))
    }

    /// Measures what is not kept in the file of results yet.
    ///
    /// # Errors
    /// When the measurement fails, or the file of results is wrong or cannot be written.
    pub fn run(&self, options: &Options) -> Result<Sheet> {
        let file = options.resume.as_deref();
        // It keeps each repetition.
        let Some(file) = file.filter(|_| !matches!(self.kind, Kind::Cpu(_))) else {
            return self.measure(options);
        };
        let kept = self.kept(file, self.is_quick(options))?;
        if let Some(kept) = kept.filter(|_| !self.only_computes()) {
            return Ok(kept);
        }
        let sheet = self.measure(options)?;
        let text = serde_json::to_string_pretty(&sheet).map_err(Error::run)?;
        replace(file, &(text + "\n"))?;
        Ok(sheet)
    }

    /// Whether it only computes from other files, in seconds. A kept result of it is not used, as
    /// these files may have changed.
    fn only_computes(&self) -> bool {
        matches!(self.kind, Kind::Meter(_) | Kind::Recordings(_))
    }

    /// Whether a run with these options is short, where the kind of measurement can be.
    fn is_quick(&self, options: &Options) -> bool {
        let is_cpu = matches!(self.kind, Kind::Cpu(_));
        options.is_quick() || (options.repetitions == Some(1) && !is_cpu)
    }

    fn measure(&self, options: &Options) -> Result<Sheet> {
        let quick = self.is_quick(options);
        let Head { name, title, .. } = &self.head;
        let mut sheet = Sheet::begin(&self.measure, &self.path, name, title, &self.text);
        let outcome = match &self.kind {
            Kind::Airtime(airtime) => airtime.measure()?,
            Kind::Cpu(cpu) => cpu.measure(&self.head.name, &self.text, options)?,
            Kind::Causes(causes) => causes.measure(quick)?,
            Kind::CpuShare(shares) => shares.measure()?,
            Kind::Handover(handover) => handover.measure(quick)?,
            Kind::Kernel(kernel) => kernel.measure(quick)?,
            Kind::Merge(merge) => merge.measure(quick)?,
            Kind::Meter(meters) => meters.measure(folder_of(&self.path))?,
            Kind::Parts(parts) => parts.measure(quick)?,
            Kind::Probe(probes) => probes.measure(quick)?,
            Kind::Recordings(recorded) => recorded.measure(folder_of(&self.path))?,
            Kind::Watch(watch) => watch.measure()?,
            Kind::Wire(wires) => wires.measure(quick)?,
        };
        let value = |of: &str| outcome.figures.get(of).copied().flatten();
        sheet.checks = self
            .head
            .checks
            .iter()
            .map(|c| {
                let check = judged(c, value(&c.of));
                let holds = check.holds.filter(|_| !outcome.inexact.contains(&c.of));
                Check { holds, ..check }
            })
            .chain(outcome.checks.iter().cloned())
            .collect();
        sheet.paper = (self.head.papers.iter())
            .map(|p| Beside {
                figure: p.figure.clone(),
                what: p.what.clone(),
                published: p.published.clone(),
                ours: shown(&p.of, value(&p.of)),
                order: p.order.map(|order| {
                    let interval = outcome.deciding_interval(&p.of);
                    order.words(interval, |end| shown(&p.of, Some(end)))
                }),
            })
            .collect();
        sheet.tables = outcome.tables;
        sheet.pictures = outcome.pictures;
        sheet.notes = outcome.notes;
        // These are computed, and always whole.
        if quick
            && !matches!(
                self.kind,
                Kind::Airtime(_)
                    | Kind::CpuShare(_)
                    | Kind::Meter(_)
                    | Kind::Recordings(_)
                    | Kind::Watch(_)
            )
        {
            sheet.notes.push(SHORT_RUN.to_owned());
        }
        Ok(sheet)
    }
}

/// Writes a file in one step: where that fails or is interrupted, the old one stays.
fn replace(file: &Path, text: &str) -> Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    std::fs::write(&new, text).at("write", &new)?;
    std::fs::rename(&new, file).at("replace", file)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// The keys of a file without those of [`Head`].
fn own_part(mut table: toml::Table) -> toml::Table {
    for key in ["measure", "name", "title", "alone", "check", "paper"] {
        table.remove(key);
    }
    table
}

fn one_line(e: &toml::de::Error) -> String {
    e.message().replace('\n', "; ")
}

fn judged(c: &Wanted, value: Option<f64>) -> Check {
    let bound =
        |words: &str, v: Option<f64>| v.map(|v| format!("{words} {}", shown(&c.of, Some(v))));
    let wanted = [bound("at least", c.at_least), bound("at most", c.at_most)];
    let wanted: Vec<String> = wanted.into_iter().flatten().collect();
    Check {
        what: c.of.clone(),
        wanted: wanted.join(", "),
        got: shown(&c.of, value),
        holds: value.map(|v| {
            c.at_least.is_none_or(|least| v >= least) && c.at_most.is_none_or(|most| v <= most)
        }),
    }
}

/// A figure with its unit, which is the last part of its key.
fn shown(key: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "not measured".to_owned();
    };
    match key.rsplit('_').next().unwrap_or_default() {
        "share" => format!("{:.3} %", value * 100.0),
        "mbps" => format!("{value:.3} Mbit/s"),
        unit => format!("{value:.3} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Option<Measurement>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        std::fs::write(&path, text).unwrap();
        Measurement::load(&path)
    }

    #[test]
    fn experiments_with_transfers_are_no_measurements() {
        assert!(load("name = \"x\"\n").unwrap().is_none());
        assert!(load("no TOML").unwrap().is_none());
        assert!(Measurement::load(Path::new("/none")).unwrap().is_none());
    }

    #[test]
    fn errors_in_files_are_one_line() {
        let head = "measure = \"merge\"\nname = \"m\"\ntitle = \"t\"\n";
        let merge = "seeds = 2\nseconds = 5.0\nloss = 0.1\njitter_us = 4.0\nskews_ppm = [15.0]\n";
        assert!(load(&format!("{head}{merge}")).unwrap().is_some());
        for (text, words) in [
            (
                "measure = \"x\"\nname = \"a\"\ntitle = \"t\"\n".to_owned(),
                "no measure \"x\"",
            ),
            (
                "measure = \"merge\"\ntitle = \"t\"\n".to_owned(),
                "missing field `name`",
            ),
            (format!("{head}{merge}what = 3\n"), "unknown field `what`"),
            (
                format!("{head}{merge}[[check]]\nof = \"x\"\n"),
                "no figure \"x\"",
            ),
            (
                format!("{head}{merge}[[check]]\nof = \"loss_share\"\n"),
                "wants nothing",
            ),
            (format!("{head}{merge}[[check]]\nwhy = 1\n"), "a.toml:10: "),
            (format!("{head}{}", merge.replace("0.1", "1.5")), "loss"),
        ] {
            let e = format!("{:?}", load(&text).err().unwrap());
            assert!(
                e.contains(&words.replace('"', "\\\"")),
                "{e} instead of {words}"
            );
        }
    }

    #[test]
    fn shipped_rows_are_right() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let folders =
            ["delay", "trimming", "wear"].map(|f| std::fs::read_dir(root.join(f)).unwrap());
        let mut files: Vec<PathBuf> = vec![root.join("mpbond/fig01.toml")];
        files.extend(
            folders
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().path()),
        );
        let mut count = 0;
        for path in files {
            // Others are transfers.
            let Some(row) = Measurement::load(&path).unwrap() else {
                continue;
            };
            let stem = path.file_stem().and_then(|s| s.to_str());
            assert_eq!(Some(row.head.name.as_str()), stem);
            assert!(!row.head.checks.is_empty() && !row.head.papers.is_empty());
            count += 1;
        }
        assert!(count >= 39, "{count}");
    }

    /// Rows in virtual time come out the same everywhere.
    #[test]
    fn shipped_rows_of_watches_hold() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/wear");
        let mut count = 0;
        for entry in std::fs::read_dir(root).unwrap() {
            let row = Measurement::load(&entry.unwrap().path()).unwrap();
            let Some(row) = row.filter(|row| matches!(row.kind, Kind::Watch(_))) else {
                continue;
            };
            let sheet = row.measure(&Options::default()).unwrap();
            if std::env::var_os("MPBOND_TEST_SHOW").is_some() {
                println!("{} {:#?} {:#?}", row.head.name, sheet.paper, sheet.tables);
            }
            let failed: Vec<_> = (sheet.checks.iter())
                .filter(|c| c.holds != Some(true))
                .collect();
            assert!(failed.is_empty(), "{}: {failed:?}", row.head.name);
            assert!(sheet.paper.iter().all(|p| p.ours != "not measured"));
            count += 1;
        }
        assert!(count >= 10, "{count}");
    }

    /// The processor's share, by models only.
    #[test]
    fn shipped_shares_of_processors_hold() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let row = Measurement::load(&root.join("trimming/fig01.toml"));
        let sheet = row.unwrap().unwrap().measure(&Options::default()).unwrap();
        println!("{:#?}", sheet.tables);
        let failed: Vec<_> = (sheet.checks.iter())
            .filter(|c| c.holds != Some(true))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// TCP and the L2 pipe over a channel with airtime.
    #[test]
    fn shipped_rows_of_airtime_hold() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let row = Measurement::load(&root.join("trimming/offload-fig06.toml"));
        let sheet = row.unwrap().unwrap().measure(&Options::default()).unwrap();
        println!("{:#?} {:#?}", sheet.tables, sheet.paper);
        let failed: Vec<_> = (sheet.checks.iter())
            .filter(|c| c.holds != Some(true))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    const MERGE: &str = "measure = \"merge\"\nname = \"m\"\ntitle = \"t\"\nseeds = 1\n\
                         seconds = 5.0\nloss = 0.1\njitter_us = 4.0\nskews_ppm = [15.0]\n\
                         [[check]]\nof = \"exactly_once_share\"\nat_least = 0.99\n";

    /// A record is used again for the same file only.
    #[test]
    fn a_row_is_kept() {
        let text = MERGE;
        let row = load(text).unwrap().unwrap();
        let sheet = row.measure(&Options::default()).unwrap();
        assert_eq!(sheet.checks[0].holds, Some(true), "{:?}", sheet.checks);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept");
        assert!(row.kept(&file, false).unwrap().is_none());
        std::fs::write(&file, serde_json::to_string(&sheet).unwrap()).unwrap();
        assert_eq!(row.kept(&file, false).unwrap(), Some(sheet.clone()));
        assert_eq!(row.kept(&file, true).unwrap(), Some(sheet.clone()));
        let options = Options {
            resume: Some(file.clone()),
            ..Options::default()
        };
        assert_eq!(row.run(&options).unwrap(), sheet);
        let other = load(&text.replace("0.99", "0.98")).unwrap().unwrap();
        assert!(other.kept(&file, false).unwrap().is_none());
        // Nothing is left beside the file where its record is replaced.
        let new = other.run(&options).unwrap();
        assert_eq!(other.kept(&file, false).unwrap(), Some(new));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn changed_recordings_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, mbps: u32| {
            let text: String = (0..9).map(|s| format!("{s} {mbps}\n")).collect();
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        for name in ["a.txt", "b.txt", "c.txt"] {
            write(name, 2);
        }
        let path = folder.path().join("m.toml");
        let text = "measure = \"recordings\"\nname = \"m\"\ntitle = \"t\"\n\
                    length = \"5s\"\nbin = \"1s\"\n\
                    [[place]]\nname = \"here\"\noffset = \"0s\"\n\
                    recordings = [\"a.txt\", \"b.txt\", \"c.txt\"]\n\
                    [[check]]\nof = \"median_most_mbps\"\nat_least = 1.0\n";
        std::fs::write(&path, text).unwrap();
        let row = Measurement::load(&path).unwrap().unwrap();
        let options = Options {
            resume: Some(folder.path().join("kept")),
            ..Options::default()
        };
        let most = || row.run(&options).unwrap().checks[0].got.clone();
        assert_eq!(most(), "2.000 Mbit/s");
        write("b.txt", 8);
        assert_eq!(most(), "8.000 Mbit/s");
    }

    #[test]
    fn the_record_of_a_short_run_is_none_of_a_full_one() {
        let row = load(MERGE).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options {
            repetitions: Some(1),
            resume: Some(folder.path().join("kept")),
            ..Options::default()
        };
        let short = row.run(&options).unwrap();
        assert_eq!(short.notes, [SHORT_RUN]);
        assert_eq!(row.run(&options).unwrap(), short);
        options.repetitions = None;
        assert_eq!(row.run(&options).unwrap().notes, [""; 0]);
    }

    #[test]
    fn a_file_with_something_else_is_not_replaced() {
        let row = load(MERGE).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.txt");
        let options = Options {
            resume: Some(file.clone()),
            ..Options::default()
        };
        let mut other = row.measure(&options).unwrap();
        other.experiment = "other".to_owned();
        let other = serde_json::to_string(&other).unwrap();
        for text in ["any text", "{\"transfers\": []}", &other] {
            std::fs::write(&file, text).unwrap();
            let error = row.run(&options).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{text}");
            let words = "notes.txt: no record of experiment \"m\"";
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        std::fs::write(&file, "").unwrap();
        row.run(&options).unwrap();
    }

    #[test]
    fn figures_are_judged_and_shown() {
        let wanted = Wanted {
            of: "loss_share".to_owned(),
            at_least: Some(0.1),
            at_most: Some(0.2),
        };
        let c = judged(&wanted, Some(0.15));
        assert_eq!((c.got.as_str(), c.holds), ("15.000 %", Some(true)));
        assert_eq!(c.wanted, "at least 10.000 %, at most 20.000 %");
        assert_eq!(judged(&wanted, Some(0.3)).holds, Some(false));
        assert_eq!(judged(&wanted, None).holds, None);
        assert_eq!(shown("error_us", Some(1.0)), "1.000 us");
    }
}
