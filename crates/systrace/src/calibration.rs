//! Measurement of the tracing overhead from method traces of a function without content.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{MethodAction, MethodRecord};
use crate::sink::Sink;

/// Share of the calls, the longest ones, that do not count: interrupts and collections of garbage
/// fall into some calls, and are no overhead of tracing.
const OUTLIERS: f64 = 0.01;

/// Minimum number of calls: the clock has microseconds, and the mean must resolve tenths of that.
const LEAST_CALLS: u64 = 1_000;

/// Overhead of tracing one call (Android Wear characterization, section 4, *Tackling profiling
/// overhead*: "the delay of tracing a no-op function").
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallOverhead {
    /// The function without content.
    pub function: String,
    /// Number of its calls.
    pub calls: u64,
    /// Mean time of a call without its longest 1 %, ns.
    pub overhead_ns: u64,
    /// Standard deviation of the same calls, ns.
    pub deviation_ns: u64,
}

/// The [`Sink`] that measures calls of functions that call no other function.
#[derive(Debug, Default)]
pub struct Calibration {
    names: FxHashMap<u32, String>,
    /// By thread: the innermost open call, if no other call followed it.
    open: FxHashMap<u32, (u32, u32)>,
    /// By method: number of calls of each duration, µs.
    durations: FxHashMap<u32, BTreeMap<u32, u64>>,
}

impl Calibration {
    /// The overhead by the function whose name contains `function`, or else by the one with most
    /// calls that calls no other function.
    ///
    /// # Errors
    /// One line with the reason, if the traces have too few such calls.
    pub fn overhead(&self, function: Option<&str>) -> Result<CallOverhead, String> {
        let name = |m: &u32| self.names.get(m).map_or("", String::as_str);
        let calls = |d: &BTreeMap<u32, u64>| d.values().sum::<u64>();
        let wanted = |m: &&u32| function.is_none_or(|f| name(m).contains(f));
        let best = (self.durations.keys())
            .filter(wanted)
            .filter_map(|m| Some((calls(self.durations.get(m)?), std::cmp::Reverse(name(m)), m)))
            .max();
        let Some((n, _, method)) = best.filter(|(n, ..)| *n >= LEAST_CALLS) else {
            let n = best.map_or(0, |b| b.0);
            let of = function.map_or("of one function that calls no other".to_owned(), |f| {
                format!("of a function with \"{f}\" in its name that calls no other")
            });
            return Err(format!(
                "{n} calls {of}: the overhead needs at least {LEAST_CALLS} of a function without \
                 content"
            ));
        };
        let mut left = n - (n as f64 * OUTLIERS) as u64;
        let (mut sum, mut squares, counted) = (0.0, 0.0, left as f64);
        for (us, times) in self.durations.get(method).into_iter().flatten() {
            let times = (*times).min(left);
            left -= times;
            sum += f64::from(*us) * times as f64;
            squares += f64::from(*us).powi(2) * times as f64;
        }
        let mean = sum / counted;
        let variance = (squares / counted - mean * mean).max(0.0);
        Ok(CallOverhead {
            function: name(method).to_owned(),
            calls: n,
            overhead_ns: (mean * 1e3).round() as u64,
            deviation_ns: (variance.sqrt() * 1e3).round() as u64,
        })
    }
}

impl Sink for Calibration {
    fn method_name(&mut self, method: u32, name: &str) {
        self.names.insert(method, name.to_owned());
    }

    fn method(&mut self, record: MethodRecord) {
        let Some(now) = record.cpu_us.or(record.wall_us) else {
            return;
        };
        match record.action {
            MethodAction::Enter => {
                self.open.insert(record.thread, (record.method, now));
            }
            MethodAction::Exit | MethodAction::Unroll => {
                let Some((method, start)) = self.open.remove(&record.thread) else {
                    return;
                };
                if method == record.method {
                    let durations = self.durations.entry(method).or_default();
                    *durations.entry(now.wrapping_sub(start)).or_default() += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(c: &mut Calibration, method: u32, from: u32, to: u32) {
        for (action, us) in [(MethodAction::Enter, from), (MethodAction::Exit, to)] {
            c.method(MethodRecord {
                thread: 1,
                method,
                action,
                cpu_us: Some(us),
                wall_us: None,
            });
        }
    }

    #[test]
    fn the_mean_has_a_finer_resolution_than_the_clock() {
        let mut c = Calibration::default();
        c.method_name(4, "Test.noop()V");
        c.method_name(8, "Test.work()V");
        // 2.5 µs by a clock of microseconds; one call in 100 is interrupted.
        for i in 0..2_000 {
            let long = if i % 100 == 99 { 5_000 } else { 2 + i % 2 };
            call(&mut c, 4, i * 10_000, i * 10_000 + long);
        }
        for i in 0..100 {
            call(&mut c, 8, i * 100, i * 100 + 50);
        }
        let o = c.overhead(None).unwrap();
        assert_eq!((o.function.as_str(), o.calls), ("Test.noop()V", 2_000));
        assert!((2_490..=2_510).contains(&o.overhead_ns), "{o:?}");
        assert!((490..=510).contains(&o.deviation_ns), "{o:?}");
        assert_eq!(c.overhead(Some("noop")), Ok(o));
        let e = c.overhead(Some("work")).unwrap_err();
        assert!(
            e.starts_with("100 calls of a function with \"work\""),
            "{e}"
        );
        assert!(Calibration::default().overhead(None).is_err());
    }

    /// The caller of the function without content is no such function.
    #[test]
    fn functions_that_call_others_do_not_count() {
        let mut c = Calibration::default();
        for i in 0..1_500 {
            let record = |action, us| MethodRecord {
                thread: 1,
                method: 12,
                action,
                cpu_us: Some(us),
                wall_us: None,
            };
            c.method(record(MethodAction::Enter, i * 100));
            call(&mut c, 4, i * 100 + 10, i * 100 + 13);
            c.method(record(MethodAction::Exit, i * 100 + 50));
        }
        assert_eq!(c.overhead(None).map(|o| o.overhead_ns), Ok(3_000));
    }
}
