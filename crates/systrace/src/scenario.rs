//! Benchmark scenarios: scripted input for a device under tracing.

use serde::Deserialize;

/// The fifteen benchmarks of Table 1 of the Android Wear characterization.
const SHIPPED: &str = include_str!("../data/wear_scenarios.toml");

/// Maximum duration of a recording, s; a longer one is taken for a typing error.
const MAX_RECORD_S: u32 = 3_600;

/// A scripted scenario for a traced device (Android Wear characterization, section 3, Table 1).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as in Table 1.
    pub name: String,
    /// Category, as in Table 1.
    pub category: String,
    /// Description in one sentence.
    pub description: String,
    /// Published duration, or latencies P1 and P2, ms (Table 1); empty if Table 1 has none.
    #[serde(default)]
    pub published_ms: Vec<u32>,
    /// Length of the recording, s.
    pub record_s: u32,
    /// Steps before the recording.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// Steps during the recording.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step of a [`Scenario`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// A touch at x and y, as shares of the screen's width and height.
    Tap([f64; 2]),
    /// A swipe: start x and y, end x and y (shares of the screen), duration in ms.
    Swipe([f64; 5]),
    /// A key event, by its name or number.
    Key(String),
    /// A shell command on the device.
    Shell(String),
    /// A pause, ms.
    WaitMs(u64),
    /// A request to the user, for an action without a command.
    Ask(String),
}

impl Scenario {
    /// The fifteen scenarios of the Android Wear characterization (`data/wear_scenarios.toml`).
    pub fn shipped() -> Vec<Self> {
        Self::parse(SHIPPED).unwrap_or_default()
    }

    /// Parses scenarios from TOML: `[[scenario]]` tables as in `data/wear_scenarios.toml`.
    ///
    /// # Errors
    /// One line with the position and the cause.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            scenario: Vec<Scenario>,
        }
        let file: File = toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))?;
        for s in &file.scenario {
            let wrong = |why: &str| Err(format!("scenario \"{}\": {why}", s.name));
            if s.name.is_empty() || s.name.contains(['/', ' ']) || s.name.starts_with('.') {
                return wrong(
                    "name: used as a file name, so without spaces, slashes and a leading dot",
                );
            }
            if s.record_s == 0 || s.record_s > MAX_RECORD_S {
                return wrong("record_s: out of range (1 to 3600)");
            }
            for step in s.prepare.iter().chain(&s.steps) {
                if let Some(why) = step.fault() {
                    return wrong(why);
                }
            }
        }
        Ok(file.scenario)
    }
}

impl Step {
    fn fault(&self) -> Option<&'static str> {
        let share = |v: &f64| (0.0..=1.0).contains(v);
        match self {
            Self::Tap(at) if !at.iter().all(share) => {
                Some("tap: coordinates are shares from 0 to 1")
            }
            Self::Swipe(s) => {
                let (places, ms) = (s.get(..4)?, s.get(4)?);
                let fine = places.iter().all(share) && (1.0..=60_000.0).contains(ms);
                (!fine).then_some("swipe: four shares from 0 to 1 and a duration of 1 to 60000 ms")
            }
            Self::Key(k)
                if k.is_empty() || !k.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
            {
                Some("key: not a name such as SLEEP nor a number")
            }
            Self::WaitMs(ms) if *ms > 600_000 => Some("wait_ms: out of range (0 to 600000)"),
            _ => None,
        }
    }

    /// The shell command of this step for a screen of `width` by `height` pixels; `None` for steps
    /// that are not commands.
    pub fn command(&self, width: u32, height: u32) -> Option<String> {
        let x = |share: f64| (share * f64::from(width.saturating_sub(1))).round() as u32;
        let y = |share: f64| (share * f64::from(height.saturating_sub(1))).round() as u32;
        match self {
            Self::Tap([a, b]) => Some(format!("input tap {} {}", x(*a), y(*b))),
            Self::Swipe([a, b, c, d, ms]) => Some(format!(
                "input swipe {} {} {} {} {ms:.0}",
                x(*a),
                y(*b),
                x(*c),
                y(*d)
            )),
            Self::Key(key) => Some(format!("input keyevent {key}")),
            Self::Shell(command) => Some(command.clone()),
            Self::WaitMs(_) | Self::Ask(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, categories and durations as printed in Table 1.
    #[test]
    fn the_fifteen_benchmarks_of_table_1() {
        let list = Scenario::shipped();
        let names: Vec<&str> = list.iter().map(|s| s.name.as_str()).collect();
        let table_1 = [
            "update", "notif", "wrist", "touch", "lch.set", "lch.calc", "lch.game", "palming",
            "voice", "game", "notes", "navi", "accel", "heart", "baro",
        ];
        assert_eq!(names, table_1);
        let total: u32 = list.iter().flat_map(|s| &s.published_ms).sum();
        assert_eq!(
            total,
            364 + 4645 + 407 + 184 + 987 + 722 + 1418 + 2343 + 1671 + 409 + 3897 + 4119
        );
        for s in &list {
            let longest: u32 = s.published_ms.iter().sum();
            assert!(s.record_s * 1_000 > longest + 1_000, "{}", s.name);
        }
    }

    #[test]
    fn steps_become_commands() {
        assert_eq!(
            Step::Tap([0.5, 1.0]).command(321, 320).as_deref(),
            Some("input tap 160 319")
        );
        assert_eq!(
            Step::Swipe([0.0, 0.0, 1.0, 0.5, 200.0])
                .command(101, 101)
                .as_deref(),
            Some("input swipe 0 0 100 50 200")
        );
        assert_eq!(Step::WaitMs(5).command(1, 1), None);
    }

    #[test]
    fn invalid_scenarios_are_refused() {
        let one = |rest: &str| {
            let head = "[[scenario]]\nname = \"a\"\ncategory = \"\"\ndescription = \"\"\n";
            Scenario::parse(&format!("{head}{rest}")).unwrap_err()
        };
        assert!(one("record_s = 0").contains("record_s: out of range"));
        assert!(one("record_s = 1\nsteps = [{ tap = [2, 0] }]").contains("scenario \"a\": tap"));
        assert!(one("record_s = 1\nsteps = [{ key = \"A;rm\" }]").contains("key: not a name"));
        assert!(one("record_s = 1\nsteps = [{ jump = 1 }]").starts_with("line 6: "));
    }
}
