//! Bytes of an application that may be sent to its destination twice.
//!
//! Bytes that the proxy did not acknowledge may still have reached it, and the origin through it.
//! They may be sent again on another way only if they have no effect at the origin: no bytes at
//! all, or the ClientHello that begins a TLS connection. Early data (RFC 8446, section 4.2.10) are
//! records of another type, and are never sent twice.

/// TLS record type (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// TLS handshake type (RFC 8446, section 4).
const CLIENT_HELLO: u8 = 1;

/// Octets of a record's header, and maximum length of its content (RFC 8446, section 5.1).
const RECORD_HEADER: usize = 5;
const MAX_RECORD: usize = 1 << 14;

/// Octets of a handshake message's header.
const MESSAGE_HEADER: usize = 4;

/// Whether `said` may be sent twice: it is empty, or a ClientHello or the beginning of one, and
/// nothing else.
pub(super) fn is_repeatable(said: &[u8]) -> bool {
    let mut message = Vec::new();
    let mut rest = said;
    while let Some((header, body)) = rest.split_at_checked(RECORD_HEADER) {
        let &[kind, major, _, high, low] = header else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > MAX_RECORD {
            return false;
        }
        let (part, after) = body.split_at(length.min(body.len()));
        message.extend_from_slice(part);
        rest = after;
    }
    // The rest is shorter than a header: it must be the beginning of a handshake record.
    if rest.first().is_some_and(|kind| *kind != HANDSHAKE) {
        return false;
    }
    match message.split_at_checked(MESSAGE_HEADER) {
        Some((&[kind, a, b, c], body)) => {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            kind == CLIENT_HELLO && body.len() <= length
        }
        _ => message.first().is_none_or(|kind| *kind == CLIENT_HELLO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello of `octets`, in records of up to `record`.
    fn hello(octets: usize, record: usize) -> Vec<u8> {
        let mut message = vec![CLIENT_HELLO, 0, (octets >> 8) as u8, octets as u8];
        message.extend((0..octets).map(|i| i as u8));
        let records = message.chunks(record);
        records
            .flat_map(|part| {
                let length = (part.len() as u16).to_be_bytes();
                [&[HANDSHAKE, 3, 1], &length[..], part].concat()
            })
            .collect()
    }

    #[test]
    fn nothing_and_a_client_hello_may_be_said_twice() {
        assert!(is_repeatable(b""));
        for record in [1, 3, 100, 1 << 14] {
            let hello = hello(1_800, record);
            for cut in 0..=hello.len() {
                assert!(is_repeatable(&hello[..cut]), "{cut} of records of {record}");
            }
        }
    }

    #[test]
    fn all_else_may_not() {
        let hello = hello(517, 1 << 14);
        let early_data = [&hello[..], &[23, 3, 3, 0, 1, 7]].concat();
        let more_than_a_hello = [&hello[..], &[22, 3, 3, 0, 1, 7]].concat();
        let server_hello = [22, 3, 3, 0, 4, 2, 0, 0, 0];
        let not_tls = [22, 2, 0, 0, 1, 1];
        let empty_record = [22, 3, 1, 0, 0];
        for said in [
            &early_data[..],
            &early_data[..hello.len() + 1],
            &more_than_a_hello,
            &server_hello,
            &not_tls,
            &empty_record,
            b"G",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\x03\xe8",
        ] {
            assert!(!is_repeatable(said), "{said:02x?}");
        }
    }
}
