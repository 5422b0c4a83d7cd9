//! A titled group of pictures in a report.

/// A group of pictures under a title.
pub(super) struct Section {
    pub title: String,
    /// Explanation for the reader.
    pub note: &'static str,
    /// SVG elements.
    pub pictures: Vec<String>,
}

/// A name with a capital letter, as a title.
pub(super) fn titled(what: &str) -> String {
    match what.get(..1) {
        Some(first) => first.to_uppercase() + what.get(1..).unwrap_or_default(),
        None => what.to_owned(),
    }
}
