use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::event::ThreadInfo;
use crate::trace::UNKNOWN_TASK;

/// Which names mean kernel, daemon or app.
const CLASSES: &str = include_str!("../data/task_classes.toml");

/// What is known about the tasks of a trace.
#[derive(Debug, Default)]
pub struct Tasks {
    map: FxHashMap<u32, Task>,
}

/// One task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name: the last one that the trace gives.
    pub name: String,
    /// The process it belongs to, where the trace says.
    pub process: Option<u32>,
    /// Name of the process, when this is its main thread and a process list
    /// gives it: longer than a task's 15 bytes.
    pub process_name: Option<String>,
    /// Whether the trace says that it is a kernel thread.
    pub kernel: bool,
}

/// Who a task works for (Figure 3a).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskClass {
    /// Kernel threads.
    Kernel,
    /// Processes of the operating system.
    Daemon,
    /// Everything that the user installed or started.
    App,
    /// The trace does not say enough.
    Unknown,
}

/// Rules for [`TaskClass`], as data.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRules {
    /// Task names that begin so are kernel threads.
    pub kernel_prefixes: Vec<String>,
    /// Process names that begin so are daemons.
    pub daemon_prefixes: Vec<String>,
    /// Process names that begin so are apps.
    pub app_prefixes: Vec<String>,
}

impl ClassRules {
    /// The rules shipped: Android and Wear OS, common Linux daemons.
    pub fn shipped() -> Self {
        toml::from_str(CLASSES).unwrap_or(Self {
            kernel_prefixes: Vec::new(),
            daemon_prefixes: Vec::new(),
            app_prefixes: Vec::new(),
        })
    }

    /// Rules from TOML text.
    ///
    /// # Errors
    /// One line that says which line of the text is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }
}

impl Tasks {
    /// Learns from an event. Placeholders (`<...>`) and the idle task's names
    /// teach nothing.
    pub(crate) fn seen(&mut self, tid: u32, comm: &[u8], process: Option<u32>) {
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

    /// Learns from a list of threads or processes.
    pub(crate) fn stated(&mut self, info: &ThreadInfo<'_>) {
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
        // What switches call it is newer than what a list says.
        if task.name.is_empty() {
            task.name = name.into_owned();
        }
    }

    /// Names processes whose main thread the trace never names, after their first thread that it
    /// does, in brackets: `(RenderThread)`.
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

    /// What is known about a task.
    pub fn get(&self, tid: u32) -> Option<&Task> {
        self.map.get(&tid)
    }

    /// All tasks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.map.iter().map(|(tid, t)| (*tid, t))
    }

    /// The task's name, `<idle>`, or its number where no name is known.
    pub fn name(&self, tid: u32) -> String {
        if tid == 0 {
            return "<idle>".into();
        }
        if tid == UNKNOWN_TASK {
            return "(not known)".into();
        }
        match self.map.get(&tid) {
            Some(t) if !t.name.is_empty() => t.name.clone(),
            _ => format!("task {tid}"),
        }
    }

    /// The process of a task: its own number where the trace does not say.
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

    /// The class of a task.
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

/// Android names an app's process after its package, of which a task's name
/// keeps the last 15 bytes: `com.huxiu`, `iaomi.smarthome`.
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
        tasks.seen(5, b"kworker/0:1", None);
        tasks.seen(10, b"system_server", None);
        tasks.seen(11, b"Binder:10_1", Some(10));
        tasks.seen(20, b"iaomi.smarthome", Some(20));
        tasks.seen(21, b"RenderThread", Some(20));
        tasks.seen(30, b"Thread-7", None);
        tasks.stated(&ThreadInfo {
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
        tasks.seen(52, b"Later", Some(50));
        tasks.seen(51, b"RenderThread", Some(50));
        tasks.name_processes();
        assert_eq!(tasks.process_name(50), "(RenderThread)");
        assert_eq!(tasks.process_name(10), "system_server");
        tasks.seen(10, b"<...>", None);
        assert_eq!(tasks.name(10), "system_server");
    }
}
