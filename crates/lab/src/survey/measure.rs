//! One transfer of a survey over one setting: the schemes, the best link alone, and bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_sim::ideal::{ideal_time, slow_start_time};
use mpbond_sim::world::{ExchangeOutcome, World, observe_plain};
use mpbond_statistics::Sample;

use super::case::{Case, SurveyScheme};
use super::record::Row;
use super::setting::{Over, Setting};
use crate::error::{Error, Result};
use crate::experiment::name_of;

/// Initial window of the links' TCP: Linux's.
const INITIAL_WINDOW: u64 = 10;

/// First seed of the transfers that choose the best link. Measured transfers have seeds from 0 on.
const CHOOSING: u64 = 1 << 32;

/// Slower than the best link by so much counts: a share of its time, and a time.
const SLOWER_SHARE: f64 = 0.03;
const SLOWER_TIME_S: f64 = 0.005;

/// Times of one way of carrying the transfer, by seed. A transfer that failed has none.
struct Times(Vec<Option<f64>>);

impl Times {
    fn mean(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = self.0.iter().copied().collect();
        Sample::new(all?).mean()
    }
}

/// Up to this size a row has as many transfers as the option says.
const SHORT: u64 = 1 << 20;

/// The least number of transfers of a row.
const LEAST_SEEDS: u32 = 4;

/// Number of transfers of a row: beyond 1 MiB, fewer the longer they are. Their times differ less
/// between seeds, and they take nearly all of a survey's CPU time.
fn seeds_of(case: Case, seeds: u32) -> u32 {
    let share = u64::from(seeds) * SHORT / case.transfer.0.max(SHORT);
    (share as u32).max(LEAST_SEEDS).min(seeds)
}

/// Measures transfers that differ in the number of devices only, with every scheme, in `seeds`
/// pairs ([`seeds_of`]).
///
/// # Errors
/// When there is no bound, or no link alone carries the transfer.
pub(super) fn measure(
    setting: &Setting,
    cases: &[Case],
    schemes: &[SurveyScheme],
    seeds: u32,
) -> Result<Vec<Row>> {
    let mut one_link = OneLink::new(setting);
    let mut rows = Vec::new();
    for case in cases {
        rows.extend(measure_case(setting, *case, schemes, seeds, &mut one_link)?);
    }
    Ok(rows)
}

/// Outcomes of a transfer over one link alone: the same for all numbers of devices.
struct OneLink<'a> {
    setting: &'a Setting,
    done: BTreeMap<(Over, u64), Option<ExchangeOutcome>>,
}

impl<'a> OneLink<'a> {
    fn new(setting: &'a Setting) -> Self {
        let done = BTreeMap::new();
        Self { setting, done }
    }

    fn carry(&mut self, case: Case, over: Over, seed: u64) -> Option<&ExchangeOutcome> {
        let new = || carry(self.setting, case, over, SurveyScheme::default(), seed);
        self.done.entry((over, seed)).or_insert_with(new).as_ref()
    }

    fn seconds(&mut self, case: Case, over: Over, seed: u64) -> Option<f64> {
        self.carry(case, over, seed).and_then(seconds)
    }
}

/// Rows of one number of devices.
fn measure_case(
    setting: &Setting,
    case: Case,
    schemes: &[SurveyScheme],
    seeds: u32,
    one_link: &mut OneLink<'_>,
) -> Result<Vec<Row>> {
    let command = replay(setting, case, seeds);
    let seeds = seeds_of(case, seeds);
    let bounds = (setting.topology(case.devices), case.bound());
    let fluid = ideal_time(&bounds.0, bounds.1).map_err(Error::run)?;
    let slow_start = slow_start_time(&bounds.0, bounds.1, INITIAL_WINDOW).map_err(Error::run)?;

    // The best link, on seeds of its own.
    let choosing = CHOOSING..CHOOSING + u64::from(seeds.div_ceil(2));
    let mut candidates: Vec<(Over, f64)> = Vec::new();
    for path in 0..case.devices {
        for over in [Over::Alone(path), Over::Tcp(path)] {
            let times = choosing.clone();
            let times = Times(times.map(|s| one_link.seconds(case, over, s)).collect());
            candidates.extend(times.mean().map(|mean| (over, mean)));
        }
    }
    let mean_of = |over| candidates.iter().find(|(o, _)| *o == over).map(|(_, s)| *s);
    let best = (candidates.iter()).min_by(|a, b| a.1.total_cmp(&b.1));
    let Some(&(best, _)) = best else {
        return Err(Error::run(format_args!(
            "setting {}: no link alone carries the transfer",
            setting.number
        )));
    };
    let (Over::Alone(path) | Over::Tcp(path) | Over::Devices(path)) = best;
    let alone_over_tcp =
        (mean_of(Over::Alone(path)).zip(mean_of(Over::Tcp(path)))).map(|(alone, tcp)| alone / tcp);
    let clairvoyant: Vec<f64> = choosing
        .filter_map(|seed| {
            let paths = (0..case.devices).map(|path| (Over::Alone(path), seed));
            let paths = paths.filter_map(|of| one_link.done.get(&of)?.as_ref());
            clairvoyant(paths, case.transfer.0)
        })
        .collect();

    let best_times = Times(
        (0..u64::from(seeds))
            .map(|seed| one_link.seconds(case, best, seed))
            .collect(),
    );
    let rows = schemes.iter().map(|scheme| {
        let over = Over::Devices(case.devices);
        let outcomes: Vec<Option<ExchangeOutcome>> = (0..u64::from(seeds))
            .map(|seed| carry(setting, case, over, *scheme, seed))
            .collect();
        let times: Vec<Option<f64>> = outcomes
            .iter()
            .map(|o| o.as_ref().and_then(seconds))
            .collect();
        let pairs = || {
            let pairs = times.iter().zip(&best_times.0);
            pairs.filter_map(|(own, best)| (*own).zip(*best))
        };
        let mean = |values: Vec<f64>| Sample::new(values).mean().unwrap_or(f64::NAN);
        let own = mean(pairs().map(|p| p.0).collect());
        let best_mean = mean(pairs().map(|p| p.1).collect());
        let excess = Sample::new(
            pairs()
                .map(|(own, best)| own - best * (1.0 + SLOWER_SHARE))
                .collect(),
        );
        let surely = is_above_zero(&excess, setting.rough);
        let done = || outcomes.iter().flatten();
        Row {
            seed: setting.pair.is_none().then_some(setting.seed),
            setting: setting.number,
            pair: setting.pair.clone(),
            rough: setting.rough,
            links: setting.properties(case.devices),
            devices: case.devices,
            start: case.start,
            direction: case.direction,
            transfer: case.transfer,
            scheme: *scheme,
            seconds: own,
            best_link: name(best),
            best_link_seconds: best_mean,
            ratio: own / best_mean,
            slower: surely && own - best_mean > SLOWER_TIME_S,
            alone_over_tcp,
            ideal_seconds: fluid.as_secs_f64(),
            slow_start_seconds: slow_start.as_secs_f64(),
            clairvoyant_seconds: Sample::new(clairvoyant.clone()).mean(),
            redundant_share: mean(done().map(|o| o.share_of(o.copies.total())).collect()),
            hedged_share: mean(done().map(|o| o.share_of(o.copies.hedged)).collect()),
            redundant_bytes: mean(done().map(|o| o.copies.total() as f64).collect()),
            redundant_bytes_max: done().map(|o| o.copies.total()).max().unwrap_or(0),
            failed: times.iter().filter(|t| t.is_none()).count() as u32,
            transfers: seeds,
            replay: format!("{command}{}", option(*scheme)),
        }
    });
    Ok(rows.collect())
}

/// Whether the mean of `excess` is above 0: on rough links with its 95 % interval, if it has one. A
/// single value has none.
fn is_above_zero(excess: &Sample, rough: bool) -> bool {
    let low = excess.mean_interval().map(|(low, _)| low);
    let least = low.filter(|_| rough).or_else(|| excess.mean());
    least.is_some_and(|least| least > 0.0)
}

/// The command that measures a row again, without its scheme.
fn replay(setting: &Setting, case: Case, seeds: u32) -> String {
    format!(
        "mpbond lab survey {} --only {} --seeds {seeds} --devices {} --start {} \
         --direction {} --transfer {}",
        setting.options,
        setting.number,
        case.devices,
        case.start.name(),
        name_of(case.direction),
        case.transfer.to_string().replace(' ', "")
    )
}

/// The option that selects a scheme.
fn option(scheme: SurveyScheme) -> String {
    match scheme == SurveyScheme::default() {
        true => String::new(),
        false => format!(" --scheme {scheme}"),
    }
}

fn name(over: Over) -> String {
    let path = |path| match path {
        0 => "own link".to_owned(),
        helper => format!("helper {helper}"),
    };
    match over {
        Over::Tcp(0) => "own link, plain TCP".to_owned(),
        Over::Tcp(helper) => format!("{}, plain TCP forwarded", path(helper)),
        Over::Alone(number) => path(number),
        Over::Devices(count) => format!("{count} devices"),
    }
}

fn seconds(outcome: &ExchangeOutcome) -> Option<f64> {
    outcome.took.map(|took| took.as_secs_f64())
}

/// One transfer; `None` if it did not end well.
fn carry(
    setting: &Setting,
    case: Case,
    over: Over,
    scheme: SurveyScheme,
    seed: u64,
) -> Option<ExchangeOutcome> {
    let plain = matches!(over, Over::Tcp(_));
    let mut scenario = case.add_to(setting.world(over, seed), plain);
    setting.restart_recordings(&mut scenario);
    scheme.set(&mut scenario);
    // The arrivals over one path, for the clairvoyant scheduler.
    scenario.keeps_log = matches!(over, Over::Alone(_)) && seed >= CHOOSING;
    let observed = match plain {
        true => observe_plain(&scenario),
        false => World::new(scenario).observe(),
    };
    observed.exchanges.into_iter().next_back().flatten()
}

/// Time of a scheduler that knows in advance what each path brings alone, and gives it no more:
/// until the paths together have brought all bytes, and the end is known.
fn clairvoyant<'a>(
    paths: impl Iterator<Item = &'a ExchangeOutcome> + Clone,
    bytes: u64,
) -> Option<f64> {
    let mut all: Vec<(Duration, u64)> = Vec::new();
    let mut end = None;
    for path in paths {
        let mut before = 0;
        for (at, total) in &path.arrivals {
            all.push((*at, total.saturating_sub(before)));
            before = *total;
        }
        let last = path.arrivals.last().map(|(at, _)| *at);
        let rest = path.took?.saturating_sub(last?);
        end = end.into_iter().chain([rest]).min();
    }
    all.sort_unstable();
    let mut arrived = 0;
    let enough = all.iter().find(|(_, more)| {
        arrived += more;
        arrived >= bytes
    });
    Some((enough?.0 + end?).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_pair_on_rough_links_counts_and_several_need_their_interval() {
        let is = |excess: &[f64], rough| is_above_zero(&Sample::new(excess.to_vec()), rough);
        for rough in [false, true] {
            assert!(
                is(&[0.1], rough) && is(&[0.1, 0.11, 0.12], rough),
                "{rough}"
            );
            assert!(!is(&[-0.1], rough) && !is(&[], rough), "{rough}");
        }
        // The mean is 0.1, its interval reaches below 0.
        let wide = [-1.0, 0.2, 1.1];
        assert!(is(&wide, false) && !is(&wide, true));
    }
}
