//! Links of helpers that several subflows share: each is told what the others have on its link.

use mpbond_units::{BitRate, Timestamp};

use crate::HelperId;
use crate::estimator::{Load, Shared};
use crate::subflow::{RunAhead, Subflow};

/// A pipe counts as faster than another one from this multiple of its rate on: measured rates vary.
const FASTER: f64 = 2.0;

/// Helpers to which there are several pipes. An express carries little and passes what others have
/// at the helper: it does not count.
#[derive(Debug, Default)]
pub(super) struct SharedLinks {
    helpers: Vec<HelperId>,
    /// Helpers to which there have been several pipes since they have any, with the highest rate of
    /// one of these in bytes per second.
    fastest: Vec<(HelperId, f64)>,
    /// What each subflow has on the link that is looked at; kept, since this runs for each record.
    loads: Vec<Option<Load>>,
}

fn is_of(helper: HelperId, s: &Subflow) -> bool {
    s.helper == Some(helper) && !s.is_express()
}

impl SharedLinks {
    /// Other subflows than before.
    pub(super) fn changed(&mut self, subflows: &mut [Subflow]) {
        self.helpers.clear();
        for helper in subflows.iter().filter_map(|s| s.helper) {
            let all = subflows.iter().filter(|s| is_of(helper, s));
            if all.count() > 1 && !self.helpers.contains(&helper) {
                self.helpers.push(helper);
            }
        }
        self.fastest
            .retain(|(helper, _)| subflows.iter().any(|s| is_of(*helper, s)));
        for s in subflows {
            s.estimator.share(None);
            s.run_ahead = RunAhead::default();
        }
    }

    /// Bounds the run-ahead to pipes beside which there are, or were, faster ones to the same
    /// helper. For the sender behind the helper's link, whose far hops the pipes are.
    fn limit(&mut self, now: Timestamp, subflows: &mut [Subflow]) {
        let rate = |s: &Subflow| {
            let shown = s.estimator.far_throughput(now);
            shown.map_or(0.0, BitRate::bytes_per_sec)
        };
        for helper in &self.helpers {
            let all = subflows.iter().filter(|s| is_of(*helper, s));
            let most = all.map(rate).fold(0.0, f64::max);
            match self.fastest.iter_mut().find(|(known, _)| known == helper) {
                Some((_, fastest)) => *fastest = most.max(*fastest),
                None => self.fastest.push((*helper, most)),
            }
        }
        for (helper, fastest) in &self.fastest {
            let used = |s: &Subflow| is_of(*helper, s) && s.is_regular() && s.works();
            let fastest_used = subflows.iter().filter(|s| used(s)).map(rate);
            let fastest_used = fastest_used.fold(0.0, f64::max);
            for s in subflows.iter_mut().filter(|s| is_of(*helper, s)) {
                let faster = FASTER * rate(s);
                s.run_ahead = match () {
                    () if fastest_used > faster => RunAhead::Least,
                    () if *fastest > faster => RunAhead::Brief,
                    () => RunAhead::Buffer,
                };
            }
        }
    }

    /// Tells the subflows of each what the others have, and bounds the run-ahead to them.
    /// `is_near`: the links are their near hops.
    pub(super) fn update(&mut self, now: Timestamp, is_near: bool, subflows: &mut [Subflow]) {
        if is_near {
            self.limit(now, subflows);
        }
        for helper in &self.helpers {
            // What a failed one owes is not on its way.
            let load = |s: &Subflow| {
                let counts = is_of(*helper, s) && !s.has_failed();
                let load = counts.then(|| s.estimator.load(now, is_near, s.tx.octets, s.tx.acked));
                load.filter(|load| load.bytes > 0)
            };
            self.loads.clear();
            self.loads.extend(subflows.iter().map(load));
            for (i, s) in subflows.iter_mut().enumerate() {
                if is_of(*helper, s) {
                    let others = self
                        .loads
                        .iter()
                        .enumerate()
                        .filter(|(other, _)| *other != i);
                    let others = others.filter_map(|(_, load)| *load);
                    let sum = |a: Load, b: Load| Load {
                        bytes: a.bytes + b.bytes,
                        rate: a.rate + b.rate,
                    };
                    let others = others.reduce(sum);
                    s.estimator.share(others.map(|others| Shared {
                        at: now,
                        is_near,
                        others,
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{PathInfo, Role};

    fn ms(v: u64) -> Timestamp {
        Timestamp::from_millis(v)
    }

    /// Two pipes to one helper and one to another; the near hop of each was measured at 1 MB/s.
    fn three() -> Vec<Subflow> {
        [(1, 0), (2, 0), (3, 1)]
            .map(|(id, helper)| Subflow::for_test(id, Some(helper), Role::Regular))
            .into()
    }

    fn told(subflows: &mut [Subflow], is_near: bool) -> SharedLinks {
        let mut links = SharedLinks::default();
        links.changed(subflows);
        links.update(ms(0), is_near, subflows);
        links
    }

    #[test]
    fn two_pipes_to_a_helper_have_one_link_together() {
        let mut all = three();
        all[0].tx.octets = 200_000;
        let pads = |all: &[Subflow]| [0, 1, 2].map(|i| all[i].pad(ms(0)));
        let before = pads(&all);
        told(&mut all, true);
        // The one that is alone on the link has all of it, and the other one waits behind it:
        // 25 ms of the 200 kB at 1 MB/s are past it.
        let after = pads(&all);
        assert_eq!([after[0], after[2]], [before[0], before[2]]);
        assert_eq!(after[1] - before[1], Duration::from_millis(175));
        // Rates of two that have something are parts of one link.
        all[1].tx.octets = 100_000;
        told(&mut all, true);
        let expected = (175_000.0 + 75_000.0) / 2e6 + 0.025;
        assert_eq!(all[1].pad(ms(0)), Duration::from_secs_f64(expected));
    }

    /// Has the pipes of these subflows shown rates of so many bytes per second.
    fn show(subflows: &mut [Subflow], rates: [f64; 3]) {
        for (s, rate) in subflows.iter_mut().zip(rates) {
            s.estimator
                .on_pace(ms(0), BitRate::from_bytes_per_sec(rate));
        }
    }

    fn ahead(subflows: &[Subflow]) -> Vec<RunAhead> {
        subflows.iter().map(|s| s.run_ahead).collect()
    }

    #[test]
    fn little_waits_for_a_slow_pipe_where_there_is_a_faster_one_or_was() {
        use RunAhead::{Brief, Buffer, Least};
        let mut all = three();
        told(&mut all, true);
        assert_eq!(ahead(&all), [Buffer; 3]);
        show(&mut all, [2.5e6, 0.15e6, 0.1e6]);
        let mut links = told(&mut all, true);
        assert_eq!(ahead(&all), [Buffer, Least, Buffer]);
        // One that stands by, or fails, may be used later.
        all[0].role = Role::Backup;
        links.update(ms(0), true, &mut all);
        assert_eq!(ahead(&all), [Buffer, Brief, Buffer]);
        all.remove(0);
        links.changed(&mut all);
        links.update(ms(0), true, &mut all);
        assert_eq!(ahead(&all), [Brief, Buffer]);
        // Nothing is known of a helper that had no pipe for a time.
        all[0].role = Role::Express;
        links.changed(&mut all);
        all[0].role = Role::Regular;
        links.changed(&mut all);
        links.update(ms(0), true, &mut all);
        assert_eq!(ahead(&all), [Buffer; 2]);
    }

    #[test]
    fn pipes_of_similar_rates_and_far_hops_that_are_no_pipes_have_the_whole_buffer() {
        let mut all = three();
        show(&mut all, [0.19e6, 0.1e6, 0.1e6]);
        told(&mut all, true);
        assert_eq!(ahead(&all), [RunAhead::Buffer; 3]);
        show(&mut all, [1e6, 0.1e6, 0.1e6]);
        told(&mut all, false);
        assert_eq!(ahead(&all), [RunAhead::Buffer; 3]);
    }

    #[test]
    fn on_the_uplink_the_far_hop_is_shared() {
        let mut all = three();
        for (s, octets) in all.iter_mut().zip([300_000, 0, 0]) {
            // The pipe has taken everything, at 1 MB/s; the link behind it is as fast, as far as
            // is known.
            let path = PathInfo {
                bytes_arrived: octets,
                delivery_rate: BitRate::from_bytes_per_sec(1e6),
                ..*s.estimator.path()
            };
            s.tx.octets = octets;
            s.estimator.owes_again(ms(0), 0);
            s.estimator.on_path(ms(0), path);
        }
        told(&mut all, false);
        let [shared, other] = [1, 2].map(|i| all[i].pad(ms(0)));
        assert_eq!(shared - other, Duration::from_millis(300));
    }

    #[test]
    fn an_express_shares_nothing_and_one_that_is_gone_leaves_nothing() {
        let mut all = three();
        all[1].role = Role::Express;
        all[0].tx.octets = 200_000;
        let before = all[1].pad(ms(0));
        told(&mut all, true);
        assert_eq!(all[1].pad(ms(0)), before);
        // One that is gone leaves nothing behind.
        let mut all = three();
        all[0].tx.octets = 200_000;
        let mut links = told(&mut all, true);
        assert!(all[1].pad(ms(0)) > before);
        all.remove(0);
        links.changed(&mut all);
        assert_eq!(all[0].pad(ms(0)), before);
    }
}
