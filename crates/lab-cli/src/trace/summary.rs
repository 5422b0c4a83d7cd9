//! `mpbond trace summary`: the contents of a trace.

use clap::Args;
use mpbond_command::{Failure, print};
use mpbond_systrace::Summary;

use super::form::json;
use super::input::{InputArgs, bad, open};

/// Contents of a trace: events, busy shares, thread-level parallelism.
///
/// The JSON form is kept stable: format, events, span_s, cpus, concurrency_percent, tlp, methods,
/// samples, incomplete. Memory grows by eight bytes per task switch only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond trace summary trace.dat
  mpbond trace summary trace.dat --json | jq .tlp")]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl SummaryArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let file = &self.input.file;
        let summary = Summary::of(open(file, self.input.quiet)?).map_err(|e| bad(file, &e))?;
        if self.json {
            return json(&summary);
        }
        self.input.warn(summary.incomplete.as_deref());
        print(&text(&summary))
    }
}

fn text(s: &Summary) -> String {
    let mut lines = vec![
        format!("format        {}", s.format),
        format!("span          {:.6} s", s.span_s),
        format!("threads       {}", s.threads),
    ];
    if let Some(tlp) = s.tlp {
        lines.push(format!("parallelism   {tlp:.4} (TLP)"));
        let shares = s.concurrency_percent.iter().enumerate();
        let shares: Vec<String> = shares.map(|(i, c)| format!("c{i} {c:.2}")).collect();
        lines.push(format!("concurrency   {} %", shares.join(", ")));
    }
    for c in &s.cpus {
        lines.push(format!("CPU {:<9} {:.2} % busy", c.cpu, c.busy_percent));
    }
    if let Some(m) = &s.methods {
        lines.push(format!(
            "methods       {} records, {} methods, {} threads",
            m.records, m.distinct, m.threads
        ));
    }
    if let Some(n) = s.samples {
        lines.push(format!("samples       {n}"));
    }
    if let Some(why) = &s.incomplete {
        lines.push(format!("not whole     {why}"));
    }
    lines.extend(s.notes.iter().map(|n| format!("note          {n}")));
    let mut counts: Vec<_> = s.events.iter().chain(&s.other_records).collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    lines.push("events".to_owned());
    lines.extend(counts.iter().map(|(name, n)| format!("  {n:>10}  {name}")));
    lines.join("\n") + "\n"
}
