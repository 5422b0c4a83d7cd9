use bytes::{Buf, BytesMut};

use super::Message;

/// Longest message. All are short; a reader must know what to hold at most.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// A message is preceded by its length in octets, most significant first.
const LENGTH_BYTES: usize = 2;

/// A message that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It is longer than a reader accepts.
    #[error("a control message of {0} bytes is longer than {MAX_MESSAGE_BYTES}")]
    TooLong(usize),
    /// It has no form on the wire.
    #[error("control message: {0}")]
    Json(#[from] serde_json::Error),
}

/// Octets that are no message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A length above the bound.
    #[error("a control message of {0} bytes is announced, the most is {MAX_MESSAGE_BYTES}")]
    TooLong(usize),
    /// Not the JSON of a message.
    #[error("control message {number}: {source}")]
    Json {
        /// Which message of the connection, counted from 1.
        number: u64,
        /// What is wrong, and at which column.
        source: serde_json::Error,
    },
}

/// The octets of a message, length first.
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

/// Finds messages in octets that arrive in any pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    received: BytesMut,
    messages: u64,
}

impl Decoder {
    /// Takes what arrived.
    pub fn push(&mut self, octets: &[u8]) {
        self.received.extend_from_slice(octets);
    }

    /// The next whole message, if there is one. Messages of a later version
    /// are [`Message::Unknown`].
    ///
    /// # Errors
    /// When the octets are no message; the connection is of no use then.
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
        let message = serde_json::from_slice(&body).map_err(|source| DecodeError::Json {
            number: self.messages,
            source,
        })?;
        Ok(Some(message))
    }

    /// Whether a message has begun and not ended.
    pub fn is_mid_message(&self) -> bool {
        !self.received.is_empty()
    }
}
