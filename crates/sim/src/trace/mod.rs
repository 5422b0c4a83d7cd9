//! Recorded link rates.
//!
//! [`MahimahiTrace`] is the emulator's native input: one packet opportunity a
//! line. [`RateProfile`] is a table of instants and rates. Both read untrusted
//! text: sizes are bounded, and every error names the file and the line.
//! [`combinations`] computes the joint throughput of several recorded links, [`by_distance`] the
//! throughput at each distance.

mod aggregate;
mod distance;
mod mahimahi;
mod profile;

pub use aggregate::{Combination, Distribution, Recording, combinations, throughput_mbps};
pub use distance::{AtDistance, DistanceBin, DistanceForm, by_distance, parse_distances};
pub use mahimahi::{MahimahiTrace, OPPORTUNITY_BYTES};
pub use profile::{Column, ProfileForm, RateProfile, RateUnit};

/// A trace file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// One line is wrong.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// Name of the file as the caller gave it.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        reason: String,
    },
    /// The file as a whole is wrong.
    #[error("{file}: {reason}")]
    File {
        /// Name of the file as the caller gave it.
        file: String,
        /// Description of the error.
        reason: String,
    },
}

impl TraceError {
    fn line(file: &str, line: usize, reason: impl Into<String>) -> Self {
        Self::Line {
            file: file.to_owned(),
            line,
            reason: reason.into(),
        }
    }

    fn file(file: &str, reason: impl Into<String>) -> Self {
        Self::File {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }
}

/// The longest trace accepted. The largest recording known to us has 200,000
/// lines; ten million bounds the memory for a mistaken file.
const MAX_LINES: usize = 10_000_000;

/// Maximum part of a wrong line quoted in an error.
fn quote(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("\"{}\"", short.escape_debug())
}

#[cfg(test)]
mod shared {
    //! The recorded traces beside the repository, where they are present.

    pub(crate) fn read(name: &str) -> Option<String> {
        let path = mpbond_testing::recording(name)?;
        Some(std::fs::read_to_string(path).unwrap())
    }
}
