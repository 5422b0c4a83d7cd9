//! Records of simulated transfers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mpbond_sim::world::{ExchangeOutcome, Observed, VisitOutcome};
use mpbond_units::Timestamp;

use super::topology::{CLOSING, Part, Prepared, direction};
use super::users;
use crate::error::Result;
use crate::experiment::{
    Application, Carrier, Client, Direction, Experiment, Scheme, Stamp, Stream, Workload, name_of,
};
use crate::figures::quantity::Quantity;
use crate::player::Passed;
use crate::record::{MessageTimes, SubflowShare, Transfer};
use crate::transfer::app::{
    mean_and_p95, messages_quantities, page_quantities, stream_quantities, video_quantities,
};
use crate::transfer::conditions::ratio_not_kept;
use crate::transfer::energy::Accountant;
use crate::transfer::ideal::ideal_time;
use crate::transfer::link_progress;
use crate::transfer::metered::metered_mb;
use crate::transfer::watch::Watch;

/// Maximum number of repetitions whose link curves are kept; they are most of a record.
const MAX_CURVES: u32 = 20;

/// Position of a world in the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub repetition: u32,
    pub seed: u64,
}

/// Records of the transfers of a world. Where the world failed, the record of the transfer during
/// which it did says so, and later transfers are missing.
///
/// # Errors
/// When energy cannot be accounted, or there is no bound.
pub(super) fn transfers(
    e: &Experiment,
    accountants: &[Accountant],
    world: &Prepared,
    place: Place,
    observed: &[Observed],
) -> Result<Vec<Transfer>> {
    let mut all = Vec::new();
    let Some((first, others)) = observed.split_first() else {
        return Ok(all);
    };
    let passed = all_passed(world, first, others);
    for part in &world.parts {
        let visit = part.visit.map(|visit| &first.visits[visit]);
        let of_visit = visit.map_or(&[][..], |visit| &visit.exchanges);
        let all_of_part = part.exchanges.clone().chain(of_visit.iter().copied());
        let ran = all_of_part.filter(|e| !first.left_out[*e]);
        let whole: Option<Vec<&ExchangeOutcome>> =
            ran.map(|e| first.exchanges[e].as_ref()).collect();
        let is_whole = visit.is_none_or(|visit| visit.took.is_some());
        let whole = whole.filter(|all| is_whole && !all.is_empty());
        let beside = others.iter().map(|other| of_part(part, other));
        let beside: Option<Vec<Vec<&ExchangeOutcome>>> = beside.collect();
        let Some((outcomes, beside)) = whole.zip(beside) else {
            let failing = observed.iter().find(|o| o.failure.is_some());
            let failing = failing.unwrap_or(first);
            all.push(failed(e, world.scheme, part, place, failing));
            break;
        };
        all.push(transfer(
            e,
            accountants,
            world,
            part,
            place,
            (visit, &outcomes, &beside),
            &passed,
        )?);
    }
    Ok(all)
}

/// Another user's exchanges of a part; `None` where one is not over.
fn of_part<'o>(part: &Part, other: &'o Observed) -> Option<Vec<&'o ExchangeOutcome>> {
    let all = part.exchanges.clone();
    all.map(|e| other.exchanges[e].as_ref()).collect()
}

/// Packets of all users on the links of the first one, by arrival.
fn all_passed(world: &Prepared, first: &Observed, others: &[Observed]) -> Vec<Passed> {
    let mut all: Vec<Passed> = first.passed.iter().map(passed).collect();
    for (other, its) in world.others.iter().zip(others) {
        let seen = its.passed.iter().map(passed);
        all.extend(seen.filter_map(|packet| other.seen_by_first(packet, &world.links)));
    }
    all.sort_by_key(|packet| packet.arrived);
    all
}

fn transfer(
    e: &Experiment,
    accountants: &[Accountant],
    world: &Prepared,
    part: &Part,
    place: Place,
    (visit, outcomes, beside): (
        Option<&VisitOutcome>,
        &[&ExchangeOutcome],
        &[Vec<&ExchangeOutcome>],
    ),
    passed: &[Passed],
) -> Result<Transfer> {
    let (scheme, workload) = (world.scheme, part.workload);
    let ended = |x: &ExchangeOutcome| x.started + x.took.unwrap_or_default();
    let start = outcomes.iter().map(|x| x.started).min();
    let begun = visit.and_then(|visit| visit.started);
    let start = start.into_iter().chain(begun).min();
    let start = start.unwrap_or(Timestamp::ZERO);
    let repeats = outcomes.iter().any(|x| !x.rounds.is_empty());
    let start = match workload.application() {
        // The first message is due later; a stream for all is open before.
        Some(Application::Messages(m)) if !m.bulk && !repeats => start.before(m.first_due()),
        _ => start,
    };
    let end = outcomes.iter().map(|x| ended(x)).max().unwrap_or(start);
    let seconds = end.since(start).as_secs_f64();
    let read = |x: &&ExchangeOutcome| match workload.direction {
        Direction::Down => x.down_bytes,
        Direction::Up => x.up_bytes,
    };
    let bytes = outcomes.iter().map(read).sum();
    let ideal = match part.ideal {
        Some(ideal) => ideal,
        None => ideal_time(e, scheme, workload, bytes)?,
    };
    let watch = watched(start, outcomes);
    let longest_stall_s = watch.longest().as_secs_f64();
    let first = |x: &&ExchangeOutcome| Some(x.started + x.first_byte?);
    let first = outcomes.iter().filter_map(first).min();
    // In dual mode, radios work for both users until both are done.
    let both = beside.iter().flatten().filter(|_| scheme.dual);
    let over = both.map(|x| ended(x)).max().unwrap_or(end).max(end);
    let since = |p: &&Passed| p.arrived >= start && p.arrived <= over + CLOSING;
    let passed: Vec<Passed> = passed.iter().filter(since).copied().collect();
    let energy = accountants
        .iter()
        .map(|a| a.account(scheme, &world.links, &passed, over))
        .collect::<Result<_>>()?;
    let mut noticed = noticed(workload, visit, outcomes);
    noticed.extend(users::quantities(scheme.dual, outcomes, beside));
    let messages = message_times(workload, start, outcomes);
    let metered = metered_mb(e, &world.links, &passed);
    noticed.extend(metered.map(|mb| (Quantity::MeteredMb, mb)));
    let subflows = shares(start, outcomes);
    let unfit_because = ratio_not_kept(e, scheme, &subflows);
    let links = if place.repetition < MAX_CURVES {
        link_progress::of_links(&world.links, &passed, workload.direction)
    } else {
        Vec::new()
    };
    Ok(Transfer {
        bytes,
        seconds,
        ideal_seconds: ideal.as_secs_f64(),
        ratio: Transfer::ratio_of(seconds, ideal.as_secs_f64()),
        redundant_bytes: Some(outcomes.iter().map(|x| x.redundant_bytes).sum()),
        sha256_ok: true,
        first_byte_s: first.map(|at| at.since(start).as_secs_f64()),
        longest_stall_s,
        subflows,
        // As in real time, where curl does not report progress.
        progress: match e.client {
            Client::Fetch => watch.into_series(),
            Client::Curl => Vec::new(),
        },
        noticed,
        messages,
        energy,
        links,
        fit: unfit_because.is_none(),
        unfit_because,
        ..blank(e, scheme, workload, place)
    })
}

/// The record of a transfer that did not end.
fn failed(
    e: &Experiment,
    scheme: &Scheme,
    part: &Part,
    place: Place,
    observed: &Observed,
) -> Transfer {
    let why = match &observed.failure {
        Some(failure) => failure.to_string(),
        None => "not all of it arrived".to_owned(),
    };
    let seconds = observed.ended.as_secs_f64();
    let ideal = part.ideal.unwrap_or_default().as_secs_f64();
    Transfer {
        seconds,
        ideal_seconds: ideal,
        longest_stall_s: seconds,
        unfit_because: Some(format!("seed {}: {why}", place.seed)),
        ..blank(e, scheme, part.workload, place)
    }
}

/// A record with everything that is known before the transfer.
fn blank(e: &Experiment, scheme: &Scheme, workload: &Workload, place: Place) -> Transfer {
    let has_session = scheme.scheme == Carrier::Mpbond;
    Transfer {
        scheme: name_of(scheme.scheme),
        name: scheme.name.get_ref().clone(),
        workload: workload.name.get_ref().clone(),
        repetition: place.repetition,
        seed: Some(place.seed),
        scheduler: has_session.then(|| scheme.scheduler.name().to_owned()),
        direction: workload.direction,
        devices: scheme.devices,
        interception: scheme.interception,
        client: e.client,
        connection: scheme.connection,
        congestion: scheme.congestion.clone(),
        bytes: workload.most_bytes(),
        seconds: 0.0,
        ideal_seconds: 0.0,
        ratio: 0.0,
        redundant_bytes: None,
        sha256_ok: false,
        first_byte_s: None,
        longest_stall_s: 0.0,
        subflows: Vec::new(),
        classes: BTreeSet::new(),
        progress: Vec::new(),
        noticed: BTreeMap::new(),
        messages: MessageTimes::default(),
        cpu_s: BTreeMap::new(),
        cpu_percent: BTreeMap::new(),
        machine: None,
        waited: None,
        energy: Vec::new(),
        links: Vec::new(),
        fit: false,
        unfit_because: None,
        disturbed: None,
        left_out: false,
        lateness_us: None,
    }
}

fn passed(p: &mpbond_sim::world::Passed) -> Passed {
    Passed {
        link: p.link,
        direction: direction(p.direction),
        bytes: p.bytes,
        departed: p.departed,
        arrived: p.arrived,
    }
}

/// Bytes of each route over all exchanges.
fn shares(start: Timestamp, outcomes: &[&ExchangeOutcome]) -> Vec<SubflowShare> {
    let mut all: Vec<SubflowShare> = Vec::new();
    for x in outcomes {
        let offset = x.started.since(start);
        for share in &x.shares {
            let finished = share.finished.map(|d| (offset + d).as_secs_f64());
            match all.iter_mut().find(|s| s.name == share.route) {
                Some(s) => {
                    s.bytes += share.bytes;
                    let ends = [s.finished_s, finished].into_iter();
                    s.finished_s = ends.flatten().reduce(f64::max);
                }
                None => all.push(SubflowShare {
                    name: share.route.clone(),
                    bytes: share.bytes,
                    finished_s: finished,
                }),
            }
        }
    }
    all
}

/// The receiver's bytes over time, as the lab's client sees them.
fn watched(start: Timestamp, outcomes: &[&ExchangeOutcome]) -> Watch {
    // Only differences of instants matter.
    let zero = Instant::now();
    let mut watch = Watch::since(zero);
    let mut arrivals = Vec::new();
    for x in outcomes {
        let mut before = 0;
        for (after, bytes) in &x.arrivals {
            arrivals.push((x.started.since(start) + *after, bytes - before));
            before = *bytes;
        }
    }
    // Exchanges may run at the same time.
    arrivals.sort_by_key(|(at, _)| *at);
    for (at, more) in arrivals {
        watch.saw(watch.bytes() + more, zero + at);
    }
    watch
}

/// Delays of the messages of a stream, each from its stamp to its last byte.
fn delays_s(stream: &Stream, outcome: &ExchangeOutcome) -> Vec<f64> {
    let mut arrivals = outcome.arrivals.iter().peekable();
    let mut writes = outcome.writes.iter().peekable();
    let ready = outcome.ready.unwrap_or_default();
    let mut delays = Vec::new();
    for number in 0..stream.messages() {
        let end = (number + 1) * stream.message.0;
        while arrivals.next_if(|(_, bytes)| *bytes < end).is_some() {}
        let Some((arrived, _)) = arrivals.peek() else {
            break;
        };
        while writes
            .next_if(|(_, bytes)| bytes + stream.message.0 <= end)
            .is_some()
        {}
        let due = ready + stream.every() * u32::try_from(number).unwrap_or(u32::MAX);
        let stamped = match (stream.stamp, writes.peek()) {
            (Stamp::Written, Some((written, _))) => *written,
            _ => due,
        };
        delays.push(arrived.saturating_sub(stamped).as_secs_f64());
    }
    delays
}

/// Times of all messages, over one stream or one by one.
fn message_times(
    workload: &Workload,
    start: Timestamp,
    outcomes: &[&ExchangeOutcome],
) -> MessageTimes {
    let Some(Application::Messages(messages)) = workload.application() else {
        return MessageTimes::default();
    };
    // The download beside them is the last exchange.
    let ran = match outcomes.split_last() {
        Some((_, ran)) if messages.bulk => ran,
        _ => outcomes,
    };
    let sent = ran.iter().flat_map(|x| match &x.rounds[..] {
        [] => x
            .took
            .map(|took| (x.started.since(start), took))
            .into_iter()
            .collect(),
        rounds => rounds
            .iter()
            .map(|round| (round.due, round.took))
            .collect::<Vec<_>>(),
    });
    MessageTimes::of(messages.due(), sent)
}

fn noticed(
    workload: &Workload,
    visit: Option<&VisitOutcome>,
    outcomes: &[&ExchangeOutcome],
) -> BTreeMap<Quantity, f64> {
    let seconds = |x: &&ExchangeOutcome| x.took.unwrap_or(Duration::ZERO).as_secs_f64();
    // Those of each request over one stream, or that of an exchange.
    let times = |x: &&ExchangeOutcome| match &x.rounds[..] {
        [] => vec![seconds(x)],
        rounds => rounds
            .iter()
            .map(|round| round.took.as_secs_f64())
            .collect(),
    };
    match workload.application() {
        Some(Application::Chunks(_)) => {
            let figures = mean_and_p95(outcomes.iter().map(seconds).collect());
            let named = |(mean, p95)| [(Quantity::ChunkS, mean), (Quantity::ChunkP95S, p95)].into();
            figures.map(named).unwrap_or_default()
        }
        Some(Application::Files(files)) => {
            let first = files.first().map_or(0, |file| file.0);
            let arrivals = outcomes.iter().flat_map(|x| &x.arrivals);
            let end = arrivals
                .filter(|(_, bytes)| *bytes >= first)
                .map(|(at, _)| *at);
            let end = end.min().map(|at| (Quantity::FirstFileS, at.as_secs_f64()));
            end.into_iter().collect()
        }
        Some(Application::Messages(messages)) => {
            // The download beside them is the last exchange.
            let (bulk, ran) = match outcomes.split_last() {
                Some((bulk, ran)) if messages.bulk => (bulk.down_bytes, ran),
                _ => (0, outcomes),
            };
            messages_quantities(messages, &ran.iter().flat_map(times).collect(), bulk)
        }
        Some(Application::Stream(stream)) => {
            let delays = outcomes.iter().flat_map(|x| delays_s(stream, x));
            stream_quantities(&delays.collect())
        }
        Some(Application::Page(page)) => {
            // The download beside it is the first exchange.
            let bulk = outcomes.first().filter(|_| page.bulk);
            let bulk = bulk.map(|x| (x.down_bytes, x.took.unwrap_or_default()));
            let took = visit.and_then(|visit| visit.took);
            took.map(|took| page_quantities(took, bulk))
                .unwrap_or_default()
        }
        Some(Application::Video(_)) => {
            let watched = visit.and_then(|visit| visit.watched);
            watched.as_ref().map(video_quantities).unwrap_or_default()
        }
        _ => BTreeMap::new(),
    }
}
