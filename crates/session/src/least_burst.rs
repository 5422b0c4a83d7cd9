//! Size of a burst from which on a helper is woken for it.

use std::time::Duration;

use crate::wire::VARINT_MAX;

/// Size of a burst from which on a subflow carries it, while the helper's radio would have to be
/// woken. A burst is what an end sends from the moment at which it has nothing to send until then.
///
/// The sizes hold for a radio that sleeps. One whose last packet was some part of its tail ago
/// costs about that part of the joules, since its tail begins anew: the size is that part, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeastBurst {
    /// Least bytes of a burst.
    pub bytes: u64,
    /// The same for a burst of which only streams of the class background are left.
    pub background_bytes: u64,
    /// Time from a radio's last packet until it sleeps, at most [`MAX_TAIL`](Self::MAX_TAIL).
    pub tail: Duration,
}

impl LeastBurst {
    /// Size of no burst.
    pub const NEVER: u64 = VARINT_MAX;

    /// Maximum tail, beyond those of all shipped profiles.
    pub const MAX_TAIL: Duration = Duration::from_secs(60);

    /// The same within what ADMIT carries: larger sizes are those of no burst.
    pub(crate) fn bounded(self) -> Self {
        Self {
            bytes: self.bytes.min(Self::NEVER),
            background_bytes: self.background_bytes.min(Self::NEVER),
            tail: self.tail.min(Self::MAX_TAIL),
        }
    }

    /// Least bytes of a burst when the radio's last packet was `quiet` ago.
    pub(crate) fn size(&self, background: bool, quiet: Duration) -> u64 {
        let asleep = match background {
            true => self.background_bytes,
            false => self.bytes,
        };
        if quiet >= self.tail || asleep == Self::NEVER {
            return asleep;
        }
        (asleep as f64 * quiet.as_secs_f64() / self.tail.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_grows_through_the_tail() {
        let least = LeastBurst {
            bytes: 1_000,
            background_bytes: LeastBurst::NEVER,
            tail: Duration::from_secs(10),
        };
        let size = |ms| least.size(false, Duration::from_millis(ms));
        let sizes = [0, 2_500, 9_990, 10_000, 60_000].map(size);
        assert_eq!(sizes, [0, 250, 999, 1_000, 1_000]);
        // What costs more joules than it saves costs them awake, too.
        assert_eq!(least.size(true, Duration::ZERO), LeastBurst::NEVER);
        let no_tail = LeastBurst {
            tail: Duration::ZERO,
            ..least
        };
        assert_eq!(no_tail.size(false, Duration::ZERO), 1_000);
    }
}
