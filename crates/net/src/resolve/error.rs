//! Reasons why a look-up fails.

/// Reason why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// It does not exist, or has no address of the family.
    #[error("the name has no address")]
    NotFound,
    /// No server has answered, or none could.
    #[error("no name server answers")]
    NoAnswer,
}
