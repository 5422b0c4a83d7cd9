//! Probabilities in configurations.

use serde::{Deserialize, Deserializer};

/// Reads a probability, 0 to 1.
pub(super) fn probability<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let p = f64::deserialize(d)?;
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(serde::de::Error::custom(format!(
            "a probability goes from 0 to 1, not {p}"
        )))
    }
}

/// Reads a probability that may be left out.
pub(super) fn optional_probability<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<f64>, D::Error> {
    probability(d).map(Some)
}
