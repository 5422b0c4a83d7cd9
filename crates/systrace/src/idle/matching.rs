//! Matching of rules with the evidence of an idle episode.

use super::episode::IpcWait;
use super::evidence::Evidence;
use super::rules::{Condition, IdleRule, IdleRules};

impl IdleRules {
    /// The first rule that holds, and the wait that satisfied it, if it needs one.
    pub(super) fn explain<'e>(&self, e: &'e Evidence) -> Option<(&IdleRule, Option<&'e IpcWait>)> {
        self.rule.iter().find_map(|r| {
            let wait = r.when.iter().find_map(|c| c.holds(e))?;
            Some((r, wait))
        })
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
