//! Call stacks of samples. Packets refer to them by ids, which are defined by the `InternedData` of
//! earlier packets of the same sequence.

use rustc_hash::FxHashMap;

use crate::perf::{Symbols, object_symbol};
use crate::protobuf::{Fields, Value, varint};
use crate::sink::Sink;

/// Maximum number of interned entries of each kind.
const MAX_ENTRIES: usize = 4 << 20;

/// Maximum number of frames of a stack, far above the limits of unwinders.
const MAX_FRAMES: usize = 4096;

/// Entries by sequence id and interning id.
type Interned<T> = FxHashMap<(u64, u64), T>;

/// Interned data, and the frame ids known to the sink.
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

/// Field numbers of `InternedData`.
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
    /// Adds one entry of a sequence's interned data.
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
            // The last path component is the file name.
            kind::MAPPINGS => keep(&mut self.mappings, key, list.last().copied()),
            kind::CALLSTACKS => keep(&mut self.stacks, key, list.into()),
            _ => {}
        }
    }

    /// Frames of a stack, innermost first, as ids known to the sink.
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
            Some(object_symbol(self.paths.get(&(sequence, path))?))
        };
        // Frame ids are stored outermost first.
        list.iter()
            .rev()
            .map(|frame| {
                let name = name(frame).unwrap_or("[unknown]".into());
                self.symbols.id(&name, sink)
            })
            .collect()
    }
}

/// A repeated integer field, packed or not.
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
