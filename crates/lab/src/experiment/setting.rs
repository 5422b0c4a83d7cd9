//! One experiment under several conditions: each workload runs in each setting.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mpbond_sim::duration_text;
use mpbond_sim::link::{Queue, RateSpec};
use serde::Deserialize;
use toml::Spanned;

use super::{Change, Experiment, Link, Workload};

/// What some links are instead, from the start of every transfer.
///
/// ```toml
/// [[setting]]
/// name = "1/18/5"
/// link.lte = { down = "1 Mbit/s", up = "1 Mbit/s" }
/// link.phone-lte = { down = "18 Mbit/s", up = "18 Mbit/s" }
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Its name; results are those of "WORKLOAD, SETTING".
    pub name: Spanned<String>,
    /// Where it stands on the axis of the experiment's `parameter`.
    pub parameter: Option<f64>,
    /// Links that differ, by name.
    #[serde(rename = "link")]
    pub links: BTreeMap<Spanned<String>, LinkSetting>,
}

/// What a link is in a setting; what is left out is as the link says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSetting {
    /// Rate from the far host to the near one.
    pub down: Option<RateSpec>,
    /// Rate from the near host to the far one.
    pub up: Option<RateSpec>,
    /// One-way propagation delay.
    #[serde(default, with = "duration_text::option")]
    pub delay: Option<Duration>,
    /// Drop-tail queue per direction.
    pub queue: Option<Queue>,
    /// Probability that a packet is lost.
    pub loss: Option<f64>,
    /// Changes while a transfer runs, instead of the link's own.
    #[serde(rename = "change")]
    pub changes: Option<Vec<Change>>,
}

/// Every workload in every setting; the workloads as they are without any.
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
    /// Drops the settings whose recordings are not there, and says which: not
    /// everybody has those that may not be handed on.
    pub(crate) fn leave_out_missing_recordings(&mut self) -> Option<String> {
        let missing = |workload: &Workload| {
            let links = self.links.iter().map(|link| workload.on(link));
            links
                .flat_map(|link| link.rates().cloned().collect::<Vec<_>>())
                .filter_map(|rate| Some(self.beside(Path::new(rate.file()?))))
                .find(|path| !path.exists())
        };
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
                // Without a setting there is nothing to leave out: opening the
                // recording will say what is wrong.
                _ => left.push(workload.clone()),
            }
        }
        self.workloads = left;
        (!said.is_empty()).then(|| format!("left out: {}", said.join(", ")))
    }
}

impl Workload {
    /// What `link` is while this workload runs, with all of its changes in the
    /// order of time.
    pub(crate) fn on(&self, link: &Link) -> Link {
        let mut link = link.clone();
        let setting = self.setting.as_ref().map(|(setting, _)| setting);
        let set = setting.and_then(|setting| setting.links.get(&link.name));
        if let Some(set) = set.cloned() {
            link.down = set.down.or(link.down);
            link.up = set.up.or(link.up);
            link.delay = set.delay.unwrap_or(link.delay);
            link.queue = set.queue.unwrap_or(link.queue);
            link.loss = set.loss.unwrap_or(link.loss);
            link.changes = set.changes.unwrap_or(link.changes);
        }
        let own = self.changes.iter();
        let own = own.filter(|change| change.link.as_ref() == Some(&link.name));
        link.changes.extend(own.cloned());
        link.changes.sort_by_key(|change| change.at);
        link
    }

    /// Whether the links that it leaves behind are not those that `next`
    /// begins with: what a session has learnt of them is then of another place.
    pub(crate) fn leaves_other_links(&self, e: &Experiment, next: &Self) -> bool {
        let changed = |link: &Link| !self.on(link).changes.is_empty();
        self.setting_name() != next.setting_name() || e.links.iter().any(changed)
    }

    /// The name of the setting that it runs in.
    pub(crate) fn setting_name(&self) -> Option<&str> {
        let (setting, _) = self.setting.as_ref()?;
        Some(setting.name.get_ref())
    }
}
