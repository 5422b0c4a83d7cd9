//! ftrace event bundles (`FtraceEventBundle`).

use std::collections::BTreeMap;

use mpbond_units::Timestamp;
use rustc_hash::FxHashMap;

use super::payload::{self, Symbol};
use crate::error::Incomplete;
use crate::event::{Event, MAX_CPUS, Payload, Switch, TaskState, Wake};
use crate::protobuf::{Break, Fields, Value, repeated};
use crate::sink::Sink;

/// Field number and name of every event in `ftrace_event.proto`.
const EVENT_NAMES: &str = include_str!("../../data/perfetto_ftrace_events.txt");

/// Maximum number of events outside of this table, which are named by their field number.
const MAX_UNKNOWN: usize = 4096;

/// Upper limit of valid times, ns; no clock reaches it.
const MAX_NS: u64 = 1 << 62;

/// Reader of `FtraceEventBundle` messages: the events of one CPU between two reads of its kernel
/// buffer.
pub(super) struct BundleReader {
    names: Vec<&'static str>,
    unknown: FxHashMap<u32, String>,
    /// Task that was switched in last on each CPU: the compact form lacks the previous task.
    running: FxHashMap<u32, u32>,
    /// Time and task of the first event on each CPU whose running task is not known yet.
    first_event: FxHashMap<u32, (u64, u32)>,
    lost: BTreeMap<u32, u64>,
    compact: Compact,
}

#[derive(Default)]
struct Compact {
    time: Vec<u64>,
    prev_state: Vec<u64>,
    next_pid: Vec<u64>,
    next_prio: Vec<u64>,
    next_comm: Vec<u64>,
    waking_time: Vec<u64>,
    waking_pid: Vec<u64>,
    waking_cpu: Vec<u64>,
    waking_comm: Vec<u64>,
}

impl BundleReader {
    pub(super) fn new() -> Self {
        let mut names = Vec::new();
        for line in EVENT_NAMES.lines() {
            if let Some((number, name)) = line.split_once(' ')
                && let Ok(number) = number.parse::<usize>()
            {
                if names.len() <= number {
                    names.resize(number + 1, "");
                }
                if let Some(slot) = names.get_mut(number) {
                    *slot = name;
                }
            }
        }
        Self {
            names,
            unknown: FxHashMap::default(),
            running: FxHashMap::default(),
            first_event: FxHashMap::default(),
            lost: BTreeMap::new(),
            compact: Compact::default(),
        }
    }

    /// Reads one bundle; false if part of it is damaged.
    pub(super) fn read<'s>(
        &mut self,
        bytes: &[u8],
        symbol: impl Fn(u64) -> Option<&'s Box<[u8]>>,
        sink: &mut dyn Sink,
    ) -> bool {
        const CPU: u32 = 1;
        const EVENT: u32 = 2;
        const LOST: u32 = 3;
        const COMPACT: u32 = 4;
        // The CPU is first in practice, but protobuf does not guarantee the order.
        let cpu = Fields::new(bytes)
            .find(|(n, _)| *n == CPU)
            .map_or(0, |(_, v)| v.u32());
        if cpu >= MAX_CPUS {
            return false;
        }
        let mut sound = true;
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                EVENT => sound &= self.event(cpu, value.bytes(), &symbol, sink),
                LOST if value.int() != 0 => {
                    *self.lost.entry(cpu).or_default() += 1;
                    self.running.remove(&cpu);
                    self.first_event.remove(&cpu);
                }
                COMPACT => sound &= self.compact(cpu, value.bytes(), sink).is_ok(),
                _ => {}
            }
        }
        sound && fields.broken().is_none()
    }

    fn event<'s>(
        &mut self,
        cpu: u32,
        bytes: &[u8],
        symbol: &impl Fn(u64) -> Option<&'s Box<[u8]>>,
        sink: &mut dyn Sink,
    ) -> bool {
        let (mut time, mut tid, mut content) = (0, 0, None);
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match (number, value) {
                (1, v) => time = v.int(),
                (2, v) => tid = v.u32(),
                (n, Value::Bytes(b)) => content = Some((n, b)),
                _ => {}
            }
        }
        let Some((number, body)) = content else {
            return fields.broken().is_none();
        };
        if time >= MAX_NS {
            return false;
        }
        let mut symbol_text = Symbol::default();
        let payload = payload::parse(number, body, symbol, &mut symbol_text);
        if let Payload::Switch(s) = &payload {
            self.running.insert(cpu, s.next_pid);
        } else if !self.running.contains_key(&cpu) {
            let first = self.first_event.entry(cpu).or_insert((time, tid));
            if time < first.0 {
                *first = (time, tid);
            }
        }
        let name = match self.names.get(number as usize) {
            Some(n) if !n.is_empty() => n,
            _ => self.unknown_name(number),
        };
        let generic = (number == payload::GENERIC)
            .then(|| payload::generic_name(body))
            .flatten();
        sink.event(&Event {
            time: Timestamp::from_nanos(time),
            cpu,
            tid,
            tgid: None,
            comm: &[],
            name: generic.unwrap_or(name),
            payload,
        });
        fields.broken().is_none()
    }

    #[cold]
    fn unknown_name(&mut self, number: u32) -> &str {
        if self.unknown.len() >= MAX_UNKNOWN && !self.unknown.contains_key(&number) {
            return "ftrace_event_unknown";
        }
        self.unknown
            .entry(number)
            .or_insert_with(|| format!("ftrace_event_{number}"))
    }

    /// Reads `CompactSched`: parallel arrays, with delta-encoded times.
    fn compact(&mut self, cpu: u32, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Break> {
        let c = &mut self.compact;
        let columns = [
            &mut c.time,
            &mut c.prev_state,
            &mut c.next_pid,
            &mut c.next_prio,
            &mut c.next_comm,
            &mut c.waking_time,
            &mut c.waking_pid,
            &mut c.waking_cpu,
            &mut c.waking_comm,
        ];
        for column in columns {
            column.clear();
        }
        let mut names: Vec<&[u8]> = Vec::new();
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                1 => repeated(value, &mut c.time)?,
                2 => repeated(value, &mut c.prev_state)?,
                3 => repeated(value, &mut c.next_pid)?,
                4 => repeated(value, &mut c.next_prio)?,
                5 => names.push(value.bytes()),
                6 => repeated(value, &mut c.next_comm)?,
                7 => repeated(value, &mut c.waking_time)?,
                8 => repeated(value, &mut c.waking_pid)?,
                9 => repeated(value, &mut c.waking_cpu)?,
                11 => repeated(value, &mut c.waking_comm)?,
                _ => {}
            }
        }
        if let Some(b) = fields.broken() {
            return Err(b);
        }
        let name = |list: &[u64], i: usize| -> &[u8] {
            list.get(i)
                .and_then(|n| usize::try_from(*n).ok())
                .and_then(|n| names.get(n))
                .copied()
                .unwrap_or_default()
        };
        // The task that ran before the first switch; if no earlier switch is known, that of an
        // earlier event on this CPU.
        let before = self.running.get(&cpu).copied().or_else(|| {
            let (seen, tid) = self.first_event.get(&cpu)?;
            c.time.first().is_none_or(|t| seen <= t).then_some(*tid)
        });
        let mut time = 0u64;
        for (i, delta) in c.time.iter().enumerate() {
            time = time.wrapping_add(*delta);
            let (Some(pid), Some(state)) = (c.next_pid.get(i), c.prev_state.get(i)) else {
                return Err(Break::Damaged);
            };
            if time >= MAX_NS {
                return Err(Break::Damaged);
            }
            let next_pid = u32::try_from(*pid).map_err(|_| Break::Damaged)?;
            let prev_pid = self.running.insert(cpu, next_pid).or(before);
            sink.event(&Event {
                time: Timestamp::from_nanos(time),
                cpu,
                tid: prev_pid.unwrap_or(0),
                tgid: None,
                comm: &[],
                name: "sched_switch",
                payload: Payload::Switch(Switch {
                    prev_pid,
                    prev_comm: &[],
                    prev_state: TaskState::from_mask(*state as i64),
                    next_pid,
                    next_comm: name(&c.next_comm, i),
                    next_prio: c.next_prio.get(i).map_or(0, |p| *p as i32),
                }),
            });
        }
        let mut at = 0u64;
        let switches = c.time.iter().zip(&c.next_pid).map(|(delta, pid)| {
            at = at.wrapping_add(*delta);
            (at, *pid as u32)
        });
        let mut switches = switches.peekable();
        let mut waker = before.unwrap_or(0);
        let mut time = 0u64;
        for (i, delta) in c.waking_time.iter().enumerate() {
            time = time.wrapping_add(*delta);
            let Some(pid) = c.waking_pid.get(i) else {
                return Err(Break::Damaged);
            };
            if time >= MAX_NS {
                return Err(Break::Damaged);
            }
            // The compact form does not name the waker: it is the task that runs. A switch at the
            // same time comes after the wake-up.
            while let Some((_, next)) = switches.next_if(|s| s.0 < time) {
                waker = next;
            }
            sink.event(&Event {
                time: Timestamp::from_nanos(time),
                cpu,
                tid: waker,
                tgid: None,
                comm: &[],
                name: "sched_waking",
                payload: Payload::Wake(Wake {
                    pid: u32::try_from(*pid).map_err(|_| Break::Damaged)?,
                    comm: name(&c.waking_comm, i),
                    target_cpu: c.waking_cpu.get(i).map_or(cpu, |c| *c as u32),
                    waking: true,
                }),
            });
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, sink: &mut dyn Sink) {
        for cpu in self.lost.keys() {
            sink.incomplete(Incomplete::LostEvents {
                cpu: Some(*cpu),
                count: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceBuilder;

    /// A length-delimited field; all numbers of the test fit one byte.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, content.len() as u8];
        bytes.extend_from_slice(content);
        bytes
    }

    /// Reads bundles of CPU 0, each with one `CompactSched`, into a trace.
    fn trace(bundles: &[Vec<Vec<u8>>]) -> crate::trace::Trace {
        let (mut reader, mut builder) = (BundleReader::new(), TraceBuilder::default());
        for columns in bundles {
            let mut bundle = vec![1 << 3, 0];
            bundle.extend(field(4, &columns.concat()));
            assert!(reader.read(&bundle, |_| None, &mut builder));
        }
        builder.finish()
    }

    #[test]
    fn the_waker_of_a_compact_wake_up_is_the_task_that_runs() {
        let trace = trace(&[
            // To task 7 at 10, to idle at 30, to task 8 at 50.
            vec![
                field(1, &[10, 20, 20]),
                field(2, &[0, 1, 0]),
                field(3, &[7, 0, 8]),
                // At 5, 20, 30 and 40.
                field(7, &[5, 15, 10, 10]),
                field(8, &[9, 9, 8, 7]),
            ],
            // At 60.
            vec![field(7, &[60]), field(8, &[9])],
        ]);
        let wakers: Vec<(u64, u32)> = trace.wakes.iter().map(|w| (w.ns, w.waker)).collect();
        // Nothing is known of 5; the switch at 30 comes after the wake-up; 40 is an interrupt.
        assert_eq!(wakers, [(5, 0), (20, 7), (30, 7), (40, 0), (60, 8)]);
    }

    #[test]
    fn a_bundle_of_a_cpu_that_no_machine_has_is_refused() {
        let read = |cpu: &[u8]| {
            let bundle = [[1 << 3].as_slice(), cpu].concat();
            BundleReader::new().read(&bundle, |_| None, &mut TraceBuilder::default())
        };
        // 16,383 and 16,384 as varints.
        assert!(read(&[0xff, 0x7f]));
        assert!(!read(&[0x80, 0x80, 0x01]));
    }
}
