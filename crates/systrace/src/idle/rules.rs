//! Rules that assign a cause to an idle episode.

use serde::Deserialize;

use super::episode::IpcWait;
use super::evidence::Evidence;

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

    /// The first rule that holds, and the wait that satisfied it, if it needs one.
    pub(super) fn explain<'e>(&self, e: &'e Evidence) -> Option<(&IdleRule, Option<&'e IpcWait>)> {
        self.rule.iter().find_map(|r| {
            let wait = r.when.iter().find_map(|c| c.holds(e))?;
            Some((r, wait))
        })
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

impl Condition {
    /// `Some` if all conditions hold, with the wait that satisfied them, if any.
    fn holds<'e>(&self, e: &'e Evidence) -> Option<Option<&'e IpcWait>> {
        let flag = |wanted: Option<bool>, found: bool| wanted.is_none_or(|w| w == found);
        let begins = |wanted: &[String], found: &[String]| {
            wanted.is_empty()
                || found
                    .iter()
                    .any(|f| wanted.iter().any(|w| f.starts_with(w)))
        };
        let all_begin = |wanted: &[String], found: &[String]| {
            let fits = |f: &String| wanted.iter().any(|w| f.starts_with(w));
            wanted.is_empty() || (!found.is_empty() && found.iter().all(fits))
        };
        let contains = |wanted: &[String], found: &[String]| {
            wanted.is_empty() || found.iter().any(|f| wanted.iter().any(|w| f.contains(w)))
        };
        let plain = flag(self.io_wait, e.io_wait)
            && flag(self.block_request, e.block_request)
            && flag(self.power_step, e.power_step)
            && flag(self.from_interrupt, e.from_interrupt)
            && flag(self.periodic, e.periodic)
            && flag(self.inside_span, e.inside_span)
            && begins(&self.blocked_in, &e.blocked_in)
            && begins(&self.wakes, &e.wakes)
            && begins(&self.leads_to, &e.leads_to)
            && all_begin(&self.only_wakes, &e.all_woken)
            && begins(&self.timer, &e.timer)
            && contains(&self.irq, &e.irq)
            && contains(&self.function, &e.functions)
            && self.min_ms.is_none_or(|m| e.length_ms >= m)
            && self.max_ms.is_none_or(|m| e.length_ms <= m);
        if !plain {
            return None;
        }
        if let Some(least) = self.stall_idle_ms {
            return e.stalls.iter().find(|s| s.idle_ms >= least).map(Some);
        }
        let about_ipc = !self.ipc_server.is_empty()
            || self.ipc_idle_ms.is_some()
            || self.ipc_idle_share.is_some()
            || self.ipc == Some(true);
        if !about_ipc {
            return flag(self.ipc, !e.ipc.is_empty()).then_some(None);
        }
        let fits = e.ipc.iter().find(|i| {
            begins(&self.ipc_server, &i.server_names)
                && self.ipc_idle_ms.is_none_or(|m| i.idle_ms >= m)
                && self.ipc_idle_share.is_none_or(|s| i.idle_share >= s)
        });
        fits.map(Some)
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

    #[test]
    fn conditions_combine() {
        let rules = IdleRules::parse(
            "[[rule]]\ncause = \"both\"\n[[rule.when]]\nio_wait = true\nmax_ms = 5\n\
             [[rule.when]]\nwakes = [\"kw\"]\n",
        )
        .unwrap();
        let cause = |e: &Evidence| rules.explain(e).map(|(r, _)| r.cause.clone());
        let mut e = Evidence {
            length_ms: 9.0,
            io_wait: true,
            ..Evidence::default()
        };
        assert_eq!(cause(&e), None);
        e.length_ms = 3.0;
        assert_eq!(cause(&e).as_deref(), Some("both"));
        e.io_wait = false;
        e.wakes = vec!["kworker/0:1".into()];
        assert_eq!(cause(&e).as_deref(), Some("both"));
    }
}
