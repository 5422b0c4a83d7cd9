use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::sink::Sink;

/// Numbers for frames of formats that name them by text each time.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    ids: FxHashMap<Box<str>, u64>,
}

/// Symbols that are told apart; a browser with all its libraries has fewer.
const MAX_SYMBOLS: usize = 4 << 20;

impl Symbols {
    /// The number of a symbol; a new one is told to the sink.
    pub(crate) fn id(&mut self, name: &str, sink: &mut dyn Sink) -> u64 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let name = if self.ids.len() < MAX_SYMBOLS {
            name
        } else {
            "(further symbols)"
        };
        let next = self.ids.len() as u64;
        *self.ids.entry(name.into()).or_insert_with(|| {
            sink.symbol(next, name);
            next
        })
    }
}

/// What stands for the code of a file whose symbols are not known: its name in brackets.
pub(crate) fn of_object(path: &str) -> Cow<'static, str> {
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
    fn each_is_told_once() {
        let (mut symbols, mut told) = (Symbols::default(), Told::default());
        let ids = ["main", "work", "main"].map(|name| symbols.id(name, &mut told));
        assert_eq!(ids, [0, 1, 0]);
        assert_eq!(told.0, [(0, "main".into()), (1, "work".into())]);
    }

    #[test]
    fn files_stand_for_their_code() {
        assert_eq!(of_object("/usr/lib/libc.so.6"), "[libc.so.6]");
        assert_eq!(of_object("[kernel.kallsyms]"), "[kernel.kallsyms]");
        assert_eq!(of_object("[unknown]"), "[unknown]");
        assert_eq!(of_object(""), "[unknown]");
    }
}
