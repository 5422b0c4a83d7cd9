//! Identity of a connection.

/// One connection. Handles are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId {
    /// Controller.
    pub adapter: u16,
    /// Handle at that controller.
    pub handle: u16,
    /// Number of earlier connections with this handle.
    pub connection: u32,
}
