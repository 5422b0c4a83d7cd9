//! One direction of a relay: splice or copy, and the bound.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::time::{Instant, Sleep};

use super::batching::{After, Batching};
use super::hop::Hop;
use super::kernel_pipe::KernelPipe;
use super::lent_rate::{Grant, Pace};
use super::options::most_received_bytes;
use super::ring::Ring;
use super::sink_queue::SinkQueue;
use super::stats::Budget;
use crate::tcp;

/// Minimum receive queue for splice(2); below it the work per page costs more than copying
/// (measured by the bench `relay_cpu`).
const SPLICE_FROM_BYTES: u64 = 128 * 1024;
/// Minimum mean size of a pipe slot for splicing to pay. Single packets cost more to splice than to
/// copy (measured: 1500-byte packets at 240 Mbit/s, 2.1 against 1.7 s/GB).
const LARGE_PIECE_BYTES: u64 = 4096;
/// Bytes after which splicing is tried again: packets may have grown, because the peer changed or
/// an offload was switched on.
const TRY_AGAIN_AFTER_BYTES: u64 = 64 << 20;
/// Minimum room while the buffer is empty.
const LEAST_ROOM_BYTES: u64 = 16 * 1024;
/// SO_RCVLOWAT while batching, at most an eighth of the bound: as many bytes cause a wake-up before
/// the tick, so that an interval never fills more of the bound.
const BATCH_BYTES: u64 = 512 * 1024;
/// Bytes moved per turn before the other direction and other tasks run.
const TURN_BYTES: u64 = 1 << 20;

/// The socket of a direction that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Sink,
}

/// Reason for ending a direction.
#[derive(Debug)]
pub(super) enum Halt {
    Failed(End, io::Error),
    BudgetSpent,
}

/// Limits of what a direction may read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    pub budget: Option<&'a Budget>,
    pub pace: Option<&'a Pace>,
}

/// One direction of a relay: the buffer between its sockets and the wake-up policy.
#[derive(Debug)]
pub(super) struct Direction {
    bound_bytes: u64,
    ring: Ring,
    kernel_pipe: Option<KernelPipe>,
    splicing: Splicing,
    read_bytes: u64,
    source_ended: bool,
    finished: bool,
    /// The last write to the sink was short.
    sink_full: bool,
    /// Bound of what the sink has in flight or unsent, if it has one.
    sink_queue: Option<SinkQueue>,
    /// The last turn ended before the source was empty.
    unfinished: bool,
    /// Bytes from the source are dropped.
    discards: bool,
    /// Upper bound of the source's receive buffer in bytes.
    source_window_bytes: u64,
    /// Part of the bound reserved for the source's receive buffer, with a margin for its growth
    /// between two checks.
    reserved_bytes: u64,
    source_buffer_bytes: u64,
    /// SO_RCVLOWAT of the source.
    lowat_bytes: u64,
    batching: Batching,
    start: Instant,
    tick: Pin<Box<Sleep>>,
    /// Bytes that the pace has granted for the end of `paced`.
    granted: Option<u64>,
    paced: Pin<Box<Sleep>>,
    /// The end of `paced` is waited for.
    waits_for_pace: bool,
}

/// Whether splice(2) pays for this source's packet sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Splicing {
    Unknown,
    Pays,
    CostsUntil {
        read_bytes: u64,
    },
    /// One of the sockets is not TCP.
    Never,
}

/// Bytes moved in one turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moved {
    pub read: u64,
    pub written: u64,
}

impl Direction {
    /// One that splices if both sockets are TCP, and looks for bytes at intervals of up to
    /// `longest_tick` while they flow.
    pub(super) fn new(bound_bytes: u64, over_tcp: bool, longest_tick: Duration) -> Self {
        Self {
            bound_bytes,
            ring: Ring::default(),
            kernel_pipe: None,
            splicing: match over_tcp {
                true => Splicing::Unknown,
                false => Splicing::Never,
            },
            read_bytes: 0,
            source_ended: false,
            finished: false,
            sink_full: false,
            sink_queue: None,
            unfinished: true,
            discards: false,
            source_window_bytes: u64::MAX,
            reserved_bytes: bound_bytes,
            source_buffer_bytes: 0,
            lowat_bytes: 1,
            batching: Batching::new(longest_tick),
            start: Instant::now(),
            tick: Box::pin(tokio::time::sleep(Duration::ZERO)),
            granted: None,
            paced: Box::pin(tokio::time::sleep(Duration::ZERO)),
            waits_for_pace: false,
        }
    }

    /// Bounds what the sink, a TCP connection, has in flight or unsent.
    pub(super) fn with_short_queue(mut self, queue: SinkQueue) -> Self {
        self.sink_queue = Some(queue);
        self
    }

    /// Present interval of looking for bytes; zero when every arrival is an event.
    pub(super) fn tick(&self) -> Duration {
        self.batching.tick()
    }

    /// Whether it waits until its pace lets it read.
    pub(super) fn waits_for_pace(&self) -> bool {
        self.waits_for_pace
    }

    /// Bytes buffered between the sockets.
    pub(super) fn held_bytes(&self) -> u64 {
        self.ring.bytes() + self.in_kernel_pipe()
    }

    /// Whether the source has ended and all its bytes were written to the sink.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Drops what is held and what the source still sends, since the sink takes no more.
    pub(super) fn discard(&mut self) {
        if !self.discards {
            self.discards = true;
            self.ring = Ring::default();
            self.kernel_pipe = None;
            self.sink_full = false;
            self.sink_queue = None;
            self.unfinished = true;
        }
    }

    fn in_kernel_pipe(&self) -> u64 {
        self.kernel_pipe.as_ref().map_or(0, KernelPipe::bytes)
    }

    /// Moves bytes if an event requires it. `Pending` once wakers for all further events are
    /// registered; `Ready` when it must be called again after other tasks, or has finished.
    pub(super) fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        source: &impl Hop,
        sink: &impl Hop,
        limits: Limits<'_>,
    ) -> Poll<Result<Moved, Halt>> {
        let failed = |end| move |e| Halt::Failed(end, e);
        if self.finished {
            return Poll::Pending;
        }
        let mut due = std::mem::take(&mut self.unfinished);
        if self.sink_full
            && let Poll::Ready(r) = sink.poll_write_ready(cx)
        {
            r.map_err(failed(End::Sink))?;
            self.sink_full = false;
            self.sink_queue
                .iter_mut()
                .for_each(SinkQueue::note_writable);
            due = true;
        }
        if let Some(queue) = &mut self.sink_queue {
            due |= queue.poll_again(cx);
        }
        let (mut arrived, mut ticked) = (false, false);
        if self.waits_for_pace {
            // What arrives meanwhile waits.
            if self.paced.as_mut().poll(cx).is_ready() {
                self.waits_for_pace = false;
                due = true;
            }
        } else if !self.source_ended && self.reads_arrivals(source, sink)? {
            if let Poll::Ready(r) = source.poll_read_ready(cx) {
                r.map_err(failed(End::Source))?;
                arrived = true;
            }
            if self.batching.is_on() {
                ticked = self.tick.as_mut().poll(cx).is_ready();
            }
            due |= arrived | ticked;
        }
        if !due {
            return Poll::Pending;
        }
        let moved = self.turn(source, sink, limits)?;
        if arrived || ticked {
            let backlog = match self.batching.is_on() {
                true => self.held_bytes() + sink.unsent_bytes().map_err(failed(End::Sink))?,
                false => 0,
            };
            self.adapt(source, moved.read, ticked, backlog)
                .map_err(failed(End::Source))?;
        }
        if self.source_ended && self.held_bytes() == 0 {
            self.finished = true;
            sink.end_write().map_err(failed(End::Sink))?;
        }
        Poll::Ready(Ok(moved))
    }

    /// Bytes that may still be read from the source.
    ///
    /// While the buffer is empty there is always a little room: the sink has accepted everything,
    /// so no event of the sink would wake the task.
    fn room_bytes(&self, sink: &impl Hop) -> io::Result<u64> {
        let held = self.held_bytes();
        let room = self.own_bytes().saturating_sub(held + sink.unsent_bytes()?);
        Ok(if held == 0 {
            room.max(LEAST_ROOM_BYTES)
        } else {
            room
        })
    }

    /// Part of the bound for bytes that are held or that the sink has unsent.
    ///
    /// The source's receive buffer counts up to its largest window, because the peer fills it after
    /// reading has stopped.
    fn own_bytes(&self) -> u64 {
        self.bound_bytes.saturating_sub(self.reserved_bytes)
    }

    /// Too little room for reading before the sink's next event: bytes are held, and with what the
    /// sink has unsent they are at least half of [`Self::own_bytes`]. If reading went on until
    /// these are full, each packet that the sink sends would cause a read of one packet.
    fn has_little_room(&self, sink: &impl Hop) -> io::Result<bool> {
        Ok(self.held_bytes() > 0 && self.room_bytes(sink)? <= self.own_bytes() / 2)
    }

    /// Room for bytes that arrive; without it, fewer arrivals are events.
    fn reads_arrivals(&mut self, source: &impl Hop, sink: &impl Hop) -> Result<bool, Halt> {
        let waits = self
            .has_little_room(sink)
            .map_err(|e| Halt::Failed(End::Sink, e))?;
        self.set_lowat(source, waits)
            .map_err(|e| Halt::Failed(End::Source, e))?;
        Ok(!waits)
    }

    fn turn<S: Hop, K: Hop>(
        &mut self,
        source: &S,
        sink: &K,
        limits: Limits<'_>,
    ) -> Result<Moved, Halt> {
        let mut moved = Moved::default();
        loop {
            moved.written += self.drain(sink).map_err(|e| Halt::Failed(End::Sink, e))?;
            if self.source_ended {
                break;
            }
            if moved.read >= TURN_BYTES {
                self.unfinished = true;
                break;
            }
            let failed = |e| Halt::Failed(End::Sink, e);
            if self.has_little_room(sink).map_err(failed)? {
                break;
            }
            let room = self.room_bytes(sink).map_err(failed)?;
            let wanted = room.min(TURN_BYTES);
            let Some(allowed) = self.allowed(wanted, limits.pace) else {
                break;
            };
            let granted = limits.budget.map_or(allowed, |b| b.reserve(allowed));
            if granted == 0 {
                return Err(Halt::BudgetSpent);
            }
            let filled = self.fill::<S, K>(source, granted, moved.read > 0);
            let read = filled.as_ref().map_or(0, |f| f.bytes);
            if let Some(budget) = limits.budget {
                budget.give_back(granted - read);
            }
            if let Some(pace) = limits.pace {
                pace.give_back(allowed - read);
            }
            let filled = filled.map_err(|e| Halt::Failed(End::Source, e))?;
            moved.read += filled.bytes;
            self.read_bytes += filled.bytes;
            self.watch_buffer(source)
                .map_err(|e| Halt::Failed(End::Source, e))?;
            if filled.source_is_empty {
                moved.written += self.drain(sink).map_err(|e| Halt::Failed(End::Sink, e))?;
                break;
            }
        }
        Ok(moved)
    }

    /// Bytes that may be read now; `None` while the pace forbids it.
    fn allowed(&mut self, wanted: u64, pace: Option<&Pace>) -> Option<u64> {
        let Some(pace) = pace else {
            return Some(wanted);
        };
        if self.waits_for_pace {
            return None;
        }
        if let Some(granted) = self.granted.take().filter(|bytes| *bytes > 0) {
            let now = granted.min(wanted);
            pace.give_back(granted - now);
            return Some(now);
        }
        let Grant { bytes, at } = pace.ask(Instant::now(), wanted);
        let Some(at) = at else {
            return Some(bytes);
        };
        self.granted = Some(bytes);
        self.paced.as_mut().reset(at);
        self.waits_for_pace = true;
        None
    }

    /// Writes buffered bytes to the sink, oldest first.
    fn drain<K: Hop>(&mut self, sink: &K) -> io::Result<u64> {
        let mut written = 0;
        if self.held_bytes() == 0 {
            return Ok(0);
        }
        let room = match &mut self.sink_queue {
            Some(queue) if queue.rests() => return Ok(0),
            Some(queue) => queue.room_bytes(sink)?,
            None => u64::MAX,
        };
        if self.sink_full {
            self.sink_queue.iter_mut().for_each(SinkQueue::note_full);
            return Ok(0);
        }
        while let Some(pipe) = self.kernel_pipe.as_mut().filter(|p| p.bytes() > 0)
            && written < room
        {
            let most = room - written;
            match attempt(sink, Interest::WRITABLE, None, || pipe.drain_to(sink, most))? {
                Some(n) => written += n as u64,
                None => {
                    self.sink_full = true;
                    self.sink_queue.iter_mut().for_each(SinkQueue::note_full);
                    return Ok(written);
                }
            }
        }
        while !self.ring.front().is_empty() && written < room && self.in_kernel_pipe() == 0 {
            let front = self.ring.front();
            let most = usize::try_from(room - written).unwrap_or(usize::MAX);
            let front = front.get(..most).unwrap_or(front);
            let asked = K::IS_TCP.then_some(front.len());
            match attempt(sink, Interest::WRITABLE, asked, || sink.send(front))? {
                Some(n) => {
                    self.ring.consume(n);
                    written += n as u64;
                }
                None => {
                    self.sink_full = true;
                    self.sink_queue.iter_mut().for_each(SinkQueue::note_full);
                    break;
                }
            }
        }
        if written >= room
            && let Some(queue) = &mut self.sink_queue
        {
            queue.note_at_bound();
        }
        Ok(written)
    }

    /// Reads up to `room` bytes from the source, by splicing or copying, whichever is cheaper. In
    /// mid-turn while batching, a small remainder is left until the next tick: copying it would
    /// keep the following bytes from being spliced.
    ///
    /// `K` is the kind of the sink: only one that is no TCP connection ends while the source sends.
    fn fill<S: Hop, K: Hop>(
        &mut self,
        source: &S,
        room: u64,
        mid_turn: bool,
    ) -> io::Result<Filled> {
        // Bytes in the ring must be written first, so splicing waits until the ring is empty.
        if self.ring.bytes() == 0 && room >= SPLICE_FROM_BYTES && self.splicing_may_pay() {
            let waiting = tcp::receive_queue_bytes(source)?;
            if waiting >= SPLICE_FROM_BYTES
                && let Some(n) = self.splice_in(source, waiting.min(room))?
            {
                return Ok(Filled {
                    bytes: n,
                    source_is_empty: false,
                });
            }
            if mid_turn
                && waiting < SPLICE_FROM_BYTES
                && self.splicing == Splicing::Pays
                && self.batching.is_on()
            {
                // An arrival missed by clearing readiness here is found by the tick.
                let _ = source.try_io(Interest::READABLE, || {
                    io::Result::<()>::Err(io::ErrorKind::WouldBlock.into())
                });
                return Ok(Filled {
                    bytes: 0,
                    source_is_empty: true,
                });
            }
        }
        let into = self.ring.room();
        let len = into.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let into = into.get_mut(..len).unwrap_or_default();
        // A short read says that TCP has no more; another socket may stop at the end of a buffer.
        let asked = S::IS_TCP.then_some(len);
        match attempt(source, Interest::READABLE, asked, || {
            source.receive(&mut *into)
        })? {
            Some(0) => {
                self.source_ended = true;
                Ok(Filled {
                    bytes: 0,
                    source_is_empty: true,
                })
            }
            Some(n) => {
                if K::IS_TCP || !self.discards {
                    self.ring.filled(n);
                }
                Ok(Filled {
                    bytes: n as u64,
                    source_is_empty: S::IS_TCP && n < len,
                })
            }
            None => Ok(Filled {
                bytes: 0,
                source_is_empty: true,
            }),
        }
    }

    /// `None` when the pipe has no slot left.
    fn splice_in(&mut self, source: &impl Hop, len: u64) -> io::Result<Option<u64>> {
        let pipe = match &mut self.kernel_pipe {
            Some(pipe) => pipe,
            none => none.insert(KernelPipe::new()?),
        };
        let was_empty = pipe.bytes() == 0;
        let asked = usize::try_from(len).unwrap_or(usize::MAX);
        let n = match pipe.fill_from(source, asked) {
            // Bytes are waiting, so this is not the end of the stream.
            Ok(0) => return Ok(None),
            Ok(n) => n as u64,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        };
        if self.splicing == Splicing::Unknown && was_empty {
            // Less than requested although more was waiting: all slots were used.
            let large_pieces = n == len || n >= pipe.slots() * LARGE_PIECE_BYTES;
            self.splicing = if large_pieces {
                pipe.enlarge()?;
                Splicing::Pays
            } else {
                Splicing::CostsUntil {
                    read_bytes: self.read_bytes + TRY_AGAIN_AFTER_BYTES,
                }
            };
        }
        Ok(Some(n))
    }

    fn splicing_may_pay(&mut self) -> bool {
        if let Splicing::CostsUntil { read_bytes } = self.splicing
            && self.read_bytes >= read_bytes
        {
            self.splicing = Splicing::Unknown;
        }
        matches!(self.splicing, Splicing::Unknown | Splicing::Pays)
    }

    /// Updates the bound of the source's receive buffer: its size, or the window announced to the
    /// peer before the buffer was reduced.
    ///
    /// [`super::limit_receive_buffer`] fixes the size where the system allows. Otherwise the kernel
    /// enlarges the buffer with the rate, so keeping the bound takes a check after every read.
    ///
    /// Bytes that wait in a Unix socket are charged to their sender, within its send buffer; those
    /// of an L2 pipe are within its window, of at most 1 MiB, besides the bound.
    fn watch_buffer<S: Hop>(&mut self, source: &S) -> io::Result<()> {
        if !S::IS_TCP {
            self.reserved_bytes = 0;
            return Ok(());
        }
        let buffer = SockRef::from(source).recv_buffer_size()? as u64;
        let most = most_received_bytes(self.bound_bytes);
        if buffer == self.source_buffer_bytes && self.source_window_bytes <= most {
            return Ok(());
        }
        self.source_buffer_bytes = buffer;
        let open = source.tcp_info()?.and_then(|info| info.rcv_wnd_bytes);
        let open = open.unwrap_or(0);
        self.source_window_bytes = buffer.min(most).max(open);
        self.reserved_bytes = self.source_window_bytes + self.bound_bytes / 8;
        Ok(())
    }

    /// Starts batching when wake-ups are frequent, ends it when ticks find few bytes. `backlog` is
    /// the number of bytes that are held for the sink, or have not left it.
    fn adapt<S: Hop>(
        &mut self,
        source: &S,
        read: u64,
        ticked: bool,
        backlog: u64,
    ) -> io::Result<()> {
        if !S::IS_TCP {
            // Without SO_RCVLOWAT every arrival is an event anyway.
            return Ok(());
        }
        if self.source_ended {
            self.batching.stop();
            return self.set_lowat(source, false);
        }
        let now = Instant::now();
        let tick = match self
            .batching
            .after_turn(now - self.start, read, ticked, backlog)
        {
            After::Arrivals => return Ok(()),
            After::Stop => return self.set_lowat(source, false),
            After::Start(tick) => {
                self.set_lowat(source, false)?;
                tick
            }
            After::Tick(tick) => tick,
        };
        self.tick.as_mut().reset(now + tick);
        Ok(())
    }

    /// Sets how many bytes of the source are an event. Where it waits for room, half of the receive
    /// buffer: the kernel allows no more of a fixed one, and would enlarge another.
    fn set_lowat<S: Hop>(&mut self, source: &S, waits_for_room: bool) -> io::Result<()> {
        let bytes = match (waits_for_room, self.batching.is_on()) {
            (true, _) => (self.source_buffer_bytes / 2).max(1),
            (false, true) => (self.bound_bytes / 8).min(BATCH_BYTES),
            (false, false) => 1,
        };
        if S::IS_TCP && bytes != self.lowat_bytes {
            self.lowat_bytes = bytes;
            tcp::set_receive_lowat(source, u32::try_from(bytes).unwrap_or(u32::MAX))?;
        }
        Ok(())
    }
}

struct Filled {
    bytes: u64,
    source_is_empty: bool,
}

/// Makes one non-blocking call regardless of the runtime's cached readiness of the socket; `None`
/// when it would block.
///
/// Under SO_RCVLOWAT the kernel withholds events although bytes can be read, so a cached "not
/// ready" may be wrong. The cache is still updated: readiness is cleared after a call that would
/// block, or moved less than `asked`, if that is given.
fn attempt(
    socket: &impl Hop,
    interest: Interest,
    asked: Option<usize>,
    mut call: impl FnMut() -> io::Result<usize>,
) -> io::Result<Option<usize>> {
    let mut outcome = None;
    let _ = socket.try_io(interest, || {
        let result = call();
        let exhausted = match &result {
            Ok(n) => asked.is_some_and(|asked| *n < asked),
            Err(e) => e.kind() == io::ErrorKind::WouldBlock,
        };
        outcome = Some(result);
        if exhausted {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    });
    match outcome.unwrap_or_else(call) {
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}
