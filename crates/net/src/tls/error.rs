use std::io;

use crate::identity::DeviceId;

/// Why a TLS stream could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The handshake took longer than allowed.
    #[error("the TLS handshake did not finish in time")]
    Deadline,
    /// We called one device and another one answered.
    #[error("expected device {expected}, but device {found} answered")]
    WrongPeer {
        /// Whom we meant to reach.
        expected: DeviceId,
        /// Who answered.
        found: DeviceId,
    },
    /// A device called that is not trusted here.
    #[error("device {found} is not trusted here (`mpbond trust {found}` would change that)")]
    UntrustedPeer {
        /// Who called.
        found: DeviceId,
    },
    /// The peer ended the stream because it does not trust us.
    #[error("the peer does not trust this device ({alert})")]
    NotTrusted {
        /// The TLS alert it sent.
        alert: String,
    },
    /// The peer ended the stream with another alert.
    #[error("the peer ended the connection with the TLS alert {alert}")]
    Alert {
        /// The alert's name in RFC 8446 section 6, or its number.
        alert: String,
    },
    /// The peer speaks TLS but no protocol of ours.
    #[error("the peer speaks no protocol of ours")]
    WrongProtocol,
    /// The handshake failed for another reason.
    #[error("TLS handshake: {0}")]
    Handshake(rustls::Error),
    /// The stream ended without a close_notify: bytes may be missing.
    #[error("the connection was cut off without a TLS closing message")]
    Truncated,
    /// What arrived is no valid record.
    #[error("bad TLS record: {0}")]
    BadRecord(&'static str),
    /// More plaintext than a record may hold was given to be sent, or none.
    #[error("a record carries 1 to {max} bytes, not {0}", max = super::MAX_RECORD_PLAINTEXT_BYTES)]
    RecordSize(usize),
    /// The stream was closed on this side already.
    #[error("the stream is closed for sending")]
    Closed,
}

impl TlsError {
    /// An alert by its number (RFC 8446 section 6.2).
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

impl From<rustls::Error> for TlsError {
    fn from(e: rustls::Error) -> Self {
        match e {
            rustls::Error::AlertReceived(alert) => Self::from_alert(u8::from(alert)),
            rustls::Error::NoApplicationProtocol => Self::WrongProtocol,
            other => Self::Handshake(other),
        }
    }
}
