//! One case of a measurement: a program, how it probes, and its clock.

use std::time::Duration;

use mpbond_units::duration_text;
use serde::Deserialize;

use super::super::tap::Method;

/// One way to probe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) program: Program,
    pub(super) method: Method,
    #[serde(with = "duration_text")]
    pub(super) interval: Duration,
    /// Profile of the bus; without one it never sleeps.
    pub(super) bus: Option<String>,
    /// Frame aggregation by the host's driver: time for which packets wait for others, and the
    /// bytes that end the waiting.
    #[serde(default, with = "duration_text::option")]
    pub(super) hold: Option<Duration>,
    pub(super) hold_bytes: Option<u64>,
    /// Options of `mpbond probe`.
    pub(super) warm_up: Option<String>,
    pub(super) background: Option<String>,
    /// Clock of a Java program.
    #[serde(default)]
    pub(super) clock: Clock,
    /// Options of the Java runtime.
    #[serde(default)]
    pub(super) java_options: Vec<String>,
    /// Number of probes in a test, which reports their minimum, mean and maximum.
    pub(super) trials: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Program {
    /// `mpbond probe`.
    Native,
    /// Java's own classes.
    Java,
    /// `mpbond probe`, run by a Java program.
    JavaNative,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Clock {
    /// `System.nanoTime()`.
    #[default]
    Nano,
    /// `System.currentTimeMillis()`.
    Millis,
    /// `Instant.now()`: Unix time, as in captures.
    Wall,
}

impl Clock {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nano => "nano",
            Self::Millis => "millis",
            Self::Wall => "wall",
        }
    }
}
