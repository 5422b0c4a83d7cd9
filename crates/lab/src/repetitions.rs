//! Order of the schemes in a repetition, further repetitions for what was disturbed or unfit, and
//! what of the disturbed enters figures (ADR 0055). Pure.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::experiment::{Experiment, Workload};
use crate::machine_use::are_enough;
use crate::record::Transfer;

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

/// The workloads of which a scheme has fewer fit and undisturbed transfers than repetitions are
/// planned. One that failed is a result, and is not repeated.
pub(crate) fn lacking<'e>(e: &'e Experiment, transfers: &[Transfer]) -> Vec<&'e Workload> {
    let has_all = |scheme: &str, workload: &str| {
        let of = |d: &&Transfer| d.name == scheme && d.workload == workload;
        let is_done = |d: &&Transfer| !d.sha256_ok || (d.fit && d.disturbed.is_none());
        let done = transfers.iter().filter(of).filter(is_done);
        done.count() >= e.repetitions as usize
    };
    let lacks = |workload: &&Workload| {
        let mut schemes = e.schemes.iter().filter(|s| s.carries(workload));
        !schemes.all(|s| has_all(s.name.get_ref(), workload.name.get_ref()))
    };
    e.workloads.iter().filter(lacks).collect()
}

/// Leaves disturbed transfers out of figures where enough of those of the same scheme and workload
/// are fit and undisturbed ([`are_enough`]). Where there are fewer, all stay.
pub(crate) fn leave_out_disturbed(transfers: &mut [Transfer]) {
    // Of joined records, each was judged by its own transfers.
    for d in transfers.iter_mut().filter(|d| d.is_left_out()) {
        d.fit = true;
        d.unfit_because = None;
    }
    let is_enough = |d: &Transfer| {
        let same = |o: &&Transfer| o.name == d.name && o.workload == d.workload;
        let (mut good, mut all) = (0, 0);
        for o in transfers.iter().filter(same) {
            all += 1;
            good += usize::from(o.fit && o.disturbed.is_none());
        }
        are_enough(good, all)
    };
    let out: Vec<bool> = (transfers.iter())
        .map(|d| d.fit && d.disturbed.is_some() && is_enough(d))
        .collect();
    for (d, _) in transfers.iter_mut().zip(out).filter(|(_, out)| *out) {
        d.fit = false;
        d.unfit_because.clone_from(&d.disturbed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn experiment(repetitions: u32) -> Experiment {
        let mut text = format!("name = \"t\"\nrepetitions = {repetitions}\n");
        for (name, role, address) in [
            ("primary", "primary", ""),
            ("proxy", "proxy", "address = \"203.0.113.1\"\n"),
            ("origin", "origin", "address = \"198.51.100.1\"\n"),
        ] {
            text += &format!("[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n{address}");
        }
        text += "[[link]]\nname = \"ps\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 8\nup = 8\n\
                 [[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n";
        for name in ["a", "b"] {
            text += &format!("[[scheme]]\nname = \"{name}\"\nscheme = \"single\"\n");
        }
        for name in ["w", "v"] {
            text += &format!("[[workload]]\nname = \"{name}\"\ndirection = \"down\"\nbytes = 1\n");
        }
        Experiment::parse("t.toml", &text).unwrap()
    }

    fn transfer(scheme: &str, workload: &str, repetition: u32) -> Transfer {
        let mut d = Transfer::for_test(scheme, repetition, 1.0);
        d.workload = workload.to_owned();
        d
    }

    fn disturbed(d: Transfer) -> Transfer {
        Transfer {
            disturbed: Some("busy".to_owned()),
            ..d
        }
    }

    #[test]
    fn workloads_are_repeated_until_each_scheme_has_enough() {
        let e = experiment(2);
        let mut all = Vec::new();
        for repetition in 0..2 {
            for (scheme, workload) in [("a", "w"), ("a", "v"), ("b", "w"), ("b", "v")] {
                all.push(transfer(scheme, workload, repetition));
            }
        }
        let lack = |all: &[Transfer]| {
            let names = lacking(&e, all).into_iter().map(|w| w.name.get_ref());
            names.cloned().collect::<Vec<_>>()
        };
        assert_eq!(lack(&all), [""; 0]);
        all[6] = disturbed(all[6].clone());
        assert_eq!(lack(&all), ["w"]);
        all[1].fit = false;
        assert_eq!(lack(&all), ["w", "v"]);
        // A third one of each scheme, and one that is disturbed again.
        all.extend([transfer("a", "w", 2), disturbed(transfer("b", "w", 2))]);
        all.extend([transfer("a", "v", 2), transfer("b", "v", 2)]);
        assert_eq!(lack(&all), ["w"]);
        all.push(transfer("b", "w", 3));
        assert_eq!(lack(&all), [""; 0]);
        // A failure is a result.
        (all[0].fit, all[0].sha256_ok) = (false, false);
        assert_eq!(lack(&all), [""; 0]);
    }

    #[test]
    fn disturbed_transfers_are_left_out_where_there_are_enough_others() {
        let judged = |undisturbed: u32, busy: u32| {
            let mut all: Vec<Transfer> = (0..undisturbed).map(|n| transfer("a", "w", n)).collect();
            all.extend((0..busy).map(|n| disturbed(transfer("a", "w", undisturbed + n))));
            // Others do not count.
            all.extend((0..9).map(|n| transfer("b", "w", n)));
            all.extend((0..9).map(|n| transfer("a", "v", n)));
            leave_out_disturbed(&mut all);
            all
        };
        let fit = |all: &[Transfer]| {
            let own = all.iter().filter(|d| d.name == "a" && d.workload == "w");
            own.filter(|d| d.fit).count()
        };
        // Of 20 planned and 10 further ones.
        assert_eq!(fit(&judged(10, 20)), 10);
        assert_eq!(fit(&judged(9, 21)), 30);
        assert_eq!(fit(&judged(1, 0)), 1);
        assert_eq!(fit(&judged(0, 1)), 1);
        let mut all = judged(10, 20);
        assert!(all[10].is_left_out() && !all[9].is_left_out());
        assert_eq!(all[10].unfit_because.as_deref(), Some("busy"));
        // Joined with disturbed ones, there are too few others.
        all.extend((0..9).map(|n| disturbed(transfer("a", "w", 30 + n))));
        leave_out_disturbed(&mut all);
        assert_eq!(fit(&all), 39);
        // Unfit for another reason.
        all.truncate(30);
        all[10].fit = false;
        all[10].unfit_because = Some("late".to_owned());
        leave_out_disturbed(&mut all);
        assert_eq!(fit(&all), 10);
        assert!(!all[10].is_left_out() && all[11].is_left_out());
    }
}
