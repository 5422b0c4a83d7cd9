//! Arguments of Perfetto's ftrace events.

use crate::event::{NetPoint, Payload, Switch, TaskState, Wake};
use crate::protobuf::Fields;
use crate::text;

/// `GenericFtraceEvent`: an event outside of the schema, by name.
pub(super) const GENERIC: u32 = 327;

/// Buffer for a symbol that is only known as an address.
#[derive(Default)]
pub(super) struct Symbol(String);

/// Name of a generic event.
pub(super) fn generic_name(body: &[u8]) -> Option<&str> {
    let (_, name) = Fields::new(body).find(|(n, _)| *n == 1)?;
    std::str::from_utf8(name.bytes()).ok()
}

/// Parses the fields of an event into a typed payload; other events are only counted.
pub(super) fn parse<'a, 's: 'a>(
    number: u32,
    body: &'a [u8],
    symbol: &impl Fn(u64) -> Option<&'s Box<[u8]>>,
    room: &'a mut Symbol,
) -> Payload<'a> {
    let fields = Fields::new(body);
    match number {
        3 => {
            let buf = fields.filter(|(n, _)| *n == 2).last();
            Payload::Mark(text::mark(buf.map(|(_, v)| v.bytes()).unwrap_or_default()))
        }
        4 => switch(fields),
        17 | 20 | 114 => wake(fields, number == 20),
        11 => {
            let (mut khz, mut cpu) = (0, 0);
            for (n, v) in fields {
                match n {
                    1 => khz = v.u32(),
                    2 => cpu = v.u32(),
                    _ => {}
                }
            }
            Payload::Frequency { cpu, khz }
        }
        13 => {
            let (mut state, mut cpu) = (0, 0);
            for (n, v) in fields {
                match n {
                    1 => state = v.int() as u32,
                    2 => cpu = v.u32(),
                    _ => {}
                }
            }
            Payload::Idle {
                cpu,
                state: (state != u32::MAX).then_some(state),
            }
        }
        18 => {
            let (mut pid, mut address, mut io_wait) = (0, 0, false);
            for (n, v) in fields {
                match n {
                    1 => pid = v.u32(),
                    2 => address = v.int(),
                    3 => io_wait = v.int() != 0,
                    _ => {}
                }
            }
            let caller = match symbol(address) {
                Some(s) => s,
                None => {
                    room.0 = format!("{address:#x}");
                    room.0.as_bytes()
                }
            };
            Payload::Blocked {
                pid,
                io_wait,
                caller,
            }
        }
        24 | 25 => softirq(fields, number == 24),
        36 | 37 => irq(fields, number == 36),
        45 | 125 => {
            let (mut device, mut sector) = (0, 0);
            for (n, v) in fields {
                match n {
                    1 => device = v.int(),
                    2 => sector = v.int(),
                    _ => {}
                }
            }
            Payload::Block {
                issue: number == 45,
                device,
                sector,
            }
        }
        50 => binder(fields),
        51 => Payload::BinderReceive {
            id: fields
                .filter(|(n, _)| *n == 1)
                .last()
                .map_or(0, |f| f.1.int()),
        },
        113 => {
            let (mut action, mut begins) = ([].as_slice(), false);
            for (n, v) in fields {
                match n {
                    1 => action = v.bytes(),
                    3 => begins = v.int() != 0,
                    _ => {}
                }
            }
            Payload::Power { action, begins }
        }
        235 | 236 => {
            // task_newtask: pid 1, comm 2; task_rename: pid 1, newcomm 3.
            let column = if number == 235 { 2 } else { 3 };
            let (mut pid, mut comm) = (0, [].as_slice());
            for (n, v) in fields {
                if n == 1 {
                    pid = v.u32();
                } else if n == column {
                    comm = v.bytes();
                }
            }
            Payload::TaskName { pid, comm }
        }
        NET_RECEIVE | NET_XMIT => {
            let (mut len, mut device, mut skb) = (0, [].as_slice(), 0);
            let address = if number == NET_RECEIVE { 3 } else { 4 };
            for (n, v) in fields {
                match n {
                    1 => len = v.u32(),
                    2 => device = v.bytes(),
                    n if n == address => skb = v.int(),
                    _ => {}
                }
            }
            let point = if number == NET_RECEIVE {
                NetPoint::Receive
            } else {
                NetPoint::Xmit
            };
            Payload::Net {
                point,
                skb,
                len,
                device,
            }
        }
        _ => Payload::Other(&[]),
    }
}

const NET_RECEIVE: u32 = 360;
const NET_XMIT: u32 = 361;

fn switch<'a>(fields: Fields<'a>) -> Payload<'a> {
    let mut s = Switch {
        prev_pid: Some(0),
        prev_comm: &[],
        prev_state: TaskState::RUNNABLE,
        next_pid: 0,
        next_comm: &[],
        next_prio: 0,
    };
    for (n, v) in fields {
        match n {
            1 => s.prev_comm = v.bytes(),
            2 => s.prev_pid = Some(v.u32()),
            4 => s.prev_state = TaskState::from_mask(v.int() as i64),
            5 => s.next_comm = v.bytes(),
            6 => s.next_pid = v.u32(),
            7 => s.next_prio = v.i32(),
            _ => {}
        }
    }
    Payload::Switch(s)
}

fn wake<'a>(fields: Fields<'a>, waking: bool) -> Payload<'a> {
    let mut w = Wake {
        pid: 0,
        comm: &[],
        target_cpu: 0,
        waking,
    };
    for (n, v) in fields {
        match n {
            1 => w.comm = v.bytes(),
            2 => w.pid = v.u32(),
            5 => w.target_cpu = v.u32(),
            _ => {}
        }
    }
    Payload::Wake(w)
}

fn binder<'a>(fields: Fields<'a>) -> Payload<'a> {
    let (mut id, mut process, mut thread) = (0, 0, 0);
    let (mut is_reply, mut bits, mut method) = (false, 0, 0);
    for (n, v) in fields {
        match n {
            1 => id = v.int(),
            3 => process = v.u32(),
            4 => thread = v.u32(),
            5 => is_reply = v.int() != 0,
            6 => method = v.u32(),
            7 => bits = v.u32(),
            _ => {}
        }
    }
    Payload::BinderSend {
        id,
        to_process: process,
        to_thread: thread,
        reply: is_reply,
        flags: bits,
        code: method,
    }
}

fn irq<'a>(fields: Fields<'a>, enter: bool) -> Payload<'a> {
    let (mut number, mut handler) = (0, [].as_slice());
    for (n, v) in fields {
        match n {
            1 => number = v.u32(),
            2 if enter => handler = v.bytes(),
            _ => {}
        }
    }
    Payload::Irq {
        hard: true,
        number,
        enter,
        handler,
    }
}

fn softirq<'a>(fields: Fields<'a>, enter: bool) -> Payload<'a> {
    let number = fields.filter(|(n, _)| *n == 1).last();
    Payload::Irq {
        hard: false,
        number: number.map_or(0, |f| f.1.u32()),
        enter,
        handler: &[],
    }
}
