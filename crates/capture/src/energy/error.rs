//! Reasons why there is no energy report.

use mpbond_radio::ProfileError;

use crate::error::CaptureError;

/// Reason why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnergyError {
    /// A file cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A profile is missing or invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The options are insufficient or contradictory.
    #[error("{0}")]
    Options(String),
}
