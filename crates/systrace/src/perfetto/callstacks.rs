//! Call stacks of samples: packets name them by numbers that earlier packets of their sequence
//! explain (`InternedData`).

use rustc_hash::FxHashMap;

use super::wire::{Fields, Value, varint};
use crate::perf::{Symbols, of_object};
use crate::sink::Sink;

/// Entries of each kind that are kept.
const MAX_ENTRIES: usize = 4 << 20;

/// Frames of one stack; unwinders give up long before.
const MAX_FRAMES: usize = 4096;

/// By sequence and number.
type Interned<T> = FxHashMap<(u64, u64), T>;

/// What has been interned, and the numbers that sinks know.
#[derive(Debug, Default)]
pub(super) struct Callstacks {
    functions: Interned<Box<str>>,
    paths: Interned<Box<str>>,
    mappings: Interned<Option<u64>>,
    frames: Interned<Frame>,
    stacks: Interned<Box<[u64]>>,
    symbols: Symbols,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    function: u64,
    mapping: u64,
}

/// Fields of `InternedData`.
mod kind {
    pub const FUNCTION_NAMES: u32 = 5;
    pub const FRAMES: u32 = 6;
    pub const CALLSTACKS: u32 = 7;
    pub const MAPPING_PATHS: u32 = 17;
    pub const MAPPINGS: u32 = 19;
}

fn keep<T>(map: &mut Interned<T>, key: (u64, u64), value: T) {
    if map.len() < MAX_ENTRIES {
        map.insert(key, value);
    }
}

impl Callstacks {
    /// One entry of the interned data of a sequence.
    pub(super) fn intern(&mut self, sequence: u64, number: u32, body: &[u8]) {
        let mut iid = 0;
        let mut text = [].as_slice();
        let mut list = Vec::new();
        let mut frame = Frame {
            function: 0,
            mapping: 0,
        };
        for (field, value) in Fields::new(body) {
            match (number, field) {
                (_, 1) => iid = value.int(),
                (kind::FUNCTION_NAMES | kind::MAPPING_PATHS, 2) => text = value.bytes(),
                (kind::FRAMES, 2) => frame.function = value.int(),
                (kind::FRAMES, 3) => frame.mapping = value.int(),
                (kind::CALLSTACKS, 2) | (kind::MAPPINGS, 7) => numbers(value, &mut list),
                _ => {}
            }
        }
        let key = (sequence, iid);
        let text = || String::from_utf8_lossy(text).into();
        match number {
            kind::FUNCTION_NAMES => keep(&mut self.functions, key, text()),
            kind::MAPPING_PATHS => keep(&mut self.paths, key, text()),
            kind::FRAMES => keep(&mut self.frames, key, frame),
            // The last part of the path names the file.
            kind::MAPPINGS => keep(&mut self.mappings, key, list.last().copied()),
            kind::CALLSTACKS => keep(&mut self.stacks, key, list.into()),
            _ => {}
        }
    }

    /// The frames of a stack, innermost first: numbers that the sink has been told.
    pub(super) fn frames(&mut self, sequence: u64, stack: u64, sink: &mut dyn Sink) -> Vec<u64> {
        let Some(list) = self.stacks.get(&(sequence, stack)) else {
            return Vec::new();
        };
        let name = |frame: &u64| {
            let frame = self.frames.get(&(sequence, *frame))?;
            let function = self.functions.get(&(sequence, frame.function));
            if let Some(name) = function.filter(|name| !name.is_empty()) {
                return Some(name.as_ref().into());
            }
            let path = (*self.mappings.get(&(sequence, frame.mapping))?)?;
            Some(of_object(self.paths.get(&(sequence, path))?))
        };
        // They are written outermost first.
        list.iter()
            .rev()
            .map(|frame| {
                let name = name(frame).unwrap_or("[unknown]".into());
                self.symbols.id(&name, sink)
            })
            .collect()
    }
}

/// Repeated numbers, packed or one by one.
fn numbers(value: Value<'_>, list: &mut Vec<u64>) {
    match value {
        Value::Bytes(mut packed) => {
            while list.len() < MAX_FRAMES && !packed.is_empty() {
                let Ok(number) = varint(&mut packed) else {
                    return;
                };
                list.push(number);
            }
        }
        one if list.len() < MAX_FRAMES => list.push(one.int()),
        _ => {}
    }
}
