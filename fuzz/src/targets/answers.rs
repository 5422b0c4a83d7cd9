//! Targets for answers from the network: of resolvers, of multicast DNS, and of probe servers.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes};
use mpbond_intercept::Destination;
use mpbond_intercept::dns::{Query, look_up};
use mpbond_net::DeviceId;
use mpbond_net::discovery::{NONCE_BYTES, announce, recognizes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::block_on;
use crate::Choices;

/// Queries that wait for answers: the same name with types 1, 65 and 28 (the last with EDNS). An
/// upper-case letter has the octet of type 65, so that a comparison of questions regardless of case
/// is detected.
pub const QUERIES: [&[u8]; 3] = [
    b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01",
    b"\x00\x08\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x41\x00\x01",
    b"\x00\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03wWw\x07eXample\x00\x00\x1c\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00",
];

/// Octets of each query's question, after the header.
const QUESTION: std::ops::Range<usize> = 12..29;

/// Octets of two connections to resolvers, which answer three queries. The outcome must not depend
/// on how they are split, and an accepted response must be one to the same question.
pub fn resolver(octets: &[u8]) {
    let mut choices = Choices::new(octets);
    let piece = usize::from(choices.octet()) + 1;
    let length = usize::from(choices.short());
    let connections = [choices.octets(length), choices.rest()];
    let whole = answers(connections, usize::MAX);
    let pieces = answers(connections, piece);
    assert_eq!(whole, pieces, "the outcome depends on how octets are split");
    for (query, response) in QUERIES.iter().zip(&whole) {
        if let Some(response) = response {
            accepted(query, response);
        }
    }
}

fn accepted(octets: &[u8], response: &[u8]) {
    let asked = octets.get(QUESTION).unwrap_or_default();
    let answered = response.get(QUESTION).unwrap_or_default();
    let (name, kind) = asked.split_at(QUESTION.len() - 4);
    assert!(answered.ends_with(kind), "a response of another type");
    let same = answered.get(..name.len());
    let same = same.is_some_and(|a| a.eq_ignore_ascii_case(name));
    assert!(same, "a response about another name");
    // The size of EDNS, or that of a client without it.
    let most = if octets.len() > QUESTION.end {
        1232
    } else {
        512
    };
    let query = query(octets);
    let (tcp, udp) = (query.over_tcp(response), query.over_udp(response));
    assert_eq!(
        (tcp.get(..2), udp.get(..2)),
        (octets.get(..2), octets.get(..2))
    );
    assert_eq!(tcp.len(), response.len());
    assert!(udp.len() <= most);
}

fn query(octets: &[u8]) -> Query {
    match Query::parse(octets) {
        Ok(query) => query,
        Err(e) => panic!("{e:?}"),
    }
}

fn answers(connections: [&[u8]; 2], piece: usize) -> Vec<Option<Bytes>> {
    let streams = connections.iter().zip([QUERIES.len(), 1]);
    let streams: VecDeque<_> = streams
        .map(|(octets, awaited)| Resolver {
            says: Bytes::copy_from_slice(octets),
            piece,
            awaited,
            reader: None,
        })
        .collect();
    let streams = Mutex::new(streams);
    let dial = move |_: Destination| {
        let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
        std::future::ready(streams.pop_front().ok_or(io::ErrorKind::NotFound.into()))
    };
    let resolver = Destination::from_ip([192, 0, 2, 1].into(), 53);
    block_on(look_up(QUERIES.map(query), vec![resolver], dial))
}

/// A resolver that reads so many queries, says these octets in pieces, and closes.
struct Resolver {
    says: Bytes,
    piece: usize,
    /// Number of writes until it speaks: what it says must not arrive before the queries.
    awaited: usize,
    reader: Option<Waker>,
}

impl AsyncRead for Resolver {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.awaited > 0 {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = self.says.len().min(to.remaining()).min(self.piece);
        to.put_slice(self.says.get(..n).unwrap_or_default());
        self.says.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Resolver {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.awaited = self.awaited.saturating_sub(1);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Ids of the helper and the primary of [`discovery`].
pub const DEVICES: [DeviceId; 2] = [DeviceId::from_bytes([1; 32]), DeviceId::from_bytes([2; 32])];

/// The strings of a TXT record, one a line: exactly those with the tag of the helper and the
/// primary are recognized.
pub fn discovery(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    let strings: Vec<(&str, &str)> = text.lines().filter_map(|l| l.split_once('=')).collect();
    let get = |key: &str| strings.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let [helper, primary] = DEVICES;
    let found = recognizes(&primary, &helper, get);
    assert_eq!(found, has_tag(get), "{text:?}");
}

/// The same by comparison of digits.
fn has_tag<'a>(get: impl Fn(&str) -> Option<&'a str>) -> bool {
    /// Digits of a tag, and of a set of eight.
    const TAG: usize = 16;
    const SET: usize = 8 * TAG;
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let Some(nonce) = get("n").filter(|n| n.len() == 2 * NONCE_BYTES && is_hex(n)) else {
        return false;
    };
    let mut octets = [0; NONCE_BYTES];
    for (octet, digits) in octets.iter_mut().zip(nonce.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *octet = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    let [helper, primary] = DEVICES;
    let announced = announce(&helper, &[primary], &octets, || [0; TAG / 2]);
    let set = announced.get(1).map_or("", |(_, set)| set);
    let padding = "0".repeat(TAG);
    let tag = |text: &str, at: usize| text.get(at * TAG..(at + 1) * TAG).map(str::to_lowercase);
    let Some(wanted) = (0..8).find_map(|at| tag(set, at).filter(|t| *t != padding)) else {
        return false;
    };
    for key in ["t0", "t1", "t2", "t3"] {
        match get(key) {
            // Keys that are missing, or no octets in digits, are left out; the first set of another
            // length ends the search.
            Some(set) if !is_hex(set) || set.len() % 2 != 0 => {}
            Some(set) if set.len() != SET => return false,
            Some(set) if (0..8).any(|at| tag(set, at).as_ref() == Some(&wanted)) => return true,
            _ => {}
        }
    }
    false
}

/// Datagrams of `mpbond probe`, at a server or at a run of probes.
pub fn probe(octets: &[u8]) {
    mpbond_probe::hear(octets);
}
