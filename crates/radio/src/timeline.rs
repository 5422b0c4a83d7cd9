use mpbond_units::Timestamp;
use serde::Serialize;

use crate::event::Direction;

/// A state of any of the machines.
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
    /// LTE: short cycle of discontinuous reception.
    ShortDrx,
    /// LTE: long cycle of discontinuous reception.
    LongDrx,
    /// 3G: dedicated channel without data.
    Dch,
    /// 3G: shared channel.
    Fach,
    /// Connected and awake without data (any other radio).
    Tail,
    /// The processor at work.
    Cpu,
    /// A power that does not depend on traffic: base, access point.
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

    /// Place of this state in [`State::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Short name, as reports print it.
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

/// What a stretch of time was spent on; the parts into which reports split energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Getting ready: promotions and associations.
    Promotion,
    /// Moving data.
    Transfer,
    /// Staying ready after the last data.
    Tail,
    /// Low-power states.
    Idle,
}

impl Phase {
    /// Every phase, in the order of [`Phase::index`].
    pub const ALL: [Self; 4] = [Self::Promotion, Self::Transfer, Self::Tail, Self::Idle];

    /// Place of this phase in [`Phase::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Short name, as reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Promotion => "promotion",
            Self::Transfer => "transfer",
            Self::Tail => "tail",
            Self::Idle => "idle",
        }
    }
}

/// A stretch of time that a machine spent in one state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// When the state was entered.
    pub start: Timestamp,
    /// When it was left; never before `start`.
    pub end: Timestamp,
    /// The state.
    pub state: State,
    /// What the time counts as.
    pub phase: Phase,
    /// Mean power over the stretch, in mW, without the per-bit part.
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

/// Data that passed, with the energy that its bits cost on top of the state's power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// When it passed.
    pub at: Timestamp,
    /// Which way.
    pub direction: Direction,
    /// How many bytes.
    pub bytes: u32,
    /// Energy of the bits alone, in mJ; zero in models without a per-bit part.
    pub energy_mj: f64,
}

/// Where a machine writes what it did.
///
/// The spans of one machine follow each other without gap or overlap, and
/// are written when they are over, so a state still held is not seen until
/// the next event. Transfers are written as they pass.
pub trait Timeline {
    /// A state was left.
    fn span(&mut self, span: Span);
    /// Data passed.
    fn transfer(&mut self, transfer: Transfer) {
        let _ = transfer;
    }
}

/// Keeps nothing: for an emulator that only asks when packets pass.
impl Timeline for () {
    fn span(&mut self, _: Span) {}
}

/// Keeps every span; for tests and short pictures.
impl Timeline for Vec<Span> {
    fn span(&mut self, span: Span) {
        self.push(span);
    }
}

/// Writes to two places.
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

/// The place in time up to which a machine has written its spans.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tape {
    at: Option<Timestamp>,
}

impl Tape {
    /// Up to when spans are written; `None` before the first event.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// Begins at `at` unless it has begun.
    pub(crate) fn begin(&mut self, at: Timestamp) -> Timestamp {
        *self.at.get_or_insert(at)
    }

    /// Writes a span from here to `end`; nothing when that is no time at all.
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
