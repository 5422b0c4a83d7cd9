//! Reading and checking an experiment file.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::application::Page;
use super::check;
use super::file::Experiment;
use super::page::page_objects;
use super::place::Place;
use super::recording::read_recording;
use super::variants::in_every_setting;
use super::workload::MAX_BYTES;
use crate::error::{Error, Result};

impl Experiment {
    /// Reads and checks an experiment file.
    ///
    /// # Errors
    /// [`Error::Experiment`] naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        const LIMIT: u64 = 1 << 20;
        let unread =
            |e: std::io::Error| Error::Experiment(format!("cannot read {}: {e}", path.display()));
        let length = std::fs::metadata(path).map_err(unread)?.len();
        if length > LIMIT {
            return Err(Error::Experiment(format!(
                "{}: {length} bytes: an experiment file has at most {LIMIT}",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(unread)?;
        let mut experiment = Self::parse(&path.display().to_string(), &text)?;
        experiment.path = path.to_owned();
        experiment.read_pages()?;
        Ok(experiment)
    }

    /// Loads the lists of objects of pages.
    fn read_pages(&mut self) -> Result<()> {
        let mut workloads = std::mem::take(&mut self.workloads);
        for workload in &mut workloads {
            if let Some(page) = &mut workload.page {
                read_page(self, page)?;
            }
        }
        self.workloads = workloads;
        Ok(())
    }

    /// Reads and checks an experiment from `text`; `file` names it in errors.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let place = Place { file, text };
        let mut experiment: Self = toml::from_str(text).map_err(|e| match measurement(text) {
            Some(span) => place.error(Some(span), not_run(cfg!(feature = "measurements"))),
            None => place.error(e.span(), e.message()),
        })?;
        check::check(&experiment, &place)?;
        experiment.workloads = in_every_setting(&experiment);
        text.clone_into(&mut experiment.text);
        Ok(experiment)
    }

    /// The text of a recording, whose path is relative to the experiment file.
    pub(crate) fn read_recording(&self, file: &str) -> std::io::Result<String> {
        read_recording(&self.beside(Path::new(file)))
    }
}

/// Position of the key that makes a file a measurement.
fn measurement(text: &str) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Kind {
        measure: Spanned<toml::Value>,
    }
    let kind: Kind = toml::from_str(text).ok()?;
    Some(kind.measure.span())
}

/// Reason for which a measurement is not run as an experiment, where measurements are part of the
/// program, and where they are not.
const fn not_run(has_measurements: bool) -> &'static str {
    if has_measurements {
        "a measurement has no transfers: only `mpbond lab run` runs it"
    } else {
        "this mpbond-lab was built without measurements: build all of it with `make release`"
    }
}

/// Loads the list of `page`, if it names one.
///
/// # Errors
/// [`Error::Experiment`] with the experiment's line for a file that cannot be read, and with the
/// list's line for a wrong entry.
fn read_page(e: &Experiment, page: &mut Page) -> Result<()> {
    let Some(named) = &page.list else {
        return Ok(());
    };
    let path = e.beside(named.get_ref());
    let file = path.display().to_string();
    let text = read_recording(&path).map_err(|io| e.error_at(named, &format!("{file}: {io}")))?;
    let objects = page_objects(&path, &text)?;
    let bytes = objects
        .iter()
        .fold(0_u64, |sum, o| sum.saturating_add(o.bytes));
    if bytes > MAX_BYTES {
        return Err(e.error_at(named, &format!("{file}: more than 4 GiB in all")));
    }
    page.listed = objects;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_refused_with_its_line_and_the_reason() {
        let text = "name = \"m\"\ntitle = \"t\"\nmeasure = \"probe\"\nprobes = 4\n";
        let error = Experiment::parse("m.toml", text).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let reason = not_run(cfg!(feature = "measurements"));
        assert_eq!(error.to_string(), format!("m.toml:3: {reason}"));
        assert!(not_run(false).contains("make release"));
        // A key of a table is not the kind of the file.
        let other = "[[scheme]]\nmeasure = \"probe\"\n";
        let error = Experiment::parse("m.toml", other).unwrap_err().to_string();
        assert!(error.contains("unknown field `measure`"), "{error}");
    }
}
