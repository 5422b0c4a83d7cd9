//! Reading and checking an experiment file.

use std::path::Path;

use super::application::Page;
use super::check;
use super::file::Experiment;
use super::page::page_objects;
use super::place::Place;
use super::recording::read_recording;
use super::variants::in_every_setting;
use super::workload::MAX_BYTES;
use crate::error::{Doing, Error, Result};

impl Experiment {
    /// Reads and checks an experiment file.
    ///
    /// # Errors
    /// [`Error::Experiment`] naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        const LIMIT: u64 = 1 << 20;
        let length = std::fs::metadata(path).at("read", path)?.len();
        if length > LIMIT {
            return Err(Error::Experiment(format!(
                "{}: {length} bytes: an experiment file has at most {LIMIT}",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).at("read", path)?;
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
        let mut experiment: Self =
            toml::from_str(text).map_err(|e| place.error(e.span(), e.message()))?;
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
