//! Checks of schemes.

use mpbond_price::radio;
use mpbond_sim::world::StreamOrder;

use super::names::{is_name, unique, unknown};
use crate::error::Result;
use crate::experiment::file::Experiment;
use crate::experiment::place::Place;
use crate::experiment::scheme::{Carrier, HandOver, Pipes, Scheme, Start};
use crate::experiment::terms::{Client, Connection, Direction, Interception, Role};
use crate::experiment::workload::{Fault, Workload};

pub(super) fn schemes(e: &Experiment, place: &Place) -> Result<()> {
    unique(place, "scheme", e.schemes.iter().map(|s| &s.name))?;
    let most = 1 + e.helpers().count();
    for scheme in &e.schemes {
        let name = scheme.name.get_ref();
        let wrong =
            |message: String| Err(place.at(&scheme.name, format!("scheme \"{name}\": {message}")));
        if !(1..=most).contains(&scheme.devices) {
            return wrong(format!(
                "devices: from 1 to {most} (the primary and its helpers)"
            ));
        }
        let intercepted = scheme.interception != Interception::None;
        match scheme.scheme {
            Carrier::Single if intercepted || scheme.devices != 1 => {
                return wrong("`single` is one device without interception".into());
            }
            Carrier::Mpbond if !intercepted => {
                return wrong("interception: socks5, http or transparent".into());
            }
            Carrier::Kibbutz | Carrier::Combine if intercepted => {
                return wrong("interception is only for `mpbond` and `external`".into());
            }
            _ => {}
        }
        if let Some(price) = &scheme.energy_price {
            if scheme.scheme != Carrier::Mpbond || scheme.devices == 1 {
                return wrong("energy_price is only for `mpbond` with a helper".into());
            }
            let Some(model) = e.energy.iter().find(|m| m.name == price.model) else {
                let all = e.energy.iter().map(|m| &m.name);
                return Err(place.at(&price.model, unknown("energy model", &price.model, all)));
            };
            if !e.simulated && (radio(model.wwan.get_ref()).is_none() || !model.device.is_empty()) {
                return wrong(format!(
                    "energy_price: a policy of daemons cannot name the radios of \"{}\": one of \
                     its own, in `wwan`, without `device`",
                    model.name.get_ref()
                ));
            }
        }
        let is_ours = scheme.stream_order == StreamOrder::default() && scheme.without.is_empty();
        if !is_ours && (scheme.scheme != Carrier::Mpbond || !e.simulated) {
            return wrong(
                "stream_order and without are only for `mpbond`, in a file with `simulated = true`"
                    .into(),
            );
        }
        if let Some(message) = simulated(e, scheme) {
            return wrong(message.into());
        }
        for name in scheme.costs.keys().chain(&scheme.standby) {
            let known = || {
                e.direct_links()
                    .map(|l| &l.name)
                    .chain(e.helpers().map(|h| &h.name))
            };
            if !known().any(|known| known == name) {
                return Err(place.at(name, unknown("direct link or helper", name, known())));
            }
            let mut used = scheme.direct_links(e).map(|l| l.name.get_ref());
            if !used.any(|used| used == name.get_ref())
                && !scheme.helpers(e).any(|used| used == name.get_ref())
            {
                let problem = format!("this scheme does not use {}", name.get_ref());
                return Err(place.at(name, problem));
            }
        }
        if let Some(message) = external(e, scheme) {
            return wrong(message);
        }
        if let Some(message) = baseline(e, scheme) {
            return wrong(message.into());
        }
        if !is_name(&scheme.congestion, 15) {
            return wrong("congestion: the name of a kernel module such as \"cubic\"".into());
        }
        for path in scheme.paths.iter().flatten() {
            if !e.direct_links().any(|l| l.name == *path) {
                let known = e.direct_links().map(|l| &l.name);
                return Err(place.at(path, unknown("direct link", path, known)));
            }
        }
        for workload in scheme.workloads.iter().flatten() {
            if !e.workloads.iter().any(|w| w.name == *workload) {
                let known = e.workloads.iter().map(|w| &w.name);
                return Err(place.at(workload, unknown("workload", workload, known)));
            }
        }
        if scheme.paths.as_ref().is_some_and(Vec::is_empty) && scheme.devices == 1 {
            return wrong("neither a direct path nor a helper".into());
        }
    }
    Ok(())
}

/// The first rule that keys for virtual time break.
fn simulated(e: &Experiment, scheme: &Scheme) -> Option<&'static str> {
    const USERS: std::ops::RangeInclusive<usize> = 1..=16;
    let of_links = !scheme.costs.is_empty() || !scheme.standby.is_empty();
    let of_links = of_links || !scheme.weak_below.is_empty();
    let is_used = of_links || scheme.chunk_ends || scheme.users != 1 || scheme.ledger;
    if is_used && (scheme.scheme != Carrier::Mpbond || !e.simulated) {
        return Some(
            "costs, standby, weak_below, chunk_ends, users and ledger are only for `mpbond`, in a \
             file with `simulated = true`",
        );
    }
    if scheme.pipe_radios {
        if scheme.pipes != Pipes::Best || !e.simulated {
            return Some(
                "pipe_radios is only for `pipes = \"best\"`, in a file with `simulated = true`",
            );
        }
        let mut pipes = scheme.helpers(e).flat_map(|helper| e.pipes_of(helper));
        if pipes.any(|pipe| pipe.pipe_radios().is_none()) {
            return Some(
                "pipe_radios: each link from the primary to a helper needs `radio` and `far_radio`, \
                 by names of radios that a primary's configuration can have",
            );
        }
    }
    if scheme.chunk_ends && !e.workloads_of(scheme).all(|w| !w.files.is_empty()) {
        return Some("chunk_ends is only for `files`: list its `workloads`");
    }
    if scheme.ledger && !scheme.dual {
        return Some("ledger is only for `dual`");
    }
    if !USERS.contains(&scheme.users) {
        return Some("users: from 1 to 16");
    }
    let only_chunks = || e.workloads_of(scheme).all(|w| w.chunks.is_some());
    if scheme.users > 1 && (scheme.dual || !only_chunks()) {
        return Some("users are only for `chunks` without dual: list its `workloads`");
    }
    None
}

/// The first rule that a scheme `external` breaks, or another scheme with its key.
fn external(e: &Experiment, scheme: &Scheme) -> Option<String> {
    let external = match (scheme.scheme, &scheme.external) {
        (Carrier::External, Some(external)) => external,
        (Carrier::External, None) => return Some("`external` needs [scheme.external]".into()),
        (_, Some(_)) => return Some("[scheme.external] is only for `external`".into()),
        (_, None) => return None,
    };
    if external.programs().count() < 1 + usize::from(external.proxy.is_some()) {
        return Some("external: a program and its arguments, as a list".into());
    }
    if scheme.devices != 1 || scheme.interception == Interception::Transparent {
        return Some("`external` is one device, with interception none, socks5 or http".into());
    }
    if e.client != Client::Fetch {
        return Some("`external` needs `client = \"fetch\"` at the top of the file".into());
    }
    let is_link = |name: &str| e.direct_links().any(|link| link.name.get_ref() == name);
    let known = |name: &str| matches!(name, "proxy" | "origin" | "port") || is_link(name);
    let unknown = external.unknown_name(known)?;
    Some(format!(
        "external: {{{unknown}}} is neither {{proxy}}, {{origin}}, {{port}} nor a direct link"
    ))
}

/// The first rule that a baseline breaks, or a scheme with keys for baselines or for the lab's
/// client.
fn baseline(e: &Experiment, scheme: &Scheme) -> Option<&'static str> {
    const CHUNKS: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 20;
    let carrier = scheme.scheme;
    let by_devices = matches!(carrier, Carrier::Kibbutz | Carrier::Combine);
    if scheme.one_path_counts && carrier != Carrier::Kibbutz {
        return Some("one_path_counts is only for `kibbutz`");
    }
    if by_devices && e.client != Client::Fetch {
        return Some("curl cannot do this: write `client = \"fetch\"` at the top of the file");
    }
    if carrier == Carrier::Kibbutz {
        match scheme.devices {
            1 if scheme.direct_links(e).count() < 2 => {
                return Some("`kibbutz` on one device needs two direct links");
            }
            1 | 2 => {}
            _ => return Some("`kibbutz` needs two devices, one tethered to the other"),
        }
    }
    if scheme.dual {
        let possible = match carrier {
            Carrier::Mpbond => scheme.devices == 2 && scheme.split,
            Carrier::Single => e.helpers().next().is_some(),
            Carrier::Kibbutz | Carrier::Combine | Carrier::External => false,
        };
        if !possible {
            return Some(
                "dual is only for `mpbond` with two devices, or for `single` with a helper",
            );
        }
        let fits = |w: &Workload| w.chunks.is_some() && w.faults.is_empty();
        if !e.workloads_of(scheme).all(fits) {
            return Some("dual is only for `chunks` without faults: list its `workloads`");
        }
    }
    let has_bluetooth = e.links.iter().any(|link| link.bluetooth.is_some());
    if has_bluetooth && scheme.devices > 1 {
        let over_sockets = carrier == Carrier::Mpbond && scheme.split && !scheme.dual;
        if !over_sockets {
            return Some("a helper behind Bluetooth is only for `mpbond` with the split");
        }
    }
    if !scheme.split {
        if carrier != Carrier::Mpbond || scheme.devices == 1 {
            return Some("split = false is only for `mpbond` with a helper");
        }
        let kills_helper = |f: &Fault| {
            let killed = f.kill.as_ref().and_then(|host| e.role_of(host.get_ref()));
            killed == Some(Role::Helper)
        };
        if e.workloads_of(scheme)
            .any(|w| w.faults.iter().any(kills_helper))
        {
            return Some(
                "no daemon on a helper that only forwards can be killed: list other `workloads`",
            );
        }
    }
    if by_devices && scheme.direct_links(e).next().is_none() {
        return Some("a baseline needs a direct path");
    }
    if scheme.connection == Connection::Kept {
        if e.client != Client::Fetch {
            return Some(
                "curl keeps no connection: write `client = \"fetch\"` at the top of the file",
            );
        }
        if scheme.start == Start::Cold {
            return Some("`keep_alive` and `cold` exclude each other");
        }
    }
    if scheme.hand_over != HandOver::Streaming && carrier != Carrier::Combine {
        return Some("hand_over is only for `combine`");
    }
    match scheme.chunk {
        Some(_) if carrier != Carrier::Combine => return Some("chunk is only for `combine`"),
        Some(chunk) if !CHUNKS.contains(&chunk.0) => return Some("chunk: from 1 KiB to 64 MiB"),
        _ => {}
    }
    let one_file = |w: &Workload| w.direction == Direction::Down && w.bytes.0 > 0;
    if carrier == Carrier::Combine && !e.workloads_of(scheme).all(one_file) {
        return Some("`combine` only downloads files: list its `workloads`");
    }
    let kills = |w: &Workload| w.faults.iter().any(|f| f.kill.is_some());
    let no_daemons = by_devices || carrier == Carrier::External;
    if no_daemons && e.workloads_of(scheme).any(kills) {
        return Some("no daemon runs that a fault could kill: list other `workloads`");
    }
    None
}
