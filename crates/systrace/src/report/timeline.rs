//! The timeline's data: exact while there are few runs, merged when there are
//! too many for a browser.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Report;

/// Runs that a page carries one by one: a browser walks through so many in a
/// few milliseconds, and they make a page of about ten megabytes.
const MAX_EXACT: usize = 600_000;

/// Everything the page's script draws. Times are µs from the begin; starts are
/// differences to the end of the item before.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
    /// Length, µs.
    pub span_us: u64,
    /// Names of tasks.
    pub tasks: Vec<String>,
    /// One lane a CPU.
    pub lanes: Vec<Lane>,
    /// Idle episodes: start, length, index of cause.
    pub idle: Vec<[u64; 3]>,
    /// Causes: name, whether an anomaly.
    pub causes: Vec<(String, bool)>,
    /// What the page leaves out, in words; empty when nothing.
    pub merged: String,
}

/// One CPU: flat lists of gap, length, index of task, and share of the length
/// (of 255) that is busy.
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
            "{total} runs are too many for a page: runs shorter than {width} µs are merged, and the colour of a piece is that of the task that ran longest in it"
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

/// The finest cut that keeps the page within its budget: idle stretches and
/// long runs cost nothing, so it depends on the trace.
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

/// Long runs stay; short ones that fall into one piece of time become one item.
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
        // Thirty of a hundred.
        assert_eq!(out[0].share, 30 * 255 / 100);
    }
}
