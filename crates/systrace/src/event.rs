//! Trace events and records, independent of the file format.

use mpbond_units::Timestamp;

/// Maximum number of CPUs, above that of any machine. Readers refuse larger CPU numbers, since
/// analyses keep a state for each CPU.
pub(crate) const MAX_CPUS: u32 = 16_384;

/// One kernel trace event of any format.
///
/// Texts are borrowed from the reader's buffer; a sink copies those that it keeps.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Time on the trace clock (see [`Clock`]).
    pub time: Timestamp,
    /// CPU that recorded the event.
    pub cpu: u32,
    /// Thread that was running.
    pub tid: u32,
    /// Its process id, if the format has it.
    pub tgid: Option<u32>,
    /// Name of the thread (`comm`); empty if the format does not store it with the event.
    pub comm: &'a [u8],
    /// Name of the event, such as `sched_switch`.
    pub name: &'a str,
    /// Arguments of the event.
    pub payload: Payload<'a>,
}

/// Arguments of an [`Event`]: typed if an analysis needs them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// `sched_switch`: a CPU switches from one task to another.
    Switch(Switch<'a>),
    /// `sched_wakeup`, `sched_wakeup_new`, `sched_waking`: a task becomes runnable.
    Wake(Wake<'a>),
    /// `sched_blocked_reason`: the reason of an uninterruptible sleep.
    Blocked {
        /// Blocked task.
        pid: u32,
        /// Whether the task waited for I/O.
        io_wait: bool,
        /// Kernel function in which it slept.
        caller: &'a [u8],
    },
    /// `cpu_frequency`: a CPU changes its frequency.
    Frequency {
        /// CPU number.
        cpu: u32,
        /// New frequency, kHz.
        khz: u32,
    },
    /// `cpu_idle`: a CPU enters or leaves an idle state.
    Idle {
        /// CPU number.
        cpu: u32,
        /// Idle state entered; `None` if the CPU leaves idle.
        state: Option<u32>,
    },
    /// `suspend_resume`, `device_pm_callback_start`, `device_pm_callback_end`: a power management
    /// step.
    Power {
        /// Name of the step, or driver and device.
        action: &'a [u8],
        /// Whether the step begins; otherwise it ends.
        begins: bool,
    },
    /// A userspace marker.
    Mark(Mark<'a>),
    /// `binder_transaction`: a request or reply is sent.
    BinderSend {
        /// Transaction number, unique in the trace.
        id: u64,
        /// Receiving process.
        to_process: u32,
        /// Receiving thread; 0 if any thread of the process may take it.
        to_thread: u32,
        /// Whether the transaction is a reply.
        reply: bool,
        /// Binder flags; bit 0 (`TF_ONE_WAY`) marks an asynchronous call without a reply.
        flags: u32,
        /// Method number of the interface.
        code: u32,
    },
    /// `binder_transaction_received`: a request or reply is received.
    BinderReceive {
        /// Transaction number.
        id: u64,
    },
    /// `block_rq_issue`, `block_rq_complete`: a block I/O request is issued or completed.
    Block {
        /// Whether the request is issued; otherwise it completes.
        issue: bool,
        /// Device number, as stored in the trace: major << 20 | minor.
        device: u64,
        /// First sector.
        sector: u64,
    },
    /// `irq_handler_entry`, `softirq_entry` and their exit events.
    Irq {
        /// Whether it is a hard interrupt; otherwise a softirq.
        hard: bool,
        /// Interrupt number or softirq vector.
        number: u32,
        /// Whether the handler starts; otherwise it ends.
        enter: bool,
        /// Name of the handler; empty if the trace does not have it.
        handler: &'a [u8],
    },
    /// `hrtimer_expire_entry`, `timer_expire_entry`: a kernel timer expires.
    Timer {
        /// Kernel function called by the timer. `hrtimer_wakeup` and `process_timeout` wake a task
        /// that set the timer itself.
        function: &'a [u8],
    },
    /// A packet passes a point of the kernel network path.
    Net {
        /// Point of the path.
        point: NetPoint,
        /// Address of the `sk_buff`, which identifies the packet during its lifetime.
        skb: u64,
        /// Length, bytes.
        len: u32,
        /// Network device.
        device: &'a [u8],
    },
    /// `task_newtask`, `task_rename`: a thread starts or changes its name.
    TaskName {
        /// Thread id.
        pid: u32,
        /// New name.
        comm: &'a [u8],
    },
    /// Any other event; the arguments as text in text formats, else empty.
    Other(&'a [u8]),
}

/// Points of the kernel network path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetPoint {
    /// `net_dev_queue`: the packet is passed to the queueing discipline.
    Queue,
    /// `net_dev_start_xmit`: the packet is passed to the driver.
    StartXmit,
    /// `net_dev_xmit`: the driver has accepted the packet.
    Xmit,
    /// `napi_gro_receive_entry`, `netif_rx`, `netif_receive_skb_entry`: the driver delivers the
    /// packet.
    DriverReceive,
    /// `netif_receive_skb`: the protocol stack receives the packet.
    Receive,
    /// `skb_copy_datagram_iovec`: a task copies the packet to user space.
    Copy,
    /// `consume_skb`, `kfree_skb`: the packet is freed.
    Free,
}

/// Arguments of `sched_switch`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Switch<'a> {
    /// Task switched out; `None` in Perfetto's compact form, which does not store it.
    pub prev_pid: Option<u32>,
    /// Name of the task switched out.
    pub prev_comm: &'a [u8],
    /// State of the task switched out.
    pub prev_state: TaskState,
    /// Task switched in.
    pub next_pid: u32,
    /// Name of the task switched in.
    pub next_comm: &'a [u8],
    /// Priority of the task switched in: 0 to 139, lower is more urgent, 100 and above are normal
    /// (non-real-time) priorities.
    pub next_prio: i32,
}

/// Arguments of a wake-up event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wake<'a> {
    /// Woken task.
    pub pid: u32,
    /// Name of the woken task.
    pub comm: &'a [u8],
    /// CPU whose run queue the task joins.
    pub target_cpu: u32,
    /// Whether the event is `sched_waking`, which the waker emits; `sched_wakeup` follows when the
    /// wake-up has taken effect.
    pub waking: bool,
}

/// Task state of `sched_switch`, as the letter that `ps` shows (proc(5), `/proc/pid/stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TaskState(u8);

impl TaskState {
    /// Runnable: the task yielded, or it is the idle task.
    pub const RUNNABLE: Self = Self(b'R');
    /// Runnable and preempted (`R+`); never the idle task.
    pub const PREEMPTED: Self = Self(b'+');
    /// Interruptible sleep.
    pub const SLEEPING: Self = Self(b'S');
    /// Uninterruptible sleep.
    pub const BLOCKED: Self = Self(b'D');
    /// Unknown state.
    pub const UNKNOWN: Self = Self(b'?');

    /// Parses text such as `S`, `R+`, `D|K`; `None` if the first character is not a state letter.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        if text.starts_with(b"R+") {
            return Some(Self::PREEMPTED);
        }
        let letter = *text.first()?;
        letter.is_ascii_alphabetic().then_some(Self(letter))
    }

    /// Decodes the kernel's bit mask (binary trace formats, Perfetto).
    ///
    /// The two lowest bits (`TASK_INTERRUPTIBLE`, `TASK_UNINTERRUPTIBLE`) have been stable since
    /// Linux 2.6. The higher bits have moved between versions, and no analysis distinguishes them.
    pub fn from_mask(mask: i64) -> Self {
        match mask & 0xff {
            // The bit above the states marks a preempted task; its place was 0x100, 0x400 and 0x800
            // in different kernel versions.
            0 if mask & 0xf00 != 0 => Self::PREEMPTED,
            0 => Self::RUNNABLE,
            m if m & 1 != 0 => Self::SLEEPING,
            m if m & 2 != 0 => Self::BLOCKED,
            m if m & 4 != 0 => Self(b'T'),
            m if m & 8 != 0 => Self(b't'),
            m if m & 0x10 != 0 => Self(b'X'),
            m if m & 0x20 != 0 => Self(b'Z'),
            m if m & 0x80 != 0 => Self(b'I'),
            _ => Self(b'P'),
        }
    }

    /// The state letter.
    pub fn letter(self) -> char {
        match self.0 {
            0 => '?',
            b'+' => 'R',
            letter => char::from(letter),
        }
    }

    /// Whether the task is runnable.
    pub fn is_runnable(self) -> bool {
        matches!(self, Self::RUNNABLE | Self::PREEMPTED)
    }
}

/// A userspace marker in atrace's format (`tracing_mark_write`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark<'a> {
    /// `B`: a slice begins on this thread.
    Begin {
        /// Process id in the marker.
        process: u32,
        /// Name of the slice.
        name: &'a [u8],
    },
    /// `E`: the innermost slice of this thread ends.
    End,
    /// `C`: a counter changes its value.
    Counter {
        /// Process id in the marker.
        process: u32,
        /// Name of the counter.
        name: &'a [u8],
        /// New value.
        value: i64,
    },
    /// `S`, or `G` on a track: an asynchronous slice begins; it may end on another thread.
    AsyncBegin {
        /// Process id in the marker.
        process: u32,
        /// Name of the slice; on a track `track|name`.
        name: &'a [u8],
        /// Track of the slice, if it is on one.
        track: Option<&'a [u8]>,
        /// Identifies the slice among those of the same name.
        cookie: i64,
    },
    /// `F`, or `H` on a track: an asynchronous slice ends.
    AsyncEnd {
        /// Process id in the marker.
        process: u32,
        /// Name of the slice; on a track `track|name`, or the track alone.
        name: &'a [u8],
        /// Track of the slice, if it is on one.
        track: Option<&'a [u8]>,
        /// Identifies the slice among those of the same name.
        cookie: i64,
    },
    /// `I`: an instant event.
    Instant {
        /// Process id in the marker.
        process: u32,
        /// Name of the event.
        name: &'a [u8],
    },
    /// `trace_event_clock_sync: parent_ts=…`: the time of this event on another clock.
    ClockSync {
        /// The other clock.
        clock: Clock,
        /// Time on that clock, ns.
        ns: u64,
    },
    /// Text of any other form.
    Text(&'a [u8]),
}

/// Clocks of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clock {
    /// The trace clock, which stamps the events.
    Trace,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boot,
    /// Perfetto clock id without a name here.
    Other(u32),
}

/// Reading of one clock in a snapshot of several clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Snapshot number; readings with the same number were taken together.
    pub snapshot: u32,
    /// Clock that was read.
    pub clock: Clock,
    /// Its value, ns.
    pub ns: u64,
}

/// Entry of a thread or process list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// Thread id.
    pub tid: u32,
    /// Process id, if known.
    pub process: Option<u32>,
    /// Name: of the process if `tid` is its main thread, else of the thread.
    pub name: &'a [u8],
    /// Whether the entry is marked as a kernel thread.
    pub kernel: bool,
}

/// One record of a method trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodRecord {
    /// Thread id.
    pub thread: u32,
    /// Method id; its name comes by [`Sink::method_name`](crate::Sink::method_name).
    pub method: u32,
    /// Call, return or unwind.
    pub action: MethodAction,
    /// CPU time of the thread since tracing started, µs, if the trace has the thread clock.
    pub cpu_us: Option<u32>,
    /// Wall-clock time since tracing started, µs, if the trace has the wall clock.
    pub wall_us: Option<u32>,
}

/// Action of a [`MethodRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAction {
    /// The method is called.
    Enter,
    /// The method returns.
    Exit,
    /// The method is unwound by an exception.
    Unroll,
}

/// One profiler sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// Time, if the format has it.
    pub time: Option<Timestamp>,
    /// CPU, if the format has it.
    pub cpu: Option<u32>,
    /// Process id, if the format has it.
    pub process: Option<u32>,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread.
    pub comm: &'a [u8],
    /// Sampled event, such as `cycles`.
    pub event: &'a str,
    /// Number of events since the previous sample, if the format has it.
    pub period: Option<u64>,
    /// Call stack, innermost frame first, as frame ids; names come by
    /// [`Sink::symbol`](crate::Sink::symbol) if the format has symbols.
    pub frames: &'a [u64],
}
