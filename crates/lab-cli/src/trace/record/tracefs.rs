//! The kernel's tracer, through tracefs.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::events::Group;

/// Mount points of tracefs; the second one is of Linux before 4.1.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// An instance of the tracer, with its own buffers, events and switch. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance(PathBuf);

impl Instance {
    /// Makes an instance; the error names what this machine lacks.
    pub(crate) fn new() -> Result<Self, String> {
        let mut why = None;
        for root in ROOTS {
            let path = Path::new(root).join(format!("instances/mpbond-{}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => why = why.or(Some(format!("{}: {e}", path.display()))),
            }
        }
        Err(match why {
            Some(why) => format!("no right to the kernel's tracer (root has it): {why}"),
            None => format!(
                "the kernel's tracer is not at {}; where the kernel has it: mount -t tracefs tracefs {}",
                ROOTS.join(" or "),
                ROOTS[0]
            ),
        })
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(file), value)
    }

    /// Sets buffer, clock, and data recorded with events.
    pub(crate) fn prepare(&self, buffer_mib: u32) -> Result<(), String> {
        let kib = u64::from(buffer_mib) * 1024;
        let path = self.0.display();
        self.set("buffer_size_kb", &kib.to_string())
            .map_err(|e| format!("{path}: no buffer of {buffer_mib} MiB a CPU: {e}"))?;
        // The clock of applications' logs and perf -k mono, the same on all CPUs.
        self.set("trace_clock", "mono")
            .map_err(|e| format!("{path}: no monotonic clock: {e}"))?;
        // Process ids of threads; older kernels lack it, and it is optional.
        let _ = self.set("options/record-tgid", "1");
        Ok(())
    }

    /// Whether this kernel has an event.
    pub(crate) fn has(&self, event: &str) -> bool {
        self.0.join("events").join(event).join("enable").exists()
    }

    /// Enables the events of the groups; returns those enabled, and those that this kernel lacks.
    pub(crate) fn enable(
        &self,
        groups: &[Group],
    ) -> Result<(Vec<&'static str>, Vec<&'static str>), String> {
        let (mut enabled, mut missing) = (Vec::new(), Vec::new());
        for event in groups.iter().flat_map(|g| g.events) {
            if !self.has(event) {
                missing.push(*event);
                continue;
            }
            self.set(&format!("events/{event}/enable"), "1")
                .map_err(|e| format!("{}: {event}: {e}", self.0.display()))?;
            enabled.push(*event);
        }
        Ok((enabled, missing))
    }

    /// Starts, with a mark that relates the clocks.
    pub(crate) fn start(&self, realtime_ms: u128) -> io::Result<()> {
        self.set("trace", "")?;
        self.set("tracing_on", "1")?;
        let mark = format!("trace_event_clock_sync: realtime_ts={realtime_ms}\n");
        self.set("trace_marker", &mark)
    }

    pub(crate) fn stop(&self) -> io::Result<()> {
        self.set("tracing_on", "0")
    }

    /// Writes the recording as text; returns its length in bytes.
    pub(crate) fn save(&self, out: &mut File) -> io::Result<u64> {
        let mut from = File::open(self.0.join("trace"))?;
        // The kernel returns a page of text per call.
        let mut buffer = vec![0; 1 << 20];
        let mut length = 0;
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            out.write_all(buffer.get(..n).unwrap_or_default())?;
            length += n as u64;
        }
        out.flush()?;
        Ok(length)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.stop();
        // The kernel removes its files with their folder.
        let _ = fs::remove_dir(&self.0);
    }
}
