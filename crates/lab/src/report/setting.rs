//! What was run: links, settings, schemes, as tables.

use serde::Serialize;

use crate::experiment::{Carrier, Change, Experiment, Start, name_of};
use crate::grid::Grid;

/// A value as experiment files write it.
fn text(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) | Err(_) => "-".into(),
        Ok(other) => other.to_string(),
    }
}

fn duration(d: std::time::Duration) -> String {
    format!("{d:?}")
}

fn changes(all: &[Change]) -> String {
    let lines = all.iter().map(|c| {
        let mut what = Vec::new();
        what.extend(c.down.as_ref().map(|r| format!("down {}", text(r))));
        what.extend(c.up.as_ref().map(|r| format!("up {}", text(r))));
        what.extend(c.delay.map(|d| format!("delay {}", duration(d))));
        what.extend(c.loss.map(|l| format!("loss {l}")));
        what.extend(c.alive.map(|a| format!("alive {a}")));
        format!("{}: {}", duration(c.at), what.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The links.
pub(super) fn links(e: &Experiment) -> Grid {
    let header = [
        "link", "between", "down", "up", "delay", "jitter", "queue", "loss", "changes",
    ];
    let mut grid = Grid::new(header, &[0, 1, 8]);
    for l in &e.links {
        let between = format!("{} - {}", l.from.get_ref(), l.to.get_ref());
        if l.down.is_none() {
            let mut row = vec![l.name.get_ref().clone(), between, "a plain wire".into()];
            row.resize(header.len(), String::new());
            grid.row(row);
            continue;
        }
        grid.row(vec![
            l.name.get_ref().clone(),
            between,
            text(&l.down),
            text(&l.up),
            duration(l.delay),
            duration(l.jitter),
            text(l.queue),
            l.loss.to_string(),
            changes(&l.changes),
        ]);
    }
    grid
}

/// What differs between settings; empty without any.
pub(super) fn settings(e: &Experiment) -> Grid {
    let header = ["setting", "link", "instead"];
    let mut grid = Grid::new(header, &[0, 1, 2]);
    for s in &e.settings {
        for (link, set) in &s.links {
            let mut what = Vec::new();
            what.extend(set.down.as_ref().map(|r| format!("down {}", text(r))));
            what.extend(set.up.as_ref().map(|r| format!("up {}", text(r))));
            what.extend(set.delay.map(|d| format!("delay {}", duration(d))));
            what.extend(set.queue.map(|q| format!("queue {}", text(q))));
            what.extend(set.loss.map(|l| format!("loss {l}")));
            what.extend(set.changes.as_ref().map(|c| changes(c)));
            grid.row(vec![
                s.name.get_ref().clone(),
                link.get_ref().clone(),
                what.join(", "),
            ]);
        }
    }
    grid
}

/// The schemes.
pub(super) fn schemes(e: &Experiment) -> Grid {
    let header = [
        "scheme",
        "carried by",
        "scheduler",
        "devices",
        "via",
        "congestion",
        "start",
        "reinjection",
    ];
    let mut grid = Grid::new(header, &[0, 1, 2, 4, 5, 6, 7]);
    for s in &e.schemes {
        let ours = s.scheme == Carrier::Mpbond;
        let if_ours = |text: String| if ours { text } else { "-".into() };
        let start = match s.start {
            Start::Warm => format!("warm, idle {}", duration(s.idle)),
            Start::Cold => "cold".into(),
        };
        grid.row(vec![
            s.name.get_ref().clone(),
            name_of(s.scheme),
            if_ours(name_of(s.scheduler)),
            s.devices.to_string(),
            if_ours(name_of(s.interception)),
            s.congestion.clone(),
            if_ours(start),
            if_ours(if s.reinjection { "yes" } else { "no" }.into()),
        ]);
    }
    grid
}

/// The models of radios; empty without any.
pub(super) fn energy(e: &Experiment) -> Grid {
    let header = ["energy model", "WWAN", "pipe", "access point"];
    let mut grid = Grid::new(header, &[0, 1, 2, 3]);
    for m in &e.energy {
        let access_point = m.access_point.as_ref();
        grid.row(vec![
            m.name.get_ref().clone(),
            m.wwan.get_ref().clone(),
            m.pipe.get_ref().clone(),
            access_point.map_or("not accounted".into(), |a| a.get_ref().clone()),
        ]);
    }
    grid
}
