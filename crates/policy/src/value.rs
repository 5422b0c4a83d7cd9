//! Values of a policy file that are written as text or as a number, alone or in a list.

use std::fmt;

use mpbond_toml_text::shown;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

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

    /// Takes either.
    ///
    /// # Errors
    /// A sentence.
    fn from_item(item: &Item) -> Result<Self, String> {
        match item {
            Item::Text(text) => Self::from_text(text),
            Item::Number(number) => Self::from_number(*number),
        }
    }

    /// The error for a text that has not the expected form.
    fn unexpected(text: &str) -> String {
        format!("\"{}\" is not {}", shown(text), Self::EXPECTED)
    }
}

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct Text<T>(pub T);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let one = d.deserialize_any(Kind::of::<T>())?;
        T::from_item(&one).map(Text).map_err(D::Error::custom)
    }
}

/// One value or a list of values, never an empty list.
#[derive(Debug, Clone)]
pub(crate) struct OneOrMore<T>(pub Vec<T>);

impl<'de, T: FromText> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let items = d.deserialize_any(Items(Kind::of::<T>()))?;
        let all: Result<Vec<T>, String> = items.iter().map(T::from_item).collect();
        all.map(OneOrMore).map_err(D::Error::custom)
    }
}

/// A text or a number, not yet parsed.
///
/// A parser of TOML that is compiled for each type of value is large: values are read as these.
pub(crate) enum Item {
    Text(String),
    Number(i64),
}

/// Reads an item of a kind, so that an error has its place.
#[derive(Clone, Copy)]
struct Kind {
    /// Completes "expected ...".
    expected: &'static str,
    check: fn(&Item) -> Result<(), String>,
}

impl Kind {
    fn of<T: FromText>() -> Self {
        Self {
            expected: T::EXPECTED,
            check: |item| T::from_item(item).map(drop),
        }
    }

    fn checked<E: Error>(self, item: Item) -> Result<Item, E> {
        (self.check)(&item).map(|()| item).map_err(E::custom)
    }
}

impl Visitor<'_> for Kind {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        self.checked(Item::Text(text.to_owned()))
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Item, E> {
        self.checked(Item::Number(number))
    }
}

impl<'de> DeserializeSeed<'de> for Kind {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Item, D::Error> {
        d.deserialize_any(self)
    }
}

/// Reads an item or a list of them.
struct Items(Kind);

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Item>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list of such", self.0.expected)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<Item>, E> {
        self.0.visit_str(text).map(|one| vec![one])
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<Item>, E> {
        self.0.visit_i64(number).map(|one| vec![one])
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Item>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = seq.next_element_seed(self.0)? {
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
        Ok(all)
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
