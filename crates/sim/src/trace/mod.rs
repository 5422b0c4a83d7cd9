//! Recorded link rates.
//!
//! [`MahimahiTrace`] is the emulator's native input: one packet opportunity a
//! line. [`RateProfile`] is a table of instants and rates. Both read untrusted
//! text: sizes are bounded and every complaint names the file and the line.
//! [`combinations`] says what several recorded links give together,
//! [`by_distance`] what was measured at which distance.

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
        /// What is wrong with it.
        reason: String,
    },
    /// The file as a whole is wrong.
    #[error("{file}: {reason}")]
    File {
        /// Name of the file as the caller gave it.
        file: String,
        /// What is wrong with it.
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
/// lines; ten million keeps a mistaken file from eating the memory.
const MAX_LINES: usize = 10_000_000;

/// At most this much of a bad line is quoted in an error.
fn quote(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("\"{}\"", short.escape_debug())
}

#[cfg(test)]
mod shared {
    //! The recorded traces beside the repository, where they are present.
    use std::fs;
    use std::path::PathBuf;

    pub(crate) fn read(name: &str) -> Option<String> {
        let path = PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/traces"
        ));
        match fs::read_to_string(path.join(name)) {
            Ok(text) => Some(text),
            Err(e) => {
                eprintln!("skipped: recorded trace {name} is not here ({e})");
                None
            }
        }
    }
}
