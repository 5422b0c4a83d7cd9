//! Function times of method traces, with the overhead of tracing removed.

use std::time::Duration;

use mpbond_statistics::Sample;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{MethodAction, MethodRecord};
use crate::groups::FunctionGroups;
use crate::sink::Sink;

/// Tracing overhead per call on the devices of the Android Wear characterization (section 4,
/// *Tackling profiling overhead*).
pub const DEFAULT_CALL_OVERHEAD: Duration = Duration::from_micros(4);

/// Calls, inclusive and exclusive CPU time of every function of a method trace (Android Wear
/// characterization, section 4, *Function-level breakdown*).
///
/// Exclusive time is spent in a function's own code; inclusive time also covers its callees.
/// Neither includes time off the CPU if the trace has the thread clock; with the wall clock only,
/// both are wall-clock time. Of recursive calls only the outermost one counts for inclusive time.
///
/// The tracing overhead o of every call is subtracted: the exclusive time of a call is its
/// duration, less that of its direct callees, less o; its inclusive time is the exclusive time of
/// itself and of all calls below it. Single calls may thereby become negative, because o is a mean
/// and the clocks of many traces have microseconds only; the sum over the calls of a function is
/// raised to zero, and [`Self::clamped`] has the total of what was added. For every function,
/// inclusive ≥ exclusive ≥ 0.
#[derive(Debug)]
pub struct FunctionProfile {
    overhead_ns: i64,
    groups: FunctionGroups,
    methods: FxHashMap<u32, usize>,
    functions: Vec<Function>,
    threads: FxHashMap<u32, Thread>,
    service_ns: Vec<i64>,
    mismatched: u64,
    calls: u64,
}

#[derive(Debug, Default)]
struct Function {
    name: String,
    service: Option<usize>,
    package: Option<usize>,
    calls: u64,
    /// Sums over all calls, negative where the overhead exceeds the time of the calls.
    inclusive_ns: i64,
    exclusive_ns: i64,
}

impl Function {
    fn exclusive(&self) -> u64 {
        u64::try_from(self.exclusive_ns).unwrap_or(0)
    }

    fn inclusive(&self) -> u64 {
        let callees_raised = self.exclusive_ns.max(self.inclusive_ns);
        u64::try_from(callees_raised).unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct Thread {
    stack: Vec<Frame>,
    active: FxHashMap<usize, u32>,
    service_depth: Vec<u32>,
    now: u32,
}

#[derive(Debug)]
struct Frame {
    function: usize,
    start: u32,
    /// Duration of the direct callees, overhead included.
    children_ns: i64,
    /// Number of calls below this one.
    calls: i64,
}

/// One function of a [`FunctionProfile`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionTime {
    /// `class.method(arguments)result`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Inclusive CPU time, µs.
    pub inclusive_us: u64,
    /// Exclusive CPU time, µs.
    pub exclusive_us: u64,
    /// Inclusive CPU time, ns.
    pub inclusive_ns: u64,
    /// Exclusive CPU time, ns.
    pub exclusive_ns: u64,
}

/// Exclusive time added to functions whose calls took less time than the overhead of tracing them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Clamped {
    /// Number of such functions.
    pub functions: u64,
    /// Time added to them in total, ns.
    pub ns: u64,
}

/// Time of a group of functions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupTime {
    /// Name of the group.
    pub name: String,
    /// Time, µs: inclusive for services, exclusive for packages.
    pub us: u64,
    /// Share of the exclusive time of all functions, percent.
    pub percent: f64,
}

/// Statistics of a function over several traces of one scenario (Android Wear characterization,
/// Table 3).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionStatistics {
    /// `class.method(arguments)result`.
    pub name: String,
    /// Mean and standard deviation of the number of calls.
    pub calls: (f64, f64),
    /// Mean and standard deviation of the exclusive time, ms.
    pub exclusive_ms: (f64, f64),
}

impl FunctionProfile {
    /// Creates an empty profile. `overhead` is the tracing overhead per call:
    /// [`DEFAULT_CALL_OVERHEAD`] or a calibrated value.
    pub fn new(overhead: Duration, groups: FunctionGroups) -> Self {
        Self {
            overhead_ns: i64::try_from(overhead.as_nanos()).unwrap_or(i64::MAX),
            service_ns: vec![0; groups.service.len()],
            groups,
            methods: FxHashMap::default(),
            functions: Vec::new(),
            threads: FxHashMap::default(),
            mismatched: 0,
            calls: 0,
        }
    }

    /// Closes the calls still open at the end of the trace, at each thread's last record. To be
    /// called once, after reading.
    pub fn finish(&mut self) {
        let mut threads = std::mem::take(&mut self.threads);
        for thread in threads.values_mut() {
            while !thread.stack.is_empty() {
                self.pop(thread);
            }
        }
    }

    /// Number of returns that did not match the call on top of their thread's stack: the call began
    /// before the trace, or records are lost.
    pub fn mismatched_returns(&self) -> u64 {
        self.mismatched
    }

    /// Number of calls in the trace.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// All called functions by exclusive time, largest first.
    pub fn functions(&self) -> Vec<FunctionTime> {
        let mut list: Vec<FunctionTime> = self
            .functions
            .iter()
            .filter(|f| f.calls > 0)
            .map(|f| FunctionTime {
                name: f.name.clone(),
                calls: f.calls,
                inclusive_us: micros(f.inclusive()),
                exclusive_us: micros(f.exclusive()),
                inclusive_ns: f.inclusive(),
                exclusive_ns: f.exclusive(),
            })
            .collect();
        list.sort_by(|a, b| {
            (b.exclusive_ns, &a.name)
                .partial_cmp(&(a.exclusive_ns, &b.name))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        list
    }

    /// `curve[n]` is the share of the `n + 1` hottest functions in the exclusive time of all
    /// functions, percent (Android Wear characterization, Figure 4).
    pub fn top_share_curve(&self) -> Vec<f64> {
        let mut sorted: Vec<u64> = self
            .functions
            .iter()
            .filter(|f| f.calls > 0)
            .map(Function::exclusive)
            .collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let total = self.exclusive_ns();
        let mut sum = 0;
        sorted
            .iter()
            .map(|ns| {
                sum += ns;
                100.0 * crate::activity::ratio(sum, total)
            })
            .collect()
    }

    /// Inclusive time of each service, largest first (Android Wear characterization, Figure 3(c)).
    /// A service called by another one counts in both.
    pub fn services(&self) -> Vec<GroupTime> {
        let times = self
            .service_ns
            .iter()
            .map(|ns| u64::try_from(*ns).unwrap_or(0));
        self.group_times(self.groups.service.iter().map(|g| &g.name).zip(times))
    }

    /// Exclusive time of each package of basic data structures (Android Wear characterization,
    /// Table 2).
    pub fn packages(&self) -> Vec<GroupTime> {
        let mut times = vec![0; self.groups.package.len()];
        for f in &self.functions {
            if let Some(t) = f.package.and_then(|p| times.get_mut(p)) {
                *t += f.exclusive();
            }
        }
        self.group_times(self.groups.package.iter().map(|g| &g.name).zip(times))
    }

    fn group_times<'a>(&self, list: impl Iterator<Item = (&'a String, u64)>) -> Vec<GroupTime> {
        let total = self.exclusive_ns();
        let mut list: Vec<GroupTime> = list
            .map(|(name, ns)| GroupTime {
                name: name.clone(),
                us: micros(ns),
                percent: 100.0 * crate::activity::ratio(ns, total),
            })
            .collect();
        list.sort_by_key(|g| std::cmp::Reverse(g.us));
        list
    }

    /// Exclusive time of all functions, µs.
    pub fn exclusive_total(&self) -> u64 {
        micros(self.exclusive_ns())
    }

    fn exclusive_ns(&self) -> u64 {
        let all = self.functions.iter().map(Function::exclusive);
        all.fold(0, u64::saturating_add)
    }

    /// Exclusive time added to functions whose calls took less time than their overhead.
    pub fn clamped(&self) -> Clamped {
        let less = self.functions.iter().filter(|f| f.exclusive_ns < 0);
        less.fold(Clamped::default(), |sum, f| Clamped {
            functions: sum.functions + 1,
            ns: sum.ns.saturating_add(f.exclusive_ns.unsigned_abs()),
        })
    }

    /// Mean and standard deviation over several traces of one scenario, largest mean time first
    /// (Android Wear characterization, Table 3). A function missing from a trace counts as never
    /// called there.
    pub fn statistics(profiles: &[Self]) -> Vec<FunctionStatistics> {
        let mut by_name: FxHashMap<String, Vec<(f64, f64)>> = FxHashMap::default();
        for (i, p) in profiles.iter().enumerate() {
            for f in p.functions() {
                let runs = by_name
                    .entry(f.name)
                    .or_insert_with(|| vec![(0.0, 0.0); profiles.len()]);
                if let Some(run) = runs.get_mut(i) {
                    run.0 += f.calls as f64;
                    run.1 += f.exclusive_ns as f64 / 1e6;
                }
            }
        }
        let mut list: Vec<FunctionStatistics> = by_name
            .into_iter()
            .map(|(name, runs)| FunctionStatistics {
                name,
                calls: mean_and_deviation(runs.iter().map(|r| r.0)),
                exclusive_ms: mean_and_deviation(runs.iter().map(|r| r.1)),
            })
            .collect();
        list.sort_by(|a, b| {
            (b.exclusive_ms.0)
                .total_cmp(&a.exclusive_ms.0)
                .then_with(|| a.name.cmp(&b.name))
        });
        list
    }

    fn function(&mut self, method: u32) -> usize {
        if let Some(i) = self.methods.get(&method) {
            return *i;
        }
        let i = self.functions.len();
        self.methods.insert(method, i);
        self.functions.push(Function {
            name: format!("method {method:#x}"),
            ..Function::default()
        });
        i
    }

    fn push(&mut self, thread: &mut Thread, function: usize) {
        self.calls += 1;
        *thread.active.entry(function).or_default() += 1;
        if let Some(f) = self.functions.get_mut(function) {
            f.calls += 1;
            if let Some(s) = f.service {
                thread.service_depth.resize(self.service_ns.len(), 0);
                if let Some(d) = thread.service_depth.get_mut(s) {
                    *d += 1;
                }
            }
        }
        thread.stack.push(Frame {
            function,
            start: thread.now,
            children_ns: 0,
            calls: 0,
        });
    }

    fn pop(&mut self, thread: &mut Thread) {
        let Some(frame) = thread.stack.pop() else {
            return;
        };
        // The 32-bit µs clocks wrap after 71 minutes.
        let total = i64::from(thread.now.wrapping_sub(frame.start)) * 1_000;
        if let Some(above) = thread.stack.last_mut() {
            above.children_ns = above.children_ns.saturating_add(total);
            above.calls += frame.calls + 1;
        }
        let overhead = self.overhead_ns.saturating_mul(frame.calls + 1);
        let inclusive = total.saturating_sub(overhead);
        let exclusive = total.saturating_sub(frame.children_ns);
        let exclusive = exclusive.saturating_sub(self.overhead_ns);
        let outermost = match thread.active.get_mut(&frame.function) {
            Some(n) => {
                *n = n.saturating_sub(1);
                *n == 0
            }
            None => true,
        };
        let Some(f) = self.functions.get_mut(frame.function) else {
            return;
        };
        f.exclusive_ns = f.exclusive_ns.saturating_add(exclusive);
        if outermost {
            f.inclusive_ns = f.inclusive_ns.saturating_add(inclusive);
        }
        if let Some(s) = f.service
            && let Some(d) = thread.service_depth.get_mut(s)
        {
            *d = d.saturating_sub(1);
            if *d == 0
                && let Some(ns) = self.service_ns.get_mut(s)
            {
                *ns = ns.saturating_add(inclusive);
            }
        }
    }
}

impl Sink for FunctionProfile {
    fn method_name(&mut self, method: u32, name: &str) {
        let i = self.function(method);
        let service = FunctionGroups::find(&self.groups.service, name);
        let package = FunctionGroups::find(&self.groups.package, name);
        if let Some(f) = self.functions.get_mut(i) {
            f.name = name.to_owned();
            // A name that arrives after the first call must not change the nesting depth of its
            // service.
            if f.calls == 0 {
                f.service = service;
            }
            f.package = package;
        }
    }

    fn method(&mut self, record: MethodRecord) {
        let function = self.function(record.method);
        let mut thread = self.threads.remove(&record.thread).unwrap_or_default();
        if let Some(now) = record.cpu_us.or(record.wall_us) {
            thread.now = now;
        }
        match record.action {
            MethodAction::Enter => self.push(&mut thread, function),
            MethodAction::Exit | MethodAction::Unroll => {
                if thread.stack.last().is_some_and(|f| f.function == function) {
                    self.pop(&mut thread);
                } else {
                    self.mismatched += 1;
                    // Either the returns of calls above it are lost, or the call began before the
                    // trace.
                    if thread.active.get(&function).is_some_and(|n| *n > 0) {
                        while thread.stack.last().is_some_and(|f| f.function != function) {
                            self.pop(&mut thread);
                        }
                        self.pop(&mut thread);
                    }
                }
            }
        }
        self.threads.insert(record.thread, thread);
    }
}

/// Nanoseconds rounded to microseconds.
fn micros(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

/// Mean and standard deviation over several traces; zero where there are too few of them.
pub(crate) fn mean_and_deviation(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let sample: Sample = values.collect();
    let deviation = sample.standard_deviation();
    (sample.mean().unwrap_or(0.0), deviation.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(overhead_us: u64, records: &[(u32, MethodAction, u32)]) -> FunctionProfile {
        profile_with(Duration::from_micros(overhead_us), records)
    }

    fn profile_with(overhead: Duration, records: &[(u32, MethodAction, u32)]) -> FunctionProfile {
        let mut p = FunctionProfile::new(overhead, FunctionGroups::shipped());
        p.method_name(4, "com.android.server.am.Service.work()V");
        p.method_name(8, "java.lang.String.equals(L)Z");
        for (method, action, t) in records {
            p.method(MethodRecord {
                thread: 1,
                method: *method,
                action: *action,
                cpu_us: Some(*t),
                wall_us: None,
            });
        }
        p.finish();
        p
    }

    use MethodAction::{Enter, Exit};

    #[test]
    fn inclusive_exclusive_and_overhead() {
        let records = [(4, Enter, 0), (8, Enter, 30), (8, Exit, 50), (4, Exit, 100)];
        let p = profile(0, &records);
        let f = p.functions();
        assert_eq!((f[0].inclusive_us, f[0].exclusive_us), (100, 80));
        assert_eq!((f[1].inclusive_us, f[1].exclusive_us), (20, 20));
        assert_eq!(p.top_share_curve(), vec![80.0, 100.0]);
        let with = profile(4, &records);
        let f = with.functions();
        assert_eq!((f[0].inclusive_us, f[0].exclusive_us), (92, 76));
        assert_eq!((f[1].inclusive_us, f[1].exclusive_us), (16, 16));
        assert_eq!(with.services()[0].us, 92);
        assert_eq!(with.packages()[0].name, "java.string");
    }

    #[test]
    fn overhead_has_nanoseconds() {
        let records = [(4, Enter, 0), (8, Enter, 30), (8, Exit, 50), (4, Exit, 100)];
        for (overhead_ns, own) in [(900, 79_100), (2_500, 77_500)] {
            let p = profile_with(Duration::from_nanos(overhead_ns), &records);
            let f = p.functions();
            assert_eq!(
                (f[0].exclusive_ns, f[1].exclusive_ns),
                (own, 20_000 - overhead_ns)
            );
            assert_eq!(f[0].inclusive_ns, 100_000 - 2 * overhead_ns);
            assert_eq!(p.clamped(), Clamped::default());
        }
    }

    /// Two short calls of one function, 1 and 9 µs: together they take longer than their overhead.
    #[test]
    fn negative_times_are_raised_to_zero_once_per_function() {
        let records = [
            (4, Enter, 0),
            (8, Enter, 1),
            (8, Exit, 2),
            (8, Enter, 3),
            (8, Exit, 12),
            (4, Exit, 13),
        ];
        let f = profile(4, &records).functions();
        assert_eq!(
            (f[0].exclusive_us, f[0].inclusive_us, f[0].calls),
            (2, 2, 2)
        );
        // The caller's own time is 3 µs.
        assert_eq!((f[1].exclusive_us, f[1].inclusive_us), (0, 1));
        let p = profile(4, &records);
        assert_eq!(
            p.clamped(),
            Clamped {
                functions: 1,
                ns: 1_000
            }
        );
    }

    proptest::proptest! {
        #[test]
        fn inclusive_is_at_least_exclusive(
            overhead_ns in 0u64..20_000,
            steps in proptest::collection::vec((0u32..6, 0u32..3, 0u32..30), 0..200),
        ) {
            let mut now = 0;
            let records: Vec<_> = steps
                .iter()
                .map(|(method, action, after)| {
                    now += after;
                    let action = if *action == 0 { Exit } else { Enter };
                    (4 * method, action, now)
                })
                .collect();
            let p = profile_with(Duration::from_nanos(overhead_ns), &records);
            for f in p.functions() {
                proptest::prop_assert!(f.inclusive_ns >= f.exclusive_ns, "{:?}", f);
                proptest::prop_assert!(f.inclusive_us >= f.exclusive_us, "{:?}", f);
            }
        }
    }

    #[test]
    fn recursion_counts_once_and_lost_returns_are_closed() {
        let p = profile(
            0,
            &[(4, Enter, 0), (4, Enter, 10), (4, Exit, 20), (4, Exit, 50)],
        );
        assert_eq!(p.functions()[0].inclusive_us, 50);
        assert_eq!(p.functions()[0].exclusive_us, 50);
        assert_eq!(p.services()[0].us, 50);
        let p = profile(
            0,
            &[(8, Exit, 5), (4, Enter, 10), (8, Enter, 20), (4, Exit, 60)],
        );
        assert_eq!(p.mismatched_returns(), 2);
        let f = p.functions();
        assert_eq!(f[0].exclusive_us + f[1].exclusive_us, 50);
    }

    #[test]
    fn several_traces() {
        let a = profile(0, &[(8, Enter, 0), (8, Exit, 1_000)]);
        let b = profile(0, &[(8, Enter, 0), (8, Exit, 3_000)]);
        let rows = FunctionProfile::statistics(&[a, b]);
        assert_eq!(rows[0].calls, (1.0, 0.0));
        assert!((rows[0].exclusive_ms.0 - 2.0).abs() < 1e-12);
        assert!((rows[0].exclusive_ms.1 - 2f64.sqrt()).abs() < 1e-12);
    }
}
