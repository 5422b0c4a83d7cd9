//! A titled group of pictures in a report.

/// A group of pictures under a title.
pub(super) struct Section {
    pub title: String,
    /// Explanation for the reader.
    pub note: &'static str,
    /// SVG elements.
    pub pictures: Vec<String>,
}

pub(super) fn titled(what: &str, cluster: &str) -> String {
    let mut what = what.to_owned();
    if let Some(first) = what.get(..1) {
        what = first.to_uppercase() + what.get(1..).unwrap_or_default();
    }
    match cluster {
        "" => what,
        cluster => format!("{what}: {cluster}"),
    }
}
