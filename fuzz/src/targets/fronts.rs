//! Targets for input of applications: SOCKS5, HTTP, DNS.

use std::time::Instant;

use bytes::BytesMut;
use mpbond_intercept::dns::{BadQuery, KnownNames, Query, Rcode};
use mpbond_intercept::http::{self, Framing, Request};
use mpbond_intercept::socks5::{Failure, Handshake, MAX_MESSAGE_BYTES, Step};
use mpbond_intercept::{Credentials, Destination};

/// Replies to a SOCKS5 client, and the outcome.
type Told = (Vec<[u8; 2]>, Option<Result<Destination, Failure>>);

/// A SOCKS5 handshake: its outcome must not depend on how the octets are split.
pub fn socks5(octets: &[u8]) {
    let Some((options, octets)) = octets.split_first() else {
        return;
    };
    let credentials = Credentials::new("anna", "secret");
    let credentials = credentials.as_ref().filter(|_| options & 1 == 1);
    let whole = handshake(octets, octets.len(), credentials);
    let pieces = handshake(octets, usize::from(options >> 1) + 1, credentials);
    assert_eq!(
        whole, pieces,
        "the outcome depends on how the octets are split"
    );
}

fn handshake(octets: &[u8], cut: usize, credentials: Option<&Credentials>) -> Told {
    let mut handshake = Handshake::new(credentials);
    let mut buffer = BytesMut::new();
    let mut sent = Vec::new();
    for piece in octets.chunks(cut.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match handshake.advance(&mut buffer) {
                Ok(Step::NeedMore) => {
                    assert!(
                        buffer.len() < MAX_MESSAGE_BYTES,
                        "buffers more than a message"
                    );
                    break;
                }
                Ok(Step::Send(answer)) => sent.push(answer),
                Ok(Step::Connect(to)) => return (sent, Some(Ok(to))),
                Err(failure) => return (sent, Some(Err(failure))),
            }
        }
    }
    (sent, None)
}

/// A request to the HTTP proxy, and its body.
pub fn http(octets: &[u8]) {
    let credentials = Credentials::new("anna", "secret");
    let Some((options, octets)) = octets.split_first() else {
        return;
    };
    let Some(end) = http::find_head_end(octets, 0) else {
        return;
    };
    let split = usize::from(options >> 1).min(octets.len());
    assert_eq!(
        http::find_head_end(octets, split.min(end.saturating_sub(1))),
        Some(end),
        "the end of the head depends on where the search begins"
    );
    let (head, body) = octets.split_at(end);
    let credentials = credentials.as_ref().filter(|_| options & 1 == 1);
    match http::parse(head, credentials) {
        Ok((Request::Connect(_), _)) => {}
        Ok((Request::Forward { head, framing, .. }, _)) => {
            forwarded(&head);
            same_end(&framing, body, split + 1);
        }
        Err(e) => {
            super::one_line(&e);
            let _ = http::bad_request(&e);
        }
    }
}

/// Checks that a forwarded head is a single head without credentials.
fn forwarded(head: &[u8]) {
    assert_eq!(
        http::find_head_end(head, 0),
        Some(head.len()),
        "a forwarded head ends early or not at all"
    );
    let text = String::from_utf8_lossy(head).to_lowercase();
    assert!(
        !text.contains("\nproxy-authorization:"),
        "credentials were forwarded to the origin"
    );
}

/// Checks that the end of a body does not depend on how it is split.
fn same_end(framing: &Framing, body: &[u8], cut: usize) {
    let run = |cut: usize| {
        let mut framing = framing.clone();
        let mut total = 0;
        for piece in body.chunks(cut) {
            let taken = framing.take(piece)?;
            assert!(taken <= piece.len());
            total += taken;
            if framing.is_complete() {
                break;
            }
        }
        Ok::<_, mpbond_intercept::http::BadChunk>((total, framing.is_complete()))
    };
    assert_eq!(
        run(body.len().max(1)),
        run(cut),
        "the end depends on how the body is split"
    );
}

/// A query to the DNS stub, and a resolver's response.
pub fn dns(octets: &[u8]) {
    let at = octets
        .first()
        .map_or(0, |n| usize::from(*n))
        .min(octets.len());
    let (query, response) = octets.split_at(at);
    let query = query.get(1..).unwrap_or_default();
    match Query::parse(query) {
        Ok(q) => {
            assert!(
                Query::parse(&q.error(Rcode::ServFail)).is_err(),
                "a response parsed as a query"
            );
            assert!(q.over_udp(response).len() <= response.len().max(512));
            assert_eq!(q.over_tcp(response).len(), response.len());
            let known = KnownNames::default();
            known.note(Instant::now(), None, &q, response);
        }
        Err(BadQuery::Answer(answer)) => assert_eq!(answer.get(..2), query.get(..2)),
        Err(BadQuery::Ignore) => {}
    }
}
