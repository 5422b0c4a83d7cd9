//! How long experiments take: before they run, and while they do.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Result;
use crate::experiment::{Carrier, Connection, Experiment, Scheme, Start, Workload};
use crate::ideal::ideal_time;

/// Starting daemons until all subflows are joined.
const DAEMONS: Duration = Duration::from_millis(900);
/// Digests, counters and links between two transfers.
const BETWEEN: Duration = Duration::from_millis(250);
/// What transfers take of the bound, roughly.
const OVER_IDEAL: f64 = 1.15;

/// What each transfer will take, with the idle time before it, in the order in
/// which they run.
///
/// # Errors
/// When the bound cannot be computed: a recording is missing, or the links
/// never carry a workload.
pub(crate) fn of_each_transfer(e: &Experiment) -> Result<Vec<Duration>> {
    Bounds::default().of_each_transfer(e)
}

/// Bounds that were computed already: of recorded links one takes a while, and
/// a run that has to be short asks for all of them with each try.
#[derive(Default)]
struct Bounds(HashMap<BoundOf, Duration>);

/// What the bound of a transfer depends on, within one experiment: direct
/// links, number of devices, workload in its setting, bytes.
type BoundOf = (Vec<String>, usize, String, u64);

impl Bounds {
    fn of_each_transfer(&mut self, e: &Experiment) -> Result<Vec<Duration>> {
        let mut once = Vec::new();
        for scheme in &e.schemes {
            let mut before: Option<&Workload> = None;
            for workload in e.workloads_of(scheme) {
                let fresh = before.is_none_or(|before| before.leaves_other_links(e, workload));
                once.push(self.of(e, scheme, workload, fresh)?);
                before = Some(workload);
            }
        }
        Ok(once.repeat(e.repetitions as usize))
    }

    fn whole(&mut self, e: &Experiment) -> Result<Duration> {
        Ok(self.of_each_transfer(e)?.iter().sum())
    }

    fn ideal(&mut self, e: &Experiment, scheme: &Scheme, workload: &Workload) -> Result<Duration> {
        let bytes = workload.most_bytes().max(1);
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
        // Of every workload, so that what the links never carry is found out.
        let ideal = self.ideal(e, scheme, workload)?;
        let by_bytes = ideal.mul_f64(OVER_IDEAL);
        let usual = match workload.application() {
            None => by_bytes,
            // It would rather fetch less.
            Some(app) if app.adapts() => app.usual_time(),
            Some(app) => app.usual_time().max(by_bytes),
        };
        let mut all = usual + BETWEEN;
        if scheme.scheme == Carrier::Mpbond {
            // They stay from transfer to transfer, but for a cold start or a fault,
            // and where the links are others.
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
}

/// Idle times of a run that has to be short: more than a retransmission
/// timeout, after which the kernel takes a window for old.
const SHORT_IDLE: Duration = Duration::from_secs(1);

/// How long an application goes on in a run that has to be short, and in one
/// that has to be even shorter.
const SHORT_APPLICATIONS: [Duration; 2] = [Duration::from_secs(12), Duration::from_secs(6)];

/// Of the values of a `parameter`, so many always stay: with fewer there is no
/// line to see.
const LEAST_VALUES: usize = 2;

/// Makes `e` take about `most` at most: fewer repetitions, then fewer
/// workloads, evenly spread, then shorter idle times and applications, then
/// schemes of fewer values of the parameter. Says what it did; none when
/// nothing had to be done. At least one repetition of one workload stays.
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
    if e.repetitions < planned {
        said.push(format!("{} of {planned} repetitions", e.repetitions));
    }
    let all = e.workloads.clone();
    // The most that fit: each try asks for the bound of every transfer.
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

/// `count` of `all`, evenly spread; the first one is among them.
fn evenly<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    (0..count).filter_map(move |i| all.get(i * all.len() / count))
}

/// Whether the workload had an application that took longer than `most`.
fn cut_application(w: &mut Workload, most: Duration) -> bool {
    // How long it takes to fetch what does not adapt, only the links say.
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

impl Experiment {
    /// About how long it takes to run, from workloads, bounds, idle times and
    /// repetitions.
    ///
    /// # Errors
    /// When the bound cannot be computed: a recording is missing, or the links
    /// never carry a workload.
    pub fn expected_duration(&self) -> Result<Duration> {
        Ok(of_each_transfer(self)?.iter().sum())
    }
}

/// A span for people: `40 s`, `12 min`, `3 h 20 min`.
pub(crate) fn in_words(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    let minutes = (seconds + 30) / 60;
    match seconds {
        ..100 => format!("{seconds} s"),
        100..5_400 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// How far a run is, and how fast it goes against what was expected.
#[derive(Debug)]
pub(crate) struct Pace {
    /// What is still to come, by transfer; zero for what is behind.
    to_come: Vec<Duration>,
    spent: Duration,
    expected: Duration,
}

impl Pace {
    /// Nothing is done yet of what is expected to take `each`.
    pub fn new(each: Vec<Duration>) -> Self {
        Self {
            to_come: each,
            spent: Duration::ZERO,
            expected: Duration::ZERO,
        }
    }

    /// How many transfers there are, done or not.
    pub fn total(&self) -> usize {
        self.to_come.len()
    }

    /// Transfer `number` has a result already.
    pub fn skipped(&mut self, number: usize) {
        self.take(number);
    }

    /// Transfer `number` took `spent`, with all that was before it.
    pub fn done(&mut self, number: usize, spent: Duration) {
        let expected = self.take(number);
        self.expected += expected;
        self.spent += spent;
    }

    fn take(&mut self, number: usize) -> Duration {
        let place = self.to_come.get_mut(number);
        place.map(std::mem::take).unwrap_or_default()
    }

    /// What is left, as fast as it went so far.
    pub fn left(&self) -> Duration {
        let to_come: Duration = self.to_come.iter().sum();
        if self.expected.is_zero() {
            return to_come;
        }
        to_come.mul_f64(self.spent.as_secs_f64() / self.expected.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn what_is_left_goes_as_fast_as_what_is_done() {
        let mut pace = Pace::new(vec![S(10), S(100), S(10), S(100)]);
        assert_eq!(pace.left(), S(220));
        pace.done(0, S(20));
        // Twice as slow as expected.
        assert_eq!(pace.left(), S(420));
        // What a former run did costs nothing and says nothing of the pace.
        pace.skipped(1);
        assert_eq!(pace.left(), S(220));
        pace.done(2, S(10));
        assert_eq!(pace.left(), S(150));
        pace.done(3, S(9));
        assert_eq!(pace.left(), S(0));
        pace.done(99, S(1));
        assert_eq!(pace.total(), 4);
    }

    #[test]
    fn words() {
        for (seconds, words) in [(0, "0 s"), (99, "99 s"), (100, "2 min"), (5_399, "90 min")] {
            assert_eq!(in_words(S(seconds)), words);
        }
        assert_eq!(in_words(S(12_000)), "3 h 20 min");
    }

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
    fn a_short_run_leaves_out_what_it_must() {
        let short = |most| {
            let mut e = experiment("warm", 10);
            let said = shorten(&mut e, most).unwrap();
            assert!(e.expected_duration().unwrap() <= most.max(S(5)), "{most:?}");
            (e.repetitions, e.workloads.len(), said)
        };
        let said = |text: &str| Some(text.to_owned());
        // One repetition takes 2 * (7 + 2) s.
        assert_eq!(short(S(3_600)), (10, 2, None));
        assert_eq!(short(S(100)), (5, 2, said("5 of 10 repetitions")));
        let one = "1 of 10 repetitions, 1 of 2 workloads";
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
        assert!(bounds.whole(&e).unwrap() > first, "what is known is taken");
        let mut fewer = experiment("warm", 3);
        fewer.workloads[0].bytes = crate::experiment::Size(1);
        bounds.whole(&fewer).unwrap();
        assert_eq!(bounds.0.len(), 3, "fewer bytes have another bound");
    }

    /// What `experiments/run` does with QUICK=1: each its share of what is
    /// left of 13 minutes.
    #[test]
    fn all_shipped_experiments_fit_a_quarter_of_an_hour() {
        let mut folders = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments").into()];
        let mut files: Vec<std::path::PathBuf> = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "toml") {
                    files.push(path);
                }
            }
        }
        files.sort();
        // Measurements of other things than transfers are not planned: to be short they take so
        // much on average.
        let transfers = |file: &std::path::PathBuf| crate::list::measurement(file).is_none();
        let all = files.len();
        files.retain(transfers);
        let budget = S(780) - S(10) * u32::try_from(all - files.len()).unwrap();
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
