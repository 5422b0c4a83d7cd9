//! `[[paper]]`: a published figure, shown beside the experiment's own.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::figures::quantity::Quantity;

/// A result of the paper that the experiment regenerates.
///
/// ```toml
/// [[paper]]
/// figure = "Fig. 9"
/// scheme = "mpbond, 2 devices"
/// versus = "kibbutz"
/// quantity = "seconds"
/// change_percent = [-11, -5]     # of `scheme` against `versus`
///
/// [[paper]]
/// figure = "section 6.2"
/// scheme = "mpbond, 2 devices"
/// workload = "4 MB"
/// quantity = "seconds"
/// value = 3.6                    # in the quantity's unit
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Figure or section of the paper.
    pub figure: Spanned<String>,
    /// Name of the scheme that it is about.
    pub scheme: Spanned<String>,
    /// Name of the scheme of comparison, with `change_percent` or `more`.
    pub versus: Option<Spanned<String>>,
    /// Name of its workload; by default all that the schemes carry.
    pub workload: Option<Spanned<String>>,
    /// Name of its setting; by default all.
    pub setting: Option<Spanned<String>>,
    /// The quantity.
    pub quantity: Quantity,
    /// Energy model; the first one by default.
    pub model: Option<Spanned<String>>,
    /// Change from `versus` to `scheme` in percent; negative means less.
    pub change_percent: Option<Published>,
    /// How much more `scheme` has than `versus`, in the unit of the quantity.
    pub more: Option<Published>,
    /// The value, in the unit of the quantity.
    pub value: Option<Published>,
    /// Remark for readers.
    #[serde(default)]
    pub note: String,
}

/// A published number, or a published range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or [least, greatest]")]
pub enum Published {
    /// One number.
    One(f64),
    /// From the smallest to the largest.
    Range([f64; 2]),
}

impl Published {
    /// The smallest and the largest number.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Self::One(x) => (x, x),
            Self::Range([low, high]) => (low, high),
        }
    }
}
