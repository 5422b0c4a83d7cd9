//! Arguments of ftrace text events.

use super::digits::{decimal, hex};
use super::pretty;
use crate::event::{Clock, Mark, NetPoint, Payload, Switch, TaskState, Wake};

/// Parses the arguments of an event into a typed payload; unknown events and arguments that do not
/// parse stay text.
pub(super) fn parse<'a>(name: &str, args: &'a [u8]) -> Payload<'a> {
    typed(name, args).unwrap_or(Payload::Other(args))
}

fn typed<'a>(name: &str, args: &'a [u8]) -> Option<Payload<'a>> {
    Some(match name {
        "sched_switch" => return switch(args).or_else(|| pretty::switch(args)),
        "sched_wakeup" | "sched_wakeup_new" => {
            return wake(args, false).or_else(|| pretty::wake(args, false));
        }
        "sched_waking" => return wake(args, true).or_else(|| pretty::wake(args, true)),
        "tracing_mark_write" | "print" | "0" => Payload::Mark(mark(args)),
        "cpu_idle" => {
            let state = field(args, b"state=")? as u32;
            Payload::Idle {
                cpu: field(args, b"cpu_id=")? as u32,
                // -1: the CPU leaves idle.
                state: (state != u32::MAX).then_some(state),
            }
        }
        "cpu_frequency" => Payload::Frequency {
            khz: field(args, b"state=")? as u32,
            cpu: field(args, b"cpu_id=")? as u32,
        },
        "sched_blocked_reason" => Payload::Blocked {
            pid: field(args, b"pid=")? as u32,
            io_wait: field(args, b"iowait=")? != 0,
            caller: word(args, b"caller=").unwrap_or_default(),
        },
        "suspend_resume" | "device_pm_callback_start" | "device_pm_callback_end" => {
            let begins = match name {
                "suspend_resume" => args.ends_with(b"begin"),
                _ => name.ends_with("start"),
            };
            let step = args
                .strip_suffix(b" begin")
                .or_else(|| args.strip_suffix(b" end"));
            // Callbacks name driver and device first; the rest differs between start and end.
            let device = args.get(..memchr::memchr(b',', args).unwrap_or(args.len()));
            Payload::Power {
                action: step.or(device).unwrap_or(args),
                begins,
            }
        }
        "binder_transaction" => Payload::BinderSend {
            id: field(args, b"transaction=")?,
            to_process: field(args, b"dest_proc=")? as u32,
            to_thread: field(args, b"dest_thread=")? as u32,
            reply: field(args, b"reply=")? != 0,
            flags: hex_field(args, b"flags=").unwrap_or(0) as u32,
            code: hex_field(args, b"code=").unwrap_or(0) as u32,
        },
        "binder_transaction_received" => Payload::BinderReceive {
            id: field(args, b"transaction=")?,
        },
        "block_rq_issue" | "block_rq_complete" => {
            let (device, sector) = block(args)?;
            Payload::Block {
                issue: name == "block_rq_issue",
                device,
                sector,
            }
        }
        "irq_handler_entry" | "irq_handler_exit" => Payload::Irq {
            hard: true,
            number: field(args, b"irq=")? as u32,
            enter: name.ends_with("entry"),
            handler: word(args, b"name=").unwrap_or_default(),
        },
        "softirq_entry" | "softirq_exit" => Payload::Irq {
            hard: false,
            number: field(args, b"vec=")? as u32,
            enter: name.ends_with("entry"),
            handler: word(args, b"[action=")
                .map(|w| w.strip_suffix(b"]").unwrap_or(w))
                .unwrap_or_default(),
        },
        "hrtimer_expire_entry" | "timer_expire_entry" => Payload::Timer {
            function: word(args, b"function=")?,
        },
        "task_newtask" => Payload::TaskName {
            pid: field(args, b"pid=")? as u32,
            comm: between(args, b"comm=", b" clone_flags=")?,
        },
        "task_rename" => Payload::TaskName {
            pid: field(args, b"pid=")? as u32,
            comm: between(args, b"newcomm=", b" oom_score_adj=")?,
        },
        _ => {
            let point = net_point(name)?;
            let address = word(args, b"skbaddr=")?;
            Payload::Net {
                point,
                skb: hex(address.strip_prefix(b"0x").unwrap_or(address))?,
                len: field(args, b"len=").unwrap_or(0) as u32,
                device: word(args, b"dev=").unwrap_or_default(),
            }
        }
    })
}

/// Point of the network path of an event.
pub(crate) fn net_point(name: &str) -> Option<NetPoint> {
    Some(match name {
        "net_dev_queue" => NetPoint::Queue,
        "net_dev_start_xmit" => NetPoint::StartXmit,
        "net_dev_xmit" => NetPoint::Xmit,
        "netif_rx" | "napi_gro_receive_entry" | "netif_receive_skb_entry" => {
            NetPoint::DriverReceive
        }
        "netif_receive_skb" => NetPoint::Receive,
        "skb_copy_datagram_iovec" => NetPoint::Copy,
        "consume_skb" | "kfree_skb" => NetPoint::Free,
        _ => return None,
    })
}

/// `prev_comm=… prev_pid=… prev_prio=… prev_state=… [==>] next_comm=… next_pid=… next_prio=…`;
/// parsed in one pass from left to right, because it is the most frequent line.
fn switch(args: &[u8]) -> Option<Payload<'_>> {
    let rest = args.strip_prefix(b"prev_comm=")?;
    let (prev_comm, rest) = until(rest, b" prev_pid=")?;
    let (prev_pid, rest) = pid(rest)?;
    let rest = rest.strip_prefix(b" prev_prio=")?;
    let (_, rest) = prio(rest)?;
    let rest = rest.strip_prefix(b" prev_state=")?;
    let prev_state = match decimal(rest) {
        Some(mask) => TaskState::from_mask(mask as i64),
        None => TaskState::from_text(rest)?,
    };
    let next = memchr::memchr(b'=', rest).and_then(|i| {
        // Either `R ==> next_comm=` or `64 next_comm=`: the first equals sign of the arrow is
        // followed by another one.
        let mut at = i;
        while rest.get(at + 1) == Some(&b'=') || rest.get(at + 1) == Some(&b'>') {
            at += 1 + memchr::memchr(b'=', rest.get(at + 1..)?)?;
        }
        rest.get(..at)?.ends_with(b"next_comm").then_some(at + 1)
    })?;
    let (next_comm, rest) = until(rest.get(next..)?, b" next_pid=")?;
    let (next_pid, rest) = pid(rest)?;
    let next_prio = rest
        .strip_prefix(b" next_prio=")
        .and_then(prio)
        .map_or(0, |(p, _)| p);
    Some(Payload::Switch(Switch {
        prev_pid: Some(prev_pid),
        prev_comm,
        prev_state,
        next_pid,
        next_comm,
        next_prio,
    }))
}

fn wake(args: &[u8], waking: bool) -> Option<Payload<'_>> {
    let rest = args.strip_prefix(b"comm=")?;
    let (comm, rest) = until(rest, b" pid=")?;
    let (pid, rest) = pid(rest)?;
    Some(Payload::Wake(Wake {
        pid,
        comm,
        target_cpu: field(rest, b"target_cpu=")? as u32,
        waking,
    }))
}

/// Splits at the first `key`. Names are short, so a linear scan is fastest.
fn until<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b' ', text.get(at..)?)?;
        let rest = text.get(at..)?;
        if let Some(after) = rest.strip_prefix(key) {
            return Some((text.get(..at)?, after));
        }
        at += 1;
    }
}

/// A pid. `-1`, which some kernels print for an exited task, is refused.
fn pid(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = decimal(text.get(..digits)?)?;
    Some((u32::try_from(value).ok()?, text.get(digits..)?))
}

fn prio(text: &[u8]) -> Option<(i32, &[u8])> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (value, rest) = pid(digits)?;
    Some((sign * i32::try_from(value).ok()?, rest))
}

/// Text after `key`, which ends in an equals sign and begins a word.
fn after<'a>(args: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    for at in memchr::memchr_iter(b'=', args) {
        let head = args.get(..=at)?;
        if let Some(before) = head.strip_suffix(key)
            && before.last().is_none_or(|b| *b == b' ')
        {
            return args.get(at + 1..);
        }
    }
    None
}

/// Number after `key`. Negative numbers wrap, such as -1 of `cpu_idle`.
fn field(args: &[u8], key: &[u8]) -> Option<u64> {
    let text = after(args, key)?;
    match text.strip_prefix(b"-") {
        Some(digits) => Some(decimal(digits)?.wrapping_neg()),
        None => decimal(text),
    }
}

fn hex_field(args: &[u8], key: &[u8]) -> Option<u64> {
    let text = after(args, key)?;
    match text.strip_prefix(b"0x") {
        Some(digits) => hex(digits),
        None => decimal(text),
    }
}

/// Word after `key`.
fn word<'a>(args: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let text = after(args, key)?;
    text.get(..memchr::memchr(b' ', text).unwrap_or(text.len()))
}

fn between<'a>(args: &'a [u8], key: &[u8], end: &[u8]) -> Option<&'a [u8]> {
    let text = after(args, key)?;
    text.get(..memchr::memmem::find(text, end)?)
}

/// `8,0 R 16384 () 5455360 + 32 [comm]`: device number and first sector.
fn block(args: &[u8]) -> Option<(u64, u64)> {
    let major = decimal(args)?;
    let comma = memchr::memchr(b',', args)?;
    let minor = decimal(args.get(comma + 1..)?)?;
    let plus = memchr::memmem::find(args, b" + ")?;
    let head = args.get(..plus)?;
    let sector = decimal(head.get(memchr::memrchr(b' ', head)? + 1..)?)?;
    Some(((major << 20) | (minor & 0xf_ffff), sector))
}

/// Parses a userspace marker in atrace's format: `B|pid|name`, `E`, `C|pid|name|value`,
/// `S|pid|name|cookie`, `F|…`, `I|…`, their variants with tracks (`G|pid|track|name|cookie`,
/// `H|pid|track|cookie` or, of older versions of Android, `H|pid|track|name|cookie`), and clock
/// syncs.
pub(crate) fn mark(text: &[u8]) -> Mark<'_> {
    let text = text.strip_prefix(b"tracing_mark_write: ").unwrap_or(text);
    let text = text.trim_ascii_end();
    structured(text).unwrap_or(Mark::Text(text))
}

fn structured(text: &[u8]) -> Option<Mark<'_>> {
    if let Some(rest) = text.strip_prefix(b"trace_event_clock_sync: ") {
        return clock_sync(rest);
    }
    let letter = *text.first()?;
    let rest = text.get(1..)?;
    if letter == b'E' && (rest.is_empty() || rest.starts_with(b"|")) {
        return Some(Mark::End);
    }
    let rest = rest.strip_prefix(b"|")?;
    let bar = memchr::memchr(b'|', rest)?;
    let process = u32::try_from(decimal(rest.get(..bar)?)?).ok()?;
    let body = rest.get(bar + 1..)?;
    // The name may contain bars; the value is after the last one.
    let last = || -> Option<(&[u8], i64)> {
        let bar = memchr::memrchr(b'|', body)?;
        let value = std::str::from_utf8(body.get(bar + 1..)?).ok()?;
        Some((body.get(..bar)?, value.trim().parse().ok()?))
    };
    Some(match letter {
        b'B' => Mark::Begin {
            process,
            name: body,
        },
        b'C' => {
            let (name, value) = last()?;
            Mark::Counter {
                process,
                name,
                value,
            }
        }
        b'S' | b'G' => {
            let (name, cookie) = last()?;
            Mark::AsyncBegin {
                process,
                name,
                track: (letter == b'G').then(|| track(name)),
                cookie,
            }
        }
        b'F' | b'H' => {
            let (name, cookie) = last()?;
            Mark::AsyncEnd {
                process,
                name,
                track: (letter == b'H').then(|| track(name)),
                cookie,
            }
        }
        b'I' | b'N' => Mark::Instant {
            process,
            name: body,
        },
        _ => return None,
    })
}

/// The track of `track|name`, or of a track alone. A track has no bar, a name may have some.
fn track(name: &[u8]) -> &[u8] {
    name.get(..memchr::memchr(b'|', name).unwrap_or(name.len()))
        .unwrap_or(name)
}

/// Clock sync: `parent_ts=683201.375000` (s, CLOCK_MONOTONIC) or `realtime_ts=3720325137` (ms).
fn clock_sync(text: &[u8]) -> Option<Mark<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let (clock, ns) = if let Some(v) = text.strip_prefix("parent_ts=") {
        (Clock::Monotonic, v.trim().parse::<f64>().ok()? * 1e9)
    } else {
        let v = text.strip_prefix("realtime_ts=")?;
        (Clock::Realtime, v.trim().parse::<f64>().ok()? * 1e6)
    };
    (ns.is_finite() && ns >= 0.0).then_some(Mark::ClockSync {
        clock,
        ns: ns as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_every_spelling_agree() {
        let kv = switch(
            b"prev_comm=a b prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=c=d \
        next_pid=0 next_prio=120",
        )
        .unwrap();
        let Payload::Switch(s) = kv else {
            unreachable!("a switch")
        };
        assert_eq!(
            (s.prev_comm, s.next_comm),
            (b"a b".as_slice(), b"c=d".as_slice())
        );
        assert_eq!((s.prev_pid, s.next_pid), (Some(12), 0));
        assert!(s.prev_state.is_runnable());
        let raw = switch(
            b"prev_comm=a prev_pid=1 prev_prio=-1 prev_state=1 next_comm=b next_pid=2 next_prio=97",
        )
        .unwrap();
        let Payload::Switch(s) = raw else {
            unreachable!("a switch")
        };
        assert_eq!(s.prev_state, TaskState::SLEEPING);
        assert_eq!(s.next_prio, 97);
        assert!(switch(b"prev_comm=a prev_pid=1 prev_prio=1 prev_state=S").is_none());
    }

    #[test]
    fn marks() {
        assert_eq!(
            mark(b"B|12|a|b"),
            Mark::Begin {
                process: 12,
                name: b"a|b"
            }
        );
        assert_eq!(mark(b"E|12"), Mark::End);
        assert_eq!(mark(b"E"), Mark::End);
        assert_eq!(
            mark(b"C|12|x|-3"),
            Mark::Counter {
                process: 12,
                name: b"x",
                value: -3
            }
        );
        assert_eq!(
            mark(b"trace_event_clock_sync: parent_ts=1.5"),
            Mark::ClockSync {
                clock: Clock::Monotonic,
                ns: 1_500_000_000
            }
        );
        assert_eq!(mark(b"Ends here"), Mark::Text(b"Ends here"));
        assert_eq!(mark(b"C|12|x|y"), Mark::Text(b"C|12|x|y"));
    }

    #[test]
    fn marks_on_a_track_name_it_before_the_slice() {
        let begin = |track, name| Mark::AsyncBegin {
            process: 12,
            name,
            track,
            cookie: 5,
        };
        let end = |track, name| Mark::AsyncEnd {
            process: 12,
            name,
            track,
            cookie: 5,
        };
        let jobs: Option<&[u8]> = Some(b"jobs");
        assert_eq!(mark(b"G|12|jobs|a|b|5"), begin(jobs, b"jobs|a|b"));
        assert_eq!(mark(b"H|12|jobs|a|b|5"), end(jobs, b"jobs|a|b"));
        assert_eq!(mark(b"H|12|jobs|5"), end(jobs, b"jobs"));
        // The name of a slice without a track may have bars.
        assert_eq!(mark(b"S|12|a|b|5"), begin(None, b"a|b"));
        assert_eq!(mark(b"F|12|a|b|5"), end(None, b"a|b"));
    }

    #[test]
    fn other_payloads() {
        assert_eq!(
            parse("cpu_idle", b"state=4294967295 cpu_id=3"),
            Payload::Idle {
                cpu: 3,
                state: None
            }
        );
        assert_eq!(
            parse("block_rq_issue", b"8,0 R 16384 () 5455360 + 32 [sh]"),
            Payload::Block {
                issue: true,
                device: 8 << 20,
                sector: 5_455_360
            }
        );
        assert_eq!(
            parse("suspend_resume", b"suspend_enter[3] begin"),
            Payload::Power {
                action: b"suspend_enter[3]",
                begins: true
            }
        );
        assert_eq!(
            parse("netif_receive_skb", b"dev=eth0 skbaddr=0xffff0010 len=60"),
            Payload::Net {
                point: NetPoint::Receive,
                skb: 0xffff_0010,
                len: 60,
                device: b"eth0"
            }
        );
        assert_eq!(parse("cpu_idle", b"junk"), Payload::Other(b"junk"));
    }
}
