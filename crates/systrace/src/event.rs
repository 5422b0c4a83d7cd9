use mpbond_units::Timestamp;

/// One kernel trace event, whichever format it came in.
///
/// Text stays borrowed from the reader's buffer: a sink copies what it keeps.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// When, on the trace's own clock (see [`Clock`]).
    pub time: Timestamp,
    /// CPU on which it was recorded.
    pub cpu: u32,
    /// Thread that was running.
    pub tid: u32,
    /// Its process, where the format says.
    pub tgid: Option<u32>,
    /// The thread's name; empty where the format does not carry it here.
    pub comm: &'a [u8],
    /// Name of the event, such as `sched_switch`.
    pub name: &'a str,
    /// What the event says.
    pub payload: Payload<'a>,
}

/// The content of an [`Event`]: typed where an analysis needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// A CPU passes from one task to another.
    Switch(Switch<'a>),
    /// A task becomes runnable (`sched_wakeup`, `sched_wakeup_new`, `sched_waking`).
    Wake(Wake<'a>),
    /// Why a task was in uninterruptible sleep (`sched_blocked_reason`).
    Blocked {
        /// The task that slept.
        pid: u32,
        /// Whether it waited for storage.
        io_wait: bool,
        /// Kernel function it slept in.
        caller: &'a [u8],
    },
    /// `cpu_frequency`.
    Frequency {
        /// CPU that changes.
        cpu: u32,
        /// New frequency, kHz.
        khz: u32,
    },
    /// `cpu_idle`: `None` when the CPU leaves idle.
    Idle {
        /// CPU that changes.
        cpu: u32,
        /// Idle state it enters.
        state: Option<u32>,
    },
    /// `suspend_resume`, `device_pm_callback_start` and kin.
    Power {
        /// Which step of suspending or resuming.
        action: &'a [u8],
        /// Whether the step begins (otherwise it ends).
        begins: bool,
    },
    /// A user-space mark.
    Mark(Mark<'a>),
    /// `binder_transaction`: a request or reply leaves a thread.
    BinderSend {
        /// Transaction number, unique in the trace.
        id: u64,
        /// Process that receives.
        to_process: u32,
        /// Thread that receives; 0 when any of the process may.
        to_thread: u32,
        /// Whether it answers an earlier transaction.
        reply: bool,
        /// Binder flags; bit 0 says that nobody waits for an answer.
        flags: u32,
        /// Method number of the interface.
        code: u32,
    },
    /// `binder_transaction_received`.
    BinderReceive {
        /// Transaction number.
        id: u64,
    },
    /// A storage request is issued (`block_rq_issue`) or complete.
    Block {
        /// Whether it is issued here (otherwise it completes).
        issue: bool,
        /// Device number as the trace gives it, packed major << 20 | minor.
        device: u64,
        /// First sector.
        sector: u64,
    },
    /// An interrupt handler or softirq starts or ends.
    Irq {
        /// Hard interrupt (otherwise softirq).
        hard: bool,
        /// Number of the interrupt or softirq vector.
        number: u32,
        /// Whether it starts here (otherwise it ends).
        enter: bool,
        /// Name of the handler, where the trace says.
        handler: &'a [u8],
    },
    /// A kernel timer expires (`hrtimer_expire_entry`, `timer_expire_entry`).
    Timer {
        /// Kernel function that it calls: `hrtimer_wakeup` and `process_timeout` wake a task that
        /// sleeps by its own wish.
        function: &'a [u8],
    },
    /// A packet passes a point of the network stack.
    Net {
        /// Which point.
        point: NetPoint,
        /// Address of the socket buffer: names the packet while it lives.
        skb: u64,
        /// Length in bytes.
        len: u32,
        /// Network device.
        device: &'a [u8],
    },
    /// A thread begins (`task_newtask`), changes its name (`task_rename`).
    TaskName {
        /// Thread.
        pid: u32,
        /// Its (new) name.
        comm: &'a [u8],
    },
    /// Anything else; text formats keep the text.
    Other(&'a [u8]),
}

/// Points of the kernel's network path that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetPoint {
    /// `net_dev_queue`: handed to the queueing discipline.
    Queue,
    /// `net_dev_start_xmit`: handed to the driver.
    StartXmit,
    /// `net_dev_xmit`: the driver took it.
    Xmit,
    /// `napi_gro_receive_entry`, `netif_rx`: the driver delivers it.
    DriverReceive,
    /// `netif_receive_skb`: the stack takes it.
    Receive,
    /// `skb_copy_datagram_iovec`: an application reads it.
    Copy,
    /// `consume_skb`, `kfree_skb`: its end.
    Free,
}

/// `sched_switch`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Switch<'a> {
    /// Task that leaves the CPU; `None` in Perfetto's compact form, which drops it.
    pub prev_pid: Option<u32>,
    /// Its name.
    pub prev_comm: &'a [u8],
    /// The state it is left in.
    pub prev_state: TaskState,
    /// Task that takes the CPU.
    pub next_pid: u32,
    /// Its name.
    pub next_comm: &'a [u8],
    /// Its priority (0–139; lower is more urgent; 100 and up is ordinary).
    pub next_prio: i32,
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wake<'a> {
    /// Task that becomes runnable.
    pub pid: u32,
    /// Its name.
    pub comm: &'a [u8],
    /// CPU whose run queue it joins.
    pub target_cpu: u32,
    /// `sched_waking`: the waker asks; `sched_wakeup` follows where it took effect.
    pub waking: bool,
}

/// A task's state as `sched_switch` gives it: the letter `ps` would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TaskState(u8);

impl TaskState {
    /// Runnable: it yielded, or it is the idle task.
    pub const RUNNABLE: Self = Self(b'R');
    /// Runnable, and preempted (`R+`), which the idle task never is.
    pub const PREEMPTED: Self = Self(b'+');
    /// Interruptible sleep.
    pub const SLEEPING: Self = Self(b'S');
    /// Uninterruptible sleep.
    pub const BLOCKED: Self = Self(b'D');
    /// Not known.
    pub const UNKNOWN: Self = Self(b'?');

    /// From text such as `S`, `R+`, `D|K`; `None` when no letter leads.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        if text.starts_with(b"R+") {
            return Some(Self::PREEMPTED);
        }
        let letter = *text.first()?;
        letter.is_ascii_alphabetic().then_some(Self(letter))
    }

    /// From the kernel's bit mask (raw trace forms, Perfetto).
    ///
    /// The two lowest bits (interruptible, uninterruptible) have been stable
    /// since 2.6; the higher ones moved, and no analysis tells them apart.
    pub fn from_mask(mask: i64) -> Self {
        match mask & 0xff {
            // The bit above the states says that the task was preempted; it has
            // been at 0x100, 0x400 and 0x800.
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

    /// The letter.
    pub fn letter(self) -> char {
        match self.0 {
            0 => '?',
            b'+' => 'R',
            letter => char::from(letter),
        }
    }

    /// Whether the task wants a CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, Self::RUNNABLE | Self::PREEMPTED)
    }
}

/// What a user-space mark says (`atrace`'s letters).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark<'a> {
    /// `B`: a span begins on this thread.
    Begin {
        /// Process that says so.
        process: u32,
        /// Name of the span.
        name: &'a [u8],
    },
    /// `E`: the innermost span of this thread ends.
    End,
    /// `C`: a counter takes a value.
    Counter {
        /// Process that says so.
        process: u32,
        /// Name of the counter.
        name: &'a [u8],
        /// Its value.
        value: i64,
    },
    /// `S`: a span that may cross threads begins.
    AsyncBegin {
        /// Process that says so.
        process: u32,
        /// Name of the span.
        name: &'a [u8],
        /// Tells spans of one name apart.
        cookie: i64,
    },
    /// `F`: such a span ends.
    AsyncEnd {
        /// Process that says so.
        process: u32,
        /// Name of the span.
        name: &'a [u8],
        /// Tells spans of one name apart.
        cookie: i64,
    },
    /// `I`: an instant.
    Instant {
        /// Process that says so.
        process: u32,
        /// Its name.
        name: &'a [u8],
    },
    /// `trace_event_clock_sync: parent_ts=…`: this instant on another clock.
    ClockSync {
        /// Which clock.
        clock: Clock,
        /// The instant on it, ns.
        ns: u64,
    },
    /// Text of some other form.
    Text(&'a [u8]),
}

/// Clocks that a trace may tell times on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clock {
    /// The trace's own clock.
    Trace,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boot,
    /// A Perfetto clock id that has no name here.
    Other(u32),
}

/// A reading of several clocks at once relates them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Groups the readings that were taken together.
    pub snapshot: u32,
    /// Which clock.
    pub clock: Clock,
    /// What it said, ns.
    pub ns: u64,
}

/// What a trace says about a thread outside of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// Thread.
    pub tid: u32,
    /// Its process, where the trace says.
    pub process: Option<u32>,
    /// Name: of the process when `tid` is its main thread, else of the thread.
    pub name: &'a [u8],
    /// Whether the trace says that it is a kernel thread.
    pub kernel: bool,
}

/// One record of a method trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodRecord {
    /// Thread that runs.
    pub thread: u32,
    /// Method, a number that [`Sink::method_name`](crate::Sink::method_name) explains.
    pub method: u32,
    /// What happens.
    pub action: MethodAction,
    /// CPU time of the thread since tracing began, where the trace has that clock.
    pub cpu_us: Option<u32>,
    /// Wall time since tracing began, where the trace has that clock.
    pub wall_us: Option<u32>,
}

/// What a [`MethodRecord`] says of its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAction {
    /// It is called.
    Enter,
    /// It returns.
    Exit,
    /// An exception leaves it.
    Unroll,
}

/// One sample of a profiler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// When, where the format says.
    pub time: Option<Timestamp>,
    /// CPU, where the format says.
    pub cpu: Option<u32>,
    /// Process, where the format says.
    pub process: Option<u32>,
    /// Thread.
    pub tid: u32,
    /// Its name.
    pub comm: &'a [u8],
    /// Event that was counted, such as `cycles`.
    pub event: &'a str,
    /// Events since the previous sample, where the format says.
    pub period: Option<u64>,
    /// The stack, innermost frame first: numbers that
    /// [`Sink::symbol`](crate::Sink::symbol) explains where the format has names.
    pub frames: &'a [u64],
}
