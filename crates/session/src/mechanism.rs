//! Mechanisms of a sender that can be left out, to measure what each one gains.
//!
//! Only simulations leave any out (`mpbond lab ablation`): no key of a configuration file does.
//! docs/sender.md describes the mechanisms.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

/// Mechanism of a sender that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The scheduler PAMS waits for a busy subflow that delivers sooner (MPBond, Algorithm 1, lines
    /// 7 to 14). Without it: `min-pad`.
    Deferral,
    /// The scheduler counts a frame's own time, after the PAD of its first byte (ADR 0063).
    WholeFrames,
    /// PAMS counts no more than a part of the peer's window (ADR 0092).
    WindowPart,
    /// Limit on what is under way on a near hop, in time (ADR 0007).
    NearBound,
    /// Limit on what is owed through a helper whose far hop has shown no rate.
    UnprovenBound,
    /// Limit at a helper for bytes that delay-sensitive streams, or copies, wait behind.
    InteractiveBound,
    /// Limit at a helper for uploads (ADR 0088).
    UploadBound,
    /// Short queues beside short exchanges (ADR 0027).
    ShortQueues,
    /// Short streams are left to the fastest subflow.
    LeftToFastest,
    /// Feedback takes a radio that is awake; without it, the least PAD.
    AwakeRadio,
    /// Rates of arrival that the far end measures.
    ArrivalRate,
    /// What earlier connections have shown of a path (ADR 0052).
    KnownPaths,
    /// ACKs after 5 ms at the start of a transfer.
    EarlyAcks,
    /// Probes of silent subflows.
    Probing,
    /// New data keeps away from a subflow that was probed four times.
    Avoidance,
    /// Copies of all that a subflow owes that has potentially failed, and its end after 15 s.
    PotentialFailure,
    /// Copies that have not been sent are dropped when their subflow works again.
    DroppedCopies,
    /// Expresses (ADR 0011).
    Express,
    /// Rebalancing (MPBond section 4.3.4).
    Rebalancing,
    /// Rebalancing where the peer's windows hold back new bytes.
    OpportunisticTrigger,
    /// Least gain of rebalancing.
    LeastGain,
    /// Gain beyond which rebalancing has no allowance.
    SureGain,
    /// Allowance for copies of rebalancing.
    CopiesAllowance,
    /// Hedged ends of transfers.
    HedgedEnds,
    /// PAD heeds windows of TCP that are still opening (ADR 0058).
    OpeningWindows,
    /// A subflow that would carry only copies is cut.
    Cutting,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Deferral,
        Self::WholeFrames,
        Self::WindowPart,
        Self::NearBound,
        Self::UnprovenBound,
        Self::InteractiveBound,
        Self::UploadBound,
        Self::ShortQueues,
        Self::LeftToFastest,
        Self::AwakeRadio,
        Self::ArrivalRate,
        Self::KnownPaths,
        Self::EarlyAcks,
        Self::Probing,
        Self::Avoidance,
        Self::PotentialFailure,
        Self::DroppedCopies,
        Self::Express,
        Self::Rebalancing,
        Self::OpportunisticTrigger,
        Self::LeastGain,
        Self::SureGain,
        Self::CopiesAllowance,
        Self::HedgedEnds,
        Self::OpeningWindows,
        Self::Cutting,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deferral => "deferral",
            Self::WholeFrames => "whole-frames",
            Self::WindowPart => "window-part",
            Self::NearBound => "near-bound",
            Self::UnprovenBound => "unproven-bound",
            Self::InteractiveBound => "interactive-bound",
            Self::UploadBound => "upload-bound",
            Self::ShortQueues => "short-queues",
            Self::LeftToFastest => "left-to-fastest",
            Self::AwakeRadio => "awake-radio",
            Self::ArrivalRate => "arrival-rate",
            Self::KnownPaths => "known-paths",
            Self::EarlyAcks => "early-acks",
            Self::Probing => "probing",
            Self::Avoidance => "avoidance",
            Self::PotentialFailure => "potential-failure",
            Self::DroppedCopies => "dropped-copies",
            Self::Express => "express",
            Self::Rebalancing => "rebalancing",
            Self::OpportunisticTrigger => "opportunistic-trigger",
            Self::LeastGain => "least-gain",
            Self::SureGain => "sure-gain",
            Self::CopiesAllowance => "copies-allowance",
            Self::HedgedEnds => "hedged-ends",
            Self::OpeningWindows => "opening-windows",
            Self::Cutting => "cutting",
        }
    }

    /// The mechanism without which it has no effect.
    pub const fn part_of(self) -> Option<Self> {
        match self {
            Self::WholeFrames | Self::WindowPart => Some(Self::Deferral),
            Self::Avoidance => Some(Self::Probing),
            Self::DroppedCopies => Some(Self::PotentialFailure),
            Self::OpportunisticTrigger
            | Self::LeastGain
            | Self::SureGain
            | Self::CopiesAllowance
            | Self::Cutting => Some(Self::Rebalancing),
            _ => None,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Not a search of `ALL`, for which LLVM's constraint elimination takes minutes.
        Self::deserialize(text.into_deserializer())
    }
}

/// Set of mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms(u32);

impl Mechanisms {
    /// Adds a mechanism.
    pub fn insert(&mut self, mechanism: Mechanism) {
        self.0 |= 1 << mechanism as u32;
    }

    /// Whether a mechanism is in the set.
    pub const fn contains(self, mechanism: Mechanism) -> bool {
        self.0 >> mechanism as u32 & 1 == 1
    }

    /// Those in the set, in the order of [`Mechanism::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL
            .into_iter()
            .filter(move |m| self.contains(*m))
    }
}

impl FromIterator<Mechanism> for Mechanisms {
    fn from_iter<I: IntoIterator<Item = Mechanism>>(mechanisms: I) -> Self {
        let mut set = Self::default();
        mechanisms.into_iter().for_each(|m| set.insert(m));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.name().parse(), Ok(mechanism));
        }
        let wrong = "all".parse::<Mechanism>().unwrap_err().to_string();
        assert!(wrong.starts_with("unknown variant `all`, expected one of `deferral`, "));
    }

    #[test]
    fn a_set_has_what_was_added_to_it() {
        let set: Mechanisms = [Mechanism::Cutting, Mechanism::Deferral]
            .into_iter()
            .collect();
        for mechanism in Mechanism::ALL {
            let is_in = matches!(mechanism, Mechanism::Cutting | Mechanism::Deferral);
            assert_eq!(set.contains(mechanism), is_in, "{mechanism}");
        }
        let listed: Vec<_> = set.iter().collect();
        assert_eq!(listed, [Mechanism::Deferral, Mechanism::Cutting]);
    }
}
