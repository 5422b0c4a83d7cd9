//! Power over time in a bounded number of bins, for charts and CSV.

use mpbond_units::Timestamp;

use crate::timeline::{Span, State, Timeline, Transfer};

const STATES: usize = State::ALL.len();
/// Number of bins; enough for a chart with one bin a pixel.
const BINS: usize = 1024;
/// Initial bin width; bins double in width as the trace gets longer.
const FINEST_NS: u64 = 1_000_000;

/// Energy by state and time bin. Size is independent of the trace's length: when the bins run out,
/// neighbours are joined.
#[derive(Debug, Clone)]
pub struct PowerTrace {
    origin: Option<Timestamp>,
    width_ns: u64,
    bins: Vec<[f64; STATES]>,
}

impl Default for PowerTrace {
    fn default() -> Self {
        Self {
            origin: None,
            width_ns: FINEST_NS,
            bins: Vec::with_capacity(BINS),
        }
    }
}

impl PowerTrace {
    /// Start of the first bin; `None` for an empty trace.
    pub fn origin(&self) -> Option<Timestamp> {
        self.origin
    }

    /// Width of a bin in seconds.
    pub fn width_s(&self) -> f64 {
        self.width_ns as f64 / 1e9
    }

    /// End of the last bin, in seconds after the first one's start.
    pub fn length_s(&self) -> f64 {
        self.bins.len() as f64 * self.width_s()
    }

    /// Mean power by state in each bin, in mW, in the order of [`State::ALL`].
    pub fn power_mw(&self) -> impl Iterator<Item = [f64; STATES]> + '_ {
        let width = self.width_s();
        self.bins.iter().map(move |bin| bin.map(|mj| mj / width))
    }

    fn halve(&mut self) {
        let used = self.bins.len();
        for i in 0..used.div_ceil(2) {
            let first = self.bins.get(2 * i).copied().unwrap_or([0.0; STATES]);
            let second = self.bins.get(2 * i + 1).copied().unwrap_or([0.0; STATES]);
            if let Some(bin) = self.bins.get_mut(i) {
                *bin = std::array::from_fn(|s| first[s] + second[s]);
            }
        }
        self.bins.truncate(used.div_ceil(2));
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// Makes room for `at` and returns the index of its bin.
    fn bin_of(&mut self, at: Timestamp) -> usize {
        let mut origin = *self.origin.get_or_insert(at);
        while at < origin {
            // A promotion may begin before the first packet.
            let missing = origin
                .since(at)
                .as_nanos()
                .div_ceil(u128::from(self.width_ns));
            let missing = usize::try_from(missing).unwrap_or(usize::MAX);
            if missing.saturating_add(self.bins.len()) > BINS {
                self.halve();
                continue;
            }
            self.bins
                .splice(0..0, std::iter::repeat_n([0.0; STATES], missing));
            let shift = std::time::Duration::from_nanos(self.width_ns * missing as u64);
            origin = origin.before(shift);
            self.origin = Some(origin);
            if origin == Timestamp::ZERO {
                break;
            }
        }
        loop {
            let index = at.since(origin).as_nanos() / u128::from(self.width_ns);
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            if index < BINS {
                if index >= self.bins.len() {
                    self.bins.resize(index + 1, [0.0; STATES]);
                }
                return index;
            }
            self.halve();
        }
    }
}

impl Timeline for PowerTrace {
    fn span(&mut self, span: Span) {
        // Make room for the end first, so that the width does not change below.
        self.bin_of(span.start);
        self.bin_of(span.end);
        let Some(origin) = self.origin else { return };
        let (from, to) = (
            span.start.since(origin).as_nanos() as f64,
            span.end.since(origin).as_nanos() as f64,
        );
        let width = self.width_ns as f64;
        let (first, last) = ((from / width) as usize, (to / width) as usize);
        for index in first..=last {
            let begin = from.max(index as f64 * width);
            let end = to.min((index + 1) as f64 * width);
            if let Some(bin) = self.bins.get_mut(index)
                && end > begin
            {
                bin[span.state.index()] += (end - begin) / 1e9 * span.power_mw;
            }
        }
    }

    fn transfer(&mut self, transfer: Transfer) {
        let index = self.bin_of(transfer.at);
        if let Some(bin) = self.bins.get_mut(index) {
            bin[State::Active.index()] += transfer.energy_mj;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Phase;

    fn span(start_ms: u64, end_ms: u64, state: State, power_mw: f64) -> Span {
        Span {
            start: Timestamp::from_millis(start_ms),
            end: Timestamp::from_millis(end_ms),
            state,
            phase: Phase::Tail,
            power_mw,
        }
    }

    fn total_mj(trace: &PowerTrace) -> f64 {
        trace
            .power_mw()
            .map(|bin| bin.iter().sum::<f64>() * trace.width_s())
            .sum()
    }

    #[test]
    fn joining_bins_loses_no_energy_and_keeps_them_bounded() {
        let mut trace = PowerTrace::default();
        let mut expect = 0.0;
        for i in 0..5000_u64 {
            let s = span(
                100_000 + i * 37,
                100_000 + (i + 1) * 37,
                State::Tail,
                i as f64,
            );
            expect += s.energy_mj();
            trace.span(s);
            assert!(trace.bins.len() <= BINS);
        }
        // What lies before the first one seen.
        let early = span(20_000, 21_000, State::Promotion, 500.0);
        expect += early.energy_mj();
        trace.span(early);
        assert!(trace.bins.len() <= BINS);
        assert!((total_mj(&trace) / expect - 1.0).abs() < 1e-9);
        assert!(trace.origin().unwrap() <= Timestamp::from_millis(20_000));
    }
}
