//! Files beside an experiment's own: recordings of links, lists of pages, profiles of radios.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::file::Experiment;
use super::workload::Workload;

impl Experiment {
    /// The path of a file that is named relative to the experiment's.
    pub(crate) fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    /// The files on which results of `workload` depend.
    pub(crate) fn files_of(&self, workload: &Workload) -> BTreeSet<PathBuf> {
        let page = workload.page.iter().filter_map(|page| page.list.as_ref());
        let profiles = self.energy.iter().flat_map(|model| &model.profiles);
        let named = page.chain(profiles);
        let named = named.map(|file| self.beside(file.get_ref()));
        self.recordings_of(workload).chain(named).collect()
    }

    /// The recordings of its links.
    pub(super) fn recordings_of(&self, workload: &Workload) -> impl Iterator<Item = PathBuf> {
        let links = self.links.iter().map(|link| workload.on(link));
        links.flat_map(|link| {
            let files = link.rates().filter_map(|rate| rate.file());
            let paths = files.map(|file| self.beside(Path::new(file)));
            paths.collect::<Vec<_>>()
        })
    }
}
