//! Conversion of an experiment's links for the player.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_sim::link::{LinkChange, Shared, SharedMedium, SharedRadio};

use crate::error::{Doing, Error, Result};
use crate::experiment::{Direction, Duplex, Experiment, Link, Role, Workload, bluetooth_radio};
use crate::network::wiring::Network;
use crate::player::{PlayedBluetooth, PlayedLink, TimedChange, restoring};

/// Both directions.
pub(crate) const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// The emulated links of `experiment` with their devices and recordings.
///
/// # Errors
/// When a recording cannot be read, naming file and line.
pub fn played_links(experiment: &Experiment, network: &mut Network) -> Result<Vec<PlayedLink>> {
    let profiles = Profiles::shipped().map_err(Error::run)?;
    let mut played = Vec::new();
    for ends in network.take_ends() {
        let link = find(experiment, &ends.link)?;
        let model = |direction| {
            let spec = link.model(direction).ok_or_else(|| no_link(&ends.link))?;
            spec.resolve(|file| experiment.read_recording(file))
                .map_err(|e| Error::Experiment(format!("link \"{}\": {e}", ends.link)))
        };
        played.push(PlayedLink {
            down: model(Direction::Down)?,
            up: model(Direction::Up)?,
            shared: shared(experiment, link, &profiles)?,
            name: ends.link,
            near: ends.near,
            far: ends.far,
        });
    }
    Ok(played)
}

/// The sockets of a Bluetooth link: that to which the near host connects, and that on which the far
/// host listens.
pub(crate) fn bluetooth_sockets(scratch: &Path, link: &Link) -> [PathBuf; 2] {
    let name = link.name.get_ref();
    ["near", "far"].map(|end| scratch.join(format!("{name}.{end}")))
}

/// The Bluetooth links of `experiment`, with sockets in a folder.
///
/// # Errors
/// When a socket cannot be made.
pub(crate) fn played_bluetooth(e: &Experiment, scratch: &Path) -> Result<Vec<PlayedBluetooth>> {
    let profiles = Profiles::shipped().map_err(Error::run)?;
    let mut played = Vec::new();
    for link in &e.links {
        let Some(spec) = &link.bluetooth else {
            continue;
        };
        let radio = |name| bluetooth_radio(&profiles, name).map_err(Error::Experiment);
        let [near, far] = link.bluetooth_radios();
        let [at, to] = bluetooth_sockets(scratch, link);
        played.push(PlayedBluetooth {
            name: link.name.get_ref().clone(),
            listener: UnixListener::bind(&at).at("listen at", &at)?,
            to,
            wearable: radio(near)?,
            phone: radio(far)?,
            signal: spec
                .signal_dbm
                .iter()
                .map(|(at, dbm)| (at.0, *dbm))
                .collect(),
        });
    }
    Ok(played)
}

/// Medium and radios of `link`.
pub(crate) fn shared(e: &Experiment, link: &Link, profiles: &Profiles) -> Result<Shared> {
    let medium = link.medium.as_ref().map(|name| name.get_ref());
    // A host has one radio for all its links on one medium.
    let place = medium.unwrap_or(link.name.get_ref());
    let radio = |host: &str, profile: Option<&toml::Spanned<String>>| {
        let Some(profile) = profile else {
            return Ok(None);
        };
        let profile = profiles.radio(profile.get_ref());
        let profile = profile.map_err(|e| Error::Experiment(e.to_string()))?;
        Ok::<_, Error>(Some(SharedRadio {
            owner: format!("{host}/{place}"),
            profile: Arc::new(profile.clone()),
        }))
    };
    let spec = e.media.iter().find(|m| Some(m.name.get_ref()) == medium);
    Ok(Shared {
        medium: spec.map(|spec| SharedMedium {
            name: spec.name.get_ref().clone(),
            medium: spec.medium(),
            half_duplex: spec.duplex == Duplex::Half,
            retries: spec.retries,
        }),
        near_radio: radio(link.from.get_ref(), link.radio.as_ref())?,
        far_radio: radio(link.to.get_ref(), link.far_radio.as_ref())?,
    })
}

/// Whether the host at the end of `direction` sees that `link` has lost its carrier: the near host
/// does, and the far host if it is a device. A server in the network does not.
fn sees_carrier(e: &Experiment, link: &Link, direction: Direction) -> bool {
    direction == Direction::Down || e.role_of(link.to.get_ref()) == Some(Role::Helper)
}

/// Changes that apply the setting of `workload`; none without a setting.
pub(crate) fn setting_changes(e: &Experiment, workload: &Workload) -> Result<Vec<TimedChange>> {
    let mut all = Vec::new();
    let Some((setting, _)) = &workload.setting else {
        return Ok(all);
    };
    for link in &e.links {
        let name = link.name.get_ref();
        if !setting.links.contains_key(&link.name) {
            continue;
        }
        for direction in DIRECTIONS {
            let Some(spec) = workload.on(link).model(direction) else {
                continue;
            };
            let model = spec
                .resolve(|file| e.read_recording(file))
                .map_err(|e| Error::Experiment(format!("link \"{name}\": {e}")))?;
            all.push(timed(Duration::ZERO, name, direction, restoring(&model)));
        }
    }
    Ok(all)
}

/// All changes of links during `workload`: its setting, scheduled changes, and faults.
pub(crate) fn timed_changes(e: &Experiment, workload: &Workload) -> Result<Vec<TimedChange>> {
    let mut all = setting_changes(e, workload)?;
    for link in &e.links {
        let link = &workload.on(link);
        let name = link.name.get_ref();
        for change in &link.changes {
            for direction in DIRECTIONS {
                let change_of = change.of(direction);
                let resolved = change_of
                    .resolve(|file| e.read_recording(file))
                    .map_err(|e| Error::Experiment(format!("link \"{name}\": {e}")))?;
                let carrier = change.carrier.filter(|_| sees_carrier(e, link, direction));
                all.push(TimedChange {
                    carrier,
                    ..timed(change.at, name, direction, resolved)
                });
            }
        }
    }
    for fault in &workload.faults {
        let Some(name) = fault.link() else {
            continue;
        };
        let link = find(e, name.get_ref())?;
        let loud = fault.down_with_error.is_some();
        for direction in DIRECTIONS {
            all.push(TimedChange {
                carrier: (loud && sees_carrier(e, link, direction)).then_some(false),
                ..timed(fault.at, name.get_ref(), direction, LinkChange::down())
            });
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
        carrier: None,
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
