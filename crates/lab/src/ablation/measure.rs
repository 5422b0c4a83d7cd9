//! One world without some mechanisms.

use std::time::Duration;

use mpbond_radio::{Account, Packet, Phase, Placement, Profiles, Radio};
use mpbond_sim::ideal::Direction;
use mpbond_sim::world::{ExchangeOutcome, Mechanisms, Outcome, Passed, Scenario, World};
use mpbond_units::Timestamp;
use nix::time::{ClockId, clock_gettime};

use super::subject::{Gauge, Subject};
use crate::error::{Error, Result};

/// Radios of links: of pipes, at both ends, and of others.
const PIPE_RADIO: &str = "wifi-s4";
const RADIO: &str = "lte-2020-tmobile";

/// Longer than the tail of any radio: energy is counted until it is over.
const TAIL: Duration = Duration::from_secs(30);

/// Result of a world. Quantities that are not measured in it, or did not come about, are none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub seconds: Option<f64>,
    /// Ratio of bytes that arrived twice to those that arrived.
    pub copies: Option<f64>,
    /// Energy of all radios beyond that of their idle states.
    pub joules: Option<f64>,
    /// Longest time without a byte while a route worked.
    pub gap_s: Option<f64>,
    /// CPU time of the simulation: sessions, and the models of TCP and links.
    pub cpu_s: f64,
}

/// Runs a world without these mechanisms.
///
/// # Errors
/// When the clock or the profiles of radios cannot be read.
pub(super) fn measure(
    subject: &Subject,
    left_out: Mechanisms,
    profiles: &Profiles,
) -> Result<Measured> {
    let scenario = subject.scenario.clone().without(left_out.iter());
    let begun = cpu_time()?;
    let world = World::new(scenario);
    if subject.gauge == Gauge::World {
        let outcome = world.run();
        let cpu_s = cpu_time()? - begun;
        let measured = outcome.as_ref().map(of_world).unwrap_or_default();
        return Ok(Measured { cpu_s, ..measured });
    }
    let observed = world.observe();
    let cpu_s = cpu_time()? - begun;
    let at = match subject.gauge {
        Gauge::Rounds => 0,
        _ => observed.exchanges.len().saturating_sub(1),
    };
    let Some(exchange) = observed.exchanges.get(at).and_then(Option::as_ref) else {
        return Ok(Measured {
            cpu_s,
            ..Measured::default()
        });
    };
    let passed = observed.passed.iter();
    let passed = passed.filter(|packet| packet.departed >= exchange.started);
    let joules = match subject.scenario.keeps_log {
        true => Some(joules(&subject.scenario, passed, profiles)?),
        false => None,
    };
    Ok(Measured {
        cpu_s,
        joules,
        ..of_exchange(exchange)
    })
}

/// CPU time of this thread, in s.
fn cpu_time() -> Result<f64> {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let now = now.map_err(|e| Error::run(format!("cannot read the CPU time: {e}")))?;
    Ok(Duration::from(now).as_secs_f64())
}

fn of_world(outcome: &Outcome) -> Measured {
    let ends = [&outcome.client, &outcome.server];
    let bytes: u64 = ends.iter().map(|s| s.bytes_in).sum();
    let twice: u64 = ends.iter().map(|s| s.redundant_bytes_in).sum();
    let times = outcome.exchanges.iter().filter_map(|x| x.took);
    Measured {
        seconds: Some(times.map(|took| took.as_secs_f64()).sum()),
        copies: (bytes > 0).then(|| twice as f64 / bytes as f64),
        gap_s: Some(outcome.longest_gap.as_secs_f64()),
        ..Measured::default()
    }
}

fn of_exchange(exchange: &ExchangeOutcome) -> Measured {
    let took = match &exchange.rounds[..] {
        [] => exchange.took,
        rounds => {
            let sum: Duration = rounds.iter().map(|round| round.took).sum();
            Some(sum / rounds.len() as u32)
        }
    };
    Measured {
        seconds: took.map(|took| took.as_secs_f64()),
        copies: Some(exchange.redundant_share()),
        ..Measured::default()
    }
}

/// Energy of these packets with promotions and tails. A radio serves one link: links of the rows
/// do not share one.
fn joules<'a>(
    scenario: &Scenario,
    passed: impl Iterator<Item = &'a Passed> + Clone,
    profiles: &Profiles,
) -> Result<f64> {
    let mut sum = 0.0;
    for (number, link) in scenario.links.iter().enumerate() {
        let is_pipe = link.name.starts_with("pipe");
        let (name, ends) = match is_pipe {
            true => (PIPE_RADIO, 2),
            false => (RADIO, 1),
        };
        let profile = profiles.radio(name).map_err(Error::run)?;
        for far in [false, true].into_iter().take(ends) {
            let mut events: Vec<(Timestamp, Packet)> = passed
                .clone()
                .filter(|p| p.link == number)
                .map(|p| match (p.direction == Direction::Up) != far {
                    true => (p.departed, Packet::up(p.bytes)),
                    false => (p.arrived, Packet::down(p.bytes)),
                })
                .collect();
            events.sort_by_key(|(at, _)| *at);
            let Some((last, _)) = events.last().copied() else {
                continue;
            };
            let mut account = Account::default();
            let mut radio = Radio::new(profile, Placement::Recorded);
            for (at, packet) in events {
                radio.packet(at, packet, &mut account);
            }
            radio.finish(last + TAIL, &mut account);
            let phases = account.summary().phases;
            let busy = phases.iter().filter(|p| p.phase != Phase::Idle);
            sum += busy.map(|p| p.joules).sum::<f64>();
        }
    }
    Ok(sum)
}
