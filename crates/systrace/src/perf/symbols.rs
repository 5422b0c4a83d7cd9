//! Symbol ids for formats that repeat the symbol name in every frame.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::sink::Sink;

/// Assigns an id to each symbol name.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    ids: FxHashMap<Box<str>, u64>,
}

/// Maximum number of distinct symbols; a browser with all of its libraries has fewer.
const MAX_SYMBOLS: usize = 4 << 20;

impl Symbols {
    /// Id of a symbol; a new symbol is passed to the sink.
    pub(crate) fn id(&mut self, name: &str, sink: &mut dyn Sink) -> u64 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let name = if self.ids.len() < MAX_SYMBOLS {
            name
        } else {
            "(other symbols)"
        };
        let next = self.ids.len() as u64;
        *self.ids.entry(name.into()).or_insert_with(|| {
            sink.symbol(next, name);
            next
        })
    }
}

/// Placeholder symbol for code of a file without symbols: the file name in brackets.
pub(crate) fn object_symbol(path: &str) -> Cow<'static, str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.trim_matches(['[', ']']) {
        "" | "unknown" => Cow::Borrowed("[unknown]"),
        name => Cow::Owned(format!("[{name}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(Vec<(u64, String)>);

    impl Sink for Told {
        fn symbol(&mut self, frame: u64, name: &str) {
            self.0.push((frame, name.to_owned()));
        }
    }

    #[test]
    fn each_symbol_reaches_the_sink_once() {
        let (mut symbols, mut told) = (Symbols::default(), Told::default());
        let ids = ["main", "work", "main"].map(|name| symbols.id(name, &mut told));
        assert_eq!(ids, [0, 1, 0]);
        assert_eq!(told.0, [(0, "main".into()), (1, "work".into())]);
    }

    #[test]
    fn code_without_symbols_is_named_after_its_file() {
        assert_eq!(object_symbol("/usr/lib/libc.so.6"), "[libc.so.6]");
        assert_eq!(object_symbol("[kernel.kallsyms]"), "[kernel.kallsyms]");
        assert_eq!(object_symbol("[unknown]"), "[unknown]");
        assert_eq!(object_symbol(""), "[unknown]");
    }
}
