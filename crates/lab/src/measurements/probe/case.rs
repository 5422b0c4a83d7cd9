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
    /// Connections of a Java program's requests.
    #[serde(default)]
    pub(super) connection: Connection,
    /// Options of the Java runtime.
    #[serde(default)]
    pub(super) java_options: Vec<String>,
    /// Number of probes in a test, which reports their minimum, mean and maximum.
    pub(super) trials: Option<usize>,
}

impl Case {
    /// Checks the values, and that the program can do what they ask for.
    pub(super) fn check(&self) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("case \"{}\": {why}", self.name));
        if !(1..=10_000).contains(&self.interval.as_millis()) {
            return wrong("the interval is 1 ms to 10 s");
        }
        if self.trials.is_some_and(|t| !(2..=1000).contains(&t)) {
            return wrong("trials: 2 to 1000");
        }
        let longest = Duration::from_secs(1);
        if self
            .hold
            .is_some_and(|hold| hold.is_zero() || hold > longest)
        {
            return wrong("hold is a time above 0, of 1 s at most");
        }
        if self
            .hold_bytes
            .is_some_and(|bytes| bytes == 0 || self.hold.is_none())
        {
            return wrong("hold_bytes is 1 or more, beside `hold`");
        }
        match (self.program, self.method) {
            (Program::Java, Method::Icmp) => {
                return wrong("a Java program makes syn, rst and http alone");
            }
            (Program::Java, _) if self.warm_up.is_some() || self.background.is_some() => {
                return wrong("warm_up and background are of `mpbond probe`");
            }
            (Program::Native, _) if !self.java_options.is_empty() => {
                return wrong("java_options are of Java programs");
            }
            (Program::Native | Program::JavaNative, _) if self.clock != Clock::Nano => {
                return wrong("`mpbond probe` has a clock of its own");
            }
            (program, method)
                if self.connection == Connection::New
                    && (program, method) != (Program::Java, Method::Http) =>
            {
                return wrong("connection is of http by a Java program");
            }
            _ => {}
        }
        Ok(())
    }
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

/// Connections of HTTP requests. The handshake is never counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connection {
    /// One for all requests.
    #[default]
    Kept,
    /// One for each request, which follows its handshake at once.
    New,
}

impl Connection {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::New => "new",
        }
    }
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
