//! Summary of a run as text.

use std::fmt::Write as _;

use mpbond_probe::traffic::{DirectionSummary, Summary};

use crate::probe::clock_text;

/// Maximum number of gaps that are listed.
const MOST_GAPS: usize = 20;

pub(crate) fn text(s: &Summary) -> String {
    let mut out = String::new();
    for (name, d) in [("down", &s.down), ("up", &s.up)] {
        if let Some(d) = d {
            direction(&mut out, name, d);
        }
    }
    for loss in &s.losses {
        let _ = match loss.back_s {
            Some(back) => writeln!(
                out,
                "connection lost at {:.3} s ({}), back at {back:.3} s",
                loss.lost_s, loss.reason
            ),
            None => writeln!(
                out,
                "connection lost at {:.3} s ({}) for good",
                loss.lost_s, loss.reason
            ),
        };
    }
    if let Some(clock) = &s.clock {
        out.push_str(&clock_text(clock, "delays"));
    }
    out
}

fn direction(out: &mut String, name: &str, d: &DirectionSummary) {
    let _ = write!(out, "{name}: {} records, {} bytes", d.records, d.bytes);
    if let (Some(mbps), Some(last)) = (d.goodput_mbps, d.last_s) {
        let _ = write!(out, " in {last:.3} s: {mbps:.3} Mbit/s");
    }
    let _ = match d.missing {
        Some(0) => writeln!(out, "; all of them"),
        Some(n) => writeln!(out, "; {n} missing"),
        None => writeln!(out, "; its end was never heard of"),
    };
    if let Some(t) = &d.delay_ms {
        let _ = writeln!(
            out,
            "  one-way delay, ms: min {:.3}, mean {:.3}, median {:.3}, p95 {:.3}, p99 {:.3}, max \
             {:.3}",
            t.min, t.mean, t.median, t.p95, t.p99, t.max
        );
    }
    let g = &d.gaps;
    if g.count == 0 {
        let _ = writeln!(out, "  no gaps over {:.3} s", g.threshold_s);
        return;
    }
    let _ = writeln!(
        out,
        "  {} gaps over {:.3} s, {:.3} s in all, the longest {:.3} s",
        g.count, g.threshold_s, g.total_s, g.longest_s
    );
    for gap in g.list.iter().take(MOST_GAPS) {
        let _ = writeln!(
            out,
            "    {:.3} s, from {:.3} s on{}{}",
            gap.length_s,
            gap.start_s,
            if gap.reconnected {
                ", another connection"
            } else {
                ""
            },
            if gap.open { ", to the end" } else { "" }
        );
    }
    if g.count > MOST_GAPS as u64 {
        let _ = writeln!(out, "    ... (all of them with --json)");
    }
}
