//! Order of the schemes in a repetition, and which repetitions are disturbed and enter no figures
//! (ADR 0055). Pure.

use std::collections::BTreeSet;
use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::machine_use::are_enough;
use crate::record::Transfer;

/// One of several parts into which the repetitions of a run are divided: every `of`-th one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0 on, less than `of`.
    index: u32,
    of: u32,
}

impl Part {
    /// Most parts of a run.
    const MOST: u32 = 1_000;

    /// Number of this part, counted from 0.
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// Whether this part has a repetition, counted from 0.
    pub(crate) fn has(self, repetition: u32) -> bool {
        repetition % self.of == self.index
    }
}

impl FromStr for Part {
    type Err = String;

    /// Reads "K/N": part K of N, counted from 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse::<u32>().ok()?, of.parse::<u32>().ok()?)));
        match numbers {
            Some((part, of)) if (1..=of).contains(&part) && of <= Self::MOST => Ok(Self {
                index: part - 1,
                of,
            }),
            _ => Err(format!(
                "K/N is wanted, part K of N, with K from 1 to N and N up to {}",
                Self::MOST
            )),
        }
    }
}

/// Positions of `count` schemes in the order in which they run in a repetition. Each second
/// repetition has the order of the one before in reverse, so that of any two schemes each one is as
/// often the first. The first repetition has the order of the file.
pub(crate) fn order(count: usize, seed: u64, repetition: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let pair = u64::from(repetition / 2);
    if pair > 0 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(pair));
        for last in (1..count).rev() {
            // A count of schemes is so small that the remainder's bias does not matter.
            let other = rng.next_u64() % (last as u64 + 1);
            order.swap(last, other as usize);
        }
    }
    if repetition % 2 == 1 {
        order.reverse();
    }
    order
}

/// Repetitions in which a transfer is disturbed. One that failed is a result, whatever else ran.
fn disturbed(transfers: &[Transfer]) -> BTreeSet<u32> {
    let disturbs = |d: &&Transfer| d.sha256_ok && d.disturbed.is_some();
    let all = transfers.iter().filter(disturbs);
    all.map(|d| d.repetition).collect()
}

/// Number of repetitions in which no transfer is disturbed.
pub(crate) fn undisturbed(transfers: &[Transfer]) -> usize {
    let all: BTreeSet<u32> = transfers.iter().map(|d| d.repetition).collect();
    all.difference(&disturbed(transfers)).count()
}

/// Whether a transfer of this repetition has run.
pub(crate) fn has_begun(transfers: &[Transfer], repetition: u32) -> bool {
    transfers.iter().any(|d| d.repetition == repetition)
}

/// Whether a further repetition runs after the `planned` ones and the further ones before it: too
/// few of them are undisturbed, or it was interrupted, and has to be completed.
pub(crate) fn follows(transfers: &[Transfer], planned: u32, repetition: u32) -> bool {
    undisturbed(transfers) < planned as usize || has_begun(transfers, repetition)
}

/// Leaves whole disturbed repetitions out of figures, so that no pair of transfers loses one side,
/// where enough of the `planned` ones are undisturbed ([`are_enough`]). Otherwise all stay.
pub(crate) fn leave_out_disturbed(transfers: &mut [Transfer], planned: u32) {
    if !are_enough(undisturbed(transfers), planned as usize) {
        return;
    }
    let disturbed = disturbed(transfers);
    let of = |d: &&mut Transfer| d.fit && disturbed.contains(&d.repetition);
    for d in transfers.iter_mut().filter(of) {
        d.fit = false;
        d.left_out = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_is_in_one_part() {
        let parts = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Part>().unwrap());
        for repetition in 0..20 {
            assert_eq!(parts.iter().filter(|part| part.has(repetition)).count(), 1);
        }
        for text in [
            "", "1", "0/3", "4/3", "1/0", "-1/3", "1/1001", "1/3/5", "a/b",
        ] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }

    #[test]
    fn of_two_schemes_each_one_is_as_often_the_first() {
        assert_eq!(order(4, 7, 0), [0, 1, 2, 3]);
        assert_eq!(order(4, 7, 1), [3, 2, 1, 0]);
        let orders: Vec<_> = (0..20).map(|repetition| order(4, 7, repetition)).collect();
        for (a, b) in [(0, 1), (0, 3), (1, 2)] {
            let place = |order: &[usize], scheme| order.iter().position(|n| *n == scheme);
            let first = |order: &&Vec<usize>| place(order, a) < place(order, b);
            assert_eq!(orders.iter().filter(first).count(), 10);
        }
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        // Repeatable, and not the same for all pairs and seeds.
        assert_eq!(order(4, 7, 8), orders[8]);
        assert!((2..20).step_by(2).any(|n| orders[n] != orders[0]));
        assert!((2..20).any(|n| order(4, 8, n) != orders[n as usize]));
        assert_eq!(order(0, 1, 5), [0; 0]);
        assert_eq!(order(1, 1, 5), [0]);
    }

    fn disturbed(d: Transfer) -> Transfer {
        Transfer {
            disturbed: Some("busy".to_owned()),
            ..d
        }
    }

    /// Both schemes in every repetition; in the last `busy` ones the second one is disturbed.
    fn transfers(repetitions: u32, busy: u32) -> Vec<Transfer> {
        let both = |n| {
            let (a, b) = (
                Transfer::for_test("a", n, 1.0),
                Transfer::for_test("b", n, 1.0),
            );
            let quiet = n < repetitions - busy;
            [a, if quiet { b } else { disturbed(b) }]
        };
        (0..repetitions).flat_map(both).collect()
    }

    #[test]
    fn a_repetition_is_disturbed_as_a_whole() {
        assert_eq!(undisturbed(&[]), 0);
        assert_eq!(undisturbed(&transfers(5, 2)), 3);
        let mut all = transfers(5, 2);
        all[0] = disturbed(all[0].clone());
        assert_eq!(undisturbed(&all), 2);
        // What is not what its scheme says would be so again.
        all[2].fit = false;
        assert_eq!(undisturbed(&all), 2);
        // A failure is a result.
        all[0].sha256_ok = false;
        assert_eq!(undisturbed(&all), 3);
    }

    #[test]
    fn a_further_repetition_that_was_interrupted_is_completed() {
        // One of three is disturbed, and the first further one lacks its second transfer.
        let mut all = transfers(3, 1);
        assert!(follows(&all, 3, 3) && !has_begun(&all, 3));
        all.push(Transfer::for_test("a", 3, 1.0));
        assert_eq!(undisturbed(&all), 3);
        assert!(has_begun(&all, 3) && follows(&all, 3, 3));
        all.push(Transfer::for_test("b", 3, 1.0));
        assert!(!follows(&all, 3, 4));
        // If the second transfer was disturbed.
        all[7] = disturbed(all[7].clone());
        assert!(follows(&all, 3, 4) && !has_begun(&all, 4));
    }

    #[test]
    fn disturbed_repetitions_are_left_out_where_there_are_enough_others() {
        let fit = |repetitions, busy, planned| {
            let mut all = transfers(repetitions, busy);
            leave_out_disturbed(&mut all, planned);
            let names = ["a", "b"];
            let [a, b] = names.map(|n| all.iter().filter(|d| d.name == n && d.fit).count());
            assert_eq!(a, b, "each has its partner");
            assert!(all.iter().all(|d| d.fit != d.left_out));
            a
        };
        // Of 20 planned and 10 further ones.
        assert_eq!(fit(30, 20, 20), 10);
        assert_eq!(fit(30, 21, 20), 30);
        // Without further ones.
        assert_eq!(fit(20, 11, 20), 20);
        assert_eq!(fit(1, 0, 1), 1);
        assert_eq!(fit(1, 1, 1), 1);
        // Unfit for a reason of its own.
        let mut all = transfers(4, 2);
        all[7].fit = false;
        all[7].unfit_because = Some("late".to_owned());
        leave_out_disturbed(&mut all, 4);
        assert!(all[6].left_out && !all[7].left_out && all[7].is_unfit());
        assert!(all[5].is_disturbed() && !all[7].is_disturbed());
    }
}
