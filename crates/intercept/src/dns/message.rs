//! Parsing and rewriting of DNS messages, as far as forwarding needs.

use std::net::IpAddr;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Header of every message, in bytes (RFC 1035, section 4.1.1).
pub(super) const HEADER_BYTES: usize = 12;

/// Type and class behind the name of a question, in bytes (RFC 1035, section 4.1.2).
const TYPE_AND_CLASS_BYTES: usize = 4;

/// Maximum length of a name in bytes, with its length octets (RFC 1035, section 2.3.4).
pub(super) const MAX_NAME_BYTES: usize = 255;

/// Maximum length of a query. A name has 255 octets; options, such as padding to a multiple of 128
/// octets (RFC 8467, section 4.1), add some.
pub const MAX_QUERY_BYTES: usize = 1024;

/// Maximum UDP response for clients without EDNS (RFC 1035, section 2.3.4).
const PLAIN_UDP_BYTES: usize = 512;

/// Maximum number of additional records: a query has OPT and a signature at most.
const MAX_ADDITIONAL: u16 = 4;

/// Type of the EDNS pseudo-record (RFC 6891, section 6.1.1).
const TYPE_OPT: u16 = 41;

/// Types of addresses (RFC 1035, section 3.4.1; RFC 3596, section 2.1).
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

const FLAG_RESPONSE: u8 = 0x80;
const FLAG_TRUNCATED: u8 = 0x02;
const FLAG_RECURSION_DESIRED: u8 = 0x01;
const FLAG_RECURSION_AVAILABLE: u8 = 0x80;
const OPCODE_MASK: u8 = 0x78;

/// Response codes that the stub generates or looks for (RFC 1035, section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rcode {
    /// No error: with no records, the name has none of the type (RFC 2308, section 2.2).
    NoError = 0,
    /// The query is malformed.
    FormErr = 1,
    /// No resolver has answered.
    ServFail = 2,
    /// The opcode is not QUERY.
    NotImp = 4,
    /// The resolver does not answer such questions, or this client.
    Refused = 5,
}

/// Family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl From<IpAddr> for Family {
    /// The family in which this address is reached.
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl Family {
    /// The family of the addresses in records of this type, if they have any.
    pub(super) const fn of_type(kind: u16) -> Option<Self> {
        match kind {
            TYPE_A => Some(Self::V4),
            TYPE_AAAA => Some(Self::V6),
            _ => None,
        }
    }
}

/// A message that cannot be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadQuery {
    /// Not to be answered: shorter than a header, or a response.
    Ignore,
    /// To be answered with this message.
    Answer(Bytes),
}

/// A query with one question, validated as far as forwarding needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    message: Bytes,
    question: Range<usize>,
    udp_bytes: usize,
}

impl Query {
    /// Parses a message from a client.
    ///
    /// # Errors
    /// [`BadQuery`] with the answer, if it is to be answered.
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
        let is_long = message.len() > MAX_QUERY_BYTES;
        if is_long || counts != [1, 0, 0] || additional > MAX_ADDITIONAL {
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

    pub(super) fn question(&self) -> &[u8] {
        self.message.get(self.question.clone()).unwrap_or_default()
    }

    /// The name that is asked for, in lower case and without a final dot; octets that are not ASCII
    /// are replaced.
    pub(super) fn name(&self) -> String {
        let mut name = String::new();
        let mut rest = self.question();
        while let Some((&length @ 1.., tail)) = rest.split_first()
            && let Some((label, tail)) = tail.split_at_checked(length.into())
        {
            if !name.is_empty() {
                name.push('.');
            }
            let text = String::from_utf8_lossy(label);
            name.push_str(&text.to_ascii_lowercase());
            rest = tail;
        }
        name
    }

    /// The family of the addresses that are asked for, if it is a question for addresses.
    pub(super) fn family(&self) -> Option<Family> {
        let (_, &[type1, type0, _, _]) = self.question().split_last_chunk()?;
        Family::of_type(u16::from_be_bytes([type1, type0]))
    }

    /// Whether a message is a response to the same question, regardless of its id. Resolvers may
    /// change the case of the name; type and class are octets that only look like letters.
    pub fn is_answered_by(&self, response: &[u8]) -> bool {
        let is_response = response.get(2).is_some_and(|f| f & FLAG_RESPONSE != 0);
        let one = response.get(4..6) == Some(&[0, 1]);
        let question = self.question();
        let answered = response.get(HEADER_BYTES..HEADER_BYTES + question.len());
        let parts = |question: &[u8]| {
            let (name, kind) = question.split_last_chunk::<TYPE_AND_CLASS_BYTES>()?;
            Some((name.to_ascii_lowercase(), *kind))
        };
        is_response && one && answered.is_some_and(|a| parts(a) == parts(question))
    }

    /// An error response for the client.
    pub fn error(&self, rcode: Rcode) -> Bytes {
        match self.message.first_chunk() {
            Some(header) => answer(header, self.question(), rcode),
            None => Bytes::new(),
        }
    }

    /// A resolver's response in the form sent to the client over TCP.
    pub fn over_tcp(&self, response: &[u8]) -> Bytes {
        with_id(response, self.id()).freeze()
    }

    /// A resolver's response in the form sent to the client over UDP: a response above the client's
    /// UDP size is truncated to header and question with the TC bit, upon which the client retries
    /// over TCP (RFC 7766, section 5).
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

/// Message id; `None` for less than two bytes.
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

/// A response with this code, consisting of header and question.
fn answer(query: &[u8; HEADER_BYTES], question: &[u8], rcode: Rcode) -> Bytes {
    let [id1, id0, flags, ..] = *query;
    let flags = FLAG_RESPONSE | (flags & (OPCODE_MASK | FLAG_RECURSION_DESIRED));
    let count = u8::from(!question.is_empty());
    let codes = FLAG_RECURSION_AVAILABLE | rcode as u8;
    let header = [id1, id0, flags, codes, 0, count, 0, 0, 0, 0, 0, 0];
    [&header, question].concat().into()
}

/// Range of the question, and the client's UDP size.
fn read_body(message: &[u8], additional: u16) -> Option<(Range<usize>, usize)> {
    let name_end = skip_name(message, HEADER_BYTES)?;
    let question_end = name_end + TYPE_AND_CLASS_BYTES;
    message.get(name_end..question_end)?;
    let mut udp_bytes = PLAIN_UDP_BYTES;
    let mut at = question_end;
    for _ in 0..additional {
        // NAME, TYPE, CLASS, TTL, RDLENGTH, RDATA (RFC 1035, section 4.1.3).
        let fields = skip_name(message, at)?;
        let &[type1, type0, class1, class0, _, _, _, _, length1, length0] =
            message.get(fields..)?.first_chunk()?;
        if u16::from_be_bytes([type1, type0]) == TYPE_OPT {
            // OPT has the client's UDP size in CLASS (RFC 6891, section 6.1.2); values below 512
            // mean 512 (RFC 6891, section 6.2.3).
            let size = usize::from(u16::from_be_bytes([class1, class0]));
            udp_bytes = size.max(PLAIN_UDP_BYTES);
        }
        at = fields + 10 + usize::from(u16::from_be_bytes([length1, length0]));
    }
    (at == message.len()).then_some((HEADER_BYTES..question_end, udp_bytes))
}

/// The end of the name at `at`. Compression (RFC 1035, section 4.1.4) is rejected, because a query
/// has no earlier name to point to.
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

    /// A query for `www.example A`, with an OPT record if `udp_bytes` is given.
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

    /// A query of this length.
    fn padded(octets: usize) -> Vec<u8> {
        let mut message = query(7, Some(1232));
        let padding = octets - message.len();
        let at = message.len() - 2;
        message[at..].copy_from_slice(&(padding as u16).to_be_bytes());
        message.extend(vec![0; padding]);
        message
    }

    /// A response to it with as many bytes after the question.
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
        assert!(Query::parse(&padded(1024)).is_ok());
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
            (padded(1025), code(Rcode::FormErr)),
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
        let mut https = query(7, None);
        https[26] = 0x41;
        let mut other = response(&https, 100);
        let https = Query::parse(&https).unwrap();
        assert!(https.is_answered_by(&other));
        other[26] = 0x61;
        assert!(!https.is_answered_by(&other), "another type");

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
