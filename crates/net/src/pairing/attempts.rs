use std::time::Duration;

use mpbond_units::Timestamp;

/// Wrong codes after which a code is void. Three allow for a slip of the finger; somebody who
/// guesses has three chances in a hundred million.
pub const MAX_WRONG_CODES: u32 = 3;
/// Between two wrong codes. A person needs longer than this to type another one.
const PAUSE: Duration = Duration::from_secs(2);

/// How often a code may still be tried. One for each code that a listener shows, whatever the
/// number of callers.
#[derive(Debug)]
pub struct Attempts {
    left: u32,
    not_before: Timestamp,
    used: bool,
}

/// Why a code is not even compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAttempt {
    /// Too many wrong ones came before, or it has been used.
    Void,
    /// Too soon after a wrong one.
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
    /// Whether the code is good for nothing any more: used, or tried too often.
    pub fn is_void(&self) -> bool {
        self.used || self.left == 0
    }

    /// Whether somebody has proven to have the code.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Takes one attempt; without it no proof may be looked at. It counts as a wrong one unless
    /// [`Attempts::was_right`] follows.
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

    /// The attempt just taken was right: nobody else gets one.
    pub(super) fn was_right(&mut self) {
        self.used = true;
    }
}
