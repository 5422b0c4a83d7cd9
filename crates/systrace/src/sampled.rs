use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::Sample;
use crate::functions::mean_and_deviation;
use crate::sink::Sink;

/// Where a profiler's samples fell: each function's share, for itself and with all that it calls.
///
/// What method traces give exactly (section 4, *Function-level breakdown*), samples give by
/// statistics, without slowing each call down: a share p of n samples has a standard error of
/// √(p (1 − p) / n). A function that is on a stack several times counts once.
#[derive(Debug, Default)]
pub struct Sampled {
    names: FxHashMap<u64, Box<str>>,
    events: FxHashMap<Box<str>, Event>,
    samples: u64,
}

#[derive(Debug, Default)]
struct Event {
    samples: u64,
    /// Samples without a period: then samples count, not periods.
    unweighted: u64,
    without_stack: u64,
    period: u64,
    functions: FxHashMap<u64, Hits>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Hits {
    own: Weight,
    on_stack: Weight,
    /// The sample that counted last.
    last: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Weight {
    samples: u64,
    period: u64,
}

impl Weight {
    fn add(&mut self, period: u64) {
        self.samples += 1;
        self.period = self.period.saturating_add(period);
    }
}

/// The functions of a sampled profile, by one event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunctions {
    /// What was counted, such as `cycles`; empty where the format does not say.
    pub event: String,
    /// Samples of that event.
    pub samples: u64,
    /// Those without a stack, which are nobody's.
    pub without_stack: u64,
    /// Whether a sample weighs as many events as it stands for (else each weighs the same).
    pub by_period: bool,
    /// Functions, the most own samples first.
    pub functions: Vec<SampledFunction>,
    /// Share of the hottest 1, 2, … functions together, percent (Figure 4).
    pub top_share_curve: Vec<f64>,
}

/// One function of [`SampledFunctions`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunction {
    /// Its symbol; a file's name in brackets where the symbol is not known.
    pub name: String,
    /// Samples in its own code.
    pub own_samples: u64,
    /// Their share of all, percent.
    pub own_percent: f64,
    /// Samples in it or in what it calls.
    pub with_callees_samples: u64,
    /// Their share of all, percent.
    pub with_callees_percent: f64,
}

/// A function over several profiles of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledAcross {
    /// Its symbol.
    pub name: String,
    /// Mean and standard deviation of its own share, percent.
    pub own_percent: (f64, f64),
    /// Mean and standard deviation of its share with callees, percent.
    pub with_callees_percent: (f64, f64),
}

/// Events that measure time on a CPU, the one that tells most first.
const TIME_EVENTS: [&str; 4] = ["cycles", "cpu-cycles", "cpu-clock", "task-clock"];

impl Sampled {
    /// Names of the events that were sampled, the most samples first.
    pub fn events(&self) -> Vec<&str> {
        let mut list: Vec<_> = self.events.iter().collect();
        list.sort_by(|a, b| (b.1.samples, a.0).cmp(&(a.1.samples, b.0)));
        list.into_iter().map(|(name, _)| name.as_ref()).collect()
    }

    /// Functions by one event; without a name by what measures time on a CPU, else by the event
    /// with the most samples. `None` when there is no such event, or no frame has a name.
    pub fn functions(&self, event: Option<&str>) -> Option<SampledFunctions> {
        let events = self.events();
        let chosen = match event {
            Some(name) => name,
            None => TIME_EVENTS
                .iter()
                .find_map(|time| {
                    // `cycles:ppp` counts cycles.
                    let of_time = |e: &&&str| e.split(':').next() == Some(time);
                    events.iter().find(of_time).copied()
                })
                .or(events.first().copied())?,
        };
        let found = self.events.get(chosen)?;
        let by_period = found.unweighted == 0 && found.period > 0;
        let all = Weight {
            samples: found.samples,
            period: found.period,
        };
        let percent = |part: Weight| {
            100.0
                * if by_period {
                    crate::activity::ratio(part.period, all.period)
                } else {
                    crate::activity::ratio(part.samples, all.samples)
                }
        };
        let mut functions: Vec<_> = found
            .functions
            .iter()
            .filter_map(|(frame, hits)| {
                Some(SampledFunction {
                    name: self.names.get(frame)?.to_string(),
                    own_samples: hits.own.samples,
                    own_percent: percent(hits.own),
                    with_callees_samples: hits.on_stack.samples,
                    with_callees_percent: percent(hits.on_stack),
                })
            })
            .collect();
        functions.sort_by(|a, b| {
            (b.own_percent.total_cmp(&a.own_percent))
                .then(b.with_callees_percent.total_cmp(&a.with_callees_percent))
                .then_with(|| a.name.cmp(&b.name))
        });
        let mut sum = 0.0;
        let top_share_curve = functions
            .iter()
            .take_while(|f| f.own_samples > 0)
            .map(|f| {
                sum += f.own_percent;
                sum
            })
            .collect();
        (!functions.is_empty()).then(|| SampledFunctions {
            event: chosen.to_owned(),
            samples: found.samples,
            without_stack: found.without_stack,
            by_period,
            functions,
            top_share_curve,
        })
    }
}

impl SampledFunctions {
    /// Mean and deviation of shares over several profiles, the largest own share first. A function
    /// that a profile lacks counts as never sampled there.
    pub fn across(profiles: &[Self]) -> Vec<SampledAcross> {
        let mut by_name: FxHashMap<&str, Vec<(f64, f64)>> = FxHashMap::default();
        for (i, profile) in profiles.iter().enumerate() {
            for f in &profile.functions {
                let runs = by_name
                    .entry(&f.name)
                    .or_insert_with(|| vec![(0.0, 0.0); profiles.len()]);
                if let Some(run) = runs.get_mut(i) {
                    run.0 += f.own_percent;
                    run.1 += f.with_callees_percent;
                }
            }
        }
        let mut list: Vec<_> = by_name
            .into_iter()
            .map(|(name, runs)| SampledAcross {
                name: name.to_owned(),
                own_percent: mean_and_deviation(runs.iter().map(|r| r.0)),
                with_callees_percent: mean_and_deviation(runs.iter().map(|r| r.1)),
            })
            .collect();
        list.sort_by(|a, b| {
            (b.own_percent.0.total_cmp(&a.own_percent.0)).then_with(|| a.name.cmp(&b.name))
        });
        list
    }
}

impl Sink for Sampled {
    fn sample(&mut self, sample: &Sample<'_>) {
        self.samples += 1;
        let now = self.samples;
        if !self.events.contains_key(sample.event) {
            self.events.insert(sample.event.into(), Event::default());
        }
        let Some(event) = self.events.get_mut(sample.event) else {
            return;
        };
        event.samples += 1;
        event.unweighted += u64::from(sample.period.is_none());
        event.without_stack += u64::from(sample.frames.is_empty());
        let period = sample.period.unwrap_or(0);
        event.period = event.period.saturating_add(period);
        for (depth, frame) in sample.frames.iter().enumerate() {
            let hits = event.functions.entry(*frame).or_default();
            if depth == 0 {
                hits.own.add(period);
            }
            if hits.last != now {
                hits.last = now;
                hits.on_stack.add(period);
            }
        }
    }

    fn symbol(&mut self, frame: u64, name: &str) {
        self.names.insert(frame, name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(list: &[(&str, Option<u64>, &[u64])]) -> Sampled {
        let mut s = Sampled::default();
        for (event, period, frames) in list {
            s.sample(&Sample {
                time: None,
                cpu: None,
                process: None,
                tid: 1,
                comm: b"a",
                event,
                period: *period,
                frames,
            });
        }
        for (frame, name) in [(1, "main"), (2, "work"), (3, "copy")] {
            s.symbol(frame, name);
        }
        s
    }

    fn row<'a>(f: &'a SampledFunctions, name: &str) -> &'a SampledFunction {
        f.functions.iter().find(|f| f.name == name).unwrap()
    }

    #[test]
    fn own_and_with_callees() {
        let s = sampled(&[
            ("cycles:u", Some(100), &[3, 2, 1]),
            ("cycles:u", Some(300), &[2, 2, 1]),
            ("page-faults", Some(1), &[1]),
            ("page-faults", Some(1), &[1]),
            ("page-faults", Some(1), &[1]),
        ]);
        let f = s.functions(None).unwrap();
        assert_eq!(
            (f.event.as_str(), f.samples, f.by_period),
            ("cycles:u", 2, true)
        );
        assert_eq!(row(&f, "work").own_percent, 75.0);
        // Recursion counts once.
        assert_eq!(row(&f, "work").with_callees_samples, 2);
        assert_eq!(row(&f, "work").with_callees_percent, 100.0);
        assert_eq!(row(&f, "copy").with_callees_percent, 25.0);
        assert_eq!(row(&f, "main").own_samples, 0);
        assert_eq!(f.top_share_curve, [75.0, 100.0]);
        assert_eq!(s.functions(Some("page-faults")).unwrap().samples, 3);
        assert_eq!(s.functions(Some("nothing")), None);
    }

    #[test]
    fn a_sample_without_a_period_makes_all_weigh_the_same() {
        let s = sampled(&[("cpu-clock", Some(900), &[1]), ("cpu-clock", None, &[2])]);
        let f = s.functions(None).unwrap();
        assert!(!f.by_period);
        assert_eq!(row(&f, "main").own_percent, 50.0);
    }

    #[test]
    fn addresses_alone_are_no_functions() {
        let mut s = Sampled::default();
        assert_eq!(s.functions(None), None);
        s.sample(&Sample {
            time: None,
            cpu: None,
            process: None,
            tid: 1,
            comm: &[],
            event: "cycles",
            period: None,
            frames: &[0x7f00],
        });
        assert_eq!(s.functions(None), None);
    }

    #[test]
    fn several_profiles() {
        let one = sampled(&[("cycles", None, &[1]), ("cycles", None, &[1])]);
        let two = sampled(&[("cycles", None, &[1]), ("cycles", None, &[2, 1])]);
        let both = [one, two].map(|s| s.functions(None).unwrap());
        let rows = SampledFunctions::across(&both);
        assert_eq!(rows[0].name, "main");
        assert_eq!(rows[0].own_percent.0, 75.0);
        assert_eq!(rows[0].with_callees_percent, (100.0, 0.0));
        assert_eq!(rows[1].own_percent.0, 25.0);
    }
}
