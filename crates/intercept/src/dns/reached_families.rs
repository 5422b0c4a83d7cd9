//! Address families in which destinations are reached.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::message::Family;

/// Families in which connections are carried at present. Names have no addresses of the others,
/// so that applications do not try them: they would be told that they are connected before the
/// proxy finds that it has no way.
#[derive(Debug)]
pub struct ReachedFamilies {
    ipv4: AtomicBool,
    ipv6: AtomicBool,
}

impl Default for ReachedFamilies {
    /// Both.
    fn default() -> Self {
        Self {
            ipv4: AtomicBool::new(true),
            ipv6: AtomicBool::new(true),
        }
    }
}

impl ReachedFamilies {
    /// Sets the families.
    pub fn set(&self, ipv4: bool, ipv6: bool) {
        self.ipv4.store(ipv4, Relaxed);
        self.ipv6.store(ipv6, Relaxed);
    }

    /// Whether addresses of this family are reached.
    pub fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.ipv4.load(Relaxed),
            Family::V6 => self.ipv6.load(Relaxed),
        }
    }
}
