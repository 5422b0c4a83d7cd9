use super::Report;

/// Table 4's anomalies are many in a bad trace; the worst tell the story.
const MAX_IDLE_FINDINGS: usize = 10;

/// Names in a sentence; whole ones are in the tables.
fn short(name: &str) -> String {
    const MOST: usize = 60;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

pub(super) fn findings(r: &Report) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(why) = &r.summary.incomplete {
        list.push(format!("The trace is not whole: {why}."));
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
            list.push(format!(
                "{more} further waits of this kind are in the table."
            ));
        }
    }
    if let Some(u) = &r.usage {
        list.push(format!(
            "In {:.3} s the CPUs were busy {:.1} % of the time that they had.",
            u.span_s, u.busy_percent
        ));
        if let Some(top) = u.processes.first() {
            list.push(format!(
                "{} ({}) used most of it: {:.1} %.",
                top.name, top.id, top.percent_of_busy
            ));
        }
    }
    if let Some(tlp) = r.summary.tlp {
        let reading = if tlp < 1.1 {
            "a second core would hardly be used"
        } else if tlp < 2.0 {
            "a second core is of use"
        } else {
            "more than two cores are of use"
        };
        list.push(format!(
            "While anything ran, {tlp:.2} CPUs ran on average: {reading}."
        ));
    }
    if let Some(idle) = &r.idle {
        list.push(format!(
            "No CPU had work for {:.1} % of the time, in {} episodes; the cause is known for {:.0} % of that.",
            idle.idle_percent, idle.episodes, idle.explained_percent
        ));
    }
    if let Some(f) = &r.functions {
        if let Some(top) = f.functions.first() {
            list.push(format!(
                "The hottest function is {}: {:.1} ms of its own in {} calls.",
                top.name,
                top.exclusive_us as f64 / 1e3,
                top.calls
            ));
        }
        for n in [5, 50] {
            if let Some(share) = f.top_share_curve.get(n - 1) {
                list.push(format!(
                    "The {n} hottest functions take {share:.0} % of the time."
                ));
            }
        }
        let data: f64 = f.packages.iter().map(|p| p.percent).sum();
        if data >= 1.0 {
            list.push(format!(
                "Basic data structures take {data:.0} % of the time."
            ));
        }
    }
    if let Some(s) = &r.sampled
        && let Some(top) = s.functions.first().filter(|f| f.own_samples > 0)
    {
        list.push(format!(
            "The hottest function is {}: {:.1} % of {} samples fell into it.",
            short(&top.name),
            top.own_percent,
            s.samples
        ));
        if let Some(share) = s.top_share_curve.get(4) {
            list.push(format!(
                "The 5 hottest functions have {share:.0} % of them."
            ));
        }
    }
    let own = r.spans.iter().find_map(|s| Some((s, s.own_ms?)));
    if let Some((top, own_ms)) = own {
        list.push(format!(
            "Of what programs marked, {} of {} ({}) takes most: {own_ms:.1} ms of its own; the longest of {} took {:.1} ms.",
            short(&top.name),
            top.process_name,
            top.process,
            top.count,
            top.longest_ms
        ));
    }
    if let Some(row) = r.microarch.iter().find(|m| m.cpi.is_some()) {
        list.push(format!(
            "{} ({}) takes {:.2} cycles per instruction.",
            row.name,
            row.id,
            row.cpi.unwrap_or_default()
        ));
    }
    if let Some(n) = r.summary.samples {
        list.push(format!("The profile holds {n} samples."));
    }
    if list.is_empty() {
        let events: u64 = r.summary.events.values().sum();
        list.push(format!(
            "The trace holds {events} events, none of which tells what the CPUs ran."
        ));
    }
    list
}
