//! Events printed by `trace-cmd report` plugins, in the form `comm:pid [prio] S ==> comm:pid
//! [prio]` instead of `key=value`.

use crate::event::{Payload, Switch, TaskState, Wake};

/// `kworker/2:1:2923 [120] S ==> swapper/2:0 [120]`.
pub(super) fn switch(args: &[u8]) -> Option<Payload<'_>> {
    let arrow = memchr::memmem::find(args, b" ==> ")?;
    let (left, right) = args.split_at_checked(arrow)?;
    let (prev_comm, prev_pid, _, rest) = task(left)?;
    let (next_comm, next_pid, next_prio, _) = task(right.get(5..)?)?;
    Some(Payload::Switch(Switch {
        prev_pid: Some(prev_pid),
        prev_comm,
        prev_state: TaskState::from_text(rest.trim_ascii()).unwrap_or(TaskState::UNKNOWN),
        next_pid,
        next_comm,
        next_prio,
    }))
}

/// `sh:1642 [120] success=1 CPU:002`.
pub(super) fn wake(args: &[u8], waking: bool) -> Option<Payload<'_>> {
    let (comm, pid, _, rest) = task(args)?;
    let cpu = memchr::memmem::find(rest, b"CPU:")
        .and_then(|i| rest.get(i + 4..))
        .and_then(super::digits::decimal)?;
    Some(Payload::Wake(Wake {
        pid,
        comm,
        target_cpu: u32::try_from(cpu).ok()?,
        waking,
    }))
}

/// `comm:pid [prio] rest`; the comm may contain colons and brackets.
fn task(text: &[u8]) -> Option<(&[u8], u32, i32, &[u8])> {
    let mut from = 0;
    loop {
        let open = from + memchr::memmem::find(text.get(from..)?, b" [")?;
        let head = text.get(..open)?;
        if let Some(colon) = memchr::memrchr(b':', head)
            && let Some(pid) = head.get(colon + 1..)
            && !pid.is_empty()
            && pid.iter().all(u8::is_ascii_digit)
        {
            let inner = text.get(open + 2..)?;
            let close = memchr::memchr(b']', inner)?;
            let prio = std::str::from_utf8(inner.get(..close)?).ok()?;
            return Some((
                head.get(..colon)?,
                u32::try_from(super::digits::decimal(pid)?).ok()?,
                prio.trim().parse().ok()?,
                inner.get(close + 1..)?,
            ));
        }
        from = open + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_forms_parse() {
        let Some(Payload::Switch(s)) = switch(b"kworker/2:1:2923 [120] R+ ==> swapper/2:0 [120]")
        else {
            unreachable!("no switch")
        };
        assert_eq!(s.prev_comm, b"kworker/2:1");
        assert_eq!((s.prev_pid, s.next_pid), (Some(2923), 0));
        assert!(s.prev_state.is_runnable());
        let Some(Payload::Wake(w)) = wake(b"a [1] b:77 [98] success=1 CPU:005", false) else {
            unreachable!("no wake")
        };
        assert_eq!((w.pid, w.target_cpu), (77, 5));
        assert_eq!(switch(b"nothing here"), None);
    }
}
