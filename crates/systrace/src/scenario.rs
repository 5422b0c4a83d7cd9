use serde::Deserialize;

/// The benchmarks of Table 1.
const PAPER: &str = include_str!("../data/wear_scenarios.toml");

/// A scenario takes its trace within this; a longer one is a slip of the pen.
const MAX_RECORD_S: u32 = 3_600;

/// Things to do on a device while it is traced, as data (section 3, Table 1).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as in Table 1.
    pub name: String,
    /// Category of Table 1.
    pub category: String,
    /// What happens, in a sentence.
    pub does: String,
    /// Duration, or latencies P1 and P2, that the paper measured, ms; empty where it has none.
    #[serde(default)]
    pub paper_ms: Vec<u32>,
    /// Length of the recording, s.
    pub record_s: u32,
    /// Before the recording.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// While it runs.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step of a [`Scenario`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// A touch, in shares of the screen's width and height.
    Tap([f64; 2]),
    /// A movement: from, to, and its duration in ms.
    Swipe([f64; 5]),
    /// A key, by its name.
    Key(String),
    /// A command on the device.
    Shell(String),
    /// A pause, ms.
    WaitMs(u64),
    /// What a person has to do.
    Ask(String),
}

impl Scenario {
    /// The fifteen of the paper.
    pub fn paper() -> Vec<Self> {
        Self::parse(PAPER).unwrap_or_default()
    }

    /// Scenarios from TOML text: `[[scenario]]` tables as in `data/wear_scenarios.toml`.
    ///
    /// # Errors
    /// One line that says where the text is wrong and why.
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
                return wrong("a name becomes a file's name: no blank, slash or leading dot");
            }
            if s.record_s == 0 || s.record_s > MAX_RECORD_S {
                return wrong("record_s goes from 1 to 3600");
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
            Self::Tap(at) if !at.iter().all(share) => Some("tap: shares go from 0 to 1"),
            Self::Swipe(s) => {
                let (places, ms) = (s.get(..4)?, s.get(4)?);
                let fine = places.iter().all(share) && (1.0..=60_000.0).contains(ms);
                (!fine).then_some("swipe: four shares from 0 to 1, and 1 to 60000 ms")
            }
            Self::Key(k)
                if k.is_empty() || !k.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
            {
                Some("key: a name such as SLEEP, or a number")
            }
            Self::WaitMs(ms) if *ms > 600_000 => Some("wait_ms: at most ten minutes"),
            _ => None,
        }
    }

    /// The command for the device's shell on a screen of that size in pixels; `None` for what is
    /// not done there.
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

    /// Names, categories and durations as Table 1 prints them.
    #[test]
    fn the_paper_s_fifteen_are_there() {
        let list = Scenario::paper();
        let names: Vec<&str> = list.iter().map(|s| s.name.as_str()).collect();
        let table_1 = [
            "update", "notif", "wrist", "touch", "lch.set", "lch.calc", "lch.game", "palming",
            "voice", "game", "notes", "navi", "accel", "heart", "baro",
        ];
        assert_eq!(names, table_1);
        let total: u32 = list.iter().flat_map(|s| &s.paper_ms).sum();
        assert_eq!(
            total,
            364 + 4645 + 407 + 184 + 987 + 722 + 1418 + 2343 + 1671 + 409 + 3897 + 4119
        );
        for s in &list {
            let longest: u32 = s.paper_ms.iter().sum();
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
    fn wrong_ones_are_told() {
        let one = |rest: &str| {
            let head = "[[scenario]]\nname = \"a\"\ncategory = \"\"\ndoes = \"\"\n";
            Scenario::parse(&format!("{head}{rest}")).unwrap_err()
        };
        assert!(one("record_s = 0").contains("record_s goes from 1"));
        assert!(one("record_s = 1\nsteps = [{ tap = [2, 0] }]").contains("scenario \"a\": tap"));
        assert!(one("record_s = 1\nsteps = [{ key = \"A;rm\" }]").contains("key: a name"));
        assert!(one("record_s = 1\nsteps = [{ jump = 1 }]").starts_with("line 6: "));
    }
}
