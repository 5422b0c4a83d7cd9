//! One function a parser: any octets in, no panic out, and what the parser promises held.

pub mod captures;
pub mod config;
pub mod fronts;
pub mod links;
pub mod traces;
pub mod wire;

/// An error is one line for a person.
fn one_line(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without words");
    let control = text.chars().any(char::is_control);
    assert!(!control, "an error with control characters: {text:?}");
}

/// Text files: what is no UTF-8 is refused before any parser sees it.
fn text(octets: &[u8]) -> Option<&str> {
    std::str::from_utf8(octets).ok()
}
