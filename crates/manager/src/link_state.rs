//! State of a link, for status pages.

/// State of an own path or a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState<'a> {
    /// A subflow runs over it.
    Up,
    /// An attempt is under way; why the last one ended.
    Connecting(Option<&'a str>),
    /// It waits for another attempt; why the last one ended.
    Waiting(Option<&'a str>),
}
