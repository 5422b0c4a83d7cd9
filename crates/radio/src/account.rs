//! Energy of one interface, summed as its timeline is written.

use mpbond_units::Timestamp;
use serde::Serialize;

use crate::event::Direction;
use crate::timeline::{Phase, Span, State, Timeline, Transfer};

const STATES: usize = State::ALL.len();
const PHASES: usize = Phase::ALL.len();

/// Sums over one timeline. Size is independent of the trace's length.
#[derive(Debug, Clone, Default)]
pub struct Account {
    state_mj: [f64; STATES],
    state_s: [f64; STATES],
    phase_mj: [f64; PHASES],
    phase_s: [f64; PHASES],
    bits_mj: f64,
    /// Energy after the last packet, except in idle states.
    after_last_mj: f64,
    up_bytes: u64,
    down_bytes: u64,
    packets: u64,
    /// Start of the first span.
    begun: Option<Timestamp>,
    first: Option<Timestamp>,
    last: Timestamp,
}

impl Account {
    /// Start of the first span written; `None` without spans.
    pub(crate) fn begun(&self) -> Option<Timestamp> {
        self.begun
    }

    /// Time of the first packet; `None` without packets.
    pub fn first_packet(&self) -> Option<Timestamp> {
        self.first
    }

    /// Time of the last packet; `None` without packets.
    pub fn last_packet(&self) -> Option<Timestamp> {
        self.first.map(|_| self.last)
    }

    /// Energy of all spans written so far, in mJ.
    pub fn total_mj(&self) -> f64 {
        self.phase_mj.iter().sum::<f64>() + self.bits_mj
    }

    /// Summary for a report.
    pub fn summary(&self) -> Summary {
        let total_j = self.total_mj() / 1e3;
        let phases = Phase::ALL.map(|phase| {
            let i = phase.index();
            let bits = if phase == Phase::Transfer {
                self.bits_mj
            } else {
                0.0
            };
            PhaseSum {
                phase,
                seconds: self.phase_s[i],
                joules: (self.phase_mj[i] + bits) / 1e3,
            }
        });
        let states = State::ALL
            .into_iter()
            .filter(|state| self.state_s[state.index()] > 0.0)
            .map(|state| StateSum {
                state,
                seconds: self.state_s[state.index()],
                joules: self.state_mj[state.index()] / 1e3,
            })
            .collect();
        Summary {
            joules: total_j,
            joules_without_last_tail: total_j - self.after_last_mj / 1e3,
            joules_per_mb: per_mb(total_j, self.up_bytes + self.down_bytes),
            bits_joules: self.bits_mj / 1e3,
            phases,
            states,
            packets: self.packets,
            up_bytes: self.up_bytes,
            down_bytes: self.down_bytes,
        }
    }
}

/// Joules per 10^6 bytes; `None` without bytes.
pub(crate) fn per_mb(joules: f64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| joules / (bytes as f64 / 1e6))
}

impl Timeline for Account {
    fn span(&mut self, span: Span) {
        let (seconds, energy) = (span.seconds(), span.energy_mj());
        self.begun.get_or_insert(span.start);
        self.state_s[span.state.index()] += seconds;
        self.state_mj[span.state.index()] += energy;
        self.phase_s[span.phase.index()] += seconds;
        self.phase_mj[span.phase.index()] += energy;
        if self.first.is_some() && span.phase != Phase::Idle {
            let after = span.end.since(span.start.max(self.last)).as_secs_f64();
            self.after_last_mj += after * span.power_mw;
        }
    }

    fn transfer(&mut self, transfer: Transfer) {
        self.packets += 1;
        self.bits_mj += transfer.energy_mj;
        let bytes = u64::from(transfer.bytes);
        match transfer.direction {
            Direction::Up => self.up_bytes += bytes,
            Direction::Down => self.down_bytes += bytes,
        }
        self.first.get_or_insert(transfer.at);
        self.last = self.last.max(transfer.at);
        self.after_last_mj = 0.0;
    }
}

/// Energy of one interface.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Total energy, with the whole tail after the last packet.
    pub joules: f64,
    /// Total energy without the part after the last packet, idle states excepted.
    pub joules_without_last_tail: f64,
    /// `joules` per 10^6 bytes of traffic, headers included.
    pub joules_per_mb: Option<f64>,
    /// Energy of the bits (the per-bit part of the model); also contained in the transfer phase.
    pub bits_joules: f64,
    /// Time and energy by phase.
    pub phases: [PhaseSum; PHASES],
    /// Time and energy by state, without the per-bit part.
    pub states: Vec<StateSum>,
    /// Number of packets.
    pub packets: u64,
    /// Bytes sent.
    pub up_bytes: u64,
    /// Bytes received.
    pub down_bytes: u64,
}

impl Summary {
    /// The same, with zero for each energy below zero.
    pub(crate) fn not_negative(mut self) -> Self {
        let phases = self.phases.iter_mut().map(|phase| &mut phase.joules);
        let states = self.states.iter_mut().map(|state| &mut state.joules);
        let sums = [&mut self.joules, &mut self.joules_without_last_tail];
        for joules in phases.chain(states).chain(sums) {
            *joules = joules.max(0.0);
        }
        self
    }
}

/// Time and energy of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseSum {
    /// Phase that is summed.
    pub phase: Phase,
    /// Total time, in seconds.
    pub seconds: f64,
    /// Total energy, in J.
    pub joules: f64,
}

/// Time and energy of one state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StateSum {
    /// State that is summed.
    pub state: State,
    /// Total time, in seconds.
    pub seconds: f64,
    /// Total energy, in J, without the per-bit part.
    pub joules: f64,
}
