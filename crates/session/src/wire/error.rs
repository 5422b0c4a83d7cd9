//! Reasons for which a record is refused.

use thiserror::Error;

use super::bounds::VERSION;
use super::frame_type::FrameType;
use crate::code::CloseCode;

/// A record that is not made of well-formed frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// A length points beyond the record, or a body is shorter than its fields.
    #[error("frame {0} is cut short")]
    Truncated(FrameType),
    /// A record of no octets, or what stands behind its last frame.
    #[error("record without a frame")]
    Empty,
    /// A field holds a value out of bounds.
    #[error("frame {kind}: {what} is out of bounds")]
    Field {
        /// Type of the frame.
        kind: FrameType,
        /// Name of the field.
        what: &'static str,
    },
    /// A frame type below [`FrameType::EXTENSIONS`] that this version does not know.
    #[error("unknown frame {0}")]
    UnknownType(FrameType),
    /// A hello of another protocol version, which may be laid out in another way.
    #[error("the peer speaks protocol version {0}, where {VERSION} is spoken here")]
    Version(u16),
}

impl WireError {
    /// Code for the CLOSE frame that answers it.
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::Version(_) => CloseCode::Version,
            _ => CloseCode::FrameEncoding,
        }
    }
}
