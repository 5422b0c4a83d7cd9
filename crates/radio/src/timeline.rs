//! Timelines of a radio: states, phases, spans and transfers.

use mpbond_units::Timestamp;
use serde::Serialize;

use crate::event::Direction;

/// State of any of the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The interface has no power.
    Off,
    /// Cellular: no connection, paging only.
    Idle,
    /// Cellular: suspended connection of 5G standalone (`RRC_INACTIVE`).
    Inactive,
    /// WiFi: associated, asleep between beacons.
    Psm,
    /// Bluetooth: asleep between anchor points.
    Sniff,
    /// Host bus: clock stopped.
    Asleep,
    /// Joining an access point.
    Association,
    /// On the way from a low-power state to one that carries data.
    Promotion,
    /// Data passes.
    Active,
    /// LTE: listening continuously, before discontinuous reception begins.
    ContinuousReception,
    /// LTE: listens continuously, before discontinuous reception begins.
    ShortDrx,
    /// LTE: long cycle of discontinuous reception.
    LongDrx,
    /// 3G: dedicated channel without data.
    Dch,
    /// 3G: shared channel.
    Fach,
    /// Connected and awake without data (all other radios).
    Tail,
    /// The processor is at work.
    Cpu,
    /// Power that is independent of traffic: base, access point.
    Constant,
}

impl State {
    /// Every state, in the order of [`State::index`].
    pub const ALL: [Self; 17] = [
        Self::Off,
        Self::Idle,
        Self::Inactive,
        Self::Psm,
        Self::Sniff,
        Self::Asleep,
        Self::Association,
        Self::Promotion,
        Self::Active,
        Self::ContinuousReception,
        Self::ShortDrx,
        Self::LongDrx,
        Self::Dch,
        Self::Fach,
        Self::Tail,
        Self::Cpu,
        Self::Constant,
    ];

    /// Index of this state in [`State::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Short name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Inactive => "inactive",
            Self::Psm => "psm",
            Self::Sniff => "sniff",
            Self::Asleep => "asleep",
            Self::Association => "association",
            Self::Promotion => "promotion",
            Self::Active => "active",
            Self::ContinuousReception => "continuous reception",
            Self::ShortDrx => "short drx",
            Self::LongDrx => "long drx",
            Self::Dch => "dch",
            Self::Fach => "fach",
            Self::Tail => "tail",
            Self::Cpu => "cpu",
            Self::Constant => "constant",
        }
    }
}

/// Phase of a transfer, into which reports split energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Preparation: promotions and associations.
    Promotion,
    /// Data transfer.
    Transfer,
    /// Wait for more data after the last.
    Tail,
    /// Low-power states.
    Idle,
}

impl Phase {
    /// Every phase, in the order of [`Phase::index`].
    pub const ALL: [Self; 4] = [Self::Promotion, Self::Transfer, Self::Tail, Self::Idle];

    /// Index of this phase in [`Phase::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Short name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Promotion => "promotion",
            Self::Transfer => "transfer",
            Self::Tail => "tail",
            Self::Idle => "idle",
        }
    }
}

/// Time that a machine spent in one state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Time at which the state was entered.
    pub start: Timestamp,
    /// Time at which it was left; never before `start`.
    pub end: Timestamp,
    /// State.
    pub state: State,
    /// Phase that the time counts as.
    pub phase: Phase,
    /// Mean power, in mW, without the per-bit part.
    pub power_mw: f64,
}

impl Span {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.since(self.start).as_secs_f64()
    }

    /// Energy in mJ.
    pub fn energy_mj(&self) -> f64 {
        self.seconds() * self.power_mw
    }
}

/// Data that passed, with the energy of its bits on top of the state's power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Time of passing.
    pub at: Timestamp,
    /// Direction.
    pub direction: Direction,
    /// Number of bytes.
    pub bytes: u32,
    /// Energy of the bits alone, in mJ; zero in models without a per-bit part.
    pub energy_mj: f64,
}

/// Output of a state machine.
///
/// The spans of one machine follow each other without gap or overlap. A span is written when it is
/// over, so the present state is not seen until the next event. Transfers are written as they pass.
pub trait Timeline {
    /// Records a state that was left.
    fn span(&mut self, span: Span);
    /// Records passing data.
    fn transfer(&mut self, transfer: Transfer) {
        let _ = transfer;
    }
}

/// Discards everything: for an emulator that only needs passing times.
impl Timeline for () {
    fn span(&mut self, _: Span) {}
}

/// Keeps every span; for tests and short charts.
impl Timeline for Vec<Span> {
    fn span(&mut self, span: Span) {
        self.push(span);
    }
}

/// Writes to two timelines.
impl<A: Timeline, B: Timeline> Timeline for (&mut A, &mut B) {
    fn span(&mut self, span: Span) {
        self.0.span(span);
        self.1.span(span);
    }
    fn transfer(&mut self, transfer: Transfer) {
        self.0.transfer(transfer);
        self.1.transfer(transfer);
    }
}

impl<T: Timeline> Timeline for &mut T {
    fn span(&mut self, span: Span) {
        (**self).span(span);
    }
    fn transfer(&mut self, transfer: Transfer) {
        (**self).transfer(transfer);
    }
}

/// Position up to which a machine has written its spans.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tape {
    at: Option<Timestamp>,
}

impl Tape {
    /// End of the last span; `None` before the first event.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// Begins at `at` unless it has begun.
    pub(crate) fn begin(&mut self, at: Timestamp) -> Timestamp {
        *self.at.get_or_insert(at)
    }

    /// Writes a span from the current position to `end`; nothing when it is empty.
    pub(crate) fn emit<T: Timeline>(
        &mut self,
        end: Timestamp,
        state: State,
        phase: Phase,
        power_mw: f64,
        out: &mut T,
    ) {
        let start = self.begin(end);
        if end > start {
            self.at = Some(end);
            out.span(Span {
                start,
                end,
                state,
                phase,
                power_mw,
            });
        }
    }
}
