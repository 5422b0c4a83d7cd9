use rustc_hash::FxHashMap;

use crate::clusters::Clusters;
use crate::error::Incomplete;
use crate::event::{Clock, ClockReading, Event, Mark, NetPoint, Payload, TaskState, ThreadInfo};
use crate::names::{Name, Names};
use crate::sink::Sink;
use crate::tasks::Tasks;

/// A trace in memory, in columns of plain numbers: what the deeper analyses
/// walk over. About 24 bytes an event of the kinds that are kept; the rest is
/// dropped.
#[derive(Debug, Default)]
pub struct Trace {
    /// Task switches, by time.
    pub switches: Vec<SwitchRecord>,
    /// Wake-ups, by time.
    pub wakes: Vec<WakeRecord>,
    /// Reasons of uninterruptible sleep, by time.
    pub blocked: Vec<BlockedRecord>,
    /// Spans that user space marked, by their begin.
    pub slices: Vec<Slice>,
    /// Spans that may cross threads, by their begin.
    pub async_slices: Vec<AsyncSlice>,
    /// Counter values that user space marked, by time.
    pub counters: Vec<CounterRecord>,
    /// Binder transactions leaving and arriving, by time.
    pub binder: Vec<BinderRecord>,
    /// Storage requests, by time.
    pub block: Vec<BlockRecord>,
    /// Frequency changes, by time.
    pub frequencies: Vec<FrequencyRecord>,
    /// Steps of suspending and resuming, by time.
    pub power: Vec<PowerRecord>,
    /// Interrupts, by time.
    pub irqs: Vec<IrqRecord>,
    /// Timers that expire, by time.
    pub timers: Vec<TimerRecord>,
    /// Packets in the network stack, by time.
    pub net: Vec<NetRecord>,
    /// Names of and facts about tasks.
    pub tasks: Tasks,
    /// Texts of the records.
    pub names: Names,
    /// Readings of several clocks at once.
    pub clocks: Vec<ClockReading>,
    /// What is missing.
    pub incomplete: Vec<Incomplete>,
    /// First and last event, ns, strays left out.
    pub span: Option<(u64, u64)>,
}

/// A task switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRecord {
    /// When, ns.
    pub ns: u64,
    /// Where.
    pub cpu: u32,
    /// Task that leaves; `None` when the trace does not say.
    pub prev: Option<u32>,
    /// Task that comes.
    pub next: u32,
    /// State of the task that leaves.
    pub state: TaskState,
}

/// Stands for a task that ran though the trace does not say which.
pub(crate) const UNKNOWN_TASK: u32 = u32::MAX;

impl SwitchRecord {
    /// The task that ran before: idle or [`UNKNOWN_TASK`] by what its state
    /// tells, where the trace leaves it out. The idle task never sleeps and is
    /// never preempted, and what gives way to it was not idle.
    pub(crate) fn before(&self) -> u32 {
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
    /// When, ns.
    pub ns: u64,
    /// CPU of the waker.
    pub cpu: u32,
    /// Task that ran there: the waker, or what an interrupt broke into.
    pub by: u32,
    /// Task that becomes runnable.
    pub task: u32,
}

/// Why a task slept uninterruptibly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedRecord {
    /// When it was woken, ns.
    pub ns: u64,
    /// The task.
    pub task: u32,
    /// Whether it waited for storage.
    pub io_wait: bool,
    /// Kernel function it slept in.
    pub caller: Name,
}

/// A span that user space marked, on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Begin, ns.
    pub start: u64,
    /// End, ns; the end of the trace when it was never closed.
    pub end: u64,
    /// Thread.
    pub tid: u32,
    /// Spans around it on the same thread.
    pub depth: u32,
    /// Its name.
    pub name: Name,
}

/// A span that user space marked, and that may end on another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncSlice {
    /// Begin, ns.
    pub start: u64,
    /// End, ns; the end of the trace when it was never closed.
    pub end: u64,
    /// Process.
    pub process: u32,
    /// Its name.
    pub name: Name,
}

/// A counter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRecord {
    /// When, ns.
    pub ns: u64,
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: i64,
}

/// A binder transaction on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinderRecord {
    /// When, ns.
    pub ns: u64,
    /// Thread that sends or receives.
    pub tid: u32,
    /// Number of the transaction.
    pub id: u64,
    /// What happens.
    pub kind: BinderKind,
}

/// What a [`BinderRecord`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinderKind {
    /// A request leaves for a process.
    Request {
        /// Process that will serve it.
        process: u32,
        /// Whether nobody waits for a reply.
        one_way: bool,
    },
    /// A reply leaves for a thread.
    Reply {
        /// Thread that waits for it.
        to: u32,
    },
    /// A request or reply arrives.
    Received,
}

/// A storage request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// When, ns.
    pub ns: u64,
    /// Whether it is issued here (otherwise it completes).
    pub issue: bool,
    /// Device.
    pub device: u64,
    /// First sector.
    pub sector: u64,
}

/// A change of a CPU's frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencyRecord {
    /// When, ns.
    pub ns: u64,
    /// CPU.
    pub cpu: u32,
    /// New frequency, kHz.
    pub khz: u32,
}

/// A step of suspending or resuming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerRecord {
    /// When, ns.
    pub ns: u64,
    /// Whether it begins here.
    pub begins: bool,
    /// Which step.
    pub action: Name,
}

/// An interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrqRecord {
    /// When, ns.
    pub ns: u64,
    /// CPU.
    pub cpu: u32,
    /// Hard interrupt (otherwise softirq).
    pub hard: bool,
    /// Whether it begins here.
    pub enter: bool,
    /// Number.
    pub number: u32,
    /// Its handler.
    pub handler: Name,
}

/// A kernel timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerRecord {
    /// When, ns.
    pub ns: u64,
    /// CPU.
    pub cpu: u32,
    /// Kernel function that it calls.
    pub function: Name,
}

/// A packet at a point of the network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetRecord {
    /// When, ns.
    pub ns: u64,
    /// CPU.
    pub cpu: u32,
    /// Thread that ran.
    pub tid: u32,
    /// Point of the stack.
    pub point: NetPoint,
    /// The packet's socket buffer.
    pub skb: u64,
    /// Its length, bytes.
    pub len: u32,
}

#[derive(Debug, Clone, Copy)]
struct MarkRecord {
    ns: u64,
    tid: u32,
    /// `None` ends the innermost span.
    begin: Option<Name>,
}

#[derive(Debug, Clone, Copy)]
struct AsyncMarkRecord {
    ns: u64,
    begins: bool,
    process: u32,
    name: Name,
    cookie: i64,
}

/// The [`Sink`] that makes a [`Trace`].
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    marks: Vec<MarkRecord>,
    async_marks: Vec<AsyncMarkRecord>,
    spans: Clusters,
}

impl TraceBuilder {
    /// Sorts what came, leaves strays off, matches begins and ends.
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
        // A file that was joined to itself: exact repeats tell nothing new.
        trace.switches.dedup();
        trace.tasks.name_processes();
        trace.slices = slices(&marks, main.last);
        trace.async_slices = async_slices(&async_marks, main.last);
        trace.span = Some((main.first, main.last));
        trace
    }
}

/// Matches each end with the innermost open begin of its thread.
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
            // An end without a begin closes what began before the trace.
            None => {
                if let Some(slice) = stack.pop().and_then(|i| list.get_mut(i)) {
                    slice.end = m.ns;
                }
            }
        }
    }
    list
}

/// Matches each end with the latest open begin of its process, name and cookie.
fn async_slices(marks: &[AsyncMarkRecord], end: u64) -> Vec<AsyncSlice> {
    let mut open: FxHashMap<(u32, Name, i64), Vec<usize>> = FxHashMap::default();
    let mut list: Vec<AsyncSlice> = Vec::new();
    for m in marks {
        let begun = open.entry((m.process, m.name, m.cookie)).or_default();
        if m.begins {
            begun.push(list.len());
            list.push(AsyncSlice {
                start: m.ns,
                end,
                process: m.process,
                name: m.name,
            });
        } else if let Some(slice) = begun.pop().and_then(|i| list.get_mut(i)) {
            slice.end = m.ns;
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
        t.tasks.seen(tid, event.comm, event.tgid);
        match event.payload {
            Payload::Switch(s) => {
                if let Some(prev) = s.prev_pid {
                    t.tasks.seen(prev, s.prev_comm, None);
                }
                t.tasks.seen(s.next_pid, s.next_comm, None);
                t.switches.push(SwitchRecord {
                    ns,
                    cpu,
                    prev: s.prev_pid,
                    next: s.next_pid,
                    state: s.prev_state,
                });
            }
            Payload::Wake(w) => {
                t.tasks.seen(w.pid, w.comm, None);
                t.wakes.push(WakeRecord {
                    ns,
                    cpu,
                    by: tid,
                    task: w.pid,
                });
            }
            Payload::Blocked {
                pid,
                io_wait,
                caller,
            } => {
                let caller = t.names.add(caller);
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
                let action = t.names.add(action);
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
                let handler = t.names.add(handler);
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
                let function = t.names.add(function);
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
            Payload::TaskName { pid, comm } => t.tasks.seen(pid, comm, None),
            Payload::Idle { .. } | Payload::Other(_) => {}
        }
    }

    fn thread(&mut self, info: ThreadInfo<'_>) {
        self.trace.tasks.stated(&info);
    }

    fn clock(&mut self, reading: ClockReading) {
        // A snapshot every few seconds: a damaged file could hold millions.
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
                t.tasks.seen(tid, &[], Some(process));
                Some(t.names.add(name))
            }
            Mark::End => None,
            Mark::ClockSync { clock, ns: there } => {
                // Each mark reads one other clock, beside the trace's own.
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
                let name = t.names.add(name);
                t.counters.push(CounterRecord { ns, name, value });
                return;
            }
            Mark::AsyncBegin {
                process,
                name,
                cookie,
            }
            | Mark::AsyncEnd {
                process,
                name,
                cookie,
            } => {
                let name = t.names.add(name);
                self.async_marks.push(AsyncMarkRecord {
                    ns,
                    begins: matches!(mark, Mark::AsyncBegin { .. }),
                    process,
                    name,
                    cookie,
                });
                return;
            }
            Mark::Instant { .. } | Mark::Text(_) => return,
        };
        self.marks.push(MarkRecord { ns, tid, begin });
    }
}
