//! Bytes that several applications' connections may move together.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use tokio::sync::Notify;

/// Bytes that the connections of a rule may move together, both ways, as applications write and
/// read them. For use on one thread.
pub struct Budget {
    used: Cell<u64>,
    limit: Cell<u64>,
    moved: Rc<Notify>,
}

impl Budget {
    /// A budget of so many bytes, whose moves are notified.
    pub const fn new(limit: u64, moved: Rc<Notify>) -> Self {
        Self {
            used: Cell::new(0),
            limit: Cell::new(limit),
            moved,
        }
    }

    /// Bytes moved since it was made.
    pub const fn used(&self) -> u64 {
        self.used.get()
    }

    /// Sets the number of bytes that may be moved since it was made.
    pub fn set_limit(&self, limit: u64) {
        self.limit.set(limit);
    }

    /// Counts bytes that were moved.
    pub fn moved(&self, bytes: usize) {
        if bytes > 0 {
            self.used.update(|used| used.saturating_add(bytes as u64));
            self.moved.notify_waiters();
        }
    }

    /// Whether all bytes have been moved.
    pub fn is_spent(&self) -> bool {
        self.used.get() >= self.limit.get()
    }

    /// # Errors
    /// All bytes have been moved.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.is_spent() {
            false => Ok(()),
            true => Err(io::Error::other("the budget of its rule is used up")),
        }
    }
}
