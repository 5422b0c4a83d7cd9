//! How subflows become a session: MP_CAPABLE opens one, MP_JOIN adds to it.
//!
//! TLS has authenticated both devices when a hello arrives. The proof in MP_JOIN ties the new
//! subflow to the session (only its two ends know the key) and to this very TLS connection (by
//! its exporter, RFC 8446, section 7.5), so that it can be neither guessed nor replayed.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

use crate::wire::{Frame, Limits, PathLabel, VERSION};
use crate::{CloseCode, SessionId, SubflowId};

/// The secret that the two ends of a session share.
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

const JOIN_CLIENT: &[u8] = b"mpbond 1 join client";
const JOIN_SERVER: &[u8] = b"mpbond 1 join server";

impl SessionKey {
    pub(crate) fn derive(client: &[u8; 32], server: &[u8; 32], session: SessionId) -> Self {
        let mut both = [0; 64];
        both[..32].copy_from_slice(client);
        both[32..].copy_from_slice(server);
        let m = mac(&both, &[b"mpbond 1 session key", &session.0]);
        Self(m.finalize().into_bytes().into())
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

    /// Whether `proof` is the one the other end would make; takes the same time for any proof.
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
        random: [u8; 32],
        /// The subflow's number.
        subflow: SubflowId,
        /// What the primary keeps.
        limits: Limits,
        /// Which way the subflow takes.
        path: PathLabel,
    },
    /// Join this session.
    Join {
        /// Which.
        session: SessionId,
        /// The subflow's number.
        subflow: SubflowId,
        /// To be verified by the session.
        proof: [u8; 32],
        /// Which way the subflow takes.
        path: PathLabel,
    },
}

/// A first record that is no acceptable hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{code}: {what}")]
pub struct HelloError {
    /// Goes back in CLOSE.
    pub code: CloseCode,
    /// What was wrong.
    pub what: &'static str,
}

/// Reads the first record of a new connection at a proxy, so that the connection can be given to
/// its session. The rest of the record, if any, is returned to be handled after it.
///
/// # Errors
/// [`HelloError`] when the record does not begin with MP_CAPABLE or MP_JOIN of this version.
pub fn parse_hello(mut record: Bytes) -> Result<(Hello, Bytes), HelloError> {
    let bad = |code, what| HelloError { code, what };
    let frame = Frame::parse(&mut record)
        .map_err(|_| bad(CloseCode::FrameEncoding, "first frame is malformed"))?;
    let version_ok = |v: u16| {
        if v == VERSION {
            Ok(())
        } else {
            Err(bad(
                CloseCode::Version,
                "peer speaks another protocol version",
            ))
        }
    };
    match frame {
        Frame::MpCapable {
            version,
            random,
            subflow,
            limits,
            path,
        } => {
            version_ok(version)?;
            Ok((
                Hello::Capable {
                    random,
                    subflow,
                    limits,
                    path,
                },
                record,
            ))
        }
        Frame::MpJoin {
            version,
            session,
            subflow,
            proof,
            path,
        } => {
            version_ok(version)?;
            Ok((
                Hello::Join {
                    session,
                    subflow,
                    proof,
                    path,
                },
                record,
            ))
        }
        _ => Err(bad(
            CloseCode::UnexpectedFrame,
            "first frame is neither MP_CAPABLE nor MP_JOIN",
        )),
    }
}
