//! Numbers of links, connection attempts and relay requests.

use std::fmt;

/// An own path or a pipe of the primary. Those of [`Config::links`](crate::Config::links) count
/// from zero, and those added later go on. A number is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub usize);

/// One connection attempt. A number is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DialId(pub u64);

/// One request for a relay. A number is never used twice on the same pipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
