//! Expected duration of an experiment, and the time limits of its transfers.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Result;
use crate::experiment::{Carrier, Connection, Experiment, LEAST_OF_PAGE, Scheme, Start, Workload};
use crate::schedule::repetitions::order;
use crate::transfer::ideal::ideal_time;

/// Time to start daemons and join all subflows.
pub(crate) const DAEMONS: Duration = Duration::from_millis(900);
/// Time between two transfers, for digests, counters and links.
pub(crate) const BETWEEN: Duration = Duration::from_millis(250);
/// Typical time of a transfer over its fluid bound.
pub(crate) const OVER_IDEAL: f64 = 1.15;

/// Bytes of a download that a helper holds, in front of what comes later: its buffer, by default.
const HELD_BYTES: u64 = 4 << 20;

/// Time limit of a transfer whose fluid bound is `ideal`: long enough for the slowest scheduler.
/// Ends a transfer that hangs.
///
/// # Errors
/// As [`ideal_time`].
pub(crate) fn time_limit(
    e: &Experiment,
    scheme: &Scheme,
    workload: &Workload,
    ideal: Duration,
) -> Result<Duration> {
    let app = workload.application();
    let least = app.map_or(Duration::ZERO, |app| app.least_time());
    // The bound of a page beside a download is that of nothing: only the links limit the download.
    let ideal = match workload.page_beside_download() {
        Some(page) => ideal_time(e, scheme, workload, page.bytes() + HELD_BYTES)?,
        None => ideal,
    };
    Ok(Duration::from_secs(30) + least * 2 + ideal * 10)
}

/// Expected duration of each transfer with the idle time before it, in the order in which they run.
///
/// # Errors
/// When the bound cannot be computed: a recording is missing, or the links never carry a workload.
pub(crate) fn of_each_transfer(e: &Experiment) -> Result<Vec<Duration>> {
    Bounds::default().of_each_transfer(e)
}

/// The same for one repetition.
///
/// # Errors
/// As [`of_each_transfer`].
pub(crate) fn of_repetition(e: &Experiment, repetition: u32) -> Result<Vec<Duration>> {
    let each = Bounds::default().of_schemes(e)?;
    Ok(in_order(e, &each, repetition))
}

/// Durations of one repetition, from those of each scheme.
fn in_order(e: &Experiment, each: &[Vec<Duration>], repetition: u32) -> Vec<Duration> {
    let order = order(each.len(), e.seed, repetition).into_iter();
    let schemes = order.filter_map(|position| each.get(position));
    schemes.flatten().copied().collect()
}

/// Cache of fluid bounds. Over recorded links a bound takes a while to compute, and shortening a
/// run asks for all of them repeatedly.
#[derive(Default)]
pub(crate) struct Bounds(pub(crate) HashMap<BoundOf, Duration>);

/// Key of a bound within one experiment: direct links, number of devices, workload in its setting,
/// bytes.
pub(crate) type BoundOf = (Vec<String>, usize, String, u64);

impl Bounds {
    fn of_each_transfer(&mut self, e: &Experiment) -> Result<Vec<Duration>> {
        let each = self.of_schemes(e)?;
        let all = (0..e.repetitions).flat_map(|repetition| in_order(e, &each, repetition));
        Ok(all.collect())
    }

    /// Duration of each workload that a scheme carries, for every scheme.
    fn of_schemes(&mut self, e: &Experiment) -> Result<Vec<Vec<Duration>>> {
        let mut all = Vec::new();
        for scheme in &e.schemes {
            let mut before: Option<&Workload> = None;
            let mut once = Vec::new();
            for workload in e.workloads_of(scheme) {
                let fresh = before.is_none_or(|before| before.leaves_other_links(e, workload));
                once.push(self.of(e, scheme, workload, fresh)?);
                before = Some(workload);
            }
            all.push(once);
        }
        Ok(all)
    }

    pub fn whole(&mut self, e: &Experiment) -> Result<Duration> {
        Ok(self.of_each_transfer(e)?.iter().sum())
    }

    fn ideal(
        &mut self,
        e: &Experiment,
        scheme: &Scheme,
        workload: &Workload,
        bytes: u64,
    ) -> Result<Duration> {
        let direct = scheme.direct_links(e).map(|l| l.name.get_ref().clone());
        let workload_name = workload.name.get_ref().clone();
        let key = (direct.collect(), scheme.devices, workload_name, bytes);
        if let Some(known) = self.0.get(&key) {
            return Ok(*known);
        }
        let ideal = ideal_time(e, scheme, workload, bytes)?;
        self.0.insert(key, ideal);
        Ok(ideal)
    }

    fn of(
        &mut self,
        e: &Experiment,
        scheme: &Scheme,
        workload: &Workload,
        fresh: bool,
    ) -> Result<Duration> {
        let mut all = self.of_client(e, scheme, workload)? + BETWEEN;
        if matches!(scheme.scheme, Carrier::Mpbond | Carrier::External) {
            // Daemons live from transfer to transfer, except for cold starts, after faults, and
            // where links differ.
            if fresh || scheme.start == Start::Cold || !workload.faults.is_empty() {
                all += DAEMONS;
            }
        }
        let warm = scheme.scheme == Carrier::Mpbond && scheme.start == Start::Warm;
        if warm || scheme.connection == Connection::Kept {
            all += scheme.idle;
        }
        Ok(all)
    }

    /// From the client's start to its end.
    pub fn of_client(
        &mut self,
        e: &Experiment,
        scheme: &Scheme,
        workload: &Workload,
    ) -> Result<Duration> {
        // Computed for every workload, so that one that the links never carry is found.
        let ideal = self.ideal(e, scheme, workload, workload.most_bytes().max(1))?;
        let by_bytes = ideal.mul_f64(OVER_IDEAL);
        if let Some(page) = workload.page_beside_download() {
            // The page gets half of the rate.
            let at_half_rate = self.ideal(e, scheme, workload, page.bytes())? * 2;
            return Ok(page.ahead() + at_half_rate.max(LEAST_OF_PAGE));
        }
        Ok(match workload.application() {
            None => by_bytes,
            // It adapts by fetching less.
            Some(app) if app.adapts() => app.usual_time(),
            Some(app) => app.usual_time().max(by_bytes),
        })
    }
}

impl Experiment {
    /// Expected duration in real time, from workloads, bounds, idle times and repetitions.
    ///
    /// # Errors
    /// When the bound cannot be computed: a recording is missing, or the links never carry a
    /// workload.
    pub fn expected_duration(&self) -> Result<Duration> {
        Ok(of_each_transfer(self)?.iter().sum())
    }
}
