//! Rules for names: syntax, uniqueness, references to existing ones.

use std::collections::HashSet;

use toml::Spanned;

use crate::error::Result;
use crate::experiment::place::Place;

pub(super) fn unique<'a>(
    place: &Place,
    kind: &str,
    names: impl Iterator<Item = &'a Spanned<String>>,
) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.get_ref()) {
            return Err(place.at(
                name,
                format!("{kind} \"{}\" is defined twice", name.get_ref()),
            ));
        }
    }
    Ok(())
}

pub(super) fn unknown<'a>(
    kind: &str,
    got: &Spanned<String>,
    allowed: impl Iterator<Item = &'a Spanned<String>>,
) -> String {
    let allowed: Vec<_> = allowed.map(|n| n.get_ref().as_str()).collect();
    format!(
        "there is no {kind} \"{}\": {}",
        got.get_ref(),
        allowed.join(", ")
    )
}

pub(super) fn is_name(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
