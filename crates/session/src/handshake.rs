//! Opening of a session by MP_CAPABLE, and joining of further subflows by MP_JOIN.
//!
//! TLS has authenticated both devices when a hello arrives. The proof in MP_JOIN ties the new
//! subflow to the session (only its two ends know the key) and to this very TLS connection (by
//! its exporter, RFC 8446, section 7.5), so that it can be neither guessed nor replayed.

use bytes::Bytes;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use thiserror::Error;

use crate::wire::{Capabilities, Frame, Limits, PathLabel, Secret, WireError};
use crate::{CloseCode, SessionId, SubflowId};

/// Label of the TLS exporter (RFC 8446, section 7.5) that MP_JOIN's proof is bound to.
pub const EXPORTER: &[u8] = b"EXPORTER-mpbond-2-join";

/// Secret shared by the two ends of a session.
#[derive(Clone)]
pub struct SessionKey([u8; 32]);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC takes keys of any length.
    #[allow(clippy::expect_used)]
    let mut m = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes any key");
    for p in parts {
        m.update(p);
    }
    m
}

const JOIN_CLIENT: &[u8] = b"mpbond 2 join client";
const JOIN_SERVER: &[u8] = b"mpbond 2 join server";

impl SessionKey {
    pub(crate) fn derive(client: &[u8; 32], server: &[u8; 32], session: SessionId) -> Self {
        let mut both = [0; 64];
        both[..32].copy_from_slice(client);
        both[32..].copy_from_slice(server);
        let m = mac(&both, &[b"mpbond 2 session key", &session.0]);
        Self(m.finalize().into_bytes().into())
    }

    #[cfg(test)]
    pub(crate) const fn octets(&self) -> &[u8; 32] {
        &self.0
    }

    fn join_mac(
        &self,
        label: &[u8],
        session: SessionId,
        subflow: SubflowId,
        exporter: &[u8; 32],
    ) -> Hmac<Sha256> {
        mac(
            &self.0,
            &[label, &session.0, &subflow.0.to_be_bytes(), exporter],
        )
    }

    pub(crate) fn prove(
        &self,
        client: bool,
        session: SessionId,
        subflow: SubflowId,
        exporter: &[u8; 32],
    ) -> [u8; 32] {
        let label = if client { JOIN_CLIENT } else { JOIN_SERVER };
        self.join_mac(label, session, subflow, exporter)
            .finalize()
            .into_bytes()
            .into()
    }

    /// Whether `proof` is the other end's proof; takes the same time for any proof.
    pub(crate) fn verify(
        &self,
        client: bool,
        session: SessionId,
        subflow: SubflowId,
        exporter: &[u8; 32],
        proof: &[u8; 32],
    ) -> bool {
        let label = if client { JOIN_CLIENT } else { JOIN_SERVER };
        self.join_mac(label, session, subflow, exporter)
            .verify_slice(proof)
            .is_ok()
    }
}

/// The first frame on a new connection to a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Open a session.
    Capable {
        /// The primary's share of the key.
        random: Secret,
        /// Number of the subflow.
        subflow: SubflowId,
        /// Limits that the primary grants.
        limits: Limits,
        /// Path of the subflow.
        path: PathLabel,
        /// What the primary can do.
        capabilities: Capabilities,
    },
    /// Join this session.
    Join {
        /// Id of the session.
        session: SessionId,
        /// Number of the subflow.
        subflow: SubflowId,
        /// Proof, which the session verifies.
        proof: Secret,
        /// Path of the subflow.
        path: PathLabel,
    },
}

/// A first record that is no acceptable hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{code}: {what}")]
pub struct HelloError {
    /// Code for the CLOSE frame that answers it.
    pub code: CloseCode,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Reads the first record of a new connection at a proxy, so that the connection can be given to
/// its session. Returns the hello and the rest of the record, which is handled after it.
///
/// # Errors
/// [`HelloError`] when the record does not begin with MP_CAPABLE or MP_JOIN of this version.
pub fn parse_hello(mut record: Bytes) -> Result<(Hello, Bytes), HelloError> {
    let bad = |code, what| HelloError { code, what };
    let frame = Frame::parse(&mut record).map_err(|e| match e {
        WireError::Version(_) => bad(e.close_code(), "peer speaks another protocol version"),
        _ => bad(e.close_code(), "first frame is malformed"),
    })?;
    let hello = match frame {
        Frame::MpCapable {
            random,
            subflow,
            limits,
            path,
            capabilities,
        } => Hello::Capable {
            random,
            subflow,
            limits,
            path,
            capabilities,
        },
        Frame::MpJoin {
            session,
            subflow,
            proof,
            path,
        } => Hello::Join {
            session,
            subflow,
            proof,
            path,
        },
        _ => {
            return Err(bad(
                CloseCode::UnexpectedFrame,
                "first frame is neither MP_CAPABLE nor MP_JOIN",
            ));
        }
    };
    Ok((hello, record))
}
