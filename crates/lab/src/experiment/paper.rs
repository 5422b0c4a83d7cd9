//! What a paper found, to be shown beside what the experiment finds.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::check::{Place, unknown};
use super::{Experiment, Scheme};
use crate::error::Result;
use crate::quantity::Quantity;

/// A result of the paper that the experiment regenerates.
///
/// ```toml
/// [[paper]]
/// figure = "Fig. 9"
/// scheme = "pams, 2 devices"
/// versus = "kibbutz"
/// quantity = "seconds"
/// change_percent = [-11, -5]     # of `scheme` against `versus`
///
/// [[paper]]
/// figure = "section 6.2"
/// scheme = "pams, 2 devices"
/// workload = "4 MB"
/// quantity = "seconds"
/// value = 3.6                    # in the quantity's unit
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Where the paper says it.
    pub figure: Spanned<String>,
    /// The scheme that it concerns.
    pub scheme: Spanned<String>,
    /// The scheme that it is compared with; with `change_percent`.
    pub versus: Option<Spanned<String>>,
    /// The workload that it concerns; without it, each that both schemes carry.
    pub workload: Option<Spanned<String>>,
    /// The setting that it concerns; without it, each.
    pub setting: Option<Spanned<String>>,
    /// What was measured.
    pub quantity: Quantity,
    /// By which of the experiment's energy models; the first when not given.
    pub model: Option<Spanned<String>>,
    /// By how much `scheme` differs from `versus`, in percent: below zero is
    /// less.
    pub change_percent: Option<Published>,
    /// The figure itself, in the quantity's unit.
    pub value: Option<Published>,
    /// What the numbers leave out.
    #[serde(default)]
    pub note: String,
}

/// A number that a paper gives, or the least and the greatest of several.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or [least, greatest]")]
pub enum Published {
    /// One number.
    One(f64),
    /// From the least to the greatest.
    Range([f64; 2]),
}

impl Published {
    /// The least and the greatest number.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Self::One(x) => (x, x),
            Self::Range([low, high]) => (low, high),
        }
    }
}

pub(super) fn check(e: &Experiment, place: &Place) -> Result<()> {
    for p in &e.papers {
        let wrong = |why: &str| {
            let figure = p.figure.get_ref();
            Err(place.at(&p.figure, format!("[[paper]] \"{figure}\": {why}")))
        };
        let scheme = known(e, place, &p.scheme)?;
        let versus = match &p.versus {
            Some(versus) => Some(known(e, place, versus)?),
            None => None,
        };
        if versus.is_some_and(|v| v.name == scheme.name) {
            return wrong("`versus` is the scheme itself");
        }
        if let Some(name) = &p.workload
            && !e.workloads.iter().any(|w| w.name == *name)
        {
            let all = e.workloads.iter().map(|w| &w.name);
            return Err(place.at(name, unknown("workload", name, all)));
        }
        if let Some(name) = &p.setting
            && !e.settings.iter().any(|s| s.name == *name)
        {
            let all = e.settings.iter().map(|s| &s.name);
            return Err(place.at(name, unknown("setting", name, all)));
        }
        if let Some(name) = &p.model
            && !e.energy.iter().any(|m| m.name == *name)
        {
            let all = e.energy.iter().map(|m| &m.name);
            return Err(place.at(name, unknown("energy model", name, all)));
        }
        let modelled = if p.quantity.is_energy() {
            !e.energy.is_empty()
        } else {
            p.model.is_none()
        };
        if !modelled {
            return wrong("energy needs a model, [[energy]], and nothing else has one");
        }
        if p.workloads(e).next().is_none() {
            return wrong("no workload that these schemes carry");
        }
        let published = match (p.change_percent, p.value, versus) {
            (Some(change), None, Some(_)) => change,
            (None, Some(value), None) => value,
            _ => {
                return wrong("either `value`, or `change_percent` together with `versus`");
            }
        };
        let (low, high) = published.ends();
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return wrong("a range goes from the least to the greatest number");
        }
    }
    Ok(())
}

fn known<'e>(e: &'e Experiment, place: &Place, name: &Spanned<String>) -> Result<&'e Scheme> {
    let found = e.schemes.iter().find(|s| s.name == *name);
    found.ok_or_else(|| {
        let all = e.schemes.iter().map(|s| &s.name);
        place.at(name, unknown("scheme", name, all))
    })
}

impl PaperFigure {
    /// The names of the workloads that it can be seen at.
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
            // Before workloads are put into settings, none has one.
            .filter(move |w| {
                w.setting.is_none() || setting.is_none() || w.setting_name() == setting
            })
            .filter(move |w| schemes.iter().all(|s| s.carries(w)))
            .map(|w| w.name.get_ref().as_str())
    }
}
