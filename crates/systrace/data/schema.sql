-- Tables of a trace. Times are ns on the trace clock. Tasks are thread ids: 0 is the idle
-- task, 4294967295 a task that the trace does not name.

-- Threads.
CREATE TABLE task (
    tid INTEGER PRIMARY KEY, name TEXT, process INTEGER, process_name TEXT, class TEXT
);
-- Task switches (sched_switch); state is that of prev.
CREATE TABLE switch (ns INTEGER, cpu INTEGER, prev INTEGER, next INTEGER, state TEXT);
-- Runs of a task on a CPU, the idle task included; state is the state of the task at the end.
CREATE TABLE run (start INTEGER, end INTEGER, cpu INTEGER, task INTEGER, state TEXT);
-- Wake-ups; waker is the task that ran on the CPU of the wake-up.
CREATE TABLE wake (ns INTEGER, cpu INTEGER, waker INTEGER, task INTEGER);
-- Reasons of uninterruptible sleep (sched_blocked_reason), at the time of the wake-up.
CREATE TABLE blocked (ns INTEGER, task INTEGER, io_wait INTEGER, caller TEXT);
-- Userspace slices.
CREATE TABLE slice (start INTEGER, end INTEGER, tid INTEGER, depth INTEGER, name TEXT);
-- Asynchronous userspace slices, which may end on another thread.
CREATE TABLE async_slice (start INTEGER, end INTEGER, process INTEGER, name TEXT);
-- Userspace counters.
CREATE TABLE counter (ns INTEGER, name TEXT, value INTEGER);
-- Binder transactions: kind is request, one-way, reply or received; target is the receiving
-- process (requests) or thread (replies).
CREATE TABLE binder (ns INTEGER, tid INTEGER, id INTEGER, kind TEXT, target INTEGER);
-- Block I/O requests: issue is 1 when issued, 0 when complete.
CREATE TABLE block (ns INTEGER, issue INTEGER, device INTEGER, sector INTEGER);
-- CPU frequency changes.
CREATE TABLE frequency (ns INTEGER, cpu INTEGER, khz INTEGER);
-- Power management steps; begins is 0 at the end.
CREATE TABLE power (ns INTEGER, begins INTEGER, action TEXT);
-- Interrupt handlers and softirqs (hard is 0); enter is 0 at the end.
CREATE TABLE irq (
    ns INTEGER, cpu INTEGER, hard INTEGER, enter INTEGER, number INTEGER, handler TEXT
);
-- Expired kernel timers and their functions.
CREATE TABLE timer (ns INTEGER, cpu INTEGER, function TEXT);
-- Packets in the kernel network path: point is Queue, StartXmit, Xmit, DriverReceive,
-- Receive, Copy or Free.
CREATE TABLE net (ns INTEGER, cpu INTEGER, tid INTEGER, point TEXT, skb INTEGER, len INTEGER);
-- The longest idle episodes and their causes.
CREATE TABLE idle_episode (start INTEGER, end INTEGER, cause TEXT);
-- Idle anomalies.
CREATE TABLE idle_finding (
    start INTEGER, end INTEGER, cause TEXT, thread INTEGER, server INTEGER, function TEXT, idle_ms
    REAL, text TEXT
);
-- Function times of a method trace.
CREATE TABLE function (name TEXT, calls INTEGER, inclusive_us INTEGER, exclusive_us INTEGER);
-- Functions of a sampled profile: samples in the function, and in the function or its callees.
CREATE TABLE sampled_function (
    name TEXT, exclusive_samples INTEGER, exclusive_percent REAL, inclusive_samples INTEGER,
    inclusive_percent REAL
);
