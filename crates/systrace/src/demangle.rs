//! Names of functions as in the source, from the symbols of Rust and C++ compilers.

use std::borrow::Cow;
use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// Maximum length of a symbol and of its name. A short symbol can stand for a name of any length,
/// since it can refer to its own parts.
const MAX_BYTES: usize = 4096;

/// The name that a symbol stands for: a path in Rust, a function with its parameters in C++. Other
/// text is returned as it is.
pub(crate) fn demangled(symbol: &str) -> Cow<'_, str> {
    if symbol.len() > MAX_BYTES || !symbol.starts_with("_") {
        return Cow::Borrowed(symbol);
    }
    rust(symbol)
        .or_else(|| cpp(symbol))
        .map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// Without the hash at the end, which is different for each compiler.
fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut text = Bounded::default();
    write!(text, "{name:#}").ok()?;
    Some(text.0)
}

fn cpp(symbol: &str) -> Option<String> {
    let (name, rest) = BorrowedSymbol::with_tail(symbol.as_bytes()).ok()?;
    let mut text = Bounded::default();
    let options = DemangleOptions::new().no_return_type();
    name.structured_demangle(&mut text, &options).ok()?;
    // What linkers append, such as `@plt`.
    let rest = std::str::from_utf8(rest).ok()?;
    text.write_str(rest).ok()?;
    Some(text.0)
}

/// A text of at most [`MAX_BYTES`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn symbols_of_both_languages_are_names() {
        for (symbol, name) in [
            (
                "_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE",
                "core::fmt::Formatter::write_str",
            ),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                "foo::example_function",
            ),
            (
                "_ZNK7android6Parcel8dataSizeEv",
                "android::Parcel::dataSize() const",
            ),
            ("_Z5deltav", "delta()"),
            ("_Z5deltav@plt", "delta()@plt"),
            ("_Z3addIiET_S0_S0_", "add<int>(int, int)"),
        ] {
            assert_eq!(demangled(symbol), name);
        }
    }

    #[test]
    fn other_names_are_unchanged() {
        for name in [
            "",
            "_",
            "_start",
            "__libc_start_main",
            "_Z",
            "_ZN",
            "tcp_sendmsg",
            "android.view.Choreographer.doFrame(JI)V",
            "[libc.so.6]",
        ] {
            assert_eq!(demangled(name), name);
        }
    }

    /// Each parameter is a pair of the one before, so that the nth has 2^n parts.
    fn pairs(count: u32) -> String {
        let number = |n| char::from_digit(n, 36).unwrap().to_ascii_uppercase();
        let pair = |n| format!("S_IS{0}_S{0}_E", number(n));
        "_Z1f1pIiiE".to_owned() + &(0..count).map(pair).collect::<String>()
    }

    #[test]
    fn a_symbol_with_a_name_of_great_length_is_unchanged() {
        let name = "f(p<int, int>, p<p<int, int>, p<int, int> >)";
        assert_eq!(demangled(&pairs(1)), name);
        assert_eq!(demangled(&pairs(30)), pairs(30));
    }

    proptest! {
        #[test]
        fn every_text_has_a_bounded_name(symbol in "(_R|_Z|_ZN)?[0-9A-Za-z_.@$]{0,60}") {
            let name = demangled(&symbol);
            prop_assert!(name.len() <= MAX_BYTES);
        }
    }
}
