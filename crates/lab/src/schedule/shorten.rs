//! Shortening an experiment to a given duration.

use std::time::Duration;

use crate::error::Result;
use crate::experiment::{Experiment, Scheme, Workload};
use crate::schedule::duration::Bounds;

/// Idle time in a short run: longer than a retransmission timeout, after which the kernel takes a
/// congestion window for stale.
const SHORT_IDLE: Duration = Duration::from_secs(1);

/// Durations of applications in a short run, and in an even shorter one.
const SHORT_APPLICATIONS: [Duration; 2] = [Duration::from_secs(12), Duration::from_secs(6)];

/// Minimum number of values of a `parameter`, so that a line remains in pictures.
const LEAST_VALUES: usize = 2;

/// Shortens `e` to about `most`: fewer repetitions, then fewer workloads, evenly spread, then
/// shorter idle times and applications, then fewer values of the parameter. Returns a remark on the
/// changes but that of repetitions; `None` when there are none. At least one repetition of one
/// workload remains.
///
/// # Errors
/// As [`Experiment::expected_duration`].
pub(crate) fn shorten(e: &mut Experiment, most: Duration) -> Result<Option<String>> {
    let mut said = Vec::new();
    let mut bounds = Bounds::default();
    let whole = bounds.whole(e)?;
    if whole <= most {
        return Ok(None);
    }
    let planned = e.repetitions;
    let share = most.as_secs_f64() / whole.as_secs_f64();
    e.repetitions = ((f64::from(planned) * share) as u32).max(1);
    let all = e.workloads.clone();
    // Bisects, since each attempt computes the bound of every transfer.
    let (mut keep, mut too_many) = (1, all.len() + 1);
    if bounds.whole(e)? <= most {
        keep = all.len();
    }
    while keep + 1 < too_many && keep < all.len() {
        let some = keep.midpoint(too_many);
        e.workloads = evenly(&all, some).cloned().collect();
        if bounds.whole(e)? <= most {
            keep = some;
        } else {
            too_many = some;
        }
    }
    if keep < all.len() {
        e.workloads = evenly(&all, keep).cloned().collect();
    }
    if keep < all.len() {
        said.push(format!("{keep} of {} workloads", all.len()));
    }
    if bounds.whole(e)? > most {
        let long = e.schemes.iter_mut().filter(|s| s.idle > SHORT_IDLE);
        let mut any = false;
        for scheme in long {
            scheme.idle = SHORT_IDLE;
            any = true;
        }
        if any {
            said.push(format!("idle times of {SHORT_IDLE:?}"));
        }
    }
    let mut cut_to = None;
    for length in SHORT_APPLICATIONS {
        if bounds.whole(e)? > most {
            let cut = e.workloads.iter_mut().map(|w| cut_application(w, length));
            if cut.filter(|cut| *cut).count() > 0 {
                cut_to = Some(length);
            }
        }
    }
    said.extend(cut_to.map(|length| format!("applications of {length:?}")));
    let all = e.schemes.clone();
    let mut values: Vec<f64> = all.iter().filter_map(|s| s.parameter).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let mut keep = values.len();
    while keep > LEAST_VALUES && bounds.whole(e)? > most {
        keep -= 1;
        let kept: Vec<f64> = evenly(&values, keep).copied().collect();
        let stays = |s: &&Scheme| s.parameter.is_none_or(|p| kept.contains(&p));
        e.schemes = all.iter().filter(stays).cloned().collect();
    }
    if e.schemes.len() < all.len() {
        said.push(format!("{} of {} schemes", e.schemes.len(), all.len()));
    }
    Ok((!said.is_empty()).then(|| said.join(", ")))
}

/// `count` elements of `all`, evenly spread from the first.
fn evenly<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    (0..count).filter_map(move |i| all.get(i * all.len() / count))
}

/// Shortens the application of a workload to `most`; returns whether it was longer.
fn cut_application(w: &mut Workload, most: Duration) -> bool {
    // A video with one rate does not adapt: its time depends on the links.
    if let Some(video) = w.video.as_mut().filter(|v| v.ladder.len() == 1) {
        let longer = video.length > most;
        video.length = video.length.min(most);
        return longer;
    }
    let Some(usual) = w.application().map(|app| app.usual_time()) else {
        return false;
    };
    if usual <= most {
        return false;
    }
    if let Some(video) = &mut w.video {
        video.length = video.length.saturating_sub(usual - most);
    }
    if let Some(stream) = &mut w.stream {
        stream.length = most;
    }
    if let Some(messages) = &mut w.messages {
        messages.length = most;
        messages.after = messages.after.min(most / 2);
    }
    if let Some(length) = &mut w.length {
        *length = most;
    }
    if let Some(chunks) = &mut w.chunks {
        let share = most.as_secs_f64() / usual.as_secs_f64();
        chunks.count = ((f64::from(chunks.count) * share) as u32).max(1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::duration::{BETWEEN, DAEMONS, OVER_IDEAL};

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn experiment(start: &str, repetitions: u32) -> Experiment {
        let mut text = format!("name = \"t\"\nrepetitions = {repetitions}\n");
        for (name, role, address) in [
            ("primary", "primary", ""),
            ("proxy", "proxy", "address = \"203.0.113.1\"\n"),
            ("origin", "origin", "address = \"198.51.100.1\"\n"),
        ] {
            text += &format!("[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n{address}");
        }
        text += "[[link]]\nname = \"ps\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 8\n\
                     up = 8\n[[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n\
                     [[scheme]]\nname = \"s\"\nscheme = \"mpbond\"\ninterception = \"socks5\"\n";
        text += &format!("idle = \"7s\"\nstart = \"{start}\"\n");
        for name in ["a", "b"] {
            text += &format!("[[workload]]\nname = \"{name}\"\ndirection = \"down\"\n");
            text += "bytes = 1448000\n";
        }
        Experiment::parse("t.toml", &text).unwrap()
    }

    #[test]
    fn idle_and_daemons_count() {
        // 1.5 s by the bound.
        let one = Duration::from_secs_f64(1.5).mul_f64(OVER_IDEAL) + BETWEEN;
        let near = |e: &Experiment, want: Duration| {
            let got = e.expected_duration().unwrap();
            assert!(got.abs_diff(want) < Duration::from_micros(10), "{got:?}");
        };
        near(&experiment("warm", 1), one * 2 + S(14) + DAEMONS);
        near(&experiment("warm", 3), (one * 2 + S(14) + DAEMONS) * 3);
        near(&experiment("cold", 1), one * 2 + DAEMONS * 2);
    }

    #[test]
    fn a_short_run_keeps_to_its_time() {
        let short = |most| {
            let mut e = experiment("warm", 10);
            let said = shorten(&mut e, most).unwrap();
            assert!(e.expected_duration().unwrap() <= most.max(S(5)), "{most:?}");
            (e.repetitions, e.workloads.len(), said)
        };
        let said = |text: &str| Some(text.to_owned());
        // One repetition takes 2 * (7 + 2) s.
        assert_eq!(short(S(3_600)), (10, 2, None));
        assert_eq!(short(S(100)), (5, 2, None));
        let one = "1 of 2 workloads";
        assert_eq!(short(S(12)), (1, 1, said(one)));
        assert_eq!(
            short(S(1)),
            (1, 1, said(&format!("{one}, idle times of 1s")))
        );
    }

    #[test]
    fn a_short_run_leaves_out_values_of_the_parameter() {
        let mut e = experiment("warm", 1);
        let one = e.schemes[0].clone();
        e.schemes = (0..5)
            .map(|i| Scheme {
                parameter: Some(f64::from(i)),
                ..one.clone()
            })
            .collect();
        e.schemes.push(one);
        let said = shorten(&mut e, S(16)).unwrap().unwrap();
        assert!(said.ends_with("4 of 6 schemes"), "{said}");
        let kept: Vec<_> = e.schemes.iter().map(|s| s.parameter).collect();
        assert_eq!(kept, [Some(0.0), Some(1.0), Some(3.0), None]);
        assert!(e.expected_duration().unwrap() <= S(16));
    }

    #[test]
    fn a_short_run_cuts_applications() {
        for (most, length) in [(60, 40), (20, 12), (14, 6)] {
            let mut e = experiment("warm", 1);
            e.workloads.truncate(1);
            e.workloads[0].length = Some(S(40));
            let said = shorten(&mut e, S(most)).unwrap().unwrap_or_default();
            assert_eq!(e.workloads[0].length, Some(S(length)), "{said}");
            let words = format!("applications of {length}s");
            assert_eq!(said.contains(&words), length < 40, "{said}");
            assert!(e.expected_duration().unwrap() <= S(most));
        }
    }

    #[test]
    fn a_bound_is_asked_for_once() {
        let e = experiment("warm", 3);
        let mut bounds = Bounds::default();
        let first = bounds.whole(&e).unwrap();
        assert_eq!(bounds.0.len(), 2, "one scheme, two workloads");
        for bound in bounds.0.values_mut() {
            *bound += S(1);
        }
        assert!(bounds.whole(&e).unwrap() > first, "known facts are kept");
        let mut fewer = experiment("warm", 3);
        fewer.workloads[0].bytes = mpbond_units::Size(1);
        bounds.whole(&fewer).unwrap();
        assert_eq!(bounds.0.len(), 3, "fewer bytes have another bound");
    }

    /// `experiments/run` with QUICK=1: each row gets its share of the rest of the budget of 885 s.
    #[test]
    fn all_shipped_experiments_fit_a_quarter_of_an_hour() {
        let mut folders = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments").into()];
        let mut files: Vec<std::path::PathBuf> = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "toml")
                    // `experiments/run` leaves these out.
                    && !path.ends_with("experiments/peers.toml")
                    && !path.ends_with("experiments/survey-102.toml")
                    && !path.ends_with("experiments/survey-105.toml")
                {
                    files.push(path);
                }
            }
        }
        files.sort();
        // Those in virtual time, and those that are computed, take seconds at most.
        let computed = |file: &std::path::PathBuf| {
            let text = std::fs::read_to_string(file).unwrap();
            let measures =
                ["airtime", "watch", "cpu-share", "meter"].map(|m| format!("measure = \"{m}\""));
            let is_one =
                |line: &str| line == "simulated = true" || measures.iter().any(|m| m == line);
            text.lines().any(is_one)
        };
        files.retain(|file| !computed(file));
        // Measurements without transfers are not planned: each short one takes this long on
        // average.
        let transfers = |file: &std::path::PathBuf| crate::list::measurement(file).is_none();
        let all = files.len();
        files.retain(transfers);
        let budget = S(885) - S(7) * u32::try_from(all - files.len()).unwrap();
        let mut spent = Duration::ZERO;
        for (i, file) in files.iter().enumerate() {
            let mut e = Experiment::load(file).unwrap();
            let left = u32::try_from(files.len() - i).unwrap();
            let share = budget.saturating_sub(spent) / left;
            if shorten(&mut e, share.max(S(1))).is_err() {
                println!("{}: recordings are missing", file.display());
                continue;
            }
            spent += e.expected_duration().unwrap();
            println!(
                "{:?} of {share:?}: {}",
                e.expected_duration().unwrap(),
                file.display()
            );
        }
        println!("{spent:?} in all");
        assert!(spent <= budget, "{spent:?}");
    }
}
