//! Protection of application-data records (RFC 8446, section 5).

use bytes::{BufMut, BytesMut};
use ring::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

use super::error::TlsError;
use super::record_size::{HEADER_BYTES, MAX_BODY_BYTES, MAX_RECORD_PLAINTEXT_BYTES, TAG_BYTES};

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// Content type and total length of the first record, header included; `None` while the header is
/// incomplete.
pub(super) fn frame(received: &[u8]) -> Result<Option<(u8, usize)>, TlsError> {
    let Some(&[kind, major, _, high, low]) = received.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&kind) || major != 3 {
        return Err(TlsError::BadRecord("not a TLS record header"));
    }
    let body = usize::from(u16::from_be_bytes([high, low]));
    if body > MAX_BODY_BYTES {
        return Err(TlsError::BadRecord("too long"));
    }
    Ok(Some((kind, HEADER_BYTES + body)))
}

/// The key of one direction and its record sequence number.
struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    records: u64,
}

impl Key {
    fn new((records, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, TlsError> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (&aead::CHACHA20_POLY1305, key, iv)
            }
            _ => return Err(unexpected_suite()),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unexpected_suite())?;
        let iv = <[u8; NONCE_LEN]>::try_from(iv.as_ref()).map_err(|_| unexpected_suite())?;
        Ok(Self {
            key: LessSafeKey::new(key),
            iv,
            records,
        })
    }

    /// The per-record nonce: sequence number xor IV (RFC 8446, section 5.3). Every call increments
    /// the sequence number, so no nonce is reused.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce.iter_mut().skip(4).zip(self.records.to_be_bytes()) {
            *byte ^= number;
        }
        self.records += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn unexpected_suite() -> TlsError {
    TlsError::Handshake(rustls::Error::General(
        "the negotiated cipher suite was not offered".to_owned(),
    ))
}

/// Encrypts outgoing records.
pub(super) struct Sealer(Key);

impl Sealer {
    pub(super) fn new(secrets: (u64, ConnectionTrafficSecrets)) -> Result<Self, TlsError> {
        Key::new(secrets).map(Self)
    }

    /// Number of records encrypted with this key.
    pub(super) fn records(&self) -> u64 {
        self.0.records
    }

    /// Appends one record to `out`; the caller checks the plaintext's length.
    pub(super) fn seal<'a>(
        &mut self,
        content_type: u8,
        parts: impl Iterator<Item = &'a [u8]>,
        plaintext_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<(), TlsError> {
        let [high, low] = ((plaintext_bytes + 1 + TAG_BYTES) as u16).to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        out.put_slice(&header);
        let body_at = out.len();
        for part in parts {
            out.put_slice(part);
        }
        out.put_u8(content_type);
        let nonce = self.0.next_nonce();
        let body = out.get_mut(body_at..).unwrap_or_default();
        let tag = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), body)
            .map_err(|_| TlsError::BadRecord("encryption failed"))?;
        out.put_slice(tag.as_ref());
        Ok(())
    }
}

/// Decrypts incoming records.
pub(super) struct Opener(Key);

impl Opener {
    pub(super) fn new(secrets: (u64, ConnectionTrafficSecrets)) -> Result<Self, TlsError> {
        Key::new(secrets).map(Self)
    }

    /// Decrypts one complete record in place and reduces it to its content without padding. Returns
    /// the content type.
    pub(super) fn open(&mut self, record: &mut BytesMut) -> Result<u8, TlsError> {
        let Some(&header) = record.first_chunk::<HEADER_BYTES>() else {
            return Err(TlsError::BadRecord("shorter than its header"));
        };
        let nonce = self.0.next_nonce();
        let body = record.get_mut(HEADER_BYTES..).unwrap_or_default();
        let inner = self
            .0
            .key
            .open_in_place(nonce, Aad::from(header), body)
            .map_err(|_| TlsError::BadRecord("authentication failed: damaged or forged"))?;
        // The last octet that is not zero is the content type; zeros are padding.
        let Some(type_at) = inner.iter().rposition(|&b| b != 0) else {
            return Err(TlsError::BadRecord("no content, only padding"));
        };
        let content_type = inner.get(type_at).copied().unwrap_or_default();
        if type_at > MAX_RECORD_PLAINTEXT_BYTES {
            return Err(TlsError::BadRecord("too long"));
        }
        bytes::Buf::advance(record, HEADER_BYTES);
        record.truncate(type_at);
        Ok(content_type)
    }
}
