//! Generation of an Ed25519 key and its self-signed certificate.
//!
//! Ed25519 has short keys, no choice of curves, and signatures without randomness at handshake
//! time. `rcgen::KeyPair` would do the same, but it links the code of every signature algorithm.

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::error::IdentityError;

/// The new key, as rcgen signs with it.
struct NewKey(Ed25519KeyPair);

impl rcgen::PublicKeyData for NewKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl rcgen::SigningKey for NewKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

/// Generates a key and a certificate that it has signed.
pub(super) fn with_certificate()
-> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), IdentityError> {
    let failed = |e: &dyn std::fmt::Display| IdentityError::Generate(e.to_string());
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| failed(&"the system's random source failed"))?;
    let key = NewKey(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|e| failed(&e))?);
    let mut params = rcgen::CertificateParams::new(Vec::new()).map_err(|e| failed(&e))?;
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "mpbond device");
    let certificate = params.self_signed(&key).map_err(|e| failed(&e))?;
    Ok((certificate.into(), pkcs8.as_ref().to_vec().into()))
}
