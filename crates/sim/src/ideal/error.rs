//! Reasons for which there is no bound.

/// Reason for which no bound can be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdealError {
    /// The topology has no path, or one of them no hop.
    #[error("a topology needs a path, and each path a hop")]
    Empty,
    /// A hop names a medium that the topology does not have.
    #[error("path {path}: there is no medium named \"{medium}\"")]
    UnknownMedium {
        /// The path.
        path: String,
        /// The name.
        medium: String,
    },
    /// A shared medium is neither at the first hop nor at the last hop of all paths that share it,
    /// as the maximum flow requires.
    #[error(
        "medium \"{medium}\" is shared in the middle of paths, or at both ends of one: \
         not supported"
    )]
    MediumInTheMiddle {
        /// The medium.
        medium: String,
    },
    /// The transfer takes longer than a day.
    #[error("the links do not carry the transfer within a day")]
    Never,
}
