//! The share of processors that are busy.

/// Maximum share of busy processors in a measurement that is judged. Probes, links and a starting
/// Java runtime use up to a third of two processors.
pub(super) const MAX_BUSY: f64 = 0.5;

/// Ticks of all processors since the machine started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    busy: u64,
    all: u64,
}

impl Busy {
    /// Ticks until now; `None` where the machine does not report them.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .flat_map(str::parse)
            .take(8)
            .collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all: u64 = ticks.iter().sum();
        Some(Self {
            busy: all.checked_sub(idle)?,
            all,
        })
    }
}

/// The share of busy processor time since `before`.
pub(super) fn since(before: Option<Busy>) -> Option<f64> {
    let (now, before) = (Busy::now()?, before?);
    let passed = now.all.checked_sub(before.all).filter(|p| *p > 0)?;
    Some(now.busy.checked_sub(before.busy)? as f64 / passed as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let b = Busy::parse("cpu  10 1 5 100 20 2 2 3 7 7\ncpu0 1 2\n").unwrap();
        assert_eq!((b.busy, b.all), (23, 143));
        assert!(Busy::parse("cpu0 1 2 3 4 5").is_none() && Busy::parse("cpu  1 2").is_none());
    }
}
