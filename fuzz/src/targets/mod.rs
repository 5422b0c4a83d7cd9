//! The targets: one function per parser, which must not panic and must keep its documented
//! guarantees for any octets.

pub mod answers;
pub mod bluetooth_host;
pub mod captures;
pub mod client_hello;
pub mod config;
pub mod fronts;
pub mod l2;
pub mod links;
pub mod look_up;
pub mod policy;
pub mod traces;
pub mod uevents;
pub mod wire;

/// Checks that an error is one line of text.
fn one_line(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without text");
    let control = text.chars().any(char::is_control);
    assert!(!control, "an error with control characters: {text:?}");
}

/// Input of a text parser: files that are not UTF-8 are refused before parsing.
fn text(octets: &[u8]) -> Option<&str> {
    std::str::from_utf8(octets).ok()
}
