//! The trait that receives the content of a trace.

use crate::error::Incomplete;
use crate::event::{ClockReading, Event, MethodRecord, Sample, ThreadInfo};

/// Receiver of a trace's content, in the order of the file.
///
/// Readers keep no more than a buffer; the sink decides what to store. In a valid trace the events
/// of one CPU are in time order; across CPUs only text formats are ordered.
#[allow(unused_variables)]
pub trait Sink {
    /// A kernel event.
    fn event(&mut self, event: &Event<'_>) {}
    /// A thread's or process's name and parent, from outside of the events.
    fn thread(&mut self, info: ThreadInfo<'_>) {}
    /// A method trace record.
    fn method(&mut self, record: MethodRecord) {}
    /// Name of a method: `class.method` and signature.
    fn method_name(&mut self, method: u32, name: &str) {}
    /// A profiler sample.
    fn sample(&mut self, sample: &Sample<'_>) {}
    /// Name of a sample's frame, before or after the samples that refer to it.
    fn symbol(&mut self, frame: u64, name: &str) {}
    /// Another counter of the event group of the last sample: `event` and `period` are those of the
    /// counter.
    fn counter(&mut self, counter: &Sample<'_>) {}
    /// A record that is neither event nor sample (a packet, an mmap record, a log line).
    fn other(&mut self, kind: &str) {}
    /// The reading of one clock in a clock snapshot.
    fn clock(&mut self, reading: ClockReading) {}
    /// Missing or damaged data.
    fn incomplete(&mut self, what: Incomplete) {}
    /// A key-value pair of the header, such as `cpus` and `8`.
    fn header(&mut self, key: &str, value: &str) {}
}

/// Two sinks that receive the same trace.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, event: &Event<'_>) {
        self.0.event(event);
        self.1.event(event);
    }
    fn thread(&mut self, info: ThreadInfo<'_>) {
        self.0.thread(info);
        self.1.thread(info);
    }
    fn method(&mut self, record: MethodRecord) {
        self.0.method(record);
        self.1.method(record);
    }
    fn method_name(&mut self, method: u32, name: &str) {
        self.0.method_name(method, name);
        self.1.method_name(method, name);
    }
    fn sample(&mut self, sample: &Sample<'_>) {
        self.0.sample(sample);
        self.1.sample(sample);
    }
    fn symbol(&mut self, frame: u64, name: &str) {
        self.0.symbol(frame, name);
        self.1.symbol(frame, name);
    }
    fn counter(&mut self, counter: &Sample<'_>) {
        self.0.counter(counter);
        self.1.counter(counter);
    }
    fn other(&mut self, kind: &str) {
        self.0.other(kind);
        self.1.other(kind);
    }
    fn clock(&mut self, reading: ClockReading) {
        self.0.clock(reading);
        self.1.clock(reading);
    }
    fn incomplete(&mut self, what: Incomplete) {
        self.0.incomplete(what.clone());
        self.1.incomplete(what);
    }
    fn header(&mut self, key: &str, value: &str) {
        self.0.header(key, value);
        self.1.header(key, value);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn event(&mut self, event: &Event<'_>) {
        (**self).event(event);
    }
    fn thread(&mut self, info: ThreadInfo<'_>) {
        (**self).thread(info);
    }
    fn method(&mut self, record: MethodRecord) {
        (**self).method(record);
    }
    fn method_name(&mut self, method: u32, name: &str) {
        (**self).method_name(method, name);
    }
    fn sample(&mut self, sample: &Sample<'_>) {
        (**self).sample(sample);
    }
    fn symbol(&mut self, frame: u64, name: &str) {
        (**self).symbol(frame, name);
    }
    fn counter(&mut self, counter: &Sample<'_>) {
        (**self).counter(counter);
    }
    fn other(&mut self, kind: &str) {
        (**self).other(kind);
    }
    fn clock(&mut self, reading: ClockReading) {
        (**self).clock(reading);
    }
    fn incomplete(&mut self, what: Incomplete) {
        (**self).incomplete(what);
    }
    fn header(&mut self, key: &str, value: &str) {
        (**self).header(key, value);
    }
}
