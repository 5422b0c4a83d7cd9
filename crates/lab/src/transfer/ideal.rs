//! The fluid bound of an experiment's topology.

use std::time::Duration;

use mpbond_sim::ideal::{self, Capacity, Hop, IdealError, Medium, Path, Topology, Transfer};
use mpbond_sim::link::{RFCOMM_RATE, RateSpec};
use mpbond_units::BitRate;

use crate::error::{Error, Result};
use crate::experiment::{Direction, Experiment, Link, Scheme, Workload};

/// The least time that `bytes` of `workload` need on the links that `scheme` uses. The client's
/// host and the wire to the origin count as infinitely fast.
///
/// Scheduled changes of rates and the faults of the workload are known in advance; delays are those
/// at the start. A medium that links share limits them where all of them are at the same end of
/// their paths; other media are left out, which keeps the bound valid. Time that radios hold
/// packets is left out, too.
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
        // Several pipes share the helper's own link. As a path for each it is a bound all the same.
        for pipe in e.pipes_of(name) {
            let hops = std::iter::once(pipe).chain(e.uplink_of(name));
            topology.paths.push(Path {
                name: name.clone(),
                hops: hops
                    .map(|link| hop(e, workload, link, Some(name)))
                    .collect::<Result<_>>()?,
            });
        }
    }
    let transfer = Transfer {
        bytes,
        direction: match workload.direction {
            Direction::Down => ideal::Direction::Down,
            Direction::Up => ideal::Direction::Up,
        },
    };
    media(e, &mut topology, workload.direction);
    loop {
        match ideal::ideal_time(&topology, transfer) {
            Err(IdealError::MediumInTheMiddle { medium }) => {
                // Without the medium the bound is lower, and therefore still a bound.
                for hop in topology.paths.iter_mut().flat_map(|path| &mut path.hops) {
                    hop.shared_medium.take_if(|name| *name == medium);
                }
            }
            Err(error) => {
                return Err(Error::Experiment(format!(
                    "{}: scheme \"{}\": {error}",
                    e.path.display(),
                    scheme.name.get_ref()
                )));
            }
            Ok(time) => return Ok(time),
        }
    }
}

/// One link as a hop; `helper` is the host whose death ends it.
fn hop(e: &Experiment, workload: &Workload, link: &Link, helper: Option<&str>) -> Result<Hop> {
    let link = &workload.on(link);
    let ends_at = workload
        .faults
        .iter()
        .filter(|f| {
            let kills = |name: &str| helper == Some(name);
            f.kill.as_ref().is_some_and(|k| kills(k.get_ref()))
                || f.link().is_some_and(|l| *l == link.name)
        })
        .map(|f| f.at)
        .min();
    let capacity = |direction| {
        capacity(e, link, direction, ends_at)
            .map_err(|text| Error::Experiment(format!("link \"{}\": {text}", link.name.get_ref())))
    };
    Ok(Hop {
        down: capacity(Direction::Down)?,
        up: capacity(Direction::Up)?,
        delay: link.delay,
        shared_medium: link.medium.as_ref().map(|m| m.get_ref().clone()),
    })
}

/// The rate of one direction with its changes, until `ends_at`. On a medium it is that of IP
/// packets in the mean: with retries, that of the tries which are not lost. Their number does not
/// matter, since each such try is a packet, and each other one takes as long.
fn capacity(
    e: &Experiment,
    link: &Link,
    direction: Direction,
    ends_at: Option<Duration>,
) -> Result<Capacity, String> {
    // The bound counts headers of TCP and IP on each hop, which this one does not have.
    let with_headers = BitRate::from_mbps(RFCOMM_RATE.mbps() * 1500.0 / 1448.0);
    let bluetooth = link.bluetooth.as_ref();
    let bluetooth = bluetooth.map(|_| RateSpec::Constant(with_headers));
    let Some(spec) = link.rate(direction).or(bluetooth.as_ref()) else {
        return Ok(Capacity::unlimited());
    };
    let load = |spec: &RateSpec| {
        let rate = spec.resolve(|file| e.read_recording(file));
        rate.map(|rate| Capacity::from(&rate))
            .map_err(|error| error.to_string())
    };
    let nothing = Capacity::constant(BitRate::ZERO);
    // The rate without interruptions, and since when it holds.
    let mut base = (load(spec)?, Duration::ZERO);
    let mut real = base.0.clone();
    let mut up = true;
    for change in &link.changes {
        let resolved = change.of(direction);
        if let Some(rate) = &resolved.rate {
            base = (load(rate)?, change.at);
        }
        up = resolved.up.unwrap_or(up);
        let (now, origin) = if up {
            (&base.0, base.1)
        } else {
            (&nothing, change.at)
        };
        real = real.changed(change.at, now, origin);
    }
    let real = match ends_at {
        Some(end) => real.changed(end, &nothing, end),
        None => real,
    };
    let named = link.medium.as_ref().map(|name| name.get_ref());
    let spec = e.media.iter().find(|m| Some(m.name.get_ref()) == named);
    let Some(spec) = spec else {
        return Ok(real);
    };
    let medium = spec.medium();
    let arrives = match spec.retries {
        0 => 1.0,
        _ => 1.0 - least_loss(link),
    };
    Ok(real.mapped(&|rate| {
        let bps = medium.goodput(rate).bps() as f64 * arrives;
        BitRate::from_bps(bps.ceil() as u64)
    }))
}

/// The least mean probability with which a packet of the link is lost, at any time.
fn least_loss(link: &Link) -> f64 {
    let (mut single, mut burst) = (link.loss, link.burst_loss.mean_loss());
    for change in &link.changes {
        single = single.min(change.loss.unwrap_or(single));
        burst = burst.min(change.burst_loss.map_or(burst, |burst| burst.mean_loss()));
    }
    1.0 - (1.0 - single) * (1.0 - burst)
}

/// The media that paths of `topology` share, for data in one direction. A medium with one hop only
/// matters when it has a rate of its own.
///
/// On a medium without a rate of its own, a packet takes the time that its link needs: all links
/// together carry no more than the fastest link alone. Time for the other direction's
/// acknowledgements is not counted: how many there are is the receiver's choice, from one for each
/// packet to one for all that a segmentation offload has joined, so that only none keeps the bound
/// valid for every scheme.
fn media(e: &Experiment, topology: &mut Topology, direction: Direction) {
    for spec in &e.media {
        let name = spec.name.get_ref();
        let on_it = |hop: &&mut Hop| hop.shared_medium.as_ref() == Some(name);
        let hops = topology.paths.iter_mut().flat_map(|path| &mut path.hops);
        let hops: Vec<&mut Hop> = hops.filter(on_it).collect();
        let capacity = match (spec.rate, hops.len()) {
            (Some(rate), 1..) => Some(Capacity::constant(rate)),
            (None, 2..) => Some(Capacity::largest(
                hops.iter()
                    .map(|hop| match direction {
                        Direction::Down => hop.down.clone(),
                        Direction::Up => hop.up.clone(),
                    })
                    .collect(),
            )),
            _ => {
                for hop in hops {
                    hop.shared_medium = None;
                }
                None
            }
        };
        topology.media.extend(capacity.map(|capacity| Medium {
            name: name.clone(),
            capacity,
        }));
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

    /// The bound for a file of 12 Mbit with headers, without delays, so that sums can be done by
    /// hand.
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
            "down_with_error = \"hs\"",
        ] {
            let fault = format!("{workload}[[workload.fault]]\nat = \"250ms\"\n{fault}\n");
            // 3 Mbit in the first quarter of a second, then 9 Mbit at 8 Mbit/s.
            near(bound("", "", &fault, 1), 0.25 + 9.0 / 8.0);
        }
    }

    #[test]
    fn knows_the_overhead_of_frames() {
        let air = "[[medium]]\nname = \"air\"\nframe_overhead = \"1ms\"\n";
        let pipe = format!("medium = \"air\"\n{air}");
        // A packet of 12 kbit takes 1 ms, and 3.072 ms at 4 Mbit/s with its header: 12 Mbit take
        // 4.072 s.
        let together = 12.0 / (8.0 + 12.0 / 4.072);
        let got = bound("", &pipe, "", 1);
        assert!((got - together).abs() < 1e-6, "{got} instead of {together}");
    }

    #[test]
    fn knows_tries_that_are_lost() {
        let air = "[[medium]]\nname = \"air\"\nframe_overhead = \"1ms\"\n";
        // A try of 12 kbit takes 4.072 ms, and nine of ten arrive.
        let together = 12.0 / (8.0 + 0.9 * 12.0 / 4.072);
        for (retries, lossy) in [
            ("retries = 1\n", "loss = 0.1\n"),
            ("retries = 7\n", "loss = 0.1\n"),
            // In the bad state for a tenth of the packets, and all are lost there.
            (
                "retries = 7\n",
                "burst_loss = { to_bad = 0.05, to_good = 0.45 }\n",
            ),
        ] {
            let pipe = format!("{lossy}medium = \"air\"\n{air}{retries}");
            near(bound("", &pipe, "", 1), together);
        }
        // Less loss later: the bound is that of all the time. Without retries, losses are none of
        // airtime.
        let change = "[[link.change]]\nat = \"50ms\"\nloss = 0.1\n";
        let pipe = format!("loss = 0.5\nmedium = \"air\"\n{change}{air}retries = 1\n");
        near(bound("", &pipe, "", 1), together);
        let pipe = format!("loss = 0.1\nmedium = \"air\"\n{air}");
        near(bound("", &pipe, "", 1), 12.0 / (8.0 + 12.0 / 4.072));
    }

    #[test]
    fn knows_settings() {
        let settings = "[[setting]]\nname = \"s\"\nlink.ps = { down = 4 }\n";
        near(bound("", "", settings, 0), 3.0); // 12 / 4
        near(bound("", "", settings, 1), 1.5); // 12 / (4 + 4)
    }

    #[test]
    fn knows_what_links_share() {
        let medium = |more: &str| format!("[[medium]]\nname = \"air\"\n{more}");
        let on_air = "medium = \"air\"\n";
        let both = |more: &str, direction: &str| {
            let workload = format!(
                "[[workload]]\nname = \"m\"\ndirection = \"{direction}\"\nbytes = 1448000\n"
            );
            bound(on_air, on_air, &format!("{}{workload}", medium(more)), 1)
        };
        for direction in ["down", "up"] {
            // Both together carry no more than the faster link's 8 Mbit/s.
            near(both("", direction), 1.5);
            near(both("duplex = \"full\"\n", direction), 1.5);
            near(both("rate = 6\n", direction), 2.0);
            near(both("rate = 60\n", direction), 1.0);
        }
        // A single link on it is limited by its own rate and by the medium's.
        near(bound(on_air, "", &medium(""), 1), 1.0);
        near(bound(on_air, "", &medium("rate = 2\n"), 1), 2.0);
    }

    #[test]
    fn knows_recordings_and_their_changes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("p.csv"), "0,1\n1,4\n2,16\n").unwrap();
        // A packet every 2 ms: 6 Mbit/s.
        let lines: String = (1..=1000).map(|i| format!("{}\n", 2 * i)).collect();
        std::fs::write(folder.join("t.down"), lines).unwrap();
        let recorded = |rate: &str, more: &str| {
            let head = HEAD.replace("down = 8\n", &format!("down = {rate}\n"));
            let mut e = Experiment::parse("t.toml", &format!("{head}{more}{PIPE}")).unwrap();
            e.path = folder.join("t.toml");
            let w = &e.workloads[0];
            let time = ideal_time(&e, &e.schemes[0], w, w.bytes.0).unwrap();
            time.as_secs_f64()
        };
        let profile = "{ profile = \"p.csv\", unit = \"Mbit/s\", offset = \"1s\" }";
        // 4 Mbit in the first second, then 8 Mbit at 16 Mbit/s.
        near(recorded(profile, ""), 1.5);
        let trace = "{ mahimahi = \"t.down\", offset = \"1s\" }";
        near(recorded(trace, ""), 2.0);
        let away = "[[link.change]]\nat = \"500ms\"\nalive = false\n\
                    [[link.change]]\nat = \"1s\"\ncarrier = true\n";
        // 2 Mbit, half a second without data, then 10 Mbit at 16 Mbit/s.
        near(recorded(profile, away), 1.0 + 10.0 / 16.0);
        near(recorded(trace, away), 2.5);
        let other = format!("[[link.change]]\nat = \"500ms\"\ndown = {profile}\n");
        near(recorded("2", &other), 0.5 + 1.0 + 7.0 / 16.0);
    }
}
