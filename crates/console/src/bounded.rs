//! Lists and texts of bounded size from JSON of any size: what is too much is skipped while it is
//! read.

use std::collections::VecDeque;
use std::fmt::{Formatter, Result as Written};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// Maximum length of a name and of a sentence, in characters.
const MAX_NAME: usize = 128;
const MAX_SENTENCE: usize = 600;

/// The first `MAX` elements of a list.
pub(crate) fn first<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(First::<T, MAX>(PhantomData))
}

/// The last `MAX` elements of a list.
pub(crate) fn last<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(Last::<T, MAX>(PhantomData))
}

struct First<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for First<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < MAX {
            match from.next_element()? {
                Some(element) => kept.push(element),
                None => return Ok(kept),
            }
        }
        while from.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}

struct Last<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Last<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut kept = VecDeque::new();
        while let Some(element) = from.next_element()? {
            if kept.len() == MAX {
                kept.pop_front();
            }
            kept.push_back(element);
        }
        Ok(kept.into())
    }
}

/// A value that is made of a text.
pub(crate) struct OfText<T>(pub fn(&str) -> T);

impl<T> Visitor<'_> for OfText<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

/// A name.
pub(crate) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    from.deserialize_str(OfText(|text| clean(text, MAX_NAME)))
}

/// A name, if there is one.
pub(crate) fn optional_name<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    Ok(Option::<Name>::deserialize(from)?.map(|name| name.0))
}

/// A sentence, if there is one.
pub(crate) fn sentence<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Sentence>::deserialize(from)?.map(|sentence| sentence.0))
}

/// The first `MAX` names of a list.
pub(crate) fn names<'de, D: Deserializer<'de>, const MAX: usize>(
    from: D,
) -> Result<Vec<String>, D::Error> {
    let names = first::<D, Name, MAX>(from)?;
    Ok(names.into_iter().map(|name| name.0).collect())
}

/// The first `MAX` sentences of a list.
pub(crate) fn sentences<'de, D: Deserializer<'de>, const MAX: usize>(
    from: D,
) -> Result<Vec<String>, D::Error> {
    let sentences = first::<D, Sentence, MAX>(from)?;
    Ok(sentences.into_iter().map(|sentence| sentence.0).collect())
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Name(#[serde(deserialize_with = "name")] String);

struct Sentence(String);

impl<'de> Deserialize<'de> for Sentence {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = OfText(|text| clean(text, MAX_SENTENCE));
        from.deserialize_str(text).map(Self)
    }
}

/// A text of at most `max` characters, in which those that are not to be shown are replaced.
fn clean(text: &str, max: usize) -> String {
    let shown = text
        .chars()
        .map(|c| if is_shown(c) { c } else { '\u{fffd}' });
    match text.chars().nth(max) {
        None => shown.collect(),
        Some(_) => shown.take(max - 1).chain(['…']).collect(),
    }
}

/// Whether a character neither controls a terminal nor the direction of the text around it (Unicode
/// Standard Annex 9), and is not one of those that are ignored when text is drawn
/// (Default_Ignorable_Code_Point).
fn is_shown(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !is_hidden
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static BUILT: Cell<usize> = const { Cell::new(0) });

    /// Counts how many of it are built.
    #[derive(Deserialize)]
    #[serde(from = "u64")]
    struct Counted(u64);

    impl From<u64> for Counted {
        fn from(number: u64) -> Self {
            BUILT.set(BUILT.get() + 1);
            Self(number)
        }
    }

    #[test]
    fn lists_keep_their_first_or_last_elements_and_build_no_more() {
        #[derive(Deserialize)]
        struct Lists {
            #[serde(deserialize_with = "first::<_, _, 3>")]
            old: Vec<Counted>,
            #[serde(deserialize_with = "last::<_, _, 2>")]
            new: Vec<u64>,
        }
        let text = r#"{ "old": [1, 2, 3, 4, "x", {}], "new": [5, 6, 7] }"#;
        let lists: Lists = serde_json::from_str(text).unwrap();
        let old: Vec<u64> = lists.old.iter().map(|c| c.0).collect();
        assert_eq!((old, lists.new), (vec![1, 2, 3], vec![6, 7]));
        assert_eq!(BUILT.get(), 3);
    }

    #[test]
    fn characters_that_are_not_seen_are_replaced() {
        let hidden = "\u{1b}\u{202e}\u{2066}\u{115f}\u{3164}\u{fe0f}\u{e0041}\u{fff9}\u{180e}";
        for c in hidden.chars() {
            assert_eq!(clean(&format!("a{c}b"), 9), "a\u{fffd}b", "{c:?}");
        }
        let plain = "Zoë's phone 日本 עברית";
        assert_eq!(clean(plain, 99), plain);
    }
}
