//! Errors of TLS streams and the names of alerts.

use std::io;

use super::record_size::MAX_RECORD_PLAINTEXT_BYTES;
use crate::identity::DeviceId;

/// Error of a TLS stream. Its text contains the cause, which `source` therefore does not return.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// The handshake exceeded its deadline.
    #[error("the TLS handshake did not finish in time")]
    Deadline,
    /// Another device answered than expected.
    #[error("expected device {expected}, but device {found} answered")]
    WrongPeer {
        /// Id of the device expected.
        expected: DeviceId,
        /// Id of the device that answered.
        found: DeviceId,
    },
    /// A device connected that is not trusted.
    #[error("device {found} is not trusted here (to trust it, run `mpbond trust {found}`)")]
    UntrustedPeer {
        /// Id of the device.
        found: DeviceId,
    },
    /// The peer ended the stream because it does not trust this device.
    #[error("the peer does not trust this device ({alert})")]
    NotTrusted {
        /// Name of the TLS alert received.
        alert: String,
    },
    /// The peer ended the stream with another alert.
    #[error("the peer ended the connection with the TLS alert {alert}")]
    Alert {
        /// Name of the alert in RFC 8446, section 6, or its number.
        alert: String,
    },
    /// No common application protocol (ALPN).
    #[error("the peer supports no protocol of mpbond (ALPN)")]
    WrongProtocol,
    /// The handshake failed for another reason.
    #[error("TLS handshake: {0}")]
    Handshake(rustls::Error),
    /// The stream ended without close_notify: bytes may be missing.
    #[error("the connection ended without a TLS close_notify")]
    Truncated,
    /// A record is invalid.
    #[error("invalid TLS record: {0}")]
    BadRecord(&'static str),
    /// The plaintext to send is empty or larger than a record.
    #[error("a record carries 1 to {max} bytes, not {0}", max = MAX_RECORD_PLAINTEXT_BYTES)]
    RecordSize(usize),
    /// This end has closed the stream.
    #[error("the stream is closed for sending")]
    Closed,
}

impl TlsError {
    /// Error for an alert number (RFC 8446, section 6.2).
    pub(super) fn from_alert(description: u8) -> Self {
        let (name, about_trust) = match description {
            10 => ("unexpected_message", false),
            20 => ("bad_record_mac", false),
            22 => ("record_overflow", false),
            40 => ("handshake_failure", false),
            42 => ("bad_certificate", true),
            43 => ("unsupported_certificate", false),
            44 => ("certificate_revoked", true),
            45 => ("certificate_expired", true),
            46 => ("certificate_unknown", true),
            47 => ("illegal_parameter", false),
            48 => ("unknown_ca", true),
            49 => ("access_denied", true),
            50 => ("decode_error", false),
            51 => ("decrypt_error", false),
            70 => ("protocol_version", false),
            80 => ("internal_error", false),
            90 => ("user_canceled", false),
            116 => ("certificate_required", false),
            120 => ("no_application_protocol", false),
            other => {
                return Self::Alert {
                    alert: format!("number {other}"),
                };
            }
        };
        let alert = name.to_owned();
        if about_trust {
            Self::NotTrusted { alert }
        } else {
            Self::Alert { alert }
        }
    }
}

impl From<io::Error> for TlsError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl From<rustls::Error> for TlsError {
    fn from(e: rustls::Error) -> Self {
        match e {
            rustls::Error::AlertReceived(alert) => Self::from_alert(u8::from(alert)),
            rustls::Error::NoApplicationProtocol => Self::WrongProtocol,
            other => Self::Handshake(other),
        }
    }
}
