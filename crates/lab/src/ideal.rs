//! The fluid bound for an experiment's topology.

use std::time::Duration;

use mpbond_sim::ideal::{self, Capacity, Hop, Path, Topology, Transfer};
use mpbond_sim::link::{LinkConfig, Rate};
use mpbond_units::BitRate;

use crate::error::{Error, Result};
use crate::experiment::{Change, Direction, Experiment, Link, Role, Scheme, Workload};
use crate::links;

/// The least time that `bytes` of `workload` can take on the links that `scheme` uses,
/// the client's own host and the wire to the origin being infinitely fast.
///
/// It knows the scheduled changes of rates and the faults of the workload
/// beforehand; delays are taken as they are at the start.
///
/// # Errors
/// When a recording cannot be read, or the links never carry the workload.
pub(crate) fn ideal_time(
    e: &Experiment,
    scheme: &Scheme,
    workload: &Workload,
    bytes: u64,
) -> Result<Duration> {
    let mut topology = Topology::default();
    for link in scheme.direct_links(e) {
        topology.paths.push(Path {
            name: link.name.get_ref().clone(),
            hops: vec![hop(e, workload, link, None)?],
        });
    }
    for helper in e.helpers().take(scheme.devices - 1) {
        let name = helper.name.get_ref();
        let pipe = e
            .links_between(Role::Primary, Role::Helper)
            .filter(|l| l.to.get_ref() == name);
        let up = e
            .links_between(Role::Helper, Role::Proxy)
            .filter(|l| l.from.get_ref() == name);
        topology.paths.push(Path {
            name: name.clone(),
            hops: pipe
                .chain(up)
                .map(|link| hop(e, workload, link, Some(name)))
                .collect::<Result<_>>()?,
        });
    }
    let transfer = Transfer {
        bytes,
        direction: match workload.direction {
            Direction::Down => ideal::Direction::Down,
            Direction::Up => ideal::Direction::Up,
        },
    };
    ideal::ideal_time(&topology, transfer).map_err(|error| {
        Error::Experiment(format!(
            "{}: scheme \"{}\": {error}",
            e.path.display(),
            scheme.name.get_ref()
        ))
    })
}

/// One link as a hop; `helper` is whose death ends it.
fn hop(e: &Experiment, workload: &Workload, link: &Link, helper: Option<&str>) -> Result<Hop> {
    let link = &workload.on(link);
    let ends_at = workload
        .faults
        .iter()
        .filter(|f| {
            let kills = |name: &str| helper == Some(name);
            f.kill.as_ref().is_some_and(|k| kills(k.get_ref()))
                || f.blackhole.as_ref().is_some_and(|b| *b == link.name)
        })
        .map(|f| f.at)
        .min();
    let capacity = |direction| -> Result<Capacity> {
        let wrong =
            |text: String| Error::Experiment(format!("link \"{}\": {text}", link.name.get_ref()));
        let Some(spec) = link.model(direction) else {
            return Ok(Capacity::unlimited());
        };
        let model = spec
            .resolve(|file| links::read(e, file))
            .map_err(|error| wrong(error.to_string()))?;
        if link.changes.is_empty() && ends_at.is_none() {
            return Ok(Capacity::from(&model));
        }
        let steps = steps(e, &model, &link.changes, direction, ends_at).map_err(wrong)?;
        Ok(Capacity::schedule(&steps))
    };
    Ok(Hop {
        down: capacity(Direction::Down)?,
        up: capacity(Direction::Up)?,
        delay: link.delay,
        shared_medium: None,
    })
}

type Steps = Vec<(Duration, BitRate)>;

/// Base rate, changes and end as one schedule.
fn steps(
    e: &Experiment,
    model: &LinkConfig,
    changes: &[Change],
    direction: Direction,
    ends_at: Option<Duration>,
) -> Result<Steps, String> {
    let mut rates = schedule_of(&model.rate)?;
    let mut alive: Vec<(Duration, bool)> = Vec::new();
    for change in changes {
        let resolved = change
            .of(direction)
            .resolve(|file| links::read(e, file))
            .map_err(|error| error.to_string())?;
        if let Some(rate) = resolved.rate {
            // What the old rate had planned from here on is void.
            rates.retain(|(at, _)| *at < change.at);
            let new = schedule_of(&rate)?;
            rates.extend(new.into_iter().map(|(at, rate)| (at + change.at, rate)));
        }
        alive.extend(resolved.up.map(|up| (change.at, up)));
    }
    let rate_at = |at: Duration| {
        let dead = ends_at.is_some_and(|end| end <= at)
            || alive
                .iter()
                .rfind(|(since, _)| *since <= at)
                .is_some_and(|(_, up)| !up);
        let rate = rates.iter().rfind(|(since, _)| *since <= at);
        match rate.or(rates.first()) {
            Some((_, rate)) if !dead => *rate,
            _ => BitRate::ZERO,
        }
    };
    let mut borders: Vec<Duration> = rates.iter().map(|(at, _)| *at).collect();
    borders.extend(alive.iter().map(|(at, _)| *at));
    borders.extend(ends_at);
    borders.sort();
    Ok(borders.into_iter().map(|at| (at, rate_at(at))).collect())
}

/// A rate far above any link's, for "unlimited" inside a schedule.
const UNLIMITED: BitRate = BitRate::from_bps(1_000_000_000_000);

fn schedule_of(rate: &Rate) -> Result<Steps, String> {
    match rate {
        Rate::Constant(rate) => Ok(vec![(Duration::ZERO, *rate)]),
        Rate::Unlimited => Ok(vec![(Duration::ZERO, UNLIMITED)]),
        Rate::Schedule(steps) => Ok(steps.clone()),
        Rate::Mahimahi(_) => Err("the bound does not know a recording that is changed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"
name = "t"
[[host]]
name = "primary"
role = "primary"
[[host]]
name = "phone"
role = "helper"
[[host]]
name = "proxy"
role = "proxy"
address = "203.0.113.1"
[[host]]
name = "origin"
role = "origin"
address = "198.51.100.1"
[[link]]
name = "core"
from = "proxy"
to = "origin"
[[link]]
name = "hs"
from = "phone"
to = "proxy"
down = 10
up = 10
[[scheme]]
name = "one"
scheme = "mpbond"
interception = "socks5"
[[scheme]]
name = "two"
scheme = "mpbond"
devices = 2
interception = "socks5"
[[workload]]
name = "w"
direction = "down"
bytes = 1448000
[[link]]
name = "ps"
from = "primary"
to = "proxy"
down = 8
up = 8
"#;
    const PIPE: &str = r#"
[[link]]
name = "pipe"
from = "primary"
to = "phone"
down = 4
up = 4
"#;

    /// The file is 12 Mbit with headers; without delays, sums are by hand.
    fn bound(ps: &str, pipe: &str, fault: &str, scheme: usize) -> f64 {
        let text = format!("{HEAD}{ps}{PIPE}{pipe}{fault}");
        let e = Experiment::parse("t.toml", &text).unwrap();
        let workload = e.workloads.last().unwrap();
        let time = ideal_time(&e, &e.schemes[scheme], workload, workload.bytes.0).unwrap();
        time.as_secs_f64()
    }

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-6, "{got} instead of {want}");
    }

    #[test]
    fn counts_the_links_of_the_scheme() {
        near(bound("", "", "", 0), 1.5); // 12 / 8
        near(bound("", "", "", 1), 1.0); // 12 / (8 + 4)
    }

    #[test]
    fn knows_changes_and_faults() {
        let slower = "[[link.change]]\nat = \"500ms\"\ndown = 4\n";
        near(bound(slower, "", "", 0), 2.5); // 4 Mbit, then 8 at 4
        near(bound(slower, "", "", 1), 0.5 + 6.0 / 8.0);
        let away = "[[link.change]]\nat = \"500ms\"\nalive = false\n\
                    [[link.change]]\nat = \"1s\"\nalive = true\n";
        near(bound(away, "", "", 0), 2.0);
        near(bound("", away, "", 1), 0.5 + 0.5 + 2.0 / 12.0);
        let workload = "[[workload]]\nname = \"f\"\ndirection = \"up\"\nbytes = 1448000\n";
        let change = "[[workload.change]]\nat = \"250ms\"\nlink = \"pipe\"\nup = 1\ndown = 2\n";
        let change = format!("{workload}{change}");
        near(bound("", "", &change, 1), 0.25 + 9.0 / (8.0 + 1.0));
        for fault in [
            "kill = \"phone\"",
            "blackhole = \"pipe\"",
            "blackhole = \"hs\"",
        ] {
            let fault = format!("{workload}[[workload.fault]]\nat = \"250ms\"\n{fault}\n");
            // 3 Mbit in the first quarter, then 9 at 8.
            near(bound("", "", &fault, 1), 0.25 + 9.0 / 8.0);
        }
    }

    #[test]
    fn knows_settings() {
        let settings = "[[setting]]\nname = \"s\"\nlink.ps = { down = 4 }\n";
        near(bound("", "", settings, 0), 3.0); // 12 / 4
        near(bound("", "", settings, 1), 1.5); // 12 / (4 + 4)
    }
}
