-- Tables of a trace. Times are ns on the trace's clock; tasks are thread numbers,
-- 0 is idle, 4294967295 a task that the trace does not name.

-- One row a thread.
CREATE TABLE task (tid INTEGER PRIMARY KEY, name TEXT, process INTEGER, process_name TEXT, class TEXT);
-- A CPU passes from one task to another; state is that of prev.
CREATE TABLE switch (ns INTEGER, cpu INTEGER, prev INTEGER, next INTEGER, state TEXT);
-- What each CPU ran, idle included; state is the one in which the task was left.
CREATE TABLE run (start INTEGER, end INTEGER, cpu INTEGER, task INTEGER, state TEXT);
-- A task becomes runnable; by ran where the wake-up came from.
CREATE TABLE wake (ns INTEGER, cpu INTEGER, by INTEGER, task INTEGER);
-- Why a task slept uninterruptibly, told when it wakes.
CREATE TABLE blocked (ns INTEGER, task INTEGER, io_wait INTEGER, caller TEXT);
-- Spans that user space marks.
CREATE TABLE slice (start INTEGER, end INTEGER, tid INTEGER, depth INTEGER, name TEXT);
-- Spans that user space marks and that may cross threads.
CREATE TABLE async_slice (start INTEGER, end INTEGER, process INTEGER, name TEXT);
-- Counters that user space marks.
CREATE TABLE counter (ns INTEGER, name TEXT, value INTEGER);
-- Binder: kind is request, one-way, reply or received; target is the process
-- (requests) or thread (replies) it goes to.
CREATE TABLE binder (ns INTEGER, tid INTEGER, id INTEGER, kind TEXT, target INTEGER);
-- Storage requests: issue is 1 when issued, 0 when complete.
CREATE TABLE block (ns INTEGER, issue INTEGER, device INTEGER, sector INTEGER);
CREATE TABLE frequency (ns INTEGER, cpu INTEGER, khz INTEGER);
-- Steps of suspending and resuming.
CREATE TABLE power (ns INTEGER, begins INTEGER, action TEXT);
-- Interrupts: hard is 0 for softirqs, enter is 0 at the end.
CREATE TABLE irq (ns INTEGER, cpu INTEGER, hard INTEGER, enter INTEGER, number INTEGER, handler TEXT);
-- Kernel timers that expire, and the kernel function that each calls.
CREATE TABLE timer (ns INTEGER, cpu INTEGER, function TEXT);
-- Packets in the network stack: point is Queue, StartXmit, Xmit, DriverReceive,
-- Receive, Copy or Free.
CREATE TABLE net (ns INTEGER, cpu INTEGER, tid INTEGER, point TEXT, skb INTEGER, len INTEGER);
-- The longest idle episodes and their causes.
CREATE TABLE idle_episode (start INTEGER, end INTEGER, cause TEXT);
CREATE TABLE idle_finding (start INTEGER, end INTEGER, cause TEXT, thread INTEGER, server INTEGER, function TEXT, idle_ms REAL, text TEXT);
-- Functions of a method trace, µs.
CREATE TABLE function (name TEXT, calls INTEGER, inclusive_us INTEGER, exclusive_us INTEGER);
-- Functions of a sampled profile: samples in their own code, and in them or what they call.
CREATE TABLE sampled_function (name TEXT, own_samples INTEGER, own_percent REAL, with_callees_samples INTEGER, with_callees_percent REAL);
