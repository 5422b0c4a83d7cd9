//! Workloads combined with settings: each workload runs in each setting.

use toml::Spanned;

use super::file::Experiment;
use super::link::Link;
use super::workload::Workload;

/// Every workload in every setting; without settings, the workloads themselves.
pub(super) fn in_every_setting(e: &Experiment) -> Vec<Workload> {
    if e.settings.is_empty() {
        return e.workloads.clone();
    }
    let mut all = Vec::new();
    for workload in &e.workloads {
        for setting in &e.settings {
            let in_file = workload.name.get_ref();
            let name = format!("{in_file}, {}", setting.name.get_ref());
            all.push(Workload {
                name: Spanned::new(workload.name.span(), name),
                setting: Some((setting.clone(), in_file.clone())),
                ..workload.clone()
            });
        }
    }
    all
}

impl Experiment {
    /// Removes settings whose recordings are missing, and returns a remark about them: some
    /// recordings may not be redistributed.
    pub(crate) fn leave_out_missing_recordings(&mut self) -> Option<String> {
        let missing =
            |workload: &Workload| self.recordings_of(workload).find(|path| !path.exists());
        let mut said: Vec<String> = Vec::new();
        let mut left = Vec::new();
        for workload in &self.workloads {
            match (workload.setting_name(), missing(workload)) {
                (Some(setting), Some(path)) => {
                    let text = format!("\"{setting}\" ({} is missing)", path.display());
                    if !said.contains(&text) {
                        said.push(text);
                    }
                }
                // Outside of settings nothing can be left out: opening the recording will fail.
                _ => left.push(workload.clone()),
            }
        }
        self.workloads = left;
        (!said.is_empty()).then(|| format!("left out: {}", said.join(", ")))
    }
}

impl Workload {
    /// `link` during this workload, with all changes in the order of time.
    pub(crate) fn on(&self, link: &Link) -> Link {
        let mut link = link.clone();
        let setting = self.setting.as_ref().map(|(setting, _)| setting);
        let set = setting.and_then(|setting| setting.links.get(&link.name));
        if let Some(set) = set.cloned() {
            link.down = set.down.or(link.down);
            link.up = set.up.or(link.up);
            link.delay = set.delay.unwrap_or(link.delay);
            link.jitter = set.jitter.unwrap_or(link.jitter);
            link.queue = set.queue.unwrap_or(link.queue);
            link.loss = set.loss.unwrap_or(link.loss);
            link.signal_dbm = set.signal_dbm.unwrap_or(link.signal_dbm);
            link.changes = set.changes.unwrap_or(link.changes);
        }
        let own = self.changes.iter();
        let own = own.filter(|change| change.link.as_ref() == Some(&link.name));
        link.changes.extend(own.cloned());
        link.changes.sort_by_key(|change| change.at);
        link
    }

    /// Whether the links at its end differ from those at the start of `next`, so that estimates of
    /// a session would be wrong.
    pub(crate) fn leaves_other_links(&self, e: &Experiment, next: &Self) -> bool {
        let changed = |link: &Link| !self.on(link).changes.is_empty();
        self.setting_name() != next.setting_name() || e.links.iter().any(changed)
    }

    /// Name of its setting.
    pub(crate) fn setting_name(&self) -> Option<&str> {
        let (setting, _) = self.setting.as_ref()?;
        Some(setting.name.get_ref())
    }
}
