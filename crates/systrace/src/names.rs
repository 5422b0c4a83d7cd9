use rustc_hash::FxHashMap;

/// Texts kept once and named by number.
#[derive(Debug, Default)]
pub struct Names {
    list: Vec<Box<str>>,
    index: FxHashMap<Box<[u8]>, Name>,
}

/// A text of [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

/// Texts beyond this many share one entry: marks may carry a number each.
const MAX_NAMES: usize = 4 << 20;

impl Names {
    /// The number of a text, new or not. Bytes that are no UTF-8 are replaced.
    pub fn add(&mut self, text: &[u8]) -> Name {
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let text = if self.list.len() >= MAX_NAMES {
            b"(further names)"
        } else {
            text
        };
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let name = Name(self.list.len() as u32);
        self.list.push(String::from_utf8_lossy(text).into());
        self.index.insert(text.into(), name);
        name
    }

    /// The text.
    pub fn get(&self, name: Name) -> &str {
        self.list.get(name.0 as usize).map_or("", |s| s)
    }
}
