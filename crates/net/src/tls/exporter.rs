//! TLS 1.3 exporter (RFC 8446, section 7.5).

use ring::{digest, hmac};

/// Exporter of one TLS session with an empty context (RFC 8446, section 7.5): keying material known
/// only to its two ends.
pub(super) struct Exporter {
    secret: [u8; 32],
}

impl Exporter {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// TLS-Exporter(label, "", 32).
    pub(super) fn export(&self, label: &[u8]) -> [u8; 32] {
        let empty_hash = digest::digest(&digest::SHA256, b"");
        let derived = expand_label(&self.secret, label, empty_hash.as_ref());
        expand_label(&derived, b"exporter", empty_hash.as_ref())
    }
}

/// HKDF-Expand-Label(secret, label, context, 32) of RFC 8446, section 7.1; for 32 bytes HKDF-Expand
/// is one HMAC-SHA256 (RFC 5869, section 2.3).
///
/// A label longer than the format allows (249 bytes) is hashed first, so that the function cannot
/// fail.
fn expand_label(secret: &[u8; 32], label: &[u8], context: &[u8]) -> [u8; 32] {
    const PREFIX: &[u8] = b"tls13 ";
    let hashed;
    let label = if label.len() > 255 - PREFIX.len() {
        hashed = digest::digest(&digest::SHA256, label);
        hashed.as_ref()
    } else {
        label
    };
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    mac.update(&[0, 32]);
    mac.update(&[(PREFIX.len() + label.len()) as u8]);
    mac.update(PREFIX);
    mac.update(label);
    mac.update(&[context.len() as u8]);
    mac.update(context);
    mac.update(&[1]);
    let mut out = [0; 32];
    out.copy_from_slice(mac.sign().as_ref());
    out
}
