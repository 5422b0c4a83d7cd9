//! When a client's class is looked at again: after the first exchange, and every five seconds while
//! bytes move.
//!
//! A program may mark its socket after the connection is made, as OpenSSH does after
//! authentication. The look-up is a system call, and runs only where bytes have just moved, so that
//! idle connections wake nobody.

use std::time::Duration;

use mpbond_session::StreamClass;
use mpbond_units::Timestamp;

/// Shortest interval between two look-ups of one connection, but for the one after the first
/// exchange.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Look-ups of one connection's class.
pub struct ClassWatch {
    /// The class at present, if it is known.
    look: Box<dyn FnMut() -> Option<StreamClass>>,
    /// The destination has answered, and the class was looked at since.
    exchanged: bool,
    again_at: Timestamp,
}

impl ClassWatch {
    /// Look-ups after one at this instant.
    pub fn new(now: Timestamp, look: impl FnMut() -> Option<StreamClass> + 'static) -> Self {
        Self {
            look: Box::new(look),
            exchanged: false,
            again_at: now + LOOK_EVERY,
        }
    }

    /// The class, if it is due to be looked at and known. `answered`: the destination has sent
    /// bytes.
    pub(super) fn moved(&mut self, now: Timestamp, answered: bool) -> Option<StreamClass> {
        let first = answered && !self.exchanged;
        if !first && now < self.again_at {
            return None;
        }
        self.exchanged |= answered;
        self.again_at = now + LOOK_EVERY;
        (self.look)()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn it_looks_after_the_first_exchange_and_every_five_seconds() {
        let looks = Rc::new(Cell::new(0));
        let counted = Rc::clone(&looks);
        let at = Timestamp::from_millis;
        let mut watch = ClassWatch::new(at(0), move || {
            counted.set(counted.get() + 1);
            Some(StreamClass::Bulk)
        });
        for (ms, answered, expected) in [
            (10, false, 0),
            (4_999, false, 0),
            (5_000, false, 1),
            (5_100, true, 2),
            (5_200, true, 2),
            (10_099, true, 2),
            (10_100, true, 3),
            (60_000, true, 4),
            (60_001, true, 4),
        ] {
            let before = looks.get();
            let class = watch.moved(at(ms), answered);
            assert_eq!(class.is_some(), looks.get() > before, "{ms} ms");
            assert_eq!(looks.get(), expected, "{ms} ms");
        }
    }
}
