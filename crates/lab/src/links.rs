//! From an experiment's links to what the player plays.

use std::path::Path;
use std::time::Duration;

use mpbond_sim::link::LinkChange;

use crate::error::{Error, Result};
use crate::experiment::{Direction, Experiment, Link, Workload};
use crate::player::{PlayedLink, TimedChange};
use crate::wiring::Network;

/// Both directions, for loops.
pub(crate) const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];
/// No recording in use is larger.
const MAX_TRACE_BYTES: u64 = 64 << 20;

/// The shaped links of `experiment` with their devices, recordings loaded.
///
/// # Errors
/// When a recording cannot be read, naming file and place.
pub fn played_links(experiment: &Experiment, network: &mut Network) -> Result<Vec<PlayedLink>> {
    let mut played = Vec::new();
    for ends in network.take_ends() {
        let link = find(experiment, &ends.link)?;
        let model = |direction| {
            let spec = link.model(direction).ok_or_else(|| no_link(&ends.link))?;
            spec.resolve(|file| read(experiment, file))
                .map_err(|e| Error::Experiment(format!("link \"{}\": {e}", ends.link)))
        };
        played.push(PlayedLink {
            down: model(Direction::Down)?,
            up: model(Direction::Up)?,
            name: ends.link,
            near: ends.near,
            far: ends.far,
        });
    }
    Ok(played)
}

/// Everything that happens to links while `workload` runs: their scheduled
/// changes and its own, and its blackholes.
pub(crate) fn timed_changes(e: &Experiment, workload: &Workload) -> Result<Vec<TimedChange>> {
    let mut all = Vec::new();
    for link in &e.links {
        let name = link.name.get_ref();
        for change in e.changes_of(link, workload) {
            for direction in DIRECTIONS {
                let change_of = change.of(direction);
                let resolved = change_of
                    .resolve(|file| read(e, file))
                    .map_err(|e| Error::Experiment(format!("link \"{name}\": {e}")))?;
                all.push(timed(change.at, name, direction, resolved));
            }
        }
    }
    for fault in &workload.faults {
        if let Some(link) = &fault.blackhole {
            for direction in DIRECTIONS {
                all.push(timed(
                    fault.at,
                    link.get_ref(),
                    direction,
                    LinkChange::down(),
                ));
            }
        }
    }
    Ok(all)
}

fn timed(at: Duration, link: &str, direction: Direction, change: LinkChange) -> TimedChange {
    TimedChange {
        at,
        link: link.to_owned(),
        direction,
        change,
    }
}

fn find<'e>(e: &'e Experiment, name: &str) -> Result<&'e Link> {
    let mut links = e.links.iter();
    links
        .find(|l| l.name.get_ref() == name)
        .ok_or_else(|| no_link(name))
}

fn no_link(name: &str) -> Error {
    Error::run(format!("the experiment has no shaped link {name}"))
}

/// The text of a recording, named relative to the experiment file.
pub(crate) fn read(e: &Experiment, file: &str) -> std::io::Result<String> {
    let folder = e.path.parent().unwrap_or(Path::new(""));
    let path = folder.join(file);
    if std::fs::metadata(&path)?.len() > MAX_TRACE_BYTES {
        return Err(std::io::Error::other("too long for a recording"));
    }
    std::fs::read_to_string(path)
}
