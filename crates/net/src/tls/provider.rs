//! Cryptography of TLS: the algorithms that both ends use, and no others.
//!
//! The default provider of rustls has these, too, but it links ECDSA and RSA: 0.25 MB.

use std::sync::{Arc, LazyLock};

use ring::rand::SecureRandom as _;
use rustls::crypto::{
    CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms,
    ring as rustls_ring,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};

/// One key exchange group, one signature scheme and two cipher suites. AES-128-GCM first: with AES
/// instructions, which nearly all deployed processors have, it costs least per byte. Both suites
/// use SHA-256, on which the exporter relies.
pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            rustls_ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            rustls_ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![rustls_ring::kx_group::X25519],
        signature_verification_algorithms: SIGNATURES,
        secure_random: &Ring,
        key_provider: &Ring,
    })
});

/// Signatures that are verified: those of every identity.
const SIGNATURES: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::ring::ED25519],
    mapping: &[(SignatureScheme::ED25519, &[webpki::ring::ED25519])],
};

/// Random octets and private keys, from ring.
#[derive(Debug)]
struct Ring;

impl SecureRandom for Ring {
    fn fill(&self, buf: &mut [u8]) -> Result<(), GetRandomFailed> {
        ring::rand::SystemRandom::new()
            .fill(buf)
            .map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for Ring {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        match &key {
            PrivateKeyDer::Pkcs8(key) => rustls_ring::sign::any_eddsa_type(key),
            _ => Err(Error::General("the key is not Ed25519 in PKCS #8".into())),
        }
    }
}
