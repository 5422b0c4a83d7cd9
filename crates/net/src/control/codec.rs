//! Encoding of control messages: a length of two octets, then JSON.

use bytes::{Buf, BytesMut};

use super::Message;

/// Maximum length of a message in octets. All messages are short; the bound limits what a receiver
/// buffers.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// Length field before each message: octets, big-endian.
const LENGTH_BYTES: usize = 2;

/// Error of encoding a control message.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The message is longer than a receiver accepts.
    #[error("control message of {0} bytes exceeds {MAX_MESSAGE_BYTES} bytes")]
    TooLong(usize),
    /// The message cannot be represented as JSON.
    #[error("control message: {0}")]
    Json(serde_json::Error),
}

impl From<serde_json::Error> for EncodeError {
    fn from(cause: serde_json::Error) -> Self {
        Self::Json(cause)
    }
}

/// Error of decoding a control message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The length field exceeds the bound.
    #[error("control message length {0} exceeds {MAX_MESSAGE_BYTES} bytes")]
    TooLong(usize),
    /// The body is not valid JSON of a message.
    #[error("control message {number}: {cause}")]
    Json {
        /// Index of the message on the connection, from 1.
        number: u64,
        /// JSON error with its column.
        cause: serde_json::Error,
    },
}

/// Encodes a message with its length field.
///
/// # Errors
/// When the message is too long.
pub fn encode(message: &Message) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut out, message)?;
    let len = out.len() - LENGTH_BYTES;
    if len > MAX_MESSAGE_BYTES {
        return Err(EncodeError::TooLong(len));
    }
    for (byte, value) in out.iter_mut().zip((len as u16).to_be_bytes()) {
        *byte = value;
    }
    Ok(out)
}

/// Incremental decoder of a stream of messages.
#[derive(Debug, Default)]
pub struct Decoder {
    received: BytesMut,
    messages: u64,
}

impl Decoder {
    /// Appends received octets.
    pub fn push(&mut self, octets: &[u8]) {
        self.received.extend_from_slice(octets);
    }

    /// The next complete message, if any. Messages of unknown types are [`Message::Unknown`].
    ///
    /// # Errors
    /// When the octets are not a message; the connection cannot be used afterwards.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        let Some(&length) = self.received.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(length));
        if len > MAX_MESSAGE_BYTES {
            return Err(DecodeError::TooLong(len));
        }
        if self.received.len() < LENGTH_BYTES + len {
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        let body = self.received.split_to(len);
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
        self.messages += 1;
        let message = serde_json::from_slice(&body).map_err(|cause| DecodeError::Json {
            number: self.messages,
            cause,
        })?;
        Ok(Some(message))
    }

    /// Whether part of a message has been received.
    pub fn is_mid_message(&self) -> bool {
        !self.received.is_empty()
    }
}
