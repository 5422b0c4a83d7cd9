//! Rules that assign a cause to an idle episode: their form, and the shipped ones.

use serde::Deserialize;

/// The causes named in sections 4 and 5.2 of the Android Wear characterization.
const SHIPPED: &str = include_str!("../../data/idle_rules.toml");

/// Minimum idle time of a stall, ms: shorter waits are the ordinary course of a program.
const SHORTEST_STALL_MS: f64 = 1.0;

/// Rules for known causes of idle time, from TOML; `data/idle_rules.toml` documents the conditions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRules {
    /// Parts of the names of functions that wait by design; a request served by such a function is
    /// not a stall.
    #[serde(default)]
    pub waits_by_design: Vec<String>,
    /// Prefixes of the names of calls in which a thread waits for others: the function around them
    /// is reported.
    #[serde(default)]
    pub wait_calls: Vec<String>,
    /// Rules, in the order of their precedence.
    #[serde(default)]
    pub rule: Vec<IdleRule>,
}

/// Rule for one cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRule {
    /// Name of the cause.
    pub cause: String,
    /// Whether episodes of this cause are reported as findings.
    #[serde(default)]
    pub anomaly: bool,
    /// Whether the cause counts as an explanation.
    #[serde(default = "yes")]
    pub explained: bool,
    /// Alternatives, of which at least one must hold.
    pub when: Vec<Condition>,
}

fn yes() -> bool {
    true
}

/// A conjunction of facts about an episode; absent fields are not tested.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// A task that runs next was blocked on I/O.
    pub io_wait: Option<bool>,
    /// A block I/O request was in progress for half of the episode.
    pub block_request: Option<bool>,
    /// A power management step was in progress for half of the episode.
    pub power_step: Option<bool>,
    /// Prefixes of the kernel function in which a task that runs next slept.
    pub blocked_in: Vec<String>,
    /// Prefixes of the name of a task that runs first after the episode.
    pub wakes: Vec<String>,
    /// Parts of the name of the interrupt that ended the episode.
    pub irq: Vec<String>,
    /// Prefixes of the name of a task woken by the first task, directly or through others.
    pub leads_to: Vec<String>,
    /// Prefixes that all tasks woken by the episode's end must have.
    pub only_wakes: Vec<String>,
    /// Prefixes of the kernel function of the timer that ended the episode.
    pub timer: Vec<String>,
    /// Parts of the name of a function that spans the episode or begins right after it.
    pub function: Vec<String>,
    /// Whether a request waited for its reply throughout the episode.
    pub ipc: Option<bool>,
    /// Prefixes of the name of the process or thread that serves the request.
    pub ipc_server: Vec<String>,
    /// Minimum idle time during the wait, ms.
    pub ipc_idle_ms: Option<f64>,
    /// Minimum idle share of the wait, 0 to 1.
    pub ipc_idle_share: Option<f64>,
    /// Minimum idle time while a thread waits inside a function, ms.
    pub stall_idle_ms: Option<f64>,
    /// Whether a thread is inside a slice throughout the episode.
    pub inside_span: Option<bool>,
    /// Whether an interrupt ended the episode.
    pub from_interrupt: Option<bool>,
    /// Whether the task that runs first wakes at regular intervals.
    pub periodic: Option<bool>,
    /// Minimum length of the episode, ms.
    pub min_ms: Option<f64>,
    /// Maximum length of the episode, ms.
    pub max_ms: Option<f64>,
}

impl IdleRules {
    /// The rules in `data/idle_rules.toml`.
    pub fn shipped() -> Self {
        toml::from_str(SHIPPED).unwrap_or(Self {
            waits_by_design: Vec::new(),
            wait_calls: Vec::new(),
            rule: Vec::new(),
        })
    }

    /// Parses rules from TOML.
    ///
    /// # Errors
    /// One line with the line number and the cause.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }

    /// Least idle time of a stall that a rule can explain, ns.
    pub(super) fn shortest_stall_ns(&self) -> u64 {
        let conditions = self.rule.iter().flat_map(|r| &r.when);
        let least = conditions.flat_map(|c| [c.stall_idle_ms, c.ipc_idle_ms]);
        let ms = least.flatten().fold(f64::INFINITY, f64::min);
        // Without such a rule no stall is long enough.
        (ms.max(SHORTEST_STALL_MS) * 1e6) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_rules_are_sound() {
        let rules = IdleRules::shipped();
        assert!(rules.rule.len() >= 7);
        assert!(rules.rule.iter().all(|r| !r.when.is_empty()));
        let causes = [
            "storage I/O",
            "power management",
            "user think time",
            "frame pacing",
            "voice UI hand-over",
        ];
        for cause in causes {
            assert!(rules.rule.iter().any(|r| r.cause == cause), "{cause}");
        }
        assert!(IdleRules::parse("[[rule]]\ncause = 1").is_err());
    }
}
