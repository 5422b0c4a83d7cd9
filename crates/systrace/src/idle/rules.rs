use serde::Deserialize;

use super::evidence::Evidence;

/// The causes that section 4 and 5.2 name.
const SHIPPED: &str = include_str!("../../data/idle_rules.toml");

/// Known causes of idle, as data; see `data/idle_rules.toml` for the terms.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRules {
    /// Parts of the names of functions that are meant to wait: a request that
    /// is served by one is no stall.
    #[serde(default)]
    pub waits_by_design: Vec<String>,
    /// Rules in the order in which they are tried.
    #[serde(default)]
    pub rule: Vec<IdleRule>,
}

/// One cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRule {
    /// Its name.
    pub cause: String,
    /// Whether episodes of this cause are findings.
    #[serde(default)]
    pub anomaly: bool,
    /// Whether the cause explains anything.
    #[serde(default = "yes")]
    pub explained: bool,
    /// Any of these must hold.
    pub when: Vec<Condition>,
}

fn yes() -> bool {
    true
}

/// What must hold, all of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// A task that runs next was blocked on storage.
    pub io_wait: Option<bool>,
    /// A storage request was under way.
    pub block_request: Option<bool>,
    /// A step of suspending or resuming was under way.
    pub power_step: Option<bool>,
    /// Beginnings of kernel functions that a task that runs next slept in.
    pub blocked_in: Vec<String>,
    /// Beginnings of the names of tasks that run first afterwards.
    pub wakes: Vec<String>,
    /// Parts of the name of the interrupt that ended the episode.
    pub irq: Vec<String>,
    /// Beginnings of the names of tasks that the first one wakes, or that those wake in turn.
    pub leads_to: Vec<String>,
    /// Names of all tasks that run because of its end begin with one of these.
    pub only_wakes: Vec<String>,
    /// Beginnings of the kernel function of the timer that ended it.
    pub timer: Vec<String>,
    /// Parts of the names of functions across it or right after it.
    pub function: Vec<String>,
    /// A request was waiting for its reply all along.
    pub ipc: Option<bool>,
    /// Beginnings of the name of the process or thread that serves it.
    pub ipc_server: Vec<String>,
    /// Idle while it waited, at least, ms.
    pub ipc_idle_ms: Option<f64>,
    /// Share of the wait that was idle, at least, 0 to 1.
    pub ipc_idle_share: Option<f64>,
    /// An interrupt ended the episode.
    pub from_interrupt: Option<bool>,
    /// The task that runs first wakes at a steady pace.
    pub periodic: Option<bool>,
    /// Length of the episode, at least, ms.
    pub min_ms: Option<f64>,
    /// Length of the episode, at most, ms.
    pub max_ms: Option<f64>,
}

impl IdleRules {
    /// The rules shipped.
    pub fn shipped() -> Self {
        toml::from_str(SHIPPED).unwrap_or(Self {
            waits_by_design: Vec::new(),
            rule: Vec::new(),
        })
    }

    /// Rules from TOML text.
    ///
    /// # Errors
    /// One line that says which line of the text is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }

    /// The first rule that holds, and the request that made it hold if one did.
    pub(super) fn explain(&self, e: &Evidence) -> Option<(&IdleRule, Option<usize>)> {
        self.rule.iter().find_map(|r| {
            let ipc = r.when.iter().find_map(|c| c.holds(e))?;
            Some((r, ipc))
        })
    }
}

impl Condition {
    /// `Some` when all of it holds, with the number of the request involved.
    fn holds(&self, e: &Evidence) -> Option<Option<usize>> {
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
        let about_ipc = !self.ipc_server.is_empty()
            || self.ipc_idle_ms.is_some()
            || self.ipc_idle_share.is_some()
            || self.ipc == Some(true);
        if !about_ipc {
            return flag(self.ipc, !e.ipc.is_empty()).then_some(None);
        }
        let fits = e.ipc.iter().position(|i| {
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
            "user think",
            "frame pacing",
            "voice-UI hand-over",
        ];
        for cause in causes {
            assert!(rules.rule.iter().any(|r| r.cause == cause), "{cause}");
        }
        assert!(IdleRules::parse("[[rule]]\ncause = 1").is_err());
    }

    #[test]
    fn conditions_combine() {
        let rules = IdleRules::parse(
            "[[rule]]\ncause = \"both\"\n[[rule.when]]\nio_wait = true\nmax_ms = 5\n[[rule.when]]\nwakes = [\"kw\"]\n",
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
