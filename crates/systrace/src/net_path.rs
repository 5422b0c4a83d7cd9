//! Delays of packets inside the kernel, by section of the network path: a delay measured from
//! outside can then be attributed to driver, protocol stack, wake-up latency or run queue.

use mpbond_statistics::Sample;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::NetPoint;
use crate::trace::{NetRecord, Trace};

/// Maximum time between two points, ns. After a longer time events of the packet are missing and
/// its `sk_buff` address has been reused.
const MAX_STEP_NS: u64 = 10_000_000_000;

/// Maximum time from a packet to the wake-up that it causes, ns.
const MAX_WAKE_NS: u64 = 1_000_000;

/// Section of the kernel network path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetStep {
    /// Transmit: from `net_dev_queue` to `net_dev_start_xmit`, in the queueing discipline.
    Queue,
    /// Transmit: in the driver, until `net_dev_xmit`; starts at `net_dev_queue` if the trace lacks
    /// `net_dev_start_xmit`.
    DriverOut,
    /// Receive: from delivery by the driver to `netif_receive_skb`.
    DriverIn,
    /// Receive: in the protocol stack, until a waiting task is woken.
    Stack,
    /// Receive: from the wake-up until the task runs (CPU idle exit and run queue).
    RunQueue,
    /// Receive: from the task's run until it has copied the packet.
    Copy,
}

/// Delays of one section over all packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetDelay {
    /// Section of the path.
    pub step: NetStep,
    /// Number of packets with this section.
    pub packets: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Median, µs.
    pub median_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// Maximum, µs.
    pub max_us: f64,
    /// Share in the total time of all sections of the same direction, percent.
    pub percent: f64,
}

/// Delays by section, transmit first; empty if the trace has no network events.
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
        let of = |s: &NetStep| matches!(s, NetStep::Queue | NetStep::DriverOut) != incoming;
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

/// Receive path after `netif_receive_skb`: the first wake-up on the same CPU, the woken task's next
/// run, and its copy of the packet.
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
    // A later packet on this CPU before the wake-up is the cause of the wake-up.
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
        // After any other event the address is that of another packet.
        .find(|n| n.skb == r.skb)
        .filter(|n| n.point == NetPoint::Copy);
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

fn delay(step: NetStep, ns: Vec<u64>, whole: u64) -> NetDelay {
    let sum: u64 = ns.iter().sum();
    let us: Sample = ns.iter().map(|ns| *ns as f64 / 1e3).collect();
    let quantile = |share: f64| us.quantile(share).unwrap_or(0.0);
    NetDelay {
        step,
        packets: ns.len() as u64,
        mean_us: sum as f64 / 1e3 / ns.len().max(1) as f64,
        median_us: quantile(0.5),
        p99_us: quantile(0.99),
        max_us: quantile(1.0),
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
    fn packet_delays_are_split_by_section() {
        let list = delays(
            "\
 app-9 [000] d..1 10.000000: net_dev_queue: dev=eth0 skbaddr=0xa1 len=100
 app-9 [000] d..1 10.000030: net_dev_start_xmit: dev=eth0 queue_mapping=0 skbaddr=0xa1 \
    vlan_tagged=0 len=100
 app-9 [000] d..1 10.000040: net_dev_xmit: dev=eth0 skbaddr=0xa1 len=100 rc=0
 <idle>-0 [001] d.s1 10.010000: napi_gro_receive_entry: dev=eth0 napi_id=0x1 queue_mapping=1 \
    skbaddr=0xb2 vlan_tagged=0 len=60
 <idle>-0 [001] d.s1 10.010005: netif_receive_skb: dev=eth0 skbaddr=0xb2 len=60
 <idle>-0 [001] d.s1 10.010025: sched_wakeup: comm=app pid=9 prio=120 target_cpu=000
 x-3 [000] d..2 10.010325: sched_switch: prev_comm=x prev_pid=3 prev_prio=120 prev_state=R ==> \
    next_comm=app next_pid=9 next_prio=120
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

    /// The first packet is freed without a copy; the second one has its address.
    #[test]
    fn the_copy_of_a_later_packet_at_the_same_address_is_not_taken() {
        let list = delays(
            "\
 <idle>-0 [001] d.s1 10.010000: netif_receive_skb: dev=eth0 skbaddr=0xb2 len=60
 <idle>-0 [001] d.s1 10.010020: sched_wakeup: comm=app pid=9 prio=120 target_cpu=000
 x-3 [000] d..2 10.010300: sched_switch: prev_comm=x prev_pid=3 prev_prio=120 prev_state=R ==> \
    next_comm=app next_pid=9 next_prio=120
 app-9 [000] d..1 10.010305: consume_skb: skbaddr=0xb2
 app-9 [000] d..2 10.010310: sched_switch: prev_comm=app prev_pid=9 prev_prio=120 prev_state=S ==> \
    next_comm=x next_pid=3 next_prio=120
 <idle>-0 [001] d.s1 10.020000: netif_receive_skb: dev=eth0 skbaddr=0xb2 len=60
 <idle>-0 [001] d.s1 10.020020: sched_wakeup: comm=app pid=9 prio=120 target_cpu=000
 x-3 [000] d..2 10.020300: sched_switch: prev_comm=x prev_pid=3 prev_prio=120 prev_state=R ==> \
    next_comm=app next_pid=9 next_prio=120
 app-9 [000] d..1 10.020310: skb_copy_datagram_iovec: skbaddr=0xb2 len=60
",
        );
        let copies = list.iter().find(|d| d.step == NetStep::Copy).unwrap();
        assert_eq!((copies.packets, copies.max_us), (1, 10.0));
    }

    #[test]
    fn a_reused_address_is_another_packet() {
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
