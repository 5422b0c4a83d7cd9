//! Addresses in responses of resolvers.

use std::net::IpAddr;
use std::time::Duration;

use super::message::{Family, HEADER_BYTES, MAX_NAME_BYTES, Query, Rcode};

/// Maximum number of records that are read: the aliases of a name, and its addresses.
const MAX_RECORDS: u16 = 64;

/// Class of the Internet (RFC 1035, section 3.2.4).
const CLASS_IN: u16 = 1;

/// Fields of a record between its name and its data: TYPE, CLASS, TTL, RDLENGTH (RFC 1035, section
/// 4.1.3).
const FIELD_BYTES: usize = 10;

/// The addresses in a response to a query for them, and the lowest TTL of the records. Empty for
/// other queries, for errors, and for what cannot be read.
pub(super) fn addresses(query: &Query, response: &[u8]) -> (Vec<IpAddr>, Duration) {
    let found = query.family().and_then(|family| {
        let (addresses, ttl) = read(query, response, family)?;
        Some((addresses, Duration::from_secs(ttl.into())))
    });
    found.unwrap_or_default()
}

fn read(query: &Query, response: &[u8], family: Family) -> Option<(Vec<IpAddr>, u32)> {
    let &[_, _, _, codes, _, _, an1, an0, ..] = response.first_chunk::<HEADER_BYTES>()?;
    if codes & 0x0f != Rcode::NoError as u8 {
        return None;
    }
    let mut addresses = Vec::new();
    let mut lowest = u32::MAX;
    // A response has the question that it answers.
    let mut at = HEADER_BYTES + query.question().len();
    for _ in 0..u16::from_be_bytes([an1, an0]).min(MAX_RECORDS) {
        let fields = skip_name(response, at)?;
        let &[type1, type0, class1, class0, a, b, c, d, length1, length0] =
            response.get(fields..)?.first_chunk::<FIELD_BYTES>()?;
        let begin = fields + FIELD_BYTES;
        at = begin + usize::from(u16::from_be_bytes([length1, length0]));
        let data = response.get(begin..at)?;
        let [kind, class] = [[type1, type0], [class1, class0]].map(u16::from_be_bytes);
        // A value with the highest bit is zero (RFC 2181, section 8).
        let ttl = u32::from_be_bytes([a, b, c, d]);
        lowest = lowest.min(if i32::try_from(ttl).is_ok() { ttl } else { 0 });
        if Family::of_type(kind) != Some(family) || class != CLASS_IN {
            continue;
        }
        let address = match family {
            Family::V4 => IpAddr::from(<[u8; 4]>::try_from(data).ok()?),
            Family::V6 => IpAddr::from(<[u8; 16]>::try_from(data).ok()?),
        };
        addresses.push(address.to_canonical());
    }
    Some((addresses, lowest))
}

/// The end of the name at `at`, which may end with a pointer (RFC 1035, section 4.1.4).
fn skip_name(message: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while end - at <= MAX_NAME_BYTES {
        match *message.get(end)? {
            0 => return Some(end + 1),
            length @ 1..=63 => end += 1 + usize::from(length),
            0xc0.. => return Some(end + 2),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::message::tests::query;
    use super::*;

    /// A record for the name of the question.
    pub fn record(kind: u8, ttl: u32, data: &[u8]) -> Vec<u8> {
        let length = [0, data.len() as u8];
        [
            &[0xc0, 12, 0, kind, 0, 1][..],
            &ttl.to_be_bytes(),
            &length,
            data,
        ]
        .concat()
    }

    /// A response with these records to the query for `www.example A`, without EDNS.
    pub fn response(records: &[Vec<u8>]) -> Vec<u8> {
        let mut message = query(7, None);
        message[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, records.len() as u8]);
        [message, records.concat()].concat()
    }

    #[test]
    fn addresses_are_those_of_the_family_with_the_lowest_ttl() {
        let asked = Query::parse(&query(7, None)).unwrap();
        let alias = record(5, 30, b"\x03cdn\x00");
        let mut of_alias = record(1, 300, &[192, 0, 2, 1]);
        of_alias.splice(..2, *b"\x03cdn\xc0\x10");
        let records = [
            alias,
            of_alias,
            record(1, 60, &[192, 0, 2, 2]),
            record(28, 60, &[0; 16]),
        ];
        let expected = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let found = addresses(&asked, &response(&records));
        assert_eq!(found, (expected.into(), Duration::from_secs(30)));
        let old = record(1, 1 << 31, &[192, 0, 2, 1]);
        assert_eq!(addresses(&asked, &response(&[old])).1, Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_read_has_none() {
        let asked = Query::parse(&query(7, None)).unwrap();
        let good = response(&[record(1, 60, &[192, 0, 2, 1])]);
        assert_eq!(addresses(&asked, &good).0.len(), 1);
        for length in 0..good.len() {
            let (found, _) = addresses(&asked, &good[..length]);
            assert!(found.is_empty(), "{length} octets");
        }
        let changed = |at: usize, octet| {
            let mut message = good.clone();
            message[at] = octet;
            addresses(&asked, &message).0
        };
        let name = query(7, None).len();
        assert!(changed(3, 0x83).is_empty(), "an error");
        assert!(changed(name, 0x80).is_empty(), "no label and no pointer");
        assert!(changed(name + 5, 3).is_empty(), "another class");
        assert!(changed(name + 11, 3).is_empty(), "three octets");
        let labels = [1, b'a'].repeat(200);
        let long = [&good[..name], &labels, &good[name..]].concat();
        assert!(
            addresses(&asked, &long).0.is_empty(),
            "a name of 400 octets"
        );
        let mut other = query(7, None);
        other[26] = 15;
        let other = Query::parse(&other).unwrap();
        assert!(
            addresses(&other, &good).0.is_empty(),
            "a query for mail servers"
        );
    }
}
