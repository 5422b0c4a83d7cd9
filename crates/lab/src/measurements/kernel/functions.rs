//! Times of the kernel's functions on the path of a packet (delay measurement paper, Table 6), by
//! kprobes at their entries and returns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use mpbond_statistics::Sample;
use mpbond_systrace::{Event, Payload, Sink};

use crate::measurements::child;

/// Functions of Table 6: system call, name, and the kernel's symbols for it; the first that exists
/// is measured. Newer kernels have inlined functions into others, or moved their work.
pub(super) const FUNCTIONS: [(&str, &str, &[&str]); 10] = [
    ("connect", "tcp_v4_connect", &["tcp_v4_connect"]),
    ("connect, recvfrom", "tcp_v4_rcv", &["tcp_v4_rcv"]),
    ("connect", "tcp_ack", &["tcp_ack"]),
    ("connect", "tcp_send_ack", &["tcp_send_ack"]),
    ("sendto", "tcp_sendmsg", &["tcp_sendmsg"]),
    (
        "sendto",
        "tcp_transmit_skb",
        &["__tcp_transmit_skb", "tcp_transmit_skb"],
    ),
    (
        "sendto",
        "ip_queue_xmit",
        &["__ip_queue_xmit", "ip_queue_xmit"],
    ),
    (
        "sendto",
        "dev_queue_xmit",
        &["__dev_queue_xmit", "dev_queue_xmit"],
    ),
    ("recvfrom", "ip_rcv", &["ip_rcv"]),
    (
        "recvfrom",
        "netif_rx",
        &["netif_rx_internal", "__netif_rx", "netif_rx"],
    ),
];

/// Where the kernel lists its symbols.
const SYMBOLS: &str = "/proc/kallsyms";
/// Runs a command with kprobes at the entries and returns of functions (NAME=SYMBOL), which it
/// removes at the end. A function that the kernel does not allow is left out.
const SCRIPT: &str = r#"
all=$1; shift
list=/sys/kernel/tracing/kprobe_events
if [ ! -e $list ]; then
    echo 'its kernel has no kprobes (CONFIG_KPROBE_EVENTS)' >&2
    exit 3
fi
remove() {
    for one in $all; do
        for event in mpbond_${one%=*} mpbond_${one%=*}_return; do
            echo "-:kprobes/$event" >>$list
        done
    done 2>/dev/null
}
trap remove EXIT
for one in $all; do
    echo "p:kprobes/mpbond_${one%=*} ${one#*=}" >>$list
    echo "r:kprobes/mpbond_${one%=*}_return ${one#*=}" >>$list
done 2>/dev/null
"$@"
"#;
/// Runs a chain of hosts. That its links were late does not matter to functions of the kernel.
const CHAIN: &str = "\"$@\"; code=$?; [ $code -ne 4 ] || code=0; exit $code";
/// Name of the events, without that of the function.
const PREFIX: &str = "mpbond_";

/// Calls of one function, in µs.
#[derive(Debug, PartialEq)]
pub(super) struct Times {
    pub(super) calls: usize,
    pub(super) mean: f64,
    pub(super) median: f64,
    pub(super) p99: f64,
}

/// The times of the functions, by their names in Table 6, while a command of `mpbond-lab` runs
/// (`own`, with `arguments`).
///
/// # Errors
/// The reason why there are none on this machine.
pub(super) fn measure(
    own: &str,
    arguments: &[String],
    folder: &Path,
) -> Result<BTreeMap<&'static str, Times>, String> {
    let symbols = std::fs::read_to_string(SYMBOLS).map_err(|e| format!("{SYMBOLS}: {e}"))?;
    let probed = probed(&symbols);
    let trace = folder.join("functions.txt");
    let mut command = child::traced();
    command
        .args(["sh", "-c", SCRIPT, "sh", &probed.join(" "), own])
        .args(["trace", "record", "--events", "kprobes", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", CHAIN, "sh", own])
        .args(arguments);
    child::run(&mut command, &[0])?;
    let mut calls = Calls::default();
    let file = File::open(&trace).map_err(|e| e.to_string())?;
    mpbond_systrace::read(file, &mut calls).map_err(|e| e.to_string())?;
    Ok(calls.times())
}

/// `NAME=SYMBOL` of each function that the kernel has.
fn probed(symbols: &str) -> Vec<String> {
    let text = symbols.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.nth(1)?;
        words.next().filter(|_| matches!(kind, "t" | "T"))
    });
    let known: BTreeSet<&str> = text.collect();
    let found = FUNCTIONS.iter().filter_map(|(_, name, symbols)| {
        let symbol = symbols.iter().find(|s| known.contains(**s))?;
        Some(format!("{name}={symbol}"))
    });
    found.collect()
}

/// The processor, if it is an emulated one.
pub(super) fn emulated() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    name.contains("QEMU").then(|| name.to_owned())
}

/// Calls of functions.
#[derive(Debug, Default)]
struct Calls {
    /// Entries without their return, by thread and function; idle threads, whose id is 0, by their
    /// processor, too. An interrupt returns before the function that it interrupts.
    open: BTreeMap<(u32, u32, &'static str), Vec<u64>>,
    us: BTreeMap<&'static str, Vec<f64>>,
}

impl Sink for Calls {
    fn event(&mut self, event: &Event<'_>) {
        let (Payload::Other(_), Some(name)) = (event.payload, event.name.strip_prefix(PREFIX))
        else {
            return;
        };
        let at = event.time.as_nanos();
        let known = |name: &str| {
            let found = FUNCTIONS.iter().find(|(_, f, _)| *f == name);
            found.map(|(_, f, _)| *f)
        };
        let cpu = if event.tid == 0 { event.cpu } else { 0 };
        if let Some(function) = known(name) {
            let key = (event.tid, cpu, function);
            self.open.entry(key).or_default().push(at);
        } else if let Some(function) = name.strip_suffix("_return").and_then(known)
            && let Some(open) = self.open.get_mut(&(event.tid, cpu, function))
            && let Some(from) = open.pop()
        {
            let us = at.saturating_sub(from) as f64 / 1e3;
            self.us.entry(function).or_default().push(us);
        }
    }
}

impl Calls {
    fn times(self) -> BTreeMap<&'static str, Times> {
        let times = |us: Vec<f64>| {
            let (calls, us) = (us.len(), us.into_iter().collect::<Sample>());
            Some(Times {
                calls,
                mean: us.mean()?,
                median: us.quantile(0.5)?,
                p99: us.quantile(0.99)?,
            })
        };
        let all = self.us.into_iter();
        all.filter_map(|(name, us)| Some((name, times(us)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
 probe-7 [000] ..... 10.000100: mpbond_tcp_sendmsg: (tcp_sendmsg+0x0/0x50)
 probe-7 [000] ..... 10.000110: mpbond_dev_queue_xmit: (__dev_queue_xmit+0x0/0x9c0)
 probe-7 [000] ..s.. 10.000112: mpbond_tcp_v4_rcv: (tcp_v4_rcv+0x0/0x10)
 other-8 [001] ..... 10.000113: mpbond_dev_queue_xmit: (__dev_queue_xmit+0x0/0x9c0)
 probe-7 [000] ..s.. 10.000114: mpbond_tcp_v4_rcv_return: (ip_rcv+0x1/0x2 <- tcp_v4_rcv)
 probe-7 [000] ..... 10.000120: mpbond_dev_queue_xmit_return: (ip+0x1/0x2 <- __dev_queue_xmit)
 probe-7 [000] ..... 10.000150: mpbond_tcp_sendmsg_return: (sock_sendmsg+0x1/0x2 <- tcp_sendmsg)
 other-8 [001] ..... 10.000143: mpbond_dev_queue_xmit_return: (ip+0x1/0x2 <- __dev_queue_xmit)
 other-8 [001] ..... 10.000144: mpbond_tcp_ack_return: (tcp_rcv+0x1/0x2 <- tcp_ack)
 other-8 [001] ..... 10.000145: other_tcp_ack: (tcp_ack+0x0/0x10)
";

    #[test]
    fn entries_and_returns_are_paired_by_thread() {
        let mut calls = Calls::default();
        mpbond_systrace::read(TRACE.as_bytes(), &mut calls).unwrap();
        let times = calls.times();
        let found: Vec<_> = times.iter().map(|(n, t)| (*n, t.calls, t.mean)).collect();
        let wanted = [
            ("dev_queue_xmit", 2, 20.0),
            ("tcp_sendmsg", 1, 50.0),
            ("tcp_v4_rcv", 1, 2.0),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_first_symbol_that_is_code_is_probed() {
        let symbols = "ffff T tcp_v4_rcv\nffff t netif_rx_internal\nffff T __netif_rx\n\
                       ffff D tcp_ack\nffff T ip_queue_xmit\t[module]\n";
        let wanted = [
            "tcp_v4_rcv=tcp_v4_rcv",
            "ip_queue_xmit=ip_queue_xmit",
            "netif_rx=netif_rx_internal",
        ];
        assert_eq!(probed(symbols), wanted);
    }
}
