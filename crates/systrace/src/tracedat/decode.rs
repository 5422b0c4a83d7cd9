//! Decoding of binary event records by the event formats in the file.

use mpbond_units::Timestamp;
use rustc_hash::FxHashMap;

use super::byte_order::ByteOrder;
use super::format::{EventFormat, Field};
use super::symbols::KernelSymbols;
use crate::error::Incomplete;
use crate::event::{Event, Payload, Switch, TaskState, Wake};
use crate::sink::Sink;
use crate::text;

/// Upper limit of valid times, ns; no clock reaches it.
const MAX_NS: u64 = 1 << 62;

/// Fields needed for each event, in the order in which [`payload`] uses them.
const KINDS: &[(&str, &[&str])] = &[
    (
        "sched_switch",
        &[
            "prev_comm",
            "prev_pid",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ],
    ),
    ("sched_wakeup", &["comm", "pid", "target_cpu"]),
    ("sched_wakeup_new", &["comm", "pid", "target_cpu"]),
    ("sched_waking", &["comm", "pid", "target_cpu"]),
    ("sched_blocked_reason", &["pid", "caller", "io_wait"]),
    ("cpu_idle", &["state", "cpu_id"]),
    ("cpu_frequency", &["state", "cpu_id"]),
    ("print", &["buf"]),
    ("hrtimer_expire_entry", &["function"]),
    ("timer_expire_entry", &["function"]),
    ("irq_handler_entry", &["irq", "name"]),
    ("irq_handler_exit", &["irq"]),
    ("softirq_entry", &["vec"]),
    ("softirq_exit", &["vec"]),
    ("block_rq_issue", &["dev", "sector"]),
    ("block_rq_complete", &["dev", "sector"]),
    (
        "binder_transaction",
        &["debug_id", "to_proc", "to_thread", "reply", "flags", "code"],
    ),
    ("binder_transaction_received", &["debug_id"]),
    ("task_newtask", &["pid", "comm"]),
    ("task_rename", &["pid", "newcomm"]),
    ("net_dev_queue", &["skbaddr", "len", "name"]),
    ("net_dev_start_xmit", &["skbaddr", "len", "name"]),
    ("net_dev_xmit", &["skbaddr", "len", "name"]),
    ("netif_rx", &["skbaddr", "len", "name"]),
    ("netif_receive_skb", &["skbaddr", "len", "name"]),
    ("napi_gro_receive_entry", &["skbaddr", "len", "name"]),
    ("netif_receive_skb_entry", &["skbaddr", "len", "name"]),
    ("skb_copy_datagram_iovec", &["skbaddr", "len"]),
    ("consume_skb", &["skbaddr"]),
    ("kfree_skb", &["skbaddr"]),
];

#[derive(Debug)]
struct KnownEvent {
    name: String,
    /// Location of `common_pid`.
    pid: Option<Field>,
    /// Locations of the needed fields; empty if the format lacks one.
    fields: Vec<Field>,
}

pub(super) struct Decoder {
    order: ByteOrder,
    kind: Option<Field>,
    formats: FxHashMap<u16, KnownEvent>,
    symbols: KernelSymbols,
    unknown: u64,
    damaged: u64,
}

impl Decoder {
    pub(super) fn new(order: ByteOrder) -> Self {
        Self {
            order,
            kind: None,
            formats: FxHashMap::default(),
            symbols: KernelSymbols::default(),
            unknown: 0,
            damaged: 0,
        }
    }

    /// Sets the kernel symbols.
    pub(super) fn symbols(&mut self, text: &[u8]) {
        self.symbols = KernelSymbols::of(text);
    }

    /// Adds an event format. An invalid format is ignored; records of that event are counted as
    /// unknown.
    pub(super) fn format(&mut self, text: &[u8], _system: &str) {
        let Some(format) = EventFormat::parse(text) else {
            return;
        };
        if self.kind.is_none() {
            self.kind = format.field("common_type");
        }
        let wanted = KINDS
            .iter()
            .find(|(name, _)| *name == format.name)
            .map_or([].as_slice(), |(_, fields)| *fields);
        let fields: Option<Vec<Field>> = wanted
            .iter()
            .map(|f| {
                format.field(f).or(match *f {
                    // Some kernels lack these fields; a field of 0 bytes reads as 0.
                    "target_cpu" | "io_wait" | "flags" | "code" | "next_prio" => Some(Field {
                        offset: 0,
                        size: 0,
                        signed: false,
                        dynamic: false,
                    }),
                    _ => None,
                })
            })
            .collect();
        self.formats.insert(
            format.id,
            KnownEvent {
                pid: format.field("common_pid"),
                name: format.name,
                fields: fields.unwrap_or_default(),
            },
        );
    }

    pub(super) fn record(&mut self, cpu: u32, ns: u64, record: &[u8], sink: &mut dyn Sink) {
        let order = self.order;
        let id = self.kind.map_or_else(
            || order.u16(record),
            |f| number(order, record, f).unwrap_or(0) as u16,
        );
        let Some(known) = self.formats.get(&id) else {
            self.unknown += 1;
            return;
        };
        let tid = known.pid.and_then(|f| number(order, record, f));
        let (Some(tid), true) = (tid, ns < MAX_NS) else {
            self.damaged += 1;
            return;
        };
        sink.event(&Event {
            time: Timestamp::from_nanos(ns),
            cpu,
            tid: tid as u32,
            tgid: None,
            comm: &[],
            name: &known.name,
            payload: payload(order, known, record, &self.symbols).unwrap_or(Payload::Other(&[])),
        });
    }

    pub(super) fn finish(&self, sink: &mut dyn Sink) {
        for (count, why) in [
            (self.unknown, "records without an event format"),
            (self.damaged, "damaged records"),
        ] {
            if count > 0 {
                sink.incomplete(Incomplete::Dropped(format!("{count} {why}")));
            }
        }
    }
}

fn number(order: ByteOrder, record: &[u8], f: Field) -> Option<u64> {
    let bytes = record.get(f.offset..f.offset.checked_add(f.size)?)?;
    let value = order.sized(bytes);
    Some(match (f.signed, f.size) {
        (true, 1) => value as i8 as u64,
        (true, 2) => value as i16 as u64,
        (true, 4) => value as i32 as u64,
        _ => value,
    })
}

fn string(order: ByteOrder, record: &[u8], f: Field) -> Option<&[u8]> {
    let bytes = if f.dynamic {
        // The low half is the offset, the high half the length.
        let place = number(order, record, f)? as u32;
        let (at, len) = ((place & 0xffff) as usize, (place >> 16) as usize);
        record.get(at..at + len)?
    } else if f.size == 0 {
        // `char buf[]`: extends to the end of the record.
        record.get(f.offset..)?
    } else {
        record.get(f.offset..f.offset.checked_add(f.size)?)?
    };
    bytes.get(..memchr::memchr(0, bytes).unwrap_or(bytes.len()))
}

fn payload<'a>(
    order: ByteOrder,
    known: &KnownEvent,
    record: &'a [u8],
    symbols: &'a KernelSymbols,
) -> Option<Payload<'a>> {
    let num = |i: usize| number(order, record, *known.fields.get(i)?);
    let text = |i: usize| string(order, record, *known.fields.get(i)?);
    let name = known.name.as_str();
    Some(match name {
        "sched_switch" => Payload::Switch(Switch {
            prev_comm: text(0)?,
            prev_pid: Some(num(1)? as u32),
            prev_state: TaskState::from_mask(num(2)? as i64),
            next_comm: text(3)?,
            next_pid: num(4)? as u32,
            next_prio: num(5)? as i32,
        }),
        "sched_wakeup" | "sched_wakeup_new" | "sched_waking" => Payload::Wake(Wake {
            comm: text(0)?,
            pid: num(1)? as u32,
            target_cpu: num(2)? as u32,
            waking: name == "sched_waking",
        }),
        "sched_blocked_reason" => Payload::Blocked {
            pid: num(0)? as u32,
            caller: symbols.name(num(1)?),
            io_wait: num(2)? != 0,
        },
        "cpu_idle" => {
            let state = num(0)? as u32;
            Payload::Idle {
                cpu: num(1)? as u32,
                state: (state != u32::MAX).then_some(state),
            }
        }
        "cpu_frequency" => Payload::Frequency {
            khz: num(0)? as u32,
            cpu: num(1)? as u32,
        },
        "print" => Payload::Mark(text::mark(text(0)?)),
        "hrtimer_expire_entry" | "timer_expire_entry" => Payload::Timer {
            function: symbols.name(num(0)?),
        },
        "irq_handler_entry" | "irq_handler_exit" | "softirq_entry" | "softirq_exit" => {
            Payload::Irq {
                hard: name.starts_with("irq"),
                number: num(0)? as u32,
                enter: name.ends_with("entry"),
                handler: text(1).unwrap_or_default(),
            }
        }
        "block_rq_issue" | "block_rq_complete" => Payload::Block {
            issue: name == "block_rq_issue",
            device: num(0)?,
            sector: num(1)?,
        },
        "binder_transaction" => Payload::BinderSend {
            id: num(0)?,
            to_process: num(1)? as u32,
            to_thread: num(2)? as u32,
            reply: num(3)? != 0,
            flags: num(4)? as u32,
            code: num(5)? as u32,
        },
        "binder_transaction_received" => Payload::BinderReceive { id: num(0)? },
        "task_newtask" | "task_rename" => Payload::TaskName {
            pid: num(0)? as u32,
            comm: text(1)?,
        },
        _ => Payload::Net {
            point: text::net_point(name)?,
            skb: num(0)?,
            len: num(1).unwrap_or(0) as u32,
            device: text(2).unwrap_or_default(),
        },
    })
}
