use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Header of every message, in bytes (RFC 1035, §4.1.1).
const HEADER_BYTES: usize = 12;

/// Longest name, in bytes, with its length octets (RFC 1035, §2.3.4).
const MAX_NAME_BYTES: usize = 255;

/// What clients take over UDP that say nothing else (RFC 1035, §2.3.4).
const PLAIN_UDP_BYTES: usize = 512;

/// Most additional records looked at: OPT and a signature are what a query has.
const MAX_ADDITIONAL: u16 = 4;

/// Type of the EDNS pseudo-record (RFC 6891, §6.1.1).
const TYPE_OPT: u16 = 41;

const FLAG_RESPONSE: u8 = 0x80;
const FLAG_TRUNCATED: u8 = 0x02;
const FLAG_RECURSION_DESIRED: u8 = 0x01;
const FLAG_RECURSION_AVAILABLE: u8 = 0x80;
const OPCODE_MASK: u8 = 0x78;

/// Response codes that the stub itself gives (RFC 1035, §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rcode {
    /// The message makes no sense.
    FormErr = 1,
    /// No resolver answered.
    ServFail = 2,
    /// Something other than a query.
    NotImp = 4,
}

/// A message that is no query to be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadQuery {
    /// No answer is due: too short for a header, or itself a response.
    Ignore,
    /// This is the answer.
    Answer(Bytes),
}

/// A query with one question, checked as far as forwarding needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    message: Bytes,
    question: Range<usize>,
    udp_bytes: usize,
}

impl Query {
    /// Checks a message from a client.
    ///
    /// # Errors
    /// [`BadQuery`] with the answer, if one is due.
    pub fn parse(message: &[u8]) -> Result<Self, BadQuery> {
        let Some(header) = message.first_chunk::<HEADER_BYTES>() else {
            return Err(BadQuery::Ignore);
        };
        let [_, _, flags, _, qd1, qd0, an1, an0, ns1, ns0, ar1, ar0] = *header;
        if flags & FLAG_RESPONSE != 0 {
            return Err(BadQuery::Ignore);
        }
        let refuse = |rcode| Err(BadQuery::Answer(answer(header, &[], rcode)));
        if flags & OPCODE_MASK != 0 {
            return refuse(Rcode::NotImp);
        }
        let counts = [[qd1, qd0], [an1, an0], [ns1, ns0]].map(u16::from_be_bytes);
        let additional = u16::from_be_bytes([ar1, ar0]);
        if counts != [1, 0, 0] || additional > MAX_ADDITIONAL {
            return refuse(Rcode::FormErr);
        }
        let Some((question, udp_bytes)) = read_body(message, additional) else {
            return refuse(Rcode::FormErr);
        };
        Ok(Self {
            message: Bytes::copy_from_slice(message),
            question,
            udp_bytes,
        })
    }

    /// The message with another id.
    pub(super) fn with_id(&self, id: u16) -> BytesMut {
        with_id(&self.message, id)
    }

    fn id(&self) -> u16 {
        id(&self.message).unwrap_or_default()
    }

    fn question(&self) -> &[u8] {
        self.message.get(self.question.clone()).unwrap_or_default()
    }

    /// Whether this message answers the query, whatever its id: it is a
    /// response, and to the same question. Resolvers may change the case of the
    /// name.
    pub(super) fn is_answered_by(&self, response: &[u8]) -> bool {
        let is_response = response.get(2).is_some_and(|f| f & FLAG_RESPONSE != 0);
        let question = self.question();
        let asked = response.get(HEADER_BYTES..HEADER_BYTES + question.len());
        let one = response.get(4..6) == Some(&[0, 1]);
        is_response && one && asked.is_some_and(|a| a.eq_ignore_ascii_case(question))
    }

    /// An error for the client.
    pub fn error(&self, rcode: Rcode) -> Bytes {
        match self.message.first_chunk() {
            Some(header) => answer(header, self.question(), rcode),
            None => Bytes::new(),
        }
    }

    /// A resolver's response as the client is to get it over TCP.
    pub fn over_tcp(&self, response: &[u8]) -> Bytes {
        with_id(response, self.id()).freeze()
    }

    /// A resolver's response as the client is to get it over UDP: one that is
    /// longer than the client takes becomes its header and question, with the
    /// TC bit, upon which the client asks again over TCP (RFC 7766, §5).
    pub fn over_udp(&self, response: &[u8]) -> Bytes {
        let mut out = with_id(response, self.id());
        if out.len() > self.udp_bytes {
            out.truncate(HEADER_BYTES + self.question().len());
            if let Some(flags) = out.get_mut(2) {
                *flags |= FLAG_TRUNCATED;
            }
            if let Some(counts) = out.get_mut(6..HEADER_BYTES) {
                counts.fill(0);
            }
        }
        out.freeze()
    }
}

/// A message's id; `None` for less than two bytes.
pub(super) fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().copied().map(u16::from_be_bytes)
}

fn with_id(message: &[u8], id: u16) -> BytesMut {
    let mut out = BytesMut::from(message);
    if let Some(slot) = out.first_chunk_mut() {
        *slot = id.to_be_bytes();
    }
    out
}

/// Header and question of an answer with this code.
fn answer(query: &[u8; HEADER_BYTES], question: &[u8], rcode: Rcode) -> Bytes {
    let [id1, id0, flags, ..] = *query;
    let flags = FLAG_RESPONSE | (flags & (OPCODE_MASK | FLAG_RECURSION_DESIRED));
    let count = u8::from(!question.is_empty());
    let codes = FLAG_RECURSION_AVAILABLE | rcode as u8;
    let header = [id1, id0, flags, codes, 0, count, 0, 0, 0, 0, 0, 0];
    [&header, question].concat().into()
}

/// Where the question is, and what the client takes over UDP.
fn read_body(message: &[u8], additional: u16) -> Option<(Range<usize>, usize)> {
    let name_end = skip_name(message, HEADER_BYTES)?;
    let question_end = name_end + 4;
    message.get(name_end..question_end)?;
    let mut udp_bytes = PLAIN_UDP_BYTES;
    let mut at = question_end;
    for _ in 0..additional {
        // NAME, TYPE, CLASS, TTL, RDLENGTH, RDATA (RFC 1035, §4.1.3).
        let fields = skip_name(message, at)?;
        let &[type1, type0, class1, class0, _, _, _, _, length1, length0] =
            message.get(fields..)?.first_chunk()?;
        if u16::from_be_bytes([type1, type0]) == TYPE_OPT {
            // OPT keeps the client's UDP size in CLASS (RFC 6891, §6.1.2);
            // values below 512 mean 512 (§6.2.3).
            let size = usize::from(u16::from_be_bytes([class1, class0]));
            udp_bytes = size.max(PLAIN_UDP_BYTES);
        }
        at = fields + 10 + usize::from(u16::from_be_bytes([length1, length0]));
    }
    (at == message.len()).then_some((HEADER_BYTES..question_end, udp_bytes))
}

/// The end of the name at `at`. Queries have nothing to point back to, so that
/// compression (RFC 1035, §4.1.4) has no place in them.
fn skip_name(message: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    loop {
        let length = usize::from(*message.get(end)?);
        end += 1 + length;
        if length > 63 || end - at > MAX_NAME_BYTES {
            return None;
        }
        if length == 0 {
            return Some(end);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A query for `www.example A`, with an OPT record if `udp_bytes` is there.
    pub fn query(id: u16, udp_bytes: Option<u16>) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        let additional = u8::from(udp_bytes.is_some());
        message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, additional]);
        message.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
        if let Some(n) = udp_bytes {
            message.extend([0, 0, 41]);
            message.extend(n.to_be_bytes());
            message.extend([0; 6]);
        }
        message
    }

    /// An answer to it with this much data behind the question.
    pub fn response(query: &[u8], data_bytes: usize) -> Vec<u8> {
        let mut message = query[..29].to_vec();
        message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        message.extend(vec![7; data_bytes]);
        message
    }

    #[test]
    fn good_queries() {
        for (udp_bytes, want) in [(None, 512), (Some(1232), 1232), (Some(100), 512)] {
            let q = Query::parse(&query(7, udp_bytes)).unwrap();
            assert_eq!(q.udp_bytes, want);
            assert_eq!(q.question(), b"\x03www\x07example\x00\x00\x01\x00\x01");
            assert_eq!(q.with_id(0x0102)[..2], [1, 2]);
        }
    }

    #[test]
    fn bad_queries() {
        let change = |at: usize, b: u8| {
            let mut message = query(7, None);
            message[at] = b;
            message
        };
        let code = |rcode: Rcode| Some(rcode as u8);
        let long: Vec<u8> = {
            let mut m = query(7, None)[..12].to_vec();
            m.extend(
                b"\x3faaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(4),
            );
            m.extend([0, 0, 1, 0, 1]);
            m
        };
        for (message, want) in [
            (query(7, None)[..11].to_vec(), None),
            (change(2, 0x81), None),
            (change(2, 0x29), code(Rcode::NotImp)),
            (change(5, 0), code(Rcode::FormErr)),
            (change(5, 2), code(Rcode::FormErr)),
            (change(7, 1), code(Rcode::FormErr)),
            (change(11, 1), code(Rcode::FormErr)),
            (change(11, 200), code(Rcode::FormErr)),
            (change(12, 0xc0), code(Rcode::FormErr)),
            ([query(7, None), vec![0]].concat(), code(Rcode::FormErr)),
            (query(7, None)[..27].to_vec(), code(Rcode::FormErr)),
            (query(7, Some(9))[..35].to_vec(), code(Rcode::FormErr)),
            (long, code(Rcode::FormErr)),
        ] {
            match Query::parse(&message).unwrap_err() {
                BadQuery::Ignore => assert_eq!(want, None, "{message:?}"),
                BadQuery::Answer(a) => {
                    assert_eq!(a.len(), 12);
                    assert_eq!(a[..2], [0, 7]);
                    assert_eq!(a[2] & 0x80, 0x80);
                    assert_eq!(Some(a[3] & 0xf), want, "{message:?}");
                }
            }
        }
    }

    #[test]
    fn answers() {
        let bytes = query(7, None);
        let q = Query::parse(&bytes).unwrap();
        let good = response(&bytes, 100);
        assert!(q.is_answered_by(&good));
        assert!(q.is_answered_by(&good.to_ascii_uppercase()));
        assert!(!q.is_answered_by(&bytes), "the query itself");
        assert!(!q.is_answered_by(&good[..20]));
        let mut other = good.clone();
        other[14] = b'x';
        assert!(!q.is_answered_by(&other), "another question");

        assert_eq!(q.over_udp(&good), good);
        let large = response(&bytes, 600);
        assert_eq!(q.over_tcp(&large), large);
        let cut = q.over_udp(&large);
        assert_eq!(cut.len(), 29);
        assert_eq!(cut[2..12], [0x83, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);

        let fail = q.error(Rcode::ServFail);
        assert_eq!(fail[..12], [0, 7, 0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert!(q.is_answered_by(&fail));
    }

    proptest! {
        #[test]
        fn garbage(
            mut message in proptest::collection::vec(any::<u8>(), 0..300),
            headed in any::<bool>(),
            response in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            if headed {
                message.splice(..message.len().min(12), query(7, None)[..12].to_vec());
            }
            if let Ok(q) = Query::parse(&message) {
                prop_assert!(q.is_answered_by(&q.error(Rcode::ServFail)));
                prop_assert!(q.over_udp(&response).len() <= q.udp_bytes);
                prop_assert_eq!(q.over_tcp(&response).len(), response.len());
            }
        }
    }
}
