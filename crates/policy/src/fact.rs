//! Facts with their certainty.

use serde::Serialize;

/// Certainty of a fact, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Stated by the kernel, the client or the user.
    Known,
    /// Derived from something that usually, but not always, determines it.
    Guessed,
    /// Not available.
    Unknown,
}

impl Certainty {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Guessed => "guessed",
            Self::Unknown => "unknown",
        }
    }
}

/// A fact that a rule may depend on: its value, its certainty, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact<T> {
    value: Option<T>,
    certainty: Certainty,
    origin: &'static str,
}

impl<T> Fact<T> {
    /// A known fact; `origin` says from where, such as "sock_diag".
    pub const fn known(value: T, origin: &'static str) -> Self {
        Self {
            value: Some(value),
            certainty: Certainty::Known,
            origin,
        }
    }

    /// A guessed fact; `origin` says from what, such as "answers of the DNS stub".
    pub const fn guessed(value: T, origin: &'static str) -> Self {
        Self {
            value: Some(value),
            certainty: Certainty::Guessed,
            origin,
        }
    }

    /// An unknown fact; `reason` says why, such as "the client did not name one".
    pub const fn unknown(reason: &'static str) -> Self {
        Self {
            value: None,
            certainty: Certainty::Unknown,
            origin: reason,
        }
    }

    /// The value, with its certainty, unless it is unknown.
    pub const fn get(&self) -> Option<(&T, Certainty)> {
        match &self.value {
            Some(value) => Some((value, self.certainty)),
            None => None,
        }
    }

    /// The certainty.
    pub const fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// The origin of the value, or the reason for which there is none.
    pub const fn origin(&self) -> &'static str {
        self.origin
    }

    /// The same fact with its value converted.
    pub(crate) fn map<U>(&self, convert: impl FnOnce(&T) -> U) -> Fact<U> {
        Fact {
            value: self.value.as_ref().map(convert),
            certainty: self.certainty,
            origin: self.origin,
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It holds, and depends on facts of this certainty.
    Holds(Certainty),
    /// It does not hold, as facts of this certainty show.
    Fails(Certainty),
    /// Its fact is unknown. Such a condition selects no flow.
    Unknown,
}

impl Answer {
    /// The answer of a test on a fact.
    pub(crate) fn of<T>(fact: &Fact<T>, test: impl FnOnce(&T) -> bool) -> Self {
        match fact.get() {
            Some((value, certainty)) if test(value) => Self::Holds(certainty),
            Some((_, certainty)) => Self::Fails(certainty),
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certainty_has_one_name() {
        for certainty in [Certainty::Known, Certainty::Guessed, Certainty::Unknown] {
            assert_eq!(serde_json::to_value(certainty).unwrap(), certainty.name());
        }
    }
}
