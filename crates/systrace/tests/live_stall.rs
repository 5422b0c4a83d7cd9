//! A stall on this machine, recorded by its kernel, is found and attributed.
//!
//! Needs tracefs and the privilege to create an instance in it; otherwise the test reports that it
//! is skipped.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mpbond_systrace::{IdleReport, IdleRules, TraceBuilder, read};
use mpbond_testing::Need;

/// Longer than any unrelated wait, short enough for a test.
const STALL: Duration = Duration::from_millis(150);

/// A tracing instance of the kernel, with its own buffer, events and marker file.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Option<Self> {
        for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            let path = Path::new(root).join(format!("instances/stall-{}", std::process::id()));
            if fs::create_dir(&path).is_ok() {
                return Some(Self(path));
            }
        }
        None
    }

    fn set(&self, file: &str, value: &str) -> std::io::Result<()> {
        fs::write(self.0.join(file), value)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        let _ = self.set("set_event", "\n");
        // Removing the directory removes the kernel's files in it.
        let _ = fs::remove_dir(&self.0);
    }
}

fn mark(instance: &Path, text: &str) {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(instance.join("trace_marker"))
        .unwrap();
    // One write is one marker.
    file.write_all(text.as_bytes()).unwrap();
}

fn record(instance: &Instance) -> std::io::Result<Vec<u8>> {
    instance.set("events/sched/sched_switch/enable", "1")?;
    instance.set("events/sched/sched_wakeup/enable", "1")?;
    instance.set("tracing_on", "1")?;
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel::<()>();
    let pid = std::process::id();
    let path = instance.0.clone();
    let server = thread::Builder::new().name("stall-server".into());
    let server = server.spawn(move || {
        asked.recv().unwrap();
        mark(&path, &format!("B|{pid}|drainPipeline"));
        // The stall: a service that sleeps while its client waits.
        thread::sleep(STALL);
        mark(&path, &format!("E|{pid}"));
        answer.send(()).unwrap();
    })?;
    let path = instance.0.clone();
    let client = thread::Builder::new().name("stall-client".into());
    let client = client.spawn(move || {
        mark(&path, &format!("B|{pid}|ipc:Audio.stop"));
        ask.send(()).unwrap();
        answered.recv().unwrap();
        mark(&path, &format!("E|{pid}"));
    })?;
    client.join().unwrap();
    server.join().unwrap();
    instance.set("tracing_on", "0")?;
    fs::read(instance.0.join("trace"))
}

#[test]
fn a_stall_on_this_machine_is_found() {
    // A busy machine may preempt the recording threads and thereby cause another stall than the
    // planned one, so there are further attempts.
    let mut said = Vec::new();
    for _ in 0..10 {
        let Some(instance) = Instance::new() else {
            Need::Tracer.is_missing("no tracefs, or no right to make an instance in it");
            return;
        };
        let bytes = match record(&instance) {
            Ok(bytes) => bytes,
            Err(e) => {
                Need::Tracer.is_missing(format_args!("the kernel's tracer refuses: {e}"));
                return;
            }
        };
        match planted_stall_is_named(&bytes) {
            Ok(()) => return,
            Err(e) => said.push(e),
        }
    }
    panic!("{said:#?}");
}

fn planted_stall_is_named(bytes: &[u8]) -> Result<(), String> {
    let mut builder = TraceBuilder::default();
    read(bytes, &mut builder).map_err(|e| e.to_string())?;
    let trace = builder.finish();
    let request = trace
        .slices
        .iter()
        .find(|s| trace.strings.get(s.name) == "ipc:Audio.stop")
        .ok_or("the client's mark is not in the trace")?;
    if u128::from(request.end - request.start) < STALL.as_nanos() {
        return Err(format!(
            "the request is shorter than the stall: {request:?}"
        ));
    }
    // Other programs run on this machine at the same time; idle is defined as neither of the two
    // threads running.
    let mut runs = trace.runs();
    runs.retain(|r| trace.tasks.name(r.task).starts_with("stall-"));
    let report = IdleReport::of(&trace, &runs, &IdleRules::shipped())
        .ok_or("the two threads were never seen to run")?;
    let f = report
        .findings
        .iter()
        .find(|f| f.thread_name == "stall-client")
        .ok_or_else(|| format!("no finding: {:#?}", report.findings))?;
    // Either slice across the stall may be named, depending on preemption; for a stored trace the
    // result is deterministic.
    let named = f.function.as_deref();
    if f.server_names.first().map(String::as_str) != Some("stall-server")
        || !matches!(named, Some("drainPipeline" | "ipc:Audio.stop"))
        || !f.text.contains("stall-client")
    {
        return Err(format!("another stall is found: {f:#?}"));
    }
    Ok(())
}
