//! Links, helpers and workloads that schemes and published figures select by name.

use toml::Spanned;

use super::file::Experiment;
use super::link::Link;
use super::paper::PaperFigure;
use super::scheme::{Carrier, Scheme};
use super::workload::Workload;

impl Experiment {
    /// The workloads that `scheme` carries.
    pub(crate) fn workloads_of(&self, scheme: &Scheme) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|w| scheme.carries(w))
    }
}

impl Scheme {
    /// Its direct links, in the order of the file.
    pub(crate) fn direct_links<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e Link> {
        let most = match self.scheme {
            Carrier::Mpbond | Carrier::External => usize::MAX,
            Carrier::Kibbutz if self.devices == 1 => 2,
            Carrier::Single | Carrier::Kibbutz | Carrier::Combine => 1,
        };
        e.direct_links()
            .filter(|link| names(self.paths.as_ref(), &link.name))
            .take(most)
    }

    /// Names of its helpers, in the order of the file.
    pub(crate) fn helpers<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e String> {
        let names = e.helpers().map(|h| h.name.get_ref());
        names.take(self.devices.saturating_sub(1))
    }

    /// Names of the devices beside the primary whose radios it uses: helpers, and a second user's.
    pub(crate) fn devices_beside<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e String> {
        let names = e.helpers().map(|h| h.name.get_ref());
        let used = self.devices.saturating_sub(1);
        names.take(used.max(usize::from(self.dual)))
    }
}

impl PaperFigure {
    /// Names of the workloads that it applies to.
    pub(crate) fn workloads<'e>(&'e self, e: &'e Experiment) -> impl Iterator<Item = &'e str> {
        let schemes: Vec<&Scheme> = e
            .schemes
            .iter()
            .filter(|s| s.name == self.scheme || Some(&s.name) == self.versus.as_ref())
            .collect();
        let named = self.workload.as_ref();
        let setting = self.setting.as_ref().map(|s| s.get_ref().as_str());
        e.workloads
            .iter()
            .filter(move |w| named.is_none_or(|n| w.is_called(n.get_ref())))
            // Before workloads are combined with settings, none has a setting.
            .filter(move |w| {
                w.setting.is_none() || setting.is_none() || w.setting_name() == setting
            })
            .filter(move |w| schemes.iter().all(|s| s.carries(w)))
            .map(|w| w.name.get_ref().as_str())
    }
}

/// Whether an optional list contains `name`; a missing list contains all.
fn names(list: Option<&Vec<Spanned<String>>>, name: &Spanned<String>) -> bool {
    list.is_none_or(|list| list.contains(name))
}
