//! Asserts and published figures, beside measured values.

use serde::{Deserialize, Serialize};

use super::summary::Estimate;
use crate::figures::quantity::Quantity;

/// An assert, applied to one scheme and workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Judgement {
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheme.
    pub scheme: String,
    /// Quantity and kind of bound.
    pub what: String,
    /// The bound.
    pub target: f64,
    /// Measured median; `None` without a fit repetition.
    pub measured: Option<f64>,
    /// 95 % confidence interval of the median; `None` for fewer than six values.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// Whether the assert holds; `None` without a fit repetition.
    pub holds: Option<bool>,
}

/// A published figure beside ours, in the same form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// Figure or section of the paper.
    pub figure: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the scheme of comparison. With it both figures are changes in percent, or
    /// differences, ours paired by repetition.
    pub versus: Option<String>,
    /// Whether both figures are differences in the unit of the quantity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_difference: bool,
    /// The quantity.
    pub quantity: Quantity,
    /// Energy model, of energy quantities.
    pub model: Option<String>,
    /// Smallest and largest published number.
    pub published: (f64, f64),
    /// Remark from the experiment file.
    pub note: String,
    /// Our figure; `None` when it was not measured in any fit repetition.
    pub ours: Option<Estimate>,
    /// Relation of the two; `None` without ours.
    pub standing: Option<Standing>,
}

/// Relation of our figure to the published range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Our mean lies within the range.
    Within,
    /// The whole confidence interval of our mean is better than the range.
    Better,
    /// Our mean is better than the range; its interval overlaps it.
    PerhapsBetter,
    /// Our mean is worse than the range; its interval overlaps it.
    PerhapsWorse,
    /// The whole confidence interval is worse than the range.
    Worse,
}

impl Comparison {
    /// Whether our mean is within the published range or better.
    pub fn is_reached(&self) -> bool {
        use Standing::{Better, PerhapsBetter, Within};
        matches!(self.standing, Some(Within | Better | PerhapsBetter))
    }
}
