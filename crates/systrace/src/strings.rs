//! Interned strings of a trace.

use rustc_hash::FxHashMap;

/// A string pool: each distinct text is stored once and referenced by a [`StringId`].
#[derive(Debug, Default)]
pub struct StringPool {
    list: Vec<Box<str>>,
    index: FxHashMap<Box<[u8]>, StringId>,
}

/// Index of a text in [`StringPool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(u32);

/// Maximum number of distinct texts. Further texts share one entry: marker names may contain a
/// counter, so a long trace could hold any number of them.
const MAX_STRINGS: usize = 4 << 20;

impl StringPool {
    /// Interns a text. Invalid UTF-8 is replaced by U+FFFD.
    pub fn intern(&mut self, text: &[u8]) -> StringId {
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let text = if self.list.len() >= MAX_STRINGS {
            b"(other names)"
        } else {
            text
        };
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let name = StringId(self.list.len() as u32);
        self.list.push(String::from_utf8_lossy(text).into());
        self.index.insert(text.into(), name);
        name
    }

    /// All texts with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StringId, &str)> {
        let list = self.list.iter().enumerate();
        list.map(|(i, text)| (StringId(i as u32), &**text))
    }

    /// The text of an index; empty for an index of another pool.
    pub fn get(&self, name: StringId) -> &str {
        self.list.get(name.0 as usize).map_or("", |s| s)
    }
}
