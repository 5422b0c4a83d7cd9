//! Writer of ftrace text, event by event.

use std::fmt::Write as _;

pub const SHELL: u32 = 700;
pub const SERVER: u32 = 310;
pub const SERVER_THREAD: u32 = 315;
pub const NOISE: u32 = 50;

/// Writer of ftrace text for one CPU, in the kernel's format.
pub struct Script {
    pub text: String,
    us: u64,
    running: u32,
}

fn name(tid: u32) -> &'static str {
    match tid {
        0 => "swapper/0",
        SHELL => "clockwork",
        SERVER => "mixer",
        SERVER_THREAD => "Binder_2",
        NOISE => "kworker/0:1",
        _ => unreachable!("no such task"),
    }
}

fn process(tid: u32) -> u32 {
    if tid == SERVER_THREAD { SERVER } else { tid }
}

impl Script {
    pub fn new() -> Self {
        Self {
            text: "# tracer: nop\n#\n".into(),
            us: 5_000_000,
            running: 0,
        }
    }

    pub fn line(&mut self, event: &str) {
        let tid = self.running;
        let comm = if tid == 0 { "<idle>" } else { name(tid) };
        writeln!(
            self.text,
            "{comm:>16}-{tid:<5} ({:5}) [000] d..2 {}.{:06}: {event}",
            process(tid),
            self.us / 1_000_000,
            self.us % 1_000_000
        )
        .unwrap();
    }

    pub fn after(&mut self, us: u64) -> &mut Self {
        self.us += us;
        self
    }

    pub fn wake(&mut self, tid: u32) {
        let event = format!(
            "sched_wakeup: comm={} pid={tid} prio=120 target_cpu=000",
            name(tid)
        );
        self.line(&event);
    }

    pub fn switch(&mut self, to: u32, state: &str) {
        let from = self.running;
        let event = format!(
            "sched_switch: prev_comm={} prev_pid={from} prev_prio=120 prev_state={state} ==> \
             next_comm={} next_pid={to} next_prio=120",
            name(from),
            name(to)
        );
        self.line(&event);
        self.running = to;
    }

    pub fn run(&mut self, tid: u32) {
        self.wake(tid);
        self.after(20).switch(tid, "R");
    }

    pub fn sleep(&mut self) {
        self.switch(0, "S");
    }

    pub fn mark(&mut self, text: &str) {
        let event = format!("tracing_mark_write: {text}");
        self.line(&event);
    }

    /// Unrelated kernel work, which splits a real stall into several episodes.
    pub fn noise(&mut self) {
        self.run(NOISE);
        self.after(150).sleep();
    }
}
