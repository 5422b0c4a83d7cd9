//! Memory of all sessions of a daemon, with a bound.
//!
//! Everything that a peer can make a daemon store is counted: sessions, subflows and streams by the
//! minimum that each takes, and the bytes waiting in them. Windows shrink long before the bound is
//! reached, since each session may take a fixed part of the free memory; near the bound new
//! sessions and streams are refused. Windows granted earlier can still be filled beyond it: then
//! the session that holds most is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Bytes of an idle session: measured, with the buffers of its first record.
pub(crate) const SESSION: u64 = 24 << 10;

/// Bytes of a subflow: its TLS connection, and a record that has arrived in part.
pub(crate) const SUBFLOW: u64 = 16 << 10;

/// Bytes of an idle stream's connection to an origin.
pub(crate) const STREAM: u64 = 6 << 10;

/// Bytes of a stream in its session, from its first frame until both ends are through with it: also
/// without OPEN, and after it was refused.
const KEPT_STREAM: u64 = 2 << 10;

/// Bytes of a stream's share of a subflow: its traffic there. A list has up to twice as many places
/// as shares.
const SHARE: u64 = 128;

/// Bytes of the bookkeeping of one piece that has arrived and waits: a node of a tree, and the
/// counter of the block in which its bytes are.
pub(crate) const PIECE: u64 = 128;

/// Divisor: the part of the free memory that one session may take for bytes.
const PART: u64 = 4;

/// Smallest useful part in bytes; less counts as none.
const LEAST_PART: u64 = 4 << 10;

/// Divisor: the part of the bound that is never granted for bytes, and reserved for new sessions.
const FOR_NEWCOMERS: u64 = 4;

/// Half of that quarter is for new sessions; the last eighth is for existing ones, and for bytes
/// that fill windows granted earlier.
const FOR_BYTES: u64 = 8;

/// When no more than three of these sixteenths are free, the session that holds most is closed:
/// then new sessions still find room, and bytes being read at that moment still fit.
const SIXTEENTHS: u64 = 3;

/// Minimum window of a session under memory pressure: a record or two, so that streams progress.
pub(crate) const LEAST_WINDOW: u64 = 64 << 10;

/// Bytes of a session, its subflows and streams up to which it may open streams, however small its
/// part is: some thirty.
const LEAST_OF_STREAMS: u64 = 256 << 10;

/// Shared memory accountant. Cheap to clone, and shared between threads.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    used: AtomicU64,
    sessions: AtomicU64,
    /// Peak since it was last read.
    peak: AtomicU64,
    most: AtomicU64,
    /// Notified when memory becomes short.
    shortage: Notify,
}

/// The bound leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory left")]
pub struct Full;

/// Half of the machine's memory in bytes; no bound where its size is unknown.
pub(crate) fn half_of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(512))
}

impl Memory {
    /// An accountant with this bound in bytes.
    pub fn new(most: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                used: AtomicU64::new(0),
                sessions: AtomicU64::new(0),
                peak: AtomicU64::new(0),
                most: AtomicU64::new(most),
                shortage: Notify::new(),
            }),
        }
    }

    /// No bound.
    pub fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// Bytes counted now.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn most(&self) -> u64 {
        self.shared.most.load(Ordering::Relaxed)
    }

    /// Sets the bound. What is counted already stays.
    pub(crate) fn set_most(&self, bytes: u64) {
        self.shared.most.store(bytes, Ordering::Relaxed);
        self.shared.shortage.notify_waiters();
    }

    /// Whether the bound is near: the session that holds most is to be closed.
    pub(crate) fn is_short(&self) -> bool {
        self.used() > self.plenty()
    }

    /// Use up to which the bound is not near.
    fn plenty(&self) -> u64 {
        self.most() - self.most() / 16 * SIXTEENTHS
    }

    /// Ends when memory becomes short after this call, and sometimes without that.
    pub(crate) fn shortage(&self) -> impl Future<Output = ()> + '_ {
        self.shared.shortage.notified()
    }

    /// So many bytes are used after some more have been taken.
    fn note_taken(&self, used: u64, more: u64) {
        if (used - more..used).contains(&self.plenty()) {
            self.shared.shortage.notify_waiters();
        }
    }

    /// Bytes free.
    pub(crate) fn room(&self) -> u64 {
        self.most().saturating_sub(self.used())
    }

    /// Bytes that one session may hold.
    pub(crate) fn part(&self) -> u64 {
        let most = self.most() - self.most() / FOR_NEWCOMERS;
        most.saturating_sub(self.used()) / PART
    }

    /// Peak above the current use since this was last read.
    pub(crate) fn fallen_by(&self) -> u64 {
        let used = self.used();
        let peak = self.shared.peak.swap(used, Ordering::Relaxed);
        peak.saturating_sub(used)
    }

    fn take(&self, bytes: u64) -> Result<(), Full> {
        let most = self.most() - self.most() / FOR_BYTES;
        let taken = self
            .shared
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= most)
            });
        let before = taken.map_err(|_| Full)?;
        self.note_taken(before + bytes, bytes);
        Ok(())
    }

    fn add(&self, bytes: u64) {
        let used = self.shared.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > self.shared.peak.load(Ordering::Relaxed) {
            self.shared.peak.fetch_max(used, Ordering::Relaxed);
        }
        self.note_taken(used, bytes);
    }

    fn give_back(&self, bytes: u64) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// An account for a new session.
    pub(crate) fn session(&self) -> Result<Account, Full> {
        self.take(SESSION)?;
        self.shared.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(Account {
            memory: self.clone(),
            fixed: SESSION,
            streams: 0,
            bytes: 0,
            pushed: 0,
        })
    }
}

/// Account of one session; dropping it returns everything.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Memory,
    fixed: u64,
    streams: u64,
    bytes: u64,
    pushed: u64,
}

impl Account {
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes the bytes of a subflow or stream.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Full> {
        self.memory.take(bytes)?;
        self.fixed += bytes;
        Ok(())
    }

    /// Takes the bytes of a stream's connection. A session keeps to its part with streams, too:
    /// those that one device opens and leaves idle are not to shut all others out.
    pub(crate) fn take_stream(&mut self) -> Result<(), Full> {
        if self.fixed + self.streams > self.memory.part().max(LEAST_OF_STREAMS) {
            return Err(Full);
        }
        self.take(STREAM)
    }

    /// Returns them.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.fixed);
        self.fixed -= bytes;
        self.memory.give_back(bytes);
    }

    /// Sets the number of streams that the session keeps, and of their shares of subflows.
    pub(crate) fn keeps(&mut self, streams: usize, shares: usize) {
        let bytes = streams as u64 * KEPT_STREAM + shares as u64 * SHARE;
        if bytes > self.streams {
            self.memory.add(bytes - self.streams);
        } else {
            self.memory.give_back(self.streams - bytes);
        }
        self.streams = bytes;
    }

    /// Bytes counted.
    fn counted(&self) -> u64 {
        self.fixed + self.streams + self.bytes
    }

    /// Sets the bytes waiting in the session: to be sent, which it has read itself, and to be read
    /// by applications, which the peer has sent.
    pub(crate) fn holds(&mut self, to_send: u64, pushed: u64) {
        let bytes = to_send + pushed;
        if bytes > self.bytes {
            self.memory.add(bytes - self.bytes);
        } else {
            self.memory.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        self.pushed = pushed;
    }

    /// How many more bytes the session may take in to send.
    pub(crate) fn room(&self) -> u64 {
        let own = LEAST_WINDOW.saturating_sub(self.bytes);
        let part = self.memory.part();
        let part = if part < LEAST_PART { 0 } else { part };
        part.max(own.min(self.memory.room()))
    }

    /// Whether the bound is near and this session holds more than its share, part of it sent or
    /// opened by the peer; what the session reads itself to send keeps its own distance from the
    /// bound.
    pub(crate) fn is_to_blame(&self) -> bool {
        let sessions = self.memory.shared.sessions.load(Ordering::Relaxed).max(1);
        let most = self.memory.most();
        self.memory.is_short()
            && self.pushed + self.streams > LEAST_WINDOW
            && self.counted() > most / sessions
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.memory.give_back(self.counted());
        self.memory.shared.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_bound_new_sessions_are_refused_and_all_memory_is_returned() {
        let memory = Memory::new(8 * SESSION);
        let mut inside: Vec<_> = std::iter::from_fn(|| memory.session().ok()).collect();
        assert_eq!(inside.len(), 7, "an eighth is for bytes under way");
        assert_eq!(inside[0].take(STREAM), Err(Full));
        inside.pop();
        assert_eq!(inside[0].take(STREAM), Ok(()));
        assert!(memory.session().is_err());
        inside[0].give_back(STREAM);
        inside[0].keeps(3, 2);
        assert_eq!(memory.used(), 6 * SESSION + 3 * KEPT_STREAM + 2 * SHARE);
        inside[0].keeps(0, 0);
        inside.push(memory.session().unwrap());
        inside[0].holds(1000, 0);
        inside[1].holds(500, 0);
        inside[0].holds(10, 0);
        assert_eq!(memory.used(), 7 * SESSION + 510);
        assert_eq!(memory.fallen_by(), 990);
        assert_eq!(memory.fallen_by(), 0);
        drop(inside);
        assert_eq!(memory.used(), 0);
    }

    /// A device opens all sessions that it may, and in each of them all streams.
    #[test]
    fn idle_streams_of_one_device_leave_room_for_those_of_others() {
        let memory = Memory::new(512 << 20);
        let open = |session: &mut Account| {
            let mut streams = 0;
            while session.take_stream().is_ok() {
                streams += 1;
                session.keeps(streams, 0);
            }
            streams
        };
        let mut greedy: Vec<_> = (0..16).map(|_| memory.session().unwrap()).collect();
        let first = open(&mut greedy[0]);
        // A fifth of three quarters of the bound.
        assert!((9_700..9_900).contains(&first), "{first}");
        for session in &mut greedy[1..] {
            open(session);
        }
        assert!(memory.used() < memory.most() / 4 * 3, "{}", memory.used());
        for _ in 0..100 {
            let mut other = memory.session().unwrap();
            let streams = open(&mut other);
            assert!(streams >= 28, "{streams}");
            greedy.push(other);
        }
    }

    #[test]
    fn bytes_to_send_never_pass_the_bound() {
        let memory = Memory::new(4 << 20);
        let mut sessions: Vec<_> = (0..20).map(|_| memory.session().unwrap()).collect();
        // Everybody takes all that it may, again and again.
        for _ in 0..100 {
            for s in &mut sessions {
                s.holds(s.bytes + s.room(), 0);
                assert!(memory.used() <= memory.most());
            }
        }
        assert!(memory.room() < 3 << 19, "and it is used");
        let (least, most) = (
            sessions.iter().map(|s| s.bytes).min().unwrap(),
            sessions.iter().map(|s| s.bytes).max().unwrap(),
        );
        assert!(least > 0, "{least} {most}");
    }

    #[test]
    fn who_holds_most_is_to_blame_when_the_bound_is_reached() {
        let memory = Memory::new(1 << 20);
        let (mut greedy, mut modest) = (memory.session().unwrap(), memory.session().unwrap());
        greedy.holds(0, 700 << 10);
        modest.holds(0, LEAST_WINDOW);
        assert!(!greedy.is_to_blame(), "there is room");
        modest.holds(0, 200 << 10);
        assert!(greedy.is_to_blame() && !modest.is_to_blame());
        drop(greedy);
        assert!(memory.used() < memory.most());
    }
}
