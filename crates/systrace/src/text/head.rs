//! The fixed part of an ftrace text line.

use mpbond_units::Timestamp;

use crate::event::MAX_CPUS;

/// Fixed part of an event line: `task-pid (tgid) [cpu] flags seconds.fraction: event: arguments`.
pub(crate) struct Head<'a> {
    pub comm: &'a [u8],
    pub tid: u32,
    pub tgid: Option<u32>,
    pub cpu: u32,
    pub time: Timestamp,
    pub name: &'a str,
    pub args: &'a [u8],
}

/// Upper limit of the time, s: beyond any boot or Unix time, and small enough for sums of times.
const MAX_SECONDS: u64 = 1 << 32;

impl<'a> Head<'a> {
    /// Parses a line; `None` if it is not an event.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut from = 0;
        // A task name may contain brackets, even "[000]": the CPU is in the first brackets with a
        // pid before them and digits inside.
        loop {
            let at = from + memchr::memchr(b'[', line.get(from..)?)?;
            if let Some(head) = Self::at_bracket(line, at) {
                return Some(head);
            }
            from = at + 1;
        }
    }

    fn at_bracket(line: &'a [u8], at: usize) -> Option<Self> {
        let (left, right) = line.split_at_checked(at)?;
        let (cpu, digits) = number(right.get(1..)?)?;
        if digits == 0 || right.get(digits + 1) != Some(&b']') {
            return None;
        }
        let cpu = u32::try_from(cpu).ok().filter(|c| *c < MAX_CPUS)?;
        let (comm, tid, tgid) = task(left)?;
        let (time, rest) = stamp(right.get(digits + 2..)?)?;
        let rest = rest.trim_ascii_start();
        let (name, args) = match memchr::memchr(b':', rest) {
            Some(i) => (rest.get(..i)?, rest.get(i + 1..)?.trim_ascii_start()),
            None => (rest, rest),
        };
        let (name, args) = if name.is_empty() || name.contains(&b' ') {
            // The function tracer prints `callee <-caller`.
            memchr::memmem::find(rest, b" <-")?;
            (b"function".as_slice(), rest)
        } else {
            (name, args)
        };
        Some(Self {
            comm,
            tid,
            tgid,
            cpu,
            time,
            name: name_text(name)?,
            args,
        })
    }
}

/// The most frequent names are matched as bytes, because UTF-8 validation costs as much as the rest
/// of a short line.
#[inline]
fn name_text(name: &[u8]) -> Option<&str> {
    Some(match name {
        b"sched_switch" => "sched_switch",
        b"sched_wakeup" => "sched_wakeup",
        b"sched_waking" => "sched_waking",
        b"tracing_mark_write" => "tracing_mark_write",
        b"cpu_idle" => "cpu_idle",
        other => std::str::from_utf8(other).ok()?,
    })
}

/// Leading decimal digits: value and number of digits.
#[inline]
fn number(text: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut n = 0;
    for b in text {
        if !b.is_ascii_digit() {
            break;
        }
        if n == 19 {
            return None;
        }
        value = value * 10 + u64::from(b - b'0');
        n += 1;
    }
    Some((value, n))
}

/// `  comm-pid   (tgid) `: name, thread id, process id.
#[inline]
fn task(left: &[u8]) -> Option<(&[u8], u32, Option<u32>)> {
    let mut left = left.trim_ascii_end();
    let mut tgid = None;
    if let Some(inner) = left.strip_suffix(b")") {
        let open = memchr::memrchr(b'(', inner)?;
        let (before, digits) = inner.split_at_checked(open)?;
        let digits = digits.get(1..)?.trim_ascii();
        if digits.first()?.is_ascii_digit() {
            let (value, n) = number(digits)?;
            if n != digits.len() {
                return None;
            }
            tgid = Some(u32::try_from(value).ok()?);
        } else if digits.iter().any(|b| *b != b'-') {
            return None;
        }
        left = before.trim_ascii_end();
    }
    let dash = memchr::memrchr(b'-', left)?;
    let (comm, pid) = left.split_at_checked(dash)?;
    let pid = pid.get(1..)?;
    let (tid, n) = number(pid)?;
    if n == 0 || n != pid.len() {
        return None;
    }
    Some((comm.trim_ascii_start(), u32::try_from(tid).ok()?, tgid))
}

/// ` d..2 1234.567890: rest`: the time, after up to two words of flags.
#[inline]
fn stamp(text: &[u8]) -> Option<(Timestamp, &[u8])> {
    let mut rest = text;
    for _ in 0..3 {
        rest = rest.trim_ascii_start();
        let len = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(len)?;
        if let Some(word) = word.strip_suffix(b":")
            && word.first().is_some_and(u8::is_ascii_digit)
        {
            return Some((time(word)?, after));
        }
        rest = after;
    }
    None
}

#[inline]
fn time(word: &[u8]) -> Option<Timestamp> {
    let (secs, n) = number(word)?;
    let fraction = word.get(n..)?;
    if fraction.is_empty() {
        // A counter clock: ticks, taken as nanoseconds.
        return (secs < 1 << 62).then(|| Timestamp::from_nanos(secs));
    }
    let fraction = fraction.strip_prefix(b".")?;
    let (value, digits) = number(fraction)?;
    if digits == 0 || digits > 9 || digits != fraction.len() || secs >= MAX_SECONDS {
        return None;
    }
    let scale = match digits {
        6 => 1_000,
        9 => 1,
        d => 10u64.pow(9 - d as u32),
    };
    Some(Timestamp::from_nanos(secs * 1_000_000_000 + value * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (String, u32, Option<u32>, u32, u64, String, String);

    fn head(line: &str) -> Option<Parts> {
        Head::parse(line.as_bytes()).map(|h| {
            (
                String::from_utf8_lossy(h.comm).into_owned(),
                h.tid,
                h.tgid,
                h.cpu,
                h.time.as_nanos(),
                h.name.to_owned(),
                String::from_utf8_lossy(h.args).into_owned(),
            )
        })
    }

    #[test]
    fn all_known_forms_parse() {
        let (comm, tid, tgid, cpu, ns, name, args) =
            head("  Binder:990_1-1109  (  990) [003] .... 28304.426157: x: a=1").unwrap();
        assert_eq!(
            (comm.as_str(), tid, tgid, cpu),
            ("Binder:990_1", 1109, Some(990), 3)
        );
        assert_eq!(
            (ns, name.as_str(), args.as_str()),
            (28_304_426_157_000, "x", "a=1")
        );

        let (comm, tid, tgid, cpu, ns, ..) =
            head("<idle>-0     [002]  2084.021443123: cpu_idle:             state=1").unwrap();
        assert_eq!(
            (comm.as_str(), tid, tgid, cpu, ns),
            ("<idle>", 0, None, 2, 2_084_021_443_123)
        );

        assert_eq!(
            head("a-1 (-----) [000] d..2. 1.5: e: ").unwrap().4,
            1_500_000_000
        );
        assert_eq!(
            head("my [0] task-7 [001] 1.000001: e: x").unwrap().0,
            "my [0] task"
        );
        assert_eq!(
            head("a b-c-12 [001] .... 1.000001: 0: C|1|x|2").unwrap().5,
            "0"
        );
        assert_eq!(
            head("sh-1 [000] d... 1.000001: do_fork <-sys_fork")
                .unwrap()
                .5,
            "function"
        );
    }

    #[test]
    fn other_lines_do_not_parse() {
        for line in [
            "",
            "[",
            "# a-1 [000] no time",
            "a-x [000] 1.000000: e: x",
            "a-1 [abc] 1.000000: e: x",
            "a-1 [16384] 1.000000: e: x",
            "a-1 [000] 1.000000000000: e: x",
            "a-1 [000] 99999999999999999999.1: e: x",
            "a-99999999999 [000] 1.000000: e: x",
            "some = 000, other = 0x4",
        ] {
            assert!(head(line).is_none(), "{line}");
        }
    }
}
