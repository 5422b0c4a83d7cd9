//! Data of the HTML timeline: exact runs, or merged ones if there are too many for a browser.

use std::collections::BTreeMap;

use serde::Serialize;

use super::analyses::Report;

/// Maximum number of runs in a page without merging. A browser iterates over this many in a few
/// milliseconds, and they make a page of about ten megabytes.
const MAX_EXACT: usize = 600_000;

/// Data of the page's script. Times are µs from the start of the window; the start of an item is
/// relative to the end of the item before.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
    /// Length of the window, µs.
    pub span_us: u64,
    /// Task names.
    pub tasks: Vec<String>,
    /// One lane per CPU.
    pub lanes: Vec<Lane>,
    /// The longest idle episodes: start, length, index of the cause.
    pub idle: Vec<[u64; 3]>,
    /// Causes: name, and whether it is an anomaly.
    pub causes: Vec<(String, bool)>,
    /// Description of the merging; empty if all runs are exact.
    pub merged: String,
}

/// One CPU: a flat list of gap, length, index of the task, and busy share of the length (0 to 255)
/// per item.
#[derive(Debug, Serialize)]
pub(super) struct Lane {
    pub name: String,
    pub items: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Item {
    start: u64,
    end: u64,
    task: u32,
    share: u64,
}

pub(super) fn timeline(r: &Report) -> Option<Timeline> {
    let (start, end) = r.trace.window()?;
    let us = |ns: u64| (ns - start) / 1_000;
    let mut by_cpu: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
    for run in r.runs.iter().filter(|r| r.task != 0) {
        by_cpu.entry(run.cpu).or_default().push(Item {
            start: us(run.start),
            end: us(run.end),
            task: run.task,
            share: 255,
        });
    }
    let total: usize = by_cpu.values().map(Vec::len).sum();
    let span_us = us(end);
    let mut merged = String::new();
    if total > MAX_EXACT {
        let width = finest(&by_cpu, span_us);
        for items in by_cpu.values_mut() {
            *items = merge(items, width);
        }
        merged = format!(
            "The trace has {total} runs: those shorter than {width} µs are merged, in the colour \
             of the task with the longest total time."
        );
    }
    let mut index: BTreeMap<u32, u64> = BTreeMap::new();
    let mut tasks = Vec::new();
    let mut lanes = Vec::new();
    for (cpu, items) in by_cpu {
        let mut flat = Vec::with_capacity(items.len() * 4);
        let mut at = 0;
        for i in items {
            let task = *index.entry(i.task).or_insert_with(|| {
                let pid = r.trace.tasks.process(i.task);
                let name = r.trace.tasks.name(i.task);
                tasks.push(if pid == i.task {
                    format!("{name} ({})", i.task)
                } else {
                    format!("{name} ({}) of {}", i.task, r.trace.tasks.process_name(pid))
                });
                tasks.len() as u64 - 1
            });
            flat.extend([i.start.saturating_sub(at), i.end - i.start, task, i.share]);
            at = i.end.max(at);
        }
        lanes.push(Lane {
            name: format!("CPU {cpu}"),
            items: flat,
        });
    }
    let mut causes: Vec<(String, bool)> = Vec::new();
    let mut idle = Vec::new();
    if let Some(report) = &r.idle {
        causes = report
            .causes
            .iter()
            .map(|c| (c.cause.clone(), c.anomaly))
            .collect();
        for d in &report.details {
            let cause = causes.iter().position(|c| c.0 == d.cause).unwrap_or(0);
            idle.push([us(d.start_ns), us(d.end_ns) - us(d.start_ns), cause as u64]);
        }
    }
    Some(Timeline {
        span_us,
        tasks,
        lanes,
        idle,
        causes,
        merged,
    })
}

/// The smallest merge width that keeps the page within [`MAX_EXACT`] items. It depends on the
/// trace, because idle time and long runs need no merging.
fn finest(by_cpu: &BTreeMap<u32, Vec<Item>>, span_us: u64) -> u64 {
    let mut width = 2;
    while width < span_us {
        let count: usize = by_cpu.values().map(|i| merge(i, width).len()).sum();
        if count <= MAX_EXACT {
            break;
        }
        width *= 2;
    }
    width
}

/// Merges runs shorter than `width` that fall into the same time slot; longer runs stay.
fn merge(items: &[Item], width: u64) -> Vec<Item> {
    let mut out: Vec<Item> = Vec::new();
    let mut piece: Option<(u64, BTreeMap<u32, u64>)> = None;
    let flush = |piece: &mut Option<(u64, BTreeMap<u32, u64>)>, out: &mut Vec<Item>| {
        let Some((number, times)) = piece.take() else {
            return;
        };
        let busy: u64 = times.values().sum();
        if let Some((task, _)) = times.iter().max_by_key(|t| t.1) {
            let start = (number * width).max(out.last().map_or(0, |i| i.end));
            let end = ((number + 1) * width).max(start);
            out.push(Item {
                start,
                end,
                task: *task,
                share: (busy * 255 / width.max(1)).clamp(1, 255),
            });
        }
    };
    for i in items {
        if i.end - i.start >= width {
            flush(&mut piece, &mut out);
            let start = i.start.max(out.last().map_or(0, |o| o.end)).min(i.end);
            out.push(Item { start, ..*i });
            continue;
        }
        let number = i.start / width;
        if piece.as_ref().is_some_and(|p| p.0 != number) {
            flush(&mut piece, &mut out);
        }
        let (_, times) = piece.get_or_insert_with(|| (number, BTreeMap::new()));
        *times.entry(i.task).or_default() += i.end - i.start;
    }
    flush(&mut piece, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_long_runs_and_order() {
        let item = |start, end, task| Item {
            start,
            end,
            task,
            share: 255,
        };
        let items: Vec<Item> = (0..100)
            .map(|i| item(i * 10, i * 10 + 3, 1 + (i % 2) as u32))
            .chain([item(1_000, 5_000, 9)])
            .collect();
        let out = merge(&items, 100);
        assert_eq!(out.len(), 11);
        assert!(out.windows(2).all(|w| w[0].end <= w[1].start));
        assert_eq!(out[10].task, 9);
        // 30 of 100.
        assert_eq!(out[0].share, 30 * 255 / 100);
    }
}
