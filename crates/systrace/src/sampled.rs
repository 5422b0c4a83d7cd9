//! Hot functions of sampled profiles.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::demangle::demangled;
use crate::event::Sample;
use crate::functions::mean_and_deviation;
use crate::sink::Sink;

/// Function shares of a sampled profile, exclusive and inclusive.
///
/// A statistical estimate of the function-level breakdown that method traces give exactly (Android
/// Wear characterization, section 4, *Function-level breakdown*), without the overhead of tracing
/// each call: a share p of n samples has the standard error √(p (1 − p) / n). A function that is on
/// a call stack several times counts once.
#[derive(Debug, Default)]
pub struct SampledProfile {
    names: FxHashMap<u64, Box<str>>,
    events: FxHashMap<Box<str>, Event>,
    samples: u64,
}

#[derive(Debug, Default)]
struct Event {
    samples: u64,
    /// Number of samples without a period. If there is any, samples are counted instead of periods.
    unweighted: u64,
    without_stack: u64,
    period: u64,
    functions: FxHashMap<u64, Hits>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Hits {
    own: Weight,
    on_stack: Weight,
    /// Last sample that was counted for the function's inclusive share.
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

/// Functions of a sampled profile, by one event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunctions {
    /// Sampled event, such as `cycles`; empty if the format does not name it.
    pub event: String,
    /// Number of samples of that event.
    pub samples: u64,
    /// Number of samples without a call stack; they belong to no function.
    pub without_stack: u64,
    /// Whether samples are weighted by their period; otherwise all have the same weight.
    pub by_period: bool,
    /// Functions by exclusive share, largest first.
    pub functions: Vec<SampledFunction>,
    /// Cumulative share of the hottest 1, 2, … functions, percent (Android Wear characterization,
    /// Figure 4).
    pub top_share_curve: Vec<f64>,
}

/// One function of [`SampledFunctions`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunction {
    /// Name, as in the source if the symbol is of Rust or C++; the file name in brackets if the
    /// symbol is unknown.
    pub name: String,
    /// Samples in the function's own code.
    pub exclusive_samples: u64,
    /// Their share of all samples, percent.
    pub exclusive_percent: f64,
    /// Samples in the function or in its callees.
    pub inclusive_samples: u64,
    /// Their share of all samples, percent.
    pub inclusive_percent: f64,
}

/// Statistics of a function over several profiles of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunctionStatistics {
    /// Symbol.
    pub name: String,
    /// Mean and standard deviation of the exclusive share, percent.
    pub exclusive_percent: (f64, f64),
    /// Mean and standard deviation of the inclusive share, percent.
    pub inclusive_percent: (f64, f64),
}

/// Events that measure CPU time, in order of preference.
const TIME_EVENTS: [&str; 4] = ["cycles", "cpu-cycles", "cpu-clock", "task-clock"];

impl SampledProfile {
    /// Names of the sampled events, most samples first.
    pub fn events(&self) -> Vec<&str> {
        let mut list: Vec<_> = self.events.iter().collect();
        list.sort_by(|a, b| (b.1.samples, a.0).cmp(&(a.1.samples, b.0)));
        list.into_iter().map(|(name, _)| name.as_ref()).collect()
    }

    /// Functions by one event. Without a name: by an event that measures CPU time, or else by the
    /// event with the most samples. `None` if the profile lacks the event or no frame has a symbol.
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
                    name: demangled(self.names.get(frame)?).into_owned(),
                    exclusive_samples: hits.own.samples,
                    exclusive_percent: percent(hits.own),
                    inclusive_samples: hits.on_stack.samples,
                    inclusive_percent: percent(hits.on_stack),
                })
            })
            .collect();
        functions.sort_by(|a, b| {
            (b.exclusive_percent.total_cmp(&a.exclusive_percent))
                .then(b.inclusive_percent.total_cmp(&a.inclusive_percent))
                .then_with(|| a.name.cmp(&b.name))
        });
        let mut sum = 0.0;
        let top_share_curve = functions
            .iter()
            .take_while(|f| f.exclusive_samples > 0)
            .map(|f| {
                sum += f.exclusive_percent;
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
    /// Mean and standard deviation of shares over several profiles, largest exclusive share first.
    /// A function missing from a profile counts as never sampled there.
    pub fn statistics(profiles: &[Self]) -> Vec<SampledFunctionStatistics> {
        let mut by_name: FxHashMap<&str, Vec<(f64, f64)>> = FxHashMap::default();
        for (i, profile) in profiles.iter().enumerate() {
            for f in &profile.functions {
                let runs = by_name
                    .entry(&f.name)
                    .or_insert_with(|| vec![(0.0, 0.0); profiles.len()]);
                if let Some(run) = runs.get_mut(i) {
                    run.0 += f.exclusive_percent;
                    run.1 += f.inclusive_percent;
                }
            }
        }
        let mut list: Vec<_> = by_name
            .into_iter()
            .map(|(name, runs)| SampledFunctionStatistics {
                name: name.to_owned(),
                exclusive_percent: mean_and_deviation(runs.iter().map(|r| r.0)),
                inclusive_percent: mean_and_deviation(runs.iter().map(|r| r.1)),
            })
            .collect();
        list.sort_by(|a, b| {
            (b.exclusive_percent.0.total_cmp(&a.exclusive_percent.0))
                .then_with(|| a.name.cmp(&b.name))
        });
        list
    }
}

impl Sink for SampledProfile {
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

    fn sampled(list: &[(&str, Option<u64>, &[u64])]) -> SampledProfile {
        let mut s = SampledProfile::default();
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
    fn exclusive_and_inclusive_shares() {
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
        assert_eq!(row(&f, "work").exclusive_percent, 75.0);
        // Recursion counts once.
        assert_eq!(row(&f, "work").inclusive_samples, 2);
        assert_eq!(row(&f, "work").inclusive_percent, 100.0);
        assert_eq!(row(&f, "copy").inclusive_percent, 25.0);
        assert_eq!(row(&f, "main").exclusive_samples, 0);
        assert_eq!(f.top_share_curve, [75.0, 100.0]);
        assert_eq!(s.functions(Some("page-faults")).unwrap().samples, 3);
        assert_eq!(s.functions(Some("nothing")), None);
    }

    #[test]
    fn a_sample_without_a_period_disables_weighting() {
        let s = sampled(&[("cpu-clock", Some(900), &[1]), ("cpu-clock", None, &[2])]);
        let f = s.functions(None).unwrap();
        assert!(!f.by_period);
        assert_eq!(row(&f, "main").exclusive_percent, 50.0);
    }

    #[test]
    fn addresses_without_symbols_give_no_functions() {
        let mut s = SampledProfile::default();
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
        let rows = SampledFunctions::statistics(&both);
        assert_eq!(rows[0].name, "main");
        assert_eq!(rows[0].exclusive_percent.0, 75.0);
        assert_eq!(rows[0].inclusive_percent, (100.0, 0.0));
        assert_eq!(rows[1].exclusive_percent.0, 25.0);
    }
}
