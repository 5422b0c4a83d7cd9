//! Limits above which a measurement is disturbed, for times of transfers and for processor time:
//! by other programs, by the hypervisor, or by processes of the experiment that wait for each
//! other (ADR 0055).

use super::account::Use;
use super::waits::Waited;

/// Maximum share of a transfer's time for which the experiment's threads, added up, waited for a
/// processor, with the steal. Most waits are short and hidden by queues: of the first 50 of 86
/// transfers, on which this limit was chosen, those below it took 0.3 % longer on average than the
/// fastest, 2.6 % at most; those above it 4 %, up to 21 % (ADR 0055).
const MAX_WAITED: f64 = 0.20;
/// Maximum difference between runs of steal and other processes' use, in processors.
const MAX_DIFFERENCE: f64 = 0.02;
/// Maximum steal and use by other processes, in processors. The kernel charges a softirq to the
/// process that it interrupts: beside busy processes, the run's own softirqs would count as theirs.
const MAX_FOREIGN: f64 = 0.25;

/// The reason why the time of a transfer is disturbed, or its use of the machine where that was
/// measured, if one is.
pub(crate) fn why_disturbed(waited: Option<&Waited>, used: Option<&Use>) -> Option<String> {
    let too_long = waited.filter(|w| w.share() > MAX_WAITED);
    let by_waiting = too_long.map(|w| {
        let longest = (w.longest.as_ref()).map_or(String::new(), |(name, seconds)| {
            format!(
                ", {name} longest with {:.1} %",
                w.share_of(*seconds) * 100.0
            )
        });
        format!(
            "its threads waited for a processor, together for {:.1} % of its time (at most \
             {:.0} % is undisturbed){longest}; steal {:.1} %",
            w.share() * 100.0,
            MAX_WAITED * 100.0,
            w.share_of(w.steal_s) * 100.0
        )
    });
    by_waiting.or_else(|| {
        let used = used?;
        if used.went_back() {
            return Some("the use by others is not known: a counter went back".to_owned());
        }
        let foreign = used.foreign();
        (foreign > MAX_FOREIGN).then(|| {
            format!(
                "others used {:.0} % of a processor (at most {:.0} % is undisturbed)",
                foreign * 100.0,
                MAX_FOREIGN * 100.0
            )
        })
    })
}

/// Maximum number of further repetitions for what was disturbed, after those that were planned.
pub(crate) fn further(repetitions: u32) -> u32 {
    repetitions / 2
}

/// Whether so many undisturbed repetitions are enough for figures: half of those planned.
pub(crate) fn are_enough(undisturbed: usize, planned: usize) -> bool {
    undisturbed > 0 && 2 * undisturbed >= planned
}

/// Whether runs of one repetition can be compared by their use of the machine: others hardly used
/// it, and as much during all of them, as far as the counters tell.
pub(crate) fn are_undisturbed(runs: &[Use]) -> bool {
    let foreign = || runs.iter().map(Use::foreign);
    let most = foreign().fold(0.0, f64::max);
    let least = foreign().fold(most, f64::min);
    let is_known = !runs.iter().any(Use::went_back);
    is_known && most <= MAX_FOREIGN && most - least <= MAX_DIFFERENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(steal: f64, others: f64) -> Use {
        Use {
            seconds: 20.0,
            all: 0.4 + steal + others,
            steal,
            others,
        }
    }

    fn waited(waited_s: f64, steal_s: f64) -> Waited {
        Waited {
            seconds: 10.0,
            waited_s,
            longest: Some(("mpbond proxy".to_owned(), 0.4)),
            steal_s,
        }
    }

    #[test]
    fn a_transfer_whose_threads_waited_is_disturbed() {
        assert_eq!(why_disturbed(None, None), None);
        assert_eq!(why_disturbed(Some(&waited(1.9, 0.09)), None), None);
        let why = why_disturbed(Some(&waited(2.1, 0.1)), None).unwrap();
        assert_eq!(
            why,
            "its threads waited for a processor, together for 22.0 % of its time (at most \
             20 % is undisturbed), mpbond proxy longest with 4.0 %; steal 1.0 %"
        );
        assert!(why_disturbed(Some(&waited(0.0, 2.1)), None).is_some());
        let nothing = Waited {
            seconds: 0.0,
            ..waited(0.0, 0.0)
        };
        assert_eq!(why_disturbed(Some(&nothing), None), None);
    }

    #[test]
    fn a_transfer_beside_other_programs_is_disturbed_where_their_use_is_measured() {
        let quiet = waited(0.1, 0.0);
        assert_eq!(why_disturbed(Some(&quiet), Some(&used(0.05, 0.15))), None);
        let why = why_disturbed(Some(&quiet), Some(&used(0.05, 0.25))).unwrap();
        assert_eq!(
            why,
            "others used 30 % of a processor (at most 25 % is undisturbed)"
        );
        let why = why_disturbed(Some(&quiet), Some(&used(0.05, -0.01))).unwrap();
        assert_eq!(why, "the use by others is not known: a counter went back");
    }

    #[test]
    fn half_of_the_planned_repetitions_are_enough() {
        assert_eq!([0, 1, 2, 5, 20].map(further), [0, 0, 1, 2, 10]);
        assert!(are_enough(10, 20) && are_enough(1, 1) && are_enough(2, 3));
        assert!(!are_enough(9, 20) && !are_enough(1, 3));
        assert!(!are_enough(0, 0) && !are_enough(0, 1));
    }

    #[test]
    fn runs_are_compared_where_others_used_the_machine_equally() {
        let even = used(0.05, 0.05);
        assert!(are_undisturbed(&[even, used(0.06, 0.04)]));
        assert!(!are_undisturbed(&[even, used(0.08, 0.05)]));
        assert!(!are_undisturbed(&[used(0.05, 0.08), even]));
        assert!(!are_undisturbed(&[used(0.0, 1.5); 2]));
        // Each of two runs fits a third one, and they do not fit each other.
        let [more, less] = [used(0.115, 0.0), used(0.085, 0.0)];
        assert!(are_undisturbed(&[more, even]) && are_undisturbed(&[even, less]));
        assert!(!are_undisturbed(&[more, even, less]));
        // A counter that went back.
        assert!(!are_undisturbed(&[used(0.01, -0.001), used(0.0, 0.0)]));
        assert!(!are_undisturbed(&[used(-0.001, 0.01)]));
        assert!(are_undisturbed(&[used(0.0, 0.25)]) && !are_undisturbed(&[used(0.0, 0.26)]));
    }
}
