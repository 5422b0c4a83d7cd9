//! Entry point for tests with hostile datagrams.

use std::net::{Ipv4Addr, SocketAddr};

use crate::message::Message;
use crate::options::{Method, Options};
use crate::record::Collector;
use crate::{datagram, server};

/// Number of probes that wait for answers.
const PROBES: u32 = 8;

/// Passes datagrams to a server (first octet even) or to a run of probes (odd; its upper bits
/// select the method), as if from the far end, without a connection. Each datagram follows an octet
/// with its length. Panics when an invariant is violated.
pub fn hear(octets: &[u8]) {
    let Some((who, rest)) = octets.split_first() else {
        return;
    };
    let datagrams = Datagrams(rest);
    if who % 2 == 0 {
        datagrams.for_each(answered);
    } else {
        run(who >> 1, datagrams);
    }
}

/// Datagrams behind octets with their lengths.
#[derive(Clone)]
struct Datagrams<'a>(&'a [u8]);

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        let (datagram, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        self.0 = rest;
        Some(datagram)
    }
}

fn answered(datagram: &[u8]) {
    const RECEIVED_NS: u64 = 1_700_000_000_000_000_000;
    let mut packet = datagram.to_vec();
    let question = Message::read(datagram);
    if !server::answer(&mut packet, Some(RECEIVED_NS)) {
        let unanswered = question.is_none_or(|m| m.is_answer);
        assert!(unanswered, "a request without an answer");
        return;
    }
    assert_eq!(packet.len(), datagram.len(), "an answer is no longer");
    let answer = Message::read(&packet);
    let same = question.zip(answer).is_some_and(|(q, a)| {
        (q.run, q.seq, RECEIVED_NS, true) == (a.run, a.seq, a.t2_ns, a.is_answer)
    });
    assert!(same, "{question:?} was answered by {answer:?}");
    // Two servers do not answer each other for ever.
    assert!(!server::answer(&mut packet, None), "an answer is answered");
}

fn run(way: u8, datagrams: Datagrams<'_>) {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let method = match way % datagram::WAYS {
        0 => Method::Udp,
        _ => Method::Icmp,
    };
    let mut options = Options::new(target, method);
    options.count = PROBES;
    let heard = datagrams.clone().count() as u64;
    let mut summary = Collector::new(method);
    let mut answered = 0;
    let taken = datagram::hear(&options, way, datagrams, &mut |probe| {
        answered += u64::from(!probe.lost && !probe.duplicate);
        summary.take(probe);
        true
    });
    assert!(taken.is_ok(), "{taken:?}");
    let s = summary.finish();
    assert_eq!((s.sent, s.lost), (PROBES.into(), s.sent - answered));
    assert!(answered + s.duplicates <= heard, "{s:?}");
}
