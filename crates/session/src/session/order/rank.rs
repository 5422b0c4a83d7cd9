//! Ranks of streams: by class, and within the classes interactive and bulk by the bytes that a
//! stream was given.

use crate::StreamClass;

/// Bytes since its last request up to which a bulk stream stays in a rank: an answer, a page's
/// part, a picture. What is longer is a transfer.
const LEVELS: [u64; 3] = [16 << 10, 64 << 10, 256 << 10];

/// Bytes up to which an interactive stream stays in its first rank: some full screens of a
/// terminal, a page's part. What is longer fills the paths as a download does.
const INTERACTIVE: u64 = 64 << 10;

/// Number of ranks: realtime, interactive with its two, bulk with its levels, background.
pub(in crate::session) const RANKS: usize = 1 + 2 + LEVELS.len() + 1 + 1;

/// Rank of interactive streams that are transfers: behind short exchanges, before other transfers.
const INTERACTIVE_TRANSFER: usize = 3;

/// Rank of bulk streams that are transfers however long they go on.
pub(in crate::session) const TRANSFER: usize = INTERACTIVE_TRANSFER + LEVELS.len();

/// The rank of a stream of this class that was given so many bytes since its count restarted.
pub(in crate::session) fn rank(class: StreamClass, served: u64) -> usize {
    match class {
        StreamClass::Realtime => 0,
        StreamClass::Interactive if served < INTERACTIVE => 1,
        StreamClass::Interactive => INTERACTIVE_TRANSFER,
        StreamClass::Bulk => match LEVELS.iter().filter(|level| served >= **level).count() {
            0 => 2,
            passed => INTERACTIVE_TRANSFER + passed,
        },
        StreamClass::Background => RANKS - 1,
    }
}

/// Whether a stream in this rank is a short exchange, as far as is known: realtime, or in a rank
/// that it leaves when it goes on.
pub(in crate::session) fn is_short_exchange(of: usize) -> bool {
    of < TRANSFER && of != INTERACTIVE_TRANSFER
}

/// Whether a stream in this rank may be a part of a page: bulk that is neither young nor a transfer
/// yet.
pub(in crate::session) fn is_part(of: usize) -> bool {
    of > INTERACTIVE_TRANSFER && of < TRANSFER
}

/// The first rank whose streams are transfers beside a short exchange of this rank. The ranks of
/// streams that were given least count as one: such streams are soon at their end.
pub(in crate::session) fn behind(of: usize) -> usize {
    of.max(rank(StreamClass::Bulk, 0)) + 1
}

/// Whether the streams in this rank are of a class that is sensitive to delay.
pub(in crate::session) fn is_delay_sensitive(of: usize) -> bool {
    of <= rank(StreamClass::Interactive, 0) || of == INTERACTIVE_TRANSFER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_in_their_order_and_two_of_them_by_what_they_were_given() {
        let young = StreamClass::IN_ORDER.map(|class| rank(class, 0));
        assert_eq!(young, [0, 1, 2, 7]);
        assert_eq!(RANKS, 8);
        let kib = [0, 15, 16, 63, 64, 255, 256, 1 << 40];
        let ranks = kib.map(|kib| rank(StreamClass::Bulk, kib << 10));
        assert_eq!(ranks, [2, 2, 4, 4, 5, 5, 6, 6]);
        let ranks = kib.map(|kib| rank(StreamClass::Interactive, kib << 10));
        assert_eq!(ranks, [1, 1, 1, 1, 3, 3, 3, 3]);
        for class in [StreamClass::Realtime, StreamClass::Background] {
            assert_eq!(rank(class, 0), rank(class, u64::MAX));
        }
    }
}
