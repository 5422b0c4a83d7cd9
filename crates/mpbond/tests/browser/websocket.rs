//! The server's end of a WebSocket (RFC 6455) with short messages of text.

use std::io::{Error, Result};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Operation codes (RFC 6455, section 5.2).
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// Answer to a client's key (RFC 6455, section 4.2.2).
pub fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Answers each message, until the client closes the WebSocket. A connection that ends without that
/// is an error.
pub async fn serve(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    mut answer: impl FnMut(&str) -> String,
) -> Result<()> {
    loop {
        let mut head = [0; 2];
        io.read_exact(&mut head).await?;
        let [first, second] = head;
        let (operation, length) = (first & 0xf, second & 0x7f);
        if first & 0x80 == 0 || second & 0x80 == 0 || length > 125 {
            return Err(Error::other("a frame of another kind than expected"));
        }
        let mut mask = [0; 4];
        io.read_exact(&mut mask).await?;
        let mut content = vec![0; usize::from(length)];
        io.read_exact(&mut content).await?;
        for (octet, mask) in content.iter_mut().zip(mask.iter().cycle()) {
            *octet ^= mask;
        }
        match operation {
            TEXT => {
                let text = String::from_utf8(content).map_err(Error::other)?;
                write(&mut io, TEXT, answer(&text).as_bytes()).await?;
            }
            CLOSE => return write(&mut io, CLOSE, &content).await,
            _ => return Err(Error::other(format!("operation {operation}"))),
        }
    }
}

async fn write(io: &mut (impl AsyncWrite + Unpin), operation: u8, content: &[u8]) -> Result<()> {
    let head = [0x80 | operation, content.len() as u8];
    io.write_all(&[&head, content].concat()).await?;
    io.flush().await
}
