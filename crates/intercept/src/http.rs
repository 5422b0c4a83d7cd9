//! The HTTP side of the proxy (RFC 9110, RFC 9112), without I/O.
//!
//! Two kinds of requests are taken: `CONNECT host:port`, after which the bytes
//! are nobody's business, and absolute-form requests (`GET http://host/path`),
//! which are rewritten to origin-form. Anything about which two readers could
//! disagree is refused, since such a disagreement is how one request is
//! smuggled inside another.
//!
//! # One exchange per connection
//!
//! Nothing keeps a client from naming another host in its next request on the
//! same connection. So the origin is asked to close after its answer
//! (`Connection: close`), exactly the bytes of the first request go there
//! ([`Framing`] counts them), and whatever the client sends after those is
//! thrown away. Clients see the close and repeat the rest on a new connection
//! (RFC 9112, §9.3.1 and §9.6). That costs a connection now and then; a
//! parser for every answer would sit in the data path always.

mod framing;
mod head;

pub use framing::{BadChunk, Framing};
pub use head::{BadRequest, MAX_HEAD_BYTES, Request, find_head_end, parse};

use crate::Refusal;

/// The answer that opens a CONNECT tunnel (RFC 9110, §9.3.6).
pub const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A complete answer that tells of a refusal, with `Proxy-Status` (RFC 9209).
pub fn refusal(refusal: Refusal) -> Vec<u8> {
    let (status, phrase) = refusal.http_status();
    let proxy_status = format!("Proxy-Status: mpbond; error={}\r\n", refusal.proxy_status());
    answer(status, phrase, &proxy_status, &refusal.to_string())
}

/// A complete answer to a request that can't be served.
pub fn bad_request(reason: &BadRequest) -> Vec<u8> {
    let (status, phrase) = reason.status();
    let extra = match reason {
        BadRequest::Unauthorized => "Proxy-Authenticate: Basic realm=\"mpbond\"\r\n",
        _ => "",
    };
    answer(status, phrase, extra, &reason.to_string())
}

/// `extra` is made here, never by the client: header fields with their CRLF.
fn answer(status: u16, phrase: &str, extra: &str, text: &str) -> Vec<u8> {
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status} {phrase}\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\n\
         {extra}\
         Connection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}
