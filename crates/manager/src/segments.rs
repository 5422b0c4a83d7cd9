//! Smaller segments where only small packets pass (an MTU black hole, RFC 2923, section 2.1).
//!
//! A handshake fits into packets of the least MTU of IPv6. A connection whose handshake came
//! through and that falls silent before it has brought much is joined anew with smaller segments;
//! both ends keep to the limit, since TCP announces it in the SYN. Where not even a handshake
//! passes, an attempt on an own path finds that it does with the smallest ones, and one through a
//! helper is followed by one with these; they become the limit of the link when the next attempt
//! finds the same.

use crate::action::Notice;
use crate::context::Context;
use crate::ids::LinkId;

/// Limits, one after the other: what fits into the least MTU of IPv6, 1280 octets, less 60 for the
/// headers of IPv6 and TCP; and the default of RFC 9293, section 3.7.1.
pub const SEGMENT_BYTES: [u32; 2] = [1_220, 536];

/// A connection that brought as much has had large segments among it.
pub const ENOUGH_BYTES: u64 = 64 << 10;

/// Limit of the segments of a link: of an own path, or of both hops of a pipe's relays.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// Limits tried so far.
    step: usize,
    least: Least,
    trial: Trial,
    /// The last limit that was tried was taken back, since the connection was late.
    was_late: bool,
    /// `step` and `trial` when a replacement of the connection was begun.
    before: (usize, Trial),
}

/// Handshakes that came through with the smallest limit, and not with a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Least {
    /// The last connection was none of them.
    #[default]
    Not,
    /// The handshake of the connection that is about to be reported was the first in a row.
    Now,
    /// That of the last connection was.
    Before,
}

/// Trial of the smallest limit, after a handshake that has stalled with a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trial {
    /// None.
    #[default]
    Not,
    /// The next attempt is one.
    Next,
    /// The attempt that was begun last is one, and so are those after it until its handshake passes
    /// or stalls: a refusal says nothing about segments.
    Now,
    /// The last connection is one.
    Joined,
}

impl Segments {
    /// The limit for the next connection, if there is one.
    pub(crate) fn limit(&self) -> Option<u32> {
        if matches!(self.trial, Trial::Now | Trial::Joined) {
            return SEGMENT_BYTES.last().copied();
        }
        let index = self.step.checked_sub(1)?;
        SEGMENT_BYTES.get(index).copied()
    }

    /// A silent connection is being replaced. `octets` of it had arrived, if large segments may be
    /// the reason.
    pub(crate) fn replaced(&mut self, cx: &mut Context, link: LinkId, octets: Option<u64>) {
        self.before = (self.step, self.trial);
        if octets.is_some_and(|octets| octets >= ENOUGH_BYTES) {
            self.was_late = false;
        }
        if let Some(octets) = octets {
            self.stuck(cx, link, octets);
        }
    }

    /// The silent connection goes on after all: its segments pass, and the other end was slow.
    pub(crate) fn resumed(&mut self) {
        (self.step, self.trial) = self.before;
    }

    /// The connection that replaces a silent one was answered late: meanwhile small packets did not
    /// pass either. A handshake that passed with the smallest limit alone is always late; so is
    /// every handshake on some paths, where the next limit is tried all the same if the connection
    /// without one falls silent, too.
    pub(crate) fn late(&mut self) {
        let is_tried = (self.step, self.trial) != self.before && self.trial != Trial::Joined;
        if is_tried && !std::mem::replace(&mut self.was_late, true) {
            self.resumed();
        }
    }

    /// A connection fell silent, or was given up, when so many octets had arrived. Segments were
    /// not the reason where the smallest did not help either.
    pub(crate) fn stuck(&mut self, cx: &mut Context, link: LinkId, octets: u64) {
        if octets >= ENOUGH_BYTES {
            return;
        }
        if std::mem::take(&mut self.trial) == Trial::Joined {
            self.step = 0;
            return;
        }
        self.step = (self.step + 1) % (SEGMENT_BYTES.len() + 1);
        if let Some(bytes) = self.limit() {
            cx.tell(Notice::SmallerSegments { link, bytes });
        }
    }

    /// A handshake has come through with the smallest limit, and not with a larger one. An outage
    /// that ends between two retransmissions can look like this, hardly twice in a row: the first
    /// time the limit is not kept.
    pub(crate) fn least(&mut self, cx: &mut Context, link: LinkId) {
        if self.least != Least::Before {
            self.least = Least::Now;
            return;
        }
        self.step = SEGMENT_BYTES.len();
        // That holds, whatever becomes of a silent connection that is being replaced.
        self.before.0 = self.step;
        if let Some(bytes) = self.limit() {
            cx.tell(Notice::SmallerSegments { link, bytes });
        }
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        self.trial = match self.trial {
            Trial::Next | Trial::Now => Trial::Now,
            Trial::Joined | Trial::Not => Trial::Not,
        };
    }

    /// The handshake of the last attempt has stalled.
    pub(crate) fn stalled(&mut self) {
        if self.trial == Trial::Now {
            self.trial = Trial::Not;
        } else if self.limit() != SEGMENT_BYTES.last().copied() {
            self.trial = Trial::Next;
        }
    }

    /// That attempt has led to a connection.
    pub(crate) fn passed(&mut self, cx: &mut Context, link: LinkId) {
        if self.trial == Trial::Now {
            self.trial = Trial::Joined;
            self.least(cx, link);
        }
        self.joined();
    }

    /// A connection is there.
    pub(crate) fn joined(&mut self) {
        self.least = match self.least {
            Least::Now => Least::Before,
            Least::Not | Least::Before => Least::Not,
        };
    }

    /// The network has changed.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}
