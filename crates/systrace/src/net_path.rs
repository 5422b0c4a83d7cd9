//! The way of a packet through the kernel, so that a delay which probes on the
//! outside find can be put down to driver, stack, wake-up or run queue.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::NetPoint;
use crate::trace::{NetRecord, Trace};

/// A packet that takes longer than this between two points was lost from the
/// trace; its buffer's address is in use again.
const MAX_STEP_NS: u64 = 10_000_000_000;

/// A wake-up that comes later than this after a packet has another reason.
const MAX_WAKE_NS: u64 = 1_000_000;

/// One part of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetStep {
    /// Outgoing: from the stack's hand-over until the driver is asked (queueing
    /// discipline).
    Queue,
    /// Outgoing: in the driver, until it took the packet; from the queue where
    /// the start is not traced.
    DriverOut,
    /// Incoming: from the driver's delivery until the stack takes it.
    DriverIn,
    /// Incoming: in the stack, until it wakes a task that waits.
    Stack,
    /// From that wake-up until the task runs: wake-up of the CPU and run queue.
    RunQueue,
    /// From the run until the task copied the packet.
    Copy,
}

/// Delays of one part over all packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetDelay {
    /// Which part.
    pub step: NetStep,
    /// Packets that have it.
    pub packets: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Half of the packets take at most this, µs.
    pub median_us: f64,
    /// 99 of 100 take at most this, µs.
    pub p99_us: f64,
    /// The longest, µs.
    pub max_us: f64,
    /// Share of the time of all parts in the same direction, percent.
    pub percent: f64,
}

/// Delays inside the machine, outgoing parts first; empty when the trace has no
/// network events.
pub fn net_delays(trace: &Trace) -> Vec<NetDelay> {
    let mut steps: FxHashMap<NetStep, Vec<u64>> = FxHashMap::default();
    let mut last: FxHashMap<u64, NetRecord> = FxHashMap::default();
    for r in &trace.net {
        let before = last.insert(r.skb, *r);
        let since = before
            .filter(|b| r.ns - b.ns <= MAX_STEP_NS)
            .map(|b| (b.point, r.ns - b.ns));
        let step = match (since, r.point) {
            (Some((NetPoint::Queue, ns)), NetPoint::StartXmit) => Some((NetStep::Queue, ns)),
            (Some((NetPoint::Queue | NetPoint::StartXmit, ns)), NetPoint::Xmit) => {
                Some((NetStep::DriverOut, ns))
            }
            (Some((NetPoint::DriverReceive, ns)), NetPoint::Receive) => {
                Some((NetStep::DriverIn, ns))
            }
            _ => None,
        };
        if let Some((step, ns)) = step {
            steps.entry(step).or_default().push(ns);
        }
        match r.point {
            NetPoint::Receive => deliver(trace, r, &mut steps),
            NetPoint::Free => {
                last.remove(&r.skb);
            }
            _ => {}
        }
    }
    let total = |incoming: bool, steps: &FxHashMap<NetStep, Vec<u64>>| -> u64 {
        let of = |s: &NetStep| !matches!(s, NetStep::Queue | NetStep::DriverOut) == incoming;
        let sums = steps.iter().filter(|(s, _)| of(s));
        sums.map(|(_, l)| l.iter().sum::<u64>()).sum()
    };
    let (out, incoming) = (total(false, &steps), total(true, &steps));
    let mut list: Vec<NetDelay> = steps
        .into_iter()
        .map(|(step, ns)| {
            let whole = match step {
                NetStep::Queue | NetStep::DriverOut => out,
                _ => incoming,
            };
            delay(step, ns, whole)
        })
        .collect();
    list.sort_by_key(|d| d.step);
    list
}

/// From the stack to the task: the first wake-up on the same CPU after the
/// packet, that task's next run, its copy of the packet.
fn deliver(trace: &Trace, r: &NetRecord, steps: &mut FxHashMap<NetStep, Vec<u64>>) {
    let at = trace.wakes.partition_point(|w| w.ns < r.ns);
    let wake = trace
        .wakes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(|w| w.ns <= r.ns + MAX_WAKE_NS)
        .find(|w| w.cpu == r.cpu);
    let Some(wake) = wake else { return };
    // A later packet on this CPU before the wake-up is the one that caused it.
    let next = trace.net.partition_point(|n| n.ns <= r.ns);
    let later = trace
        .net
        .get(next..)
        .unwrap_or_default()
        .iter()
        .take_while(|n| n.ns <= wake.ns)
        .any(|n| n.cpu == r.cpu && n.point == NetPoint::Receive);
    if later {
        return;
    }
    let from = trace.switches.partition_point(|s| s.ns < wake.ns);
    let run = trace
        .switches
        .get(from..)
        .unwrap_or_default()
        .iter()
        .take_while(|s| s.ns <= wake.ns + MAX_STEP_NS)
        .find(|s| s.next == wake.task);
    let Some(run) = run else { return };
    steps
        .entry(NetStep::Stack)
        .or_default()
        .push(wake.ns - r.ns);
    steps
        .entry(NetStep::RunQueue)
        .or_default()
        .push(run.ns - wake.ns);
    let copy = trace
        .net
        .get(next..)
        .unwrap_or_default()
        .iter()
        .take_while(|n| n.ns <= run.ns + MAX_STEP_NS)
        .find(|n| n.skb == r.skb && n.point == NetPoint::Copy);
    if let Some(copy) = copy
        && copy.tid == wake.task
        && copy.ns >= run.ns
    {
        steps
            .entry(NetStep::Copy)
            .or_default()
            .push(copy.ns - run.ns);
    }
}

fn delay(step: NetStep, mut ns: Vec<u64>, whole: u64) -> NetDelay {
    ns.sort_unstable();
    let sum: u64 = ns.iter().sum();
    let rank = |share: f64| {
        let i = ((ns.len() as f64 * share).ceil() as usize).max(1) - 1;
        ns.get(i).copied().unwrap_or(0) as f64 / 1e3
    };
    NetDelay {
        step,
        packets: ns.len() as u64,
        mean_us: sum as f64 / 1e3 / ns.len().max(1) as f64,
        median_us: rank(0.5),
        p99_us: rank(0.99),
        max_us: rank(1.0),
        percent: 100.0 * crate::activity::ratio(sum, whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceBuilder;

    fn delays(text: &str) -> Vec<NetDelay> {
        let mut builder = TraceBuilder::default();
        crate::input::read(text.as_bytes(), &mut builder).unwrap();
        net_delays(&builder.finish())
    }

    #[test]
    fn a_packet_s_way_is_taken_apart() {
        let list = delays(
            "\
 app-9 [000] d..1 10.000000: net_dev_queue: dev=eth0 skbaddr=0xa1 len=100
 app-9 [000] d..1 10.000030: net_dev_start_xmit: dev=eth0 queue_mapping=0 skbaddr=0xa1 vlan_tagged=0 len=100
 app-9 [000] d..1 10.000040: net_dev_xmit: dev=eth0 skbaddr=0xa1 len=100 rc=0
 <idle>-0 [001] d.s1 10.010000: napi_gro_receive_entry: dev=eth0 napi_id=0x1 queue_mapping=1 skbaddr=0xb2 vlan_tagged=0 len=60
 <idle>-0 [001] d.s1 10.010005: netif_receive_skb: dev=eth0 skbaddr=0xb2 len=60
 <idle>-0 [001] d.s1 10.010025: sched_wakeup: comm=app pid=9 prio=120 target_cpu=000
 x-3 [000] d..2 10.010325: sched_switch: prev_comm=x prev_pid=3 prev_prio=120 prev_state=R ==> next_comm=app next_pid=9 next_prio=120
 app-9 [000] d..1 10.010335: skb_copy_datagram_iovec: skbaddr=0xb2 len=60
",
        );
        let found: Vec<(NetStep, f64)> = list.iter().map(|d| (d.step, d.max_us)).collect();
        assert_eq!(
            found,
            vec![
                (NetStep::Queue, 30.0),
                (NetStep::DriverOut, 10.0),
                (NetStep::DriverIn, 5.0),
                (NetStep::Stack, 20.0),
                (NetStep::RunQueue, 300.0),
                (NetStep::Copy, 10.0),
            ]
        );
        let run_queue = list.iter().find(|d| d.step == NetStep::RunQueue).unwrap();
        assert!((run_queue.percent - 100.0 * 300.0 / 335.0).abs() < 1e-9);
    }

    #[test]
    fn an_address_in_use_again_is_another_packet() {
        let list = delays(
            "\
 a-9 [000] d..1 10.000000: net_dev_queue: dev=e skbaddr=0xa1 len=1
 a-9 [000] d..1 30.000000: net_dev_xmit: dev=e skbaddr=0xa1 len=1 rc=0
 a-9 [000] d..1 31.000000: net_dev_queue: dev=e skbaddr=0xa2 len=1
 a-9 [000] d..1 31.000001: consume_skb: skbaddr=0xa2
 a-9 [000] d..1 31.000002: net_dev_xmit: dev=e skbaddr=0xa2 len=1 rc=0
",
        );
        assert_eq!(list, vec![]);
    }
}
