//! Values of a policy file that are written as text or as a number, alone or in a list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Maximum length of a name of a rule, a link or an application.
pub(crate) const MAX_NAME_BYTES: usize = 128;

/// Maximum number of values in a list.
pub(crate) const MAX_VALUES: usize = 1024;

/// A value that is written as text, or as a number.
pub(crate) trait FromText: Sized {
    /// Completes "expected ...".
    const EXPECTED: &'static str;

    /// Parses it.
    ///
    /// # Errors
    /// A sentence.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Takes a bare number, where one is allowed.
    ///
    /// # Errors
    /// A sentence.
    fn from_number(number: i64) -> Result<Self, String> {
        Err(format!("{number} is not {}", Self::EXPECTED))
    }

    /// The error for a text that has not the expected form.
    fn unexpected(text: &str) -> String {
        format!("\"{}\" is not {}", shown(text), Self::EXPECTED)
    }
}

/// The begin of a text, for an error.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct Text<T>(pub T);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct One<T>(PhantomData<T>);
        impl<T: FromText> Visitor<'_> for One<T> {
            type Value = Text<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
                T::from_text(text).map(Text).map_err(E::custom)
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Text<T>, E> {
                T::from_number(number).map(Text).map_err(E::custom)
            }
        }
        d.deserialize_any(One(PhantomData))
    }
}

/// One value or a list of values, never an empty list.
#[derive(Debug, Clone)]
pub(crate) struct OneOrMore<T>(pub Vec<T>);

impl<'de, T: FromText> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Values<T>(PhantomData<T>);
        impl<'de, T: FromText> Visitor<'de> for Values<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}, or a list of such", T::EXPECTED)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
                let one = T::from_text(text).map_err(E::custom)?;
                Ok(OneOrMore(vec![one]))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<OneOrMore<T>, E> {
                let one = T::from_number(number).map_err(E::custom)?;
                Ok(OneOrMore(vec![one]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMore<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(Text(one)) = seq.next_element()? {
                    if all.len() == MAX_VALUES {
                        let problem = format!("more than {MAX_VALUES} values");
                        return Err(A::Error::custom(problem));
                    }
                    all.push(one);
                }
                if all.is_empty() {
                    let problem = "an empty list is not allowed: no flow would match it";
                    return Err(A::Error::custom(problem));
                }
                Ok(OneOrMore(all))
            }
        }
        d.deserialize_any(Values(PhantomData))
    }
}

/// Name of a rule, a link or an application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(pub String);

impl FromText for Name {
    const EXPECTED: &'static str = "a name";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len());
        if !fits || text.trim() != text || !text.chars().all(mpbond_units::is_printable) {
            return Err(format!(
                "a name has 1 to {MAX_NAME_BYTES} octets, all printable, and no spaces around it"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Whole percentage from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Percent(pub u8);

impl FromText for Percent {
    const EXPECTED: &'static str = "a whole percentage such as \"20%\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let digits = text.strip_suffix('%').map(str::trim_end);
        let number = digits.and_then(whole_number).filter(|n| *n <= 100);
        number
            .and_then(|n| u8::try_from(n).ok())
            .map(Self)
            .ok_or_else(|| Self::unexpected(text))
    }
}

/// A number of decimal digits alone: no sign, no space.
pub(crate) fn whole_number(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
