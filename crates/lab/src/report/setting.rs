//! Links, settings, schemes and workloads of an experiment, as tables.

use mpbond_sim::link::BurstLoss;
use mpbond_sim::world::BufferDelay;
use mpbond_units::Size;
use serde::Serialize;

use crate::experiment::{
    Application, Carrier, Change, Connection, Experiment, Link, Start, name_of,
};
use crate::figures::grid::Grid;

/// A value in the form that experiment files use.
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
        what.extend(c.burst_loss.map(|b| format!("loss in bursts {}", text(b))));
        what.extend(c.alive.map(|a| format!("alive {a}")));
        what.extend(c.carrier.map(|a| format!("carrier {a}")));
        let link = c.link.as_ref();
        let link = link.map_or(String::new(), |l| format!("{} ", l.get_ref()));
        format!("{}: {link}{}", duration(c.at), what.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Properties that few links have.
fn beside(l: &Link) -> String {
    let mut what = Vec::new();
    if l.burst_loss != BurstLoss::default() {
        what.push(format!("loss in bursts {}", text(l.burst_loss)));
    }
    if let Some(hold) = l.hold {
        let bytes = l.hold_bytes.map(|b| format!(" or {b} bytes"));
        what.push(format!(
            "hold {}{}",
            duration(hold),
            bytes.unwrap_or_default()
        ));
    }
    for (name, value) in [
        ("medium", &l.medium),
        ("radio", &l.radio),
        ("far radio", &l.far_radio),
    ] {
        what.extend(value.as_ref().map(|v| format!("{name} {}", v.get_ref())));
    }
    what.join("\n")
}

/// A table of links.
pub(super) fn links(e: &Experiment) -> Grid {
    let header = [
        "link", "between", "down", "up", "delay", "jitter", "queue", "loss", "beside", "changes",
    ];
    let mut grid = Grid::new(header, &[0, 1, 8, 9]);
    for l in &e.links {
        let between = format!("{} - {}", l.from.get_ref(), l.to.get_ref());
        if l.down.is_none() {
            let kind = match l.bluetooth {
                Some(_) => "Bluetooth",
                None => "a plain wire",
            };
            let mut row = vec![l.name.get_ref().clone(), between, kind.into()];
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
            beside(l),
            changes(&l.changes),
        ]);
    }
    grid
}

/// A table of what differs between settings; empty when there are none.
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

/// A table of schemes.
pub(super) fn schemes(e: &Experiment) -> Grid {
    let header = [
        "scheme",
        "carried by",
        "devices",
        "connection",
        "congestion",
        "start",
        "scheduler",
        "via",
        "split",
        "reinjection",
        "feedback",
    ];
    let mut grid = Grid::new(header, &[0, 1, 3, 4, 5, 6, 7, 8, 9, 10]);
    for s in &e.schemes {
        let ours = s.scheme == Carrier::Mpbond;
        let if_ours = |text: String| if ours { text } else { "-".into() };
        let kept = s.connection == Connection::Kept;
        let start = match s.start {
            Start::Warm if ours || kept => format!("warm, idle {}", duration(s.idle)),
            Start::Cold if ours => "cold".into(),
            _ => "-".into(),
        };
        let carrier = match s.scheme {
            Carrier::Combine => format!(
                "combine, {} a chunk, hand-over {}",
                Size(s.chunk_bytes()),
                text(s.hand_over)
            ),
            other => name_of(other),
        };
        let mut scheduler = s.scheduler.to_string();
        if s.buffer_delay == BufferDelay::Measured {
            scheduler += ", measured delay at helpers";
        }
        grid.row(vec![
            s.name.get_ref().clone(),
            carrier,
            if s.dual {
                format!("{}, dual", s.devices)
            } else {
                s.devices.to_string()
            },
            name_of(s.connection),
            s.congestion.clone(),
            start,
            if_ours(scheduler),
            if_ours(name_of(s.interception)),
            if_ours(if s.split { "yes" } else { "no" }.into()),
            if_ours(name_of(s.reinjection)),
            if_ours(text(s.feedback)),
        ]);
    }
    grid
}

/// A table of workloads.
pub(super) fn workloads(e: &Experiment) -> Grid {
    let header = ["transfer", "direction", "bytes", "changes", "faults"];
    let mut grid = Grid::new(header, &[0, 1, 3, 4]);
    for w in &e.workloads {
        let faults = w.faults.iter().map(|f| {
            let at = duration(f.at);
            match (&f.kill, &f.blackhole, &f.down_with_error) {
                (Some(host), ..) => format!("{at}: {} is killed", host.get_ref()),
                (_, Some(link), _) => format!("{at}: {} goes silent", link.get_ref()),
                (.., Some(link)) => format!("{at}: {} goes down", link.get_ref()),
                (None, None, None) => at,
            }
        });
        grid.row(vec![
            w.name.get_ref().clone(),
            name_of(w.direction),
            match w.application() {
                None => w.bytes.to_string(),
                Some(Application::Video(_)) => "a video".into(),
                Some(Application::Page(_)) => "a page".into(),
                Some(Application::Stream(_)) => "a stream".into(),
                Some(Application::Files(files)) => format!("{} files", files.len()),
                Some(Application::Chunks(_)) => "chunks".into(),
                Some(Application::Messages(m)) if m.bulk => "messages beside a download".into(),
                Some(Application::Messages(_)) => "messages".into(),
                Some(Application::Timed(length)) => format!("for {}", duration(length)),
            },
            changes(&w.changes),
            faults.collect::<Vec<_>>().join("\n"),
        ]);
    }
    grid
}

/// A table of energy models; empty when there are none.
pub(super) fn energy(e: &Experiment) -> Grid {
    let header = ["energy model", "WWAN", "pipe", "own radios", "access point"];
    let mut grid = Grid::new(header, &[0, 1, 2, 3, 4]);
    for m in &e.energy {
        let access_point = m.access_point.as_ref();
        let devices = m.device.iter();
        let devices = devices.map(|(host, device)| format!("{host}: {}", device.get_ref()));
        let devices: Vec<String> = devices.collect();
        grid.row(vec![
            m.name.get_ref().clone(),
            m.wwan.get_ref().clone(),
            m.pipe.get_ref().clone(),
            match devices.is_empty() {
                true => "none".into(),
                false => devices.join("\n"),
            },
            access_point.map_or("not accounted".into(), |a| a.get_ref().clone()),
        ]);
    }
    grid
}
