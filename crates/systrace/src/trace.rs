//! In-memory form of a trace, for analyses that need several passes.

use rustc_hash::FxHashMap;

use crate::clusters::TimeClusters;
use crate::error::Incomplete;
use crate::event::{Clock, ClockReading, Event, Mark, NetPoint, Payload, TaskState, ThreadInfo};
use crate::sink::Sink;
use crate::strings::{StringId, StringPool};
use crate::tasks::{Tasks, UNKNOWN_TASK};

/// A trace in memory, as columns of fixed-size records: 16 to 32 bytes per event of the kinds
/// listed here. Other events are not kept.
#[derive(Debug, Default)]
pub struct Trace {
    /// Task switches, by time.
    pub switches: Vec<SwitchRecord>,
    /// Wake-ups, by time.
    pub wakes: Vec<WakeRecord>,
    /// Reasons of uninterruptible sleep, by time.
    pub blocked: Vec<BlockedRecord>,
    /// Userspace slices, by start time.
    pub slices: Vec<Slice>,
    /// Asynchronous userspace slices, by start time.
    pub async_slices: Vec<AsyncSlice>,
    /// Calls of a method trace that was joined with this trace, by start time.
    pub calls: Vec<Slice>,
    /// Userspace counter values, by time.
    pub counters: Vec<CounterRecord>,
    /// Binder transactions sent and received, by time.
    pub binder: Vec<BinderRecord>,
    /// Block I/O requests issued and completed, by time.
    pub block: Vec<BlockRecord>,
    /// Frequency changes, by time.
    pub frequencies: Vec<FrequencyRecord>,
    /// Power management steps, by time.
    pub power: Vec<PowerRecord>,
    /// Interrupts, by time.
    pub irqs: Vec<IrqRecord>,
    /// Expired kernel timers, by time.
    pub timers: Vec<TimerRecord>,
    /// Packets in the kernel network path, by time.
    pub net: Vec<NetRecord>,
    /// Names, processes and classes of tasks.
    pub tasks: Tasks,
    /// Interned strings of the records.
    pub strings: StringPool,
    /// Clock snapshots.
    pub clocks: Vec<ClockReading>,
    /// Missing or damaged data.
    pub incomplete: Vec<Incomplete>,
    /// Times of the first and last event, ns, strays excluded.
    pub span: Option<(u64, u64)>,
}

/// A task switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU that switches.
    pub cpu: u32,
    /// Task switched out; `None` if the trace does not have it.
    pub prev: Option<u32>,
    /// Task switched in.
    pub next: u32,
    /// State of the task switched out.
    pub state: TaskState,
}

impl SwitchRecord {
    /// The task switched out. If the trace does not have it, its state decides between idle and
    /// [`UNKNOWN_TASK`]: the idle task never sleeps and is never preempted, and a task switched out
    /// for idle was not idle.
    pub(crate) fn prev_task(&self) -> u32 {
        match self.prev {
            Some(pid) => pid,
            None if self.state != TaskState::RUNNABLE || self.next == 0 => UNKNOWN_TASK,
            None => 0,
        }
    }
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU of the waker.
    pub cpu: u32,
    /// Task that ran there: the waker, or the task interrupted by it.
    pub waker: u32,
    /// Woken task.
    pub task: u32,
}

/// Reason of an uninterruptible sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedRecord {
    /// Time of the wake-up, ns.
    pub ns: u64,
    /// Blocked task.
    pub task: u32,
    /// Whether it waited for I/O.
    pub io_wait: bool,
    /// Kernel function in which it slept.
    pub caller: StringId,
}

/// A userspace slice on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Start, ns.
    pub start: u64,
    /// End, ns; the end of the trace if no end marker was found.
    pub end: u64,
    /// Thread id.
    pub tid: u32,
    /// Number of enclosing slices on the same thread.
    pub depth: u32,
    /// Name of the slice.
    pub name: StringId,
}

/// An asynchronous userspace slice, which may end on another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncSlice {
    /// Start, ns.
    pub start: u64,
    /// End, ns; the end of the trace if no end marker was found.
    pub end: u64,
    /// Process id.
    pub process: u32,
    /// Name of the slice.
    pub name: StringId,
}

/// A userspace counter value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRecord {
    /// Time, ns.
    pub ns: u64,
    /// Name of the counter.
    pub name: StringId,
    /// Value.
    pub value: i64,
}

/// A binder transaction sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinderRecord {
    /// Time, ns.
    pub ns: u64,
    /// Sending or receiving thread.
    pub tid: u32,
    /// Transaction number.
    pub id: u64,
    /// Request, reply or receipt.
    pub kind: BinderKind,
}

/// Kind of a [`BinderRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinderKind {
    /// A request is sent to a process.
    Request {
        /// Receiving process.
        process: u32,
        /// Whether the call is asynchronous, without a reply.
        one_way: bool,
    },
    /// A reply is sent to a thread.
    Reply {
        /// Receiving thread.
        to: u32,
    },
    /// A request or reply is received.
    Received,
}

/// A block I/O request issued or completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// Time, ns.
    pub ns: u64,
    /// Whether the request is issued; otherwise it completes.
    pub issue: bool,
    /// Device number, major << 20 | minor.
    pub device: u64,
    /// First sector.
    pub sector: u64,
}

/// A frequency change of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencyRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU number.
    pub cpu: u32,
    /// New frequency, kHz.
    pub khz: u32,
}

/// Begin or end of a power management step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerRecord {
    /// Time, ns.
    pub ns: u64,
    /// Whether the step begins; otherwise it ends.
    pub begins: bool,
    /// Name of the step.
    pub action: StringId,
}

/// Start or end of an interrupt handler or softirq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrqRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU number.
    pub cpu: u32,
    /// Whether it is a hard interrupt; otherwise a softirq.
    pub hard: bool,
    /// Whether the handler starts; otherwise it ends.
    pub enter: bool,
    /// Interrupt number or softirq vector.
    pub number: u32,
    /// Name of the handler.
    pub handler: StringId,
}

/// An expired kernel timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU number.
    pub cpu: u32,
    /// Kernel function called by the timer.
    pub function: StringId,
}

/// A packet at a point of the kernel network path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetRecord {
    /// Time, ns.
    pub ns: u64,
    /// CPU number.
    pub cpu: u32,
    /// Thread that was running.
    pub tid: u32,
    /// Point of the path.
    pub point: NetPoint,
    /// Address of the `sk_buff`.
    pub skb: u64,
    /// Length, bytes.
    pub len: u32,
}

#[derive(Debug, Clone, Copy)]
struct MarkRecord {
    ns: u64,
    tid: u32,
    /// Name of the slice that begins; `None` ends the innermost slice.
    begin: Option<StringId>,
}

#[derive(Debug, Clone, Copy)]
struct AsyncMarkRecord {
    ns: u64,
    begins: bool,
    process: u32,
    name: StringId,
    track: Option<StringId>,
    cookie: i64,
}

/// The [`Sink`] that makes a [`Trace`].
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    marks: Vec<MarkRecord>,
    async_marks: Vec<AsyncMarkRecord>,
    spans: TimeClusters,
}

impl TraceBuilder {
    /// Sorts the records, removes strays and pairs begin and end markers.
    pub fn finish(self) -> Trace {
        let Self {
            mut trace,
            mut marks,
            mut async_marks,
            spans,
        } = self;
        let Some(main) = spans.main() else {
            return trace;
        };
        if main.strays > 0 {
            trace.incomplete.push(Incomplete::Stray(main.strays));
        }
        let inside = |ns: u64| main.first <= ns && ns <= main.last;
        macro_rules! settle {
            ($($column:expr),*) => {$(
                if main.strays > 0 {
                    $column.retain(|r| inside(r.ns));
                }
                if !$column.is_sorted_by_key(|r| r.ns) {
                    $column.sort_by_key(|r| r.ns);
                }
            )*};
        }
        settle!(
            trace.switches,
            trace.wakes,
            trace.blocked,
            trace.counters,
            trace.binder,
            trace.block,
            trace.frequencies,
            trace.power,
            trace.irqs,
            trace.timers,
            trace.net,
            marks,
            async_marks
        );
        // A file concatenated with itself has exact duplicates.
        trace.switches.dedup();
        trace.tasks.name_processes();
        trace.slices = slices(&marks, main.last);
        trace.async_slices = async_slices(&async_marks, main.last);
        trace.span = Some((main.first, main.last));
        trace
    }
}

/// Pairs each end marker with the innermost open begin marker of its thread.
fn slices(marks: &[MarkRecord], end: u64) -> Vec<Slice> {
    let mut open: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    let mut list: Vec<Slice> = Vec::new();
    for m in marks {
        let stack = open.entry(m.tid).or_default();
        match m.begin {
            Some(name) => {
                list.push(Slice {
                    start: m.ns,
                    end,
                    tid: m.tid,
                    depth: stack.len() as u32,
                    name,
                });
                stack.push(list.len() - 1);
            }
            // An end marker without a begin marker belongs to a slice that began before the trace.
            None => {
                if let Some(slice) = stack.pop().and_then(|i| list.get_mut(i)) {
                    slice.end = m.ns;
                }
            }
        }
    }
    list
}

/// Pairs each end marker with the latest open begin marker of its process, name and cookie. The end
/// of a slice on a track may name the track alone.
fn async_slices(marks: &[AsyncMarkRecord], end: u64) -> Vec<AsyncSlice> {
    // Process, name or track, whether it is on a track, and cookie.
    let mut open: FxHashMap<(u32, StringId, bool, i64), Vec<usize>> = FxHashMap::default();
    let mut list: Vec<AsyncSlice> = Vec::new();
    let mut ended: Vec<bool> = Vec::new();
    for m in marks {
        let key = |name: StringId| (m.process, name, m.track.is_some(), m.cookie);
        if m.begins {
            open.entry(key(m.name)).or_default().push(list.len());
            if let Some(track) = m.track.filter(|t| *t != m.name) {
                open.entry(key(track)).or_default().push(list.len());
            }
            list.push(AsyncSlice {
                start: m.ns,
                end,
                process: m.process,
                name: m.name,
            });
            ended.push(false);
            continue;
        }
        let Some(begun) = open.get_mut(&key(m.name)) else {
            continue;
        };
        // A slice on a track that has ended under its other key is passed over.
        while let Some(i) = begun.pop() {
            if let (Some(slice), Some(ended)) = (list.get_mut(i), ended.get_mut(i))
                && !*ended
            {
                slice.end = m.ns;
                *ended = true;
                break;
            }
        }
    }
    list
}

impl Sink for TraceBuilder {
    fn event(&mut self, event: &Event<'_>) {
        let t = &mut self.trace;
        let ns = event.time.as_nanos();
        let (cpu, tid) = (event.cpu, event.tid);
        self.spans.add(ns);
        t.tasks.observe(tid, event.comm, event.tgid);
        match event.payload {
            Payload::Switch(s) => {
                if let Some(prev) = s.prev_pid {
                    t.tasks.observe(prev, s.prev_comm, None);
                }
                t.tasks.observe(s.next_pid, s.next_comm, None);
                t.switches.push(SwitchRecord {
                    ns,
                    cpu,
                    prev: s.prev_pid,
                    next: s.next_pid,
                    state: s.prev_state,
                });
            }
            Payload::Wake(w) => {
                t.tasks.observe(w.pid, w.comm, None);
                t.wakes.push(WakeRecord {
                    ns,
                    cpu,
                    waker: tid,
                    task: w.pid,
                });
            }
            Payload::Blocked {
                pid,
                io_wait,
                caller,
            } => {
                let caller = t.strings.intern(caller);
                t.blocked.push(BlockedRecord {
                    ns,
                    task: pid,
                    io_wait,
                    caller,
                });
            }
            Payload::Frequency { cpu, khz } => {
                t.frequencies.push(FrequencyRecord { ns, cpu, khz });
            }
            Payload::Power { action, begins } => {
                let action = t.strings.intern(action);
                t.power.push(PowerRecord { ns, begins, action });
            }
            Payload::Mark(mark) => self.mark(ns, tid, mark),
            Payload::BinderSend {
                id,
                to_process,
                to_thread,
                reply,
                flags,
                ..
            } => t.binder.push(BinderRecord {
                ns,
                tid,
                id,
                kind: if reply {
                    BinderKind::Reply { to: to_thread }
                } else {
                    BinderKind::Request {
                        process: to_process,
                        one_way: flags & 1 != 0,
                    }
                },
            }),
            Payload::BinderReceive { id } => t.binder.push(BinderRecord {
                ns,
                tid,
                id,
                kind: BinderKind::Received,
            }),
            Payload::Block {
                issue,
                device,
                sector,
            } => t.block.push(BlockRecord {
                ns,
                issue,
                device,
                sector,
            }),
            Payload::Irq {
                hard,
                number,
                enter,
                handler,
            } => {
                let handler = t.strings.intern(handler);
                t.irqs.push(IrqRecord {
                    ns,
                    cpu,
                    hard,
                    enter,
                    number,
                    handler,
                });
            }
            Payload::Timer { function } => {
                let function = t.strings.intern(function);
                t.timers.push(TimerRecord { ns, cpu, function });
            }
            Payload::Net {
                point, skb, len, ..
            } => t.net.push(NetRecord {
                ns,
                cpu,
                tid,
                point,
                skb,
                len,
            }),
            Payload::TaskName { pid, comm } => t.tasks.observe(pid, comm, None),
            Payload::Idle { .. } | Payload::Other(_) => {}
        }
    }

    fn thread(&mut self, info: ThreadInfo<'_>) {
        self.trace.tasks.add_info(&info);
    }

    fn clock(&mut self, reading: ClockReading) {
        // Recorders take a snapshot every few seconds; a damaged file could hold millions.
        if self.trace.clocks.len() < 1 << 20 {
            self.trace.clocks.push(reading);
        }
    }

    fn incomplete(&mut self, what: Incomplete) {
        if self.trace.incomplete.len() < 1000 {
            self.trace.incomplete.push(what);
        }
    }
}

impl TraceBuilder {
    fn mark(&mut self, ns: u64, tid: u32, mark: Mark<'_>) {
        let t = &mut self.trace;
        let begin = match mark {
            Mark::Begin { process, name } => {
                t.tasks.observe(tid, &[], Some(process));
                Some(t.strings.intern(name))
            }
            Mark::End => None,
            Mark::ClockSync { clock, ns: there } => {
                // A marker relates one other clock to the trace clock.
                let snapshot = self.trace.clocks.len() as u32;
                for (clock, ns) in [(Clock::Trace, ns), (clock, there)] {
                    self.clock(ClockReading {
                        snapshot,
                        clock,
                        ns,
                    });
                }
                return;
            }
            Mark::Counter { name, value, .. } => {
                let name = t.strings.intern(name);
                t.counters.push(CounterRecord { ns, name, value });
                return;
            }
            Mark::AsyncBegin {
                process,
                name,
                track,
                cookie,
            }
            | Mark::AsyncEnd {
                process,
                name,
                track,
                cookie,
            } => {
                let name = t.strings.intern(name);
                let track = track.map(|track| t.strings.intern(track));
                self.async_marks.push(AsyncMarkRecord {
                    ns,
                    begins: matches!(mark, Mark::AsyncBegin { .. }),
                    process,
                    name,
                    track,
                    cookie,
                });
                return;
            }
            Mark::Instant { .. } | Mark::Text(_) => return,
        };
        self.marks.push(MarkRecord { ns, tid, begin });
    }
}
