//! HTTP proxy protocol (RFC 9110, RFC 9112), without I/O.
//!
//! Two kinds of requests are accepted: `CONNECT host:port`, which opens a tunnel, and absolute-form
//! requests (`GET http://host/path`), which are rewritten to origin-form. Ambiguous requests are
//! refused, because a disagreement of two parsers allows request smuggling (RFC 9112, section
//! 11.2).
//!
//! # One exchange per connection
//!
//! A client may name another host in its next request on the same connection. Therefore the origin
//! is asked to close after its response (`Connection: close`), exactly the bytes of the first
//! request are forwarded ([`Framing`] counts them), and later bytes from the client are discarded.
//! Clients see the close and repeat further requests on a new connection (RFC 9112, sections 9.3.1
//! and 9.6). That costs a connection now and then; the alternative, a response parser, would always
//! be in the data path.

mod framing;
mod head;

pub use framing::{BadChunk, Framing};
pub use head::{BadRequest, MAX_HEAD_BYTES, Request, find_head_end, parse};

use crate::Refusal;

/// The response that opens a CONNECT tunnel (RFC 9110, section 9.3.6).
pub const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A complete response for a refusal, with `Proxy-Status` (RFC 9209).
pub fn refusal(refusal: Refusal) -> Vec<u8> {
    let (status, phrase) = refusal.http_status();
    let proxy_status = format!("Proxy-Status: mpbond; error={}\r\n", refusal.proxy_status());
    answer(status, phrase, &proxy_status, &refusal.to_string())
}

/// A complete response to an invalid request.
pub fn bad_request(reason: &BadRequest) -> Vec<u8> {
    let (status, phrase) = reason.status();
    let extra = match reason {
        BadRequest::Unauthorized => "Proxy-Authenticate: Basic realm=\"mpbond\"\r\n",
        _ => "",
    };
    answer(status, phrase, extra, &reason.to_string())
}

/// `extra`: header fields with their CRLF, never taken from the client.
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
