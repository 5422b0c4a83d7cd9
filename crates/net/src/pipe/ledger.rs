//! Octets in the queue of a socket whose kernel counts memory instead of octets.

use std::collections::VecDeque;

/// Maximum number of writes that are told apart; beyond it the oldest ones are taken together. A
/// send buffer of the default size (net.core.wmem_default, 208 KiB) holds fewer than 300.
const MOST_WRITES: usize = 1024;

/// The writes whose octets may still be in a socket's queue.
///
/// Each is kept with its cost, the memory that the kernel counts for it. The queue is in order, so
/// the outstanding memory is that of the newest writes.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    writes: VecDeque<Write>,
    /// Sums over `writes`.
    bytes: u64,
    cost: u64,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    bytes: u64,
    cost: u64,
}

impl Ledger {
    /// Notes a write and the memory by which it raised the kernel's count.
    ///
    /// The other end may have read in the meantime, so the true cost may be higher; it is at least
    /// the number of octets.
    pub(crate) fn wrote(&mut self, bytes: u64, cost: u64) {
        if bytes == 0 {
            return;
        }
        let cost = cost.max(bytes);
        self.bytes += bytes;
        self.cost += cost;
        self.writes.push_back(Write { bytes, cost });
        if self.writes.len() > MOST_WRITES
            && let Some(oldest) = self.writes.pop_front()
            && let Some(next) = self.writes.front_mut()
        {
            next.bytes += oldest.bytes;
            next.cost += oldest.cost;
        }
    }

    /// Octets in the queue while the kernel counts `outstanding` octets of memory; never too few.
    ///
    /// Exact where the count stands for whole writes. Of a write that has left in part, as many
    /// octets count as the rest of the memory could hold: the kernel splits a write into buffers
    /// of unequal overhead, so their shares are not known.
    pub(crate) fn queued(&mut self, outstanding: u64) -> u64 {
        while let Some(oldest) = self.writes.front()
            && self.cost - oldest.cost >= outstanding
        {
            self.bytes -= oldest.bytes;
            self.cost -= oldest.cost;
            self.writes.pop_front();
        }
        let Some(oldest) = self.writes.front() else {
            return 0;
        };
        let newer = self.cost - oldest.cost;
        self.bytes - oldest.bytes + oldest.bytes.min(outstanding - newer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_newest_writes_are_outstanding() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.queued(0), 0);
        ledger.wrote(100, 1000);
        ledger.wrote(0, 0);
        ledger.wrote(500, 2000);
        ledger.wrote(10, 800);
        assert_eq!(ledger.queued(9000), 610, "not more than was written");
        assert_eq!(ledger.queued(3800), 610);
        assert_eq!(ledger.queued(3300), 610, "perhaps all of the first");
        assert_eq!(ledger.queued(2850), 560, "at most 50 of the first");
        assert_eq!(ledger.queued(2800), 510);
        assert_eq!(ledger.queued(800), 10);
        assert_eq!(ledger.queued(1), 1);
        assert_eq!(ledger.queued(0), 0);
        // The other end read while this was written.
        ledger.wrote(700, 0);
        assert_eq!(ledger.queued(700), 700);
        assert_eq!(ledger.queued(0), 0);
    }

    #[test]
    fn writes_are_bounded() {
        let mut ledger = Ledger::default();
        for _ in 0..10_000 {
            ledger.wrote(1, 768);
        }
        assert_eq!(ledger.writes.len(), MOST_WRITES);
        assert_eq!(ledger.queued(10_000 * 768), 10_000);
        assert_eq!(ledger.queued(500 * 768), 500);
    }

    /// A socket as the kernel has it: a write is split into buffers, each of which is charged until
    /// all of it has been read.
    #[derive(Default)]
    struct Socket {
        /// Octets, those read, and the charge.
        buffers: VecDeque<(u64, u64, u64)>,
    }

    impl Socket {
        fn write(&mut self, bytes: u64, largest: u64) {
            let mut left = bytes;
            while left > 0 {
                let size = left.min(largest);
                self.buffers.push_back((size, 0, cost(size)));
                left -= size;
            }
        }

        fn outstanding(&self) -> u64 {
            self.buffers.iter().map(|(_, _, cost)| cost).sum()
        }

        fn waiting(&self) -> u64 {
            self.buffers
                .iter()
                .map(|(bytes, read, _)| bytes - read)
                .sum()
        }

        fn read(&mut self, mut bytes: u64) {
            while let Some((size, read, _)) = self.buffers.front_mut()
                && bytes > 0
            {
                let taken = bytes.min(*size - *read);
                bytes -= taken;
                *read += taken;
                if read == size {
                    self.buffers.pop_front();
                }
            }
        }
    }

    /// Like the truesize of an skb: a header, and a power of two.
    fn cost(bytes: u64) -> u64 {
        (bytes + 320).next_power_of_two() + 256
    }

    proptest! {
        #[test]
        fn the_queue_is_exact_where_each_write_is_one_buffer_and_none_is_read_meanwhile(
            steps in proptest::collection::vec((1_u64..40_000, 0_u64..60_000), 1..200),
        ) {
            let mut socket = Socket::default();
            let mut ledger = Ledger::default();
            for (size, read) in steps {
                ledger.wrote(size, cost(size));
                socket.write(size, size);
                socket.read(read);
                let part_read = socket.buffers.front().map_or(0, |(_, read, _)| *read);
                let queued = ledger.queued(socket.outstanding());
                prop_assert_eq!(queued, socket.waiting() + part_read);
            }
        }

        /// Buffers of a write differ in their overhead, and the other end reads at any time, also
        /// between the two counts of a write.
        #[test]
        fn the_queue_is_never_too_short_and_empty_when_it_is(
            steps in proptest::collection::vec(
                (1_u64..40_000, 100_u64..40_000, 0_u64..60_000, 0_u64..500),
                1..200,
            ),
        ) {
            let mut socket = Socket::default();
            let mut ledger = Ledger::default();
            for (size, largest, read, read_meanwhile) in steps {
                let before = socket.outstanding();
                socket.read(read_meanwhile);
                socket.write(size, largest);
                ledger.wrote(size, socket.outstanding().saturating_sub(before));
                socket.read(read);
                let queued = ledger.queued(socket.outstanding());
                prop_assert!(queued >= socket.waiting(), "{} of {}", queued, socket.waiting());
                prop_assert!(socket.waiting() > 0 || queued == 0);
            }
        }
    }
}
