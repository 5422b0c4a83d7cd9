//! Findings of the report, as sentences.

use super::analyses::Report;
use crate::error::one_line;

/// Maximum number of idle findings; the longest ones are the most important.
const MAX_IDLE_FINDINGS: usize = 10;

/// Truncates a name for use in a sentence; tables have the full name.
fn truncated(name: &str) -> String {
    const MOST: usize = 60;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

impl Report {
    /// Findings as sentences, most important first. Control characters of names are replaced, for a
    /// terminal.
    pub fn findings(&self) -> Vec<String> {
        findings(self).iter().map(|f| one_line(f)).collect()
    }
}

fn findings(r: &Report) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(why) = &r.summary.incomplete {
        list.push(format!("The trace is incomplete: {why}."));
    }
    for note in &r.summary.notes {
        list.push(format!("{note}."));
    }
    if let Some(idle) = &r.idle {
        for f in idle.findings.iter().take(MAX_IDLE_FINDINGS) {
            list.push(format!("{}.", f.text));
        }
        if idle.findings.len() > MAX_IDLE_FINDINGS {
            let more = idle.findings.len() - MAX_IDLE_FINDINGS;
            list.push(format!("The table lists {more} more stalls."));
        }
    }
    if let Some(u) = &r.usage {
        list.push(format!(
            "The trace covers {:.3} s, with CPU utilization {:.1} %.",
            u.span_s, u.busy_percent
        ));
        if let Some(top) = u.processes.first() {
            list.push(format!(
                "{} ({}) used most CPU time: {:.1} % of all busy time.",
                top.name, top.id, top.percent_of_busy
            ));
        }
    }
    if let Some(tlp) = r.summary.tlp {
        let reading = if tlp < 1.1 {
            "a second core would be idle most of the time"
        } else if tlp < 2.0 {
            "a second core is useful"
        } else {
            "more than two cores are useful"
        };
        list.push(format!("Thread-level parallelism is {tlp:.2}: {reading}."));
    }
    if let Some(idle) = &r.idle {
        list.push(format!(
            "All CPUs were idle for {:.1} % of the time, in {} episodes; {:.0} % of that is \
             explained.",
            idle.idle_percent, idle.episodes, idle.explained_percent
        ));
    }
    if let Some(f) = &r.functions {
        if let Some(top) = f.functions.first() {
            list.push(format!(
                "The hottest function is {}: {:.1} ms exclusive time in {} calls.",
                top.name,
                top.exclusive_us as f64 / 1e3,
                top.calls
            ));
        }
        for n in [5, 50] {
            if let Some(share) = f.top_share_curve.get(n - 1) {
                list.push(format!(
                    "The {n} hottest functions take {share:.0} % of the exclusive time."
                ));
            }
        }
        let data: f64 = f.packages.iter().map(|p| p.percent).sum();
        if data >= 1.0 {
            list.push(format!(
                "Basic data structures take {data:.0} % of the exclusive time."
            ));
        }
    }
    if let Some(s) = &r.sampled
        && let Some(top) = s.functions.first().filter(|f| f.exclusive_samples > 0)
    {
        list.push(format!(
            "The hottest function is {}: {:.1} % of {} samples.",
            truncated(&top.name),
            top.exclusive_percent,
            s.samples
        ));
        if let Some(share) = s.top_share_curve.get(4) {
            list.push(format!(
                "The 5 hottest functions take {share:.0} % of the samples."
            ));
        }
    }
    let own = r.spans.iter().find_map(|s| Some((s, s.self_ms?)));
    if let Some((top, self_ms)) = own {
        list.push(format!(
            "The slice with the most self time is {} of {} ({}): {self_ms:.1} ms; the \
             longest of {} took {:.1} ms.",
            truncated(&top.name),
            top.process_name,
            top.process,
            top.count,
            top.longest_ms
        ));
    }
    if let Some(row) = r.microarch.iter().find(|m| m.cpi.is_some()) {
        list.push(format!(
            "{} ({}) needs {:.2} cycles per instruction.",
            row.name,
            row.id,
            row.cpi.unwrap_or_default()
        ));
    }
    if let Some(n) = r.summary.samples {
        list.push(format!("The profile has {n} samples."));
    }
    if list.is_empty() {
        let events: u64 = r.summary.events.values().sum();
        list.push(format!(
            "The trace has {events} events but no task switches, method calls or samples."
        ));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::analyses::ReportOptions;
    use super::*;

    #[test]
    fn control_characters_of_names_do_not_reach_a_terminal() {
        let text = "\
 <idle>-0 [000] d..2 10.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=a\u{1b}[2Jb next_pid=7 next_prio=120
 a-7 [000] d..2 10.010000: sched_switch: prev_comm=a\u{1b}[2Jb prev_pid=7 prev_prio=120 \
    prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
        let report = Report::of(text.as_bytes(), &ReportOptions::default()).unwrap();
        let findings = report.findings();
        let most = findings.iter().find(|f| f.contains("used most CPU time"));
        assert!(most.unwrap().starts_with("a?[2Jb (7) used"), "{findings:?}");
    }
}
