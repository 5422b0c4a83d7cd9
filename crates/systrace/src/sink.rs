use crate::error::Incomplete;
use crate::event::{ClockReading, Event, MethodRecord, Sample, ThreadInfo};

/// Receives what a reader finds, in the order of the file.
///
/// Readers hold no more than a buffer; a sink decides what is kept. Events of
/// one CPU come in time order in a sound trace; across CPUs only text formats
/// promise that.
#[allow(unused_variables)]
pub trait Sink {
    /// A kernel event.
    fn event(&mut self, event: &Event<'_>) {}
    /// What the trace says about a thread or process.
    fn thread(&mut self, info: ThreadInfo<'_>) {}
    /// A record of a method trace.
    fn method(&mut self, record: MethodRecord) {}
    /// The name of a method: `class.method` and signature.
    fn method_name(&mut self, method: u32, name: &str) {}
    /// A profiler's sample.
    fn sample(&mut self, sample: &Sample<'_>) {}
    /// The name of a sample's frame, before or after the samples that have it.
    fn symbol(&mut self, frame: u64, name: &str) {}
    /// A further counter of the group that the last sample led: `event` and
    /// `period` are the counter's.
    fn counter(&mut self, counter: &Sample<'_>) {}
    /// A record that is neither event nor sample (a packet, a map, a log line).
    fn other(&mut self, kind: &str) {}
    /// One clock's part of a reading of several.
    fn clock(&mut self, reading: ClockReading) {}
    /// Something is missing.
    fn incomplete(&mut self, what: Incomplete) {}
    /// A fact of the header: key and value, such as `cpus` and `8`.
    fn header(&mut self, key: &str, value: &str) {}
}

/// Two sinks fed by one reading.
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
