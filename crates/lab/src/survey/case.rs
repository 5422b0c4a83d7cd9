//! Transfers of a survey, and how they are carried.

use std::fmt;
use std::str::FromStr;

use mpbond_sim::ideal;
use mpbond_sim::world::{Before, ReinjectionRule, Scenario, SchedulerKind};
use mpbond_units::Size;
use serde::{Serialize, Serializer};

use crate::experiment::Direction;

/// State of the connections before a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SurveyStart {
    /// The session has joined all paths, and nothing was transferred.
    Joined,
    /// The session is opened for the transfer.
    Cold,
    /// The session has carried 1 MiB and was idle for 5 s.
    Kept,
    /// The same, but its connections are new: what is known of the paths is remembered. Plain TCP
    /// has a connection that has carried nothing.
    Remembered,
}

impl SurveyStart {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Joined, Self::Cold, Self::Kept, Self::Remembered];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Cold => "cold",
            Self::Kept => "kept",
            Self::Remembered => "remembered",
        }
    }
}

impl FromStr for SurveyStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|s| s.name() == text);
        named.ok_or_else(|| format!("\"{text}\": allowed are joined, cold, kept, remembered"))
    }
}

/// Scheduler and the rules that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SurveyScheme {
    scheduler: SchedulerKind,
    /// Reinjection is that of the MPBond paper.
    published: bool,
}

impl FromStr for SurveyScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, published) = match text.split_once(',') {
            Some((name, rules)) if rules.trim() == "published" => (name, true),
            Some((_, rules)) => {
                return Err(format!(
                    "\"{}\" after the comma: only \"published\" is allowed",
                    rules.trim()
                ));
            }
            None => (text, false),
        };
        Ok(Self {
            scheduler: name.trim().parse()?,
            published,
        })
    }
}

impl fmt::Display for SurveyScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = if self.published { ",published" } else { "" };
        write!(f, "{}{rules}", self.scheduler)
    }
}

impl Serialize for SurveyScheme {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl SurveyScheme {
    pub(super) fn set(self, scenario: &mut Scenario) {
        for config in [&mut scenario.client, &mut scenario.server] {
            config.scheduler = self.scheduler;
            if self.published {
                config.reinjection = ReinjectionRule::Published.into();
            }
        }
    }
}

/// A transfer, whatever carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub devices: u8,
    pub start: SurveyStart,
    pub direction: Direction,
    pub transfer: Size,
}

impl Case {
    /// Adds the transfer to a world; `plain` TCP keeps its connection as a session does.
    pub fn add_to(self, scenario: Scenario, plain: bool) -> Scenario {
        let before = match self.start {
            SurveyStart::Joined => Before::Joined,
            SurveyStart::Cold => Before::Cold,
            SurveyStart::Kept => Before::Used,
            SurveyStart::Remembered if plain => Before::Joined,
            SurveyStart::Remembered => Before::Remade,
        };
        let mut scenario = scenario.measuring(before, self.towards(), self.transfer.0);
        for exchange in &mut scenario.exchanges {
            // HTTP: the length is known.
            exchange.by_length = true;
            exchange.connection = plain.then_some(0);
        }
        scenario
    }

    pub fn bound(self) -> ideal::Transfer {
        ideal::Transfer {
            bytes: self.transfer.0,
            direction: self.towards(),
        }
    }

    fn towards(self) -> ideal::Direction {
        match self.direction {
            Direction::Down => ideal::Direction::Down,
            Direction::Up => ideal::Direction::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_read_as_they_are_written() {
        for text in [
            "mpbond",
            "pams",
            "pams,published",
            "min-rtt",
            "fixed-ratio=0.4,published",
        ] {
            let scheme: SurveyScheme = text.parse().unwrap();
            assert_eq!(scheme.to_string(), text);
        }
        assert!("pams,ours".parse::<SurveyScheme>().is_err());
        assert!("best".parse::<SurveyScheme>().is_err());
    }
}
