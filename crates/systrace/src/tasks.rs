//! Names, processes and classes of tasks.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::event::ThreadInfo;

/// Id of a running task that the trace does not name.
pub(crate) const UNKNOWN_TASK: u32 = u32::MAX;

/// Name prefixes of kernel threads, daemons and apps.
const CLASSES: &str = include_str!("../data/task_classes.toml");

/// Names and processes of a trace's tasks.
#[derive(Debug, Default)]
pub struct Tasks {
    map: FxHashMap<u32, Task>,
}

/// A task (kernel term for a thread).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Last name in the trace (`comm`).
    pub name: String,
    /// Process id (tgid), if the trace has it.
    pub process: Option<u32>,
    /// Process name, if this is the main thread and a process list has it. Unlike a task's `comm`
    /// it is not cut at 15 bytes.
    pub process_name: Option<String>,
    /// Whether the trace marks the task as a kernel thread.
    pub kernel: bool,
}

/// Class of a task (Android Wear characterization, Figure 3(a)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskClass {
    /// Kernel threads.
    Kernel,
    /// Processes of the operating system.
    Daemon,
    /// Processes of installed apps and user programs.
    App,
    /// Class unknown.
    Unknown,
}

/// Rules that assign a [`TaskClass`] by name, from TOML.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRules {
    /// Prefixes of the names of kernel threads.
    pub kernel_prefixes: Vec<String>,
    /// Prefixes of the process names of daemons.
    pub daemon_prefixes: Vec<String>,
    /// Prefixes of the process names of apps.
    pub app_prefixes: Vec<String>,
}

impl ClassRules {
    /// The rules in `data/task_classes.toml`: Android, Wear OS and common Linux daemons.
    pub fn shipped() -> Self {
        toml::from_str(CLASSES).unwrap_or(Self {
            kernel_prefixes: Vec::new(),
            daemon_prefixes: Vec::new(),
            app_prefixes: Vec::new(),
        })
    }

    /// Parses rules from TOML.
    ///
    /// # Errors
    /// One line with the line number and the cause.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }
}

impl Tasks {
    /// Adds a task name from an event. Placeholders (`<...>`) and the names of the idle task are
    /// ignored.
    pub(crate) fn observe(&mut self, tid: u32, comm: &[u8], process: Option<u32>) {
        if tid == 0 {
            return;
        }
        let task = self.map.entry(tid).or_default();
        if process.is_some() {
            task.process = process;
        }
        if !comm.is_empty() && comm != task.name.as_bytes() && !comm.starts_with(b"<") {
            task.name.clear();
            task.name.push_str(&String::from_utf8_lossy(comm));
        }
    }

    /// Adds an entry of a thread or process list.
    pub(crate) fn add_info(&mut self, info: &ThreadInfo<'_>) {
        if info.tid == 0 {
            return;
        }
        let task = self.map.entry(info.tid).or_default();
        task.process = info.process.or(task.process);
        task.kernel |= info.kernel;
        if info.name.is_empty() {
            return;
        }
        let name = String::from_utf8_lossy(info.name);
        if info.process == Some(info.tid) && task.process_name.is_none() {
            task.process_name = Some(name.clone().into_owned());
        }
        // The name in switch events is newer than that in a list.
        if task.name.is_empty() {
            task.name = name.into_owned();
        }
    }

    /// Names each process whose main thread has no name in the trace after its lowest-numbered
    /// named thread, in brackets: `(RenderThread)`.
    pub(crate) fn name_processes(&mut self) {
        let mut named: Vec<(u32, u32, String)> = Vec::new();
        for (tid, task) in &self.map {
            let Some(process) = task.process.filter(|p| p != tid) else {
                continue;
            };
            let leader = self.map.get(&process);
            let unnamed = leader.is_none_or(|l| l.process_name.is_none() && l.name.is_empty());
            if unnamed && !task.name.is_empty() {
                named.push((process, *tid, format!("({})", task.name)));
            }
        }
        named.sort_unstable();
        for (process, _, name) in named {
            let leader = self.map.entry(process).or_default();
            leader.process_name.get_or_insert(name);
        }
    }

    /// The entry of a task.
    pub fn get(&self, tid: u32) -> Option<&Task> {
        self.map.get(&tid)
    }

    /// All tasks, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.map.iter().map(|(tid, t)| (*tid, t))
    }

    /// Name of a task: its `comm`, `<idle>` for pid 0, or its number if the name is unknown.
    pub fn name(&self, tid: u32) -> String {
        if tid == 0 {
            return "<idle>".into();
        }
        if tid == UNKNOWN_TASK {
            return "(unknown)".into();
        }
        match self.map.get(&tid) {
            Some(t) if !t.name.is_empty() => t.name.clone(),
            _ => format!("task {tid}"),
        }
    }

    /// Process id of a task; its own id if the trace has no process for it.
    pub fn process(&self, tid: u32) -> u32 {
        self.map.get(&tid).and_then(|t| t.process).unwrap_or(tid)
    }

    /// Name of a process.
    pub fn process_name(&self, pid: u32) -> String {
        match self.map.get(&pid).and_then(|t| t.process_name.as_ref()) {
            Some(name) => name.clone(),
            None => self.name(pid),
        }
    }

    /// Class of a task.
    pub fn class(&self, tid: u32, rules: &ClassRules) -> TaskClass {
        let begins = |list: &[String], name: &str| list.iter().any(|p| name.starts_with(p));
        let Some(task) = self.map.get(&tid) else {
            return TaskClass::Unknown;
        };
        let pid = task.process.unwrap_or(tid);
        let process = self.map.get(&pid).unwrap_or(task);
        let name = process.process_name.as_ref().unwrap_or(&process.name);
        if task.kernel || process.kernel || begins(&rules.kernel_prefixes, &task.name) {
            TaskClass::Kernel
        } else if begins(&rules.daemon_prefixes, name) {
            TaskClass::Daemon
        } else if begins(&rules.app_prefixes, name) || looks_like_package(name) {
            TaskClass::App
        } else if begins(&rules.daemon_prefixes, &task.name) {
            TaskClass::Daemon
        } else {
            TaskClass::Unknown
        }
    }
}

/// Whether a name is an Android package name. Android names an app's process after its package, and
/// a `comm` keeps the last 15 bytes: `com.huxiu`, `iaomi.smarthome`.
fn looks_like_package(name: &str) -> bool {
    let name = name.split(':').next().unwrap_or(name);
    name.contains('.')
        && !name.contains(['/', '@', ' ', '-'])
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_')
        && name.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let rules = ClassRules::shipped();
        let mut tasks = Tasks::default();
        tasks.observe(5, b"kworker/0:1", None);
        tasks.observe(10, b"system_server", None);
        tasks.observe(11, b"Binder:10_1", Some(10));
        tasks.observe(20, b"iaomi.smarthome", Some(20));
        tasks.observe(21, b"RenderThread", Some(20));
        tasks.observe(30, b"Thread-7", None);
        tasks.add_info(&ThreadInfo {
            tid: 40,
            process: Some(40),
            name: b"odd",
            kernel: true,
        });
        let class = |tid| tasks.class(tid, &rules);
        assert_eq!(class(5), TaskClass::Kernel);
        assert_eq!(class(11), TaskClass::Daemon);
        assert_eq!(class(21), TaskClass::App);
        assert_eq!(class(30), TaskClass::Unknown);
        assert_eq!(class(40), TaskClass::Kernel);
        assert_eq!(class(99), TaskClass::Unknown);
        assert_eq!(tasks.process_name(10), "system_server");
        tasks.observe(52, b"Later", Some(50));
        tasks.observe(51, b"RenderThread", Some(50));
        tasks.name_processes();
        assert_eq!(tasks.process_name(50), "(RenderThread)");
        assert_eq!(tasks.process_name(10), "system_server");
        tasks.observe(10, b"<...>", None);
        assert_eq!(tasks.name(10), "system_server");
    }
}
