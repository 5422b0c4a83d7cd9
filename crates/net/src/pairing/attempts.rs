//! Limit on wrong attempts at a pairing code.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Number of wrong attempts that voids a code. Three allow for typing errors; an attacker has three
/// chances in a hundred million.
pub const MAX_WRONG_CODES: u32 = 3;
/// Minimum interval between two attempts. A person needs longer than this to type another code.
const PAUSE: Duration = Duration::from_secs(2);

/// Remaining attempts at one code, shared by all callers.
#[derive(Debug)]
pub struct Attempts {
    left: u32,
    not_before: Timestamp,
    used: bool,
}

/// Reason for rejecting an attempt without comparing the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAttempt {
    /// The code was tried too often, or has been used.
    Void,
    /// Too soon after another attempt.
    TooSoon,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            left: MAX_WRONG_CODES,
            not_before: Timestamp::ZERO,
            used: false,
        }
    }
}

impl Attempts {
    /// Whether the code is void: used, or tried too often.
    pub fn is_void(&self) -> bool {
        self.used || self.left == 0
    }

    /// Whether a caller has proven knowledge of the code.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Consumes one attempt; must precede the verification of a proof. The attempt counts as wrong
    /// unless [`Attempts::succeeded`] follows.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), NoAttempt> {
        if self.is_void() {
            return Err(NoAttempt::Void);
        }
        if now < self.not_before {
            return Err(NoAttempt::TooSoon);
        }
        self.left -= 1;
        self.not_before = now + PAUSE;
        Ok(())
    }

    /// Records that the last attempt succeeded; no further attempt is granted.
    pub(super) fn succeeded(&mut self) {
        self.used = true;
    }
}
