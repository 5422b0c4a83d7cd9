//! Target for answers to the proxy's own look-ups, with a reader of DNS messages of its own.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_net::resolve::{Answer, DomainName, Family, MAX_ADDRESSES, Query};

use crate::Choices;

/// Name of the queries.
const NAME: &str = "www.example";

/// Id of the queries.
pub const ID: u16 = 7;

/// Question of the queries, without its type and class.
pub const QUESTION: &[u8] = b"\x03www\x07example\x00";

/// Maximum number of aliases from the name of a query to that of its addresses.
const MOST_ALIASES: usize = 19;

/// A message of a resolver. The first octet selects the query (A or AAAA). The answer must be that
/// of the reader below, which shares no code with the product; a message about other things must
/// not be an answer; addresses must be read again as they were.
pub fn look_up(octets: &[u8]) {
    let mut choices = Choices::new(octets);
    let options = choices.octet();
    let [family, other] = match options & 1 {
        0 => [Family::V4, Family::V6],
        _ => [Family::V6, Family::V4],
    };
    let octets = choices.rest();
    let answer = query(NAME, family, ID).parse(octets);
    let expected = read(octets, family);
    assert_eq!(answer, expected, "two readers of one message");
    // The id, the name and the type of the question all count.
    for stranger in [
        query(NAME, family, ID ^ (1 << (options >> 4))),
        query("example", family, ID),
        query(NAME, other, ID),
    ] {
        let taken = answer.is_some() && stranger.parse(octets).is_some();
        assert!(!taken, "the answer to another query");
    }
    let Some(answer) = answer else {
        return;
    };
    // A negative answer may lack the end of its second section, which more octets could complete.
    if !matches!(answer, Answer::Nothing(_)) {
        let longer = [octets, &[options; 5]].concat();
        let again = query(NAME, family, ID).parse(&longer);
        assert_eq!(again.as_ref(), Some(&answer), "octets after the message");
    }
    if let Answer::Addresses(addresses, ttl) = &answer {
        let again = written(addresses, *ttl, family);
        let again = query(NAME, family, ID).parse(&again);
        assert_eq!(again.as_ref(), Some(&answer), "addresses written again");
    }
}

fn query(name: &str, family: Family, id: u16) -> Query {
    let name: DomainName = match name.parse() {
        Ok(name) => name,
        Err(e) => panic!("{name}: {e}"),
    };
    Query::new(name, family, id)
}

fn type_of(family: Family) -> u16 {
    match family {
        Family::V4 => 1,
        Family::V6 => 28,
    }
}

/// A message with these addresses.
fn written(addresses: &[IpAddr], ttl: Duration, family: Family) -> Vec<u8> {
    assert!(!addresses.is_empty() && addresses.len() <= MAX_ADDRESSES);
    let kind = type_of(family).to_be_bytes();
    let mut message = ID.to_be_bytes().to_vec();
    message.extend([0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    message.extend([QUESTION, &kind, &[0, 1]].concat());
    for address in addresses {
        let octets = match (address, family) {
            (IpAddr::V4(a), Family::V4) => a.octets().to_vec(),
            (IpAddr::V6(a), Family::V6) => a.octets().to_vec(),
            _ => panic!("{address} is not of the family of the query"),
        };
        message.extend([&[0xc0, 12][..], &kind, &[0, 1]].concat());
        message.extend((ttl.as_secs() as u32).to_be_bytes());
        message.extend((octets.len() as u16).to_be_bytes());
        message.extend(octets);
    }
    message
}

/// The labels of a name, in lower case.
type Labels = Vec<Vec<u8>>;

/// A record of a section.
struct Record<'a> {
    owner: Labels,
    kind: u16,
    class: u16,
    ttl: u32,
    /// The beginning of its data, in the message up to the end of the record.
    data: Reader<'a>,
}

/// A place in a message. Names may refer to earlier places (RFC 1035, section 4.1.4).
#[derive(Clone, Copy)]
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.message.get(self.at..)?.get(..n)?;
        self.at += n;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A name of at most 255 octets, with at most so many references.
    fn name(&mut self) -> Option<Labels> {
        let (mut labels, mut octets, mut references) = (Labels::new(), 1, 0);
        let mut reader = *self;
        loop {
            let at = reader.at;
            let length = usize::from(*reader.take(1)?.first()?);
            match length {
                0 => break,
                1..=63 => labels.push(reader.take(length)?.to_ascii_lowercase()),
                192.. => {
                    let low = usize::from(*reader.take(1)?.first()?);
                    if references == 0 {
                        self.at = reader.at;
                    }
                    reader.at = (length & 0x3f) << 8 | low;
                    references += 1;
                    if reader.at >= at || references > 255 {
                        return None;
                    }
                    continue;
                }
                _ => return None,
            }
            octets += 1 + length;
            if octets > 255 {
                return None;
            }
        }
        if references == 0 {
            self.at = reader.at;
        }
        Some(labels)
    }

    fn record(&mut self) -> Option<Record<'a>> {
        let owner = self.name()?;
        let (kind, class, ttl) = (self.short()?, self.short()?, self.long()?);
        let length = usize::from(self.short()?);
        let at = self.at;
        self.take(length)?;
        let message = self.message.get(..self.at)?;
        Some(Record {
            owner,
            kind,
            class,
            ttl,
            data: Reader { message, at },
        })
    }

    fn is_at_end(&self) -> bool {
        self.at == self.message.len()
    }
}

/// The answer in a message, as its meaning is in RFC 1035 and RFC 2308.
fn read(message: &[u8], family: Family) -> Option<Answer> {
    let mut reader = Reader { message, at: 0 };
    let (id, flags, questions) = (reader.short()?, reader.short()?, reader.short()?);
    let counts = [reader.short()?, reader.short()?];
    reader.short()?;
    if id != ID || flags & 0x8000 == 0 || questions != 1 {
        return None;
    }
    let name = reader.name()?;
    let asked = NAME.split('.').map(|l| l.as_bytes().to_vec());
    if !asked.eq(name.iter().cloned()) || reader.short()? != type_of(family) || reader.short()? != 1
    {
        return None;
    }
    if !matches!(flags & 0xf, 0 | 3) {
        return Some(Answer::Failure);
    }
    if flags & 0x0200 != 0 {
        return Some(Answer::Truncated);
    }
    let records = (0..counts[0]).map(|_| reader.record());
    let records: Vec<_> = records.collect::<Option<_>>()?;
    let owner = end_of_aliases(name, &records)?;
    let mut addresses = Vec::new();
    for record in records.iter().filter(|r| r.is(type_of(family))) {
        let octets = record.data.message.get(record.data.at..)?;
        let address = match family {
            Family::V4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
            Family::V6 => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        };
        if record.owner == owner {
            addresses.push(address);
        }
    }
    addresses.truncate(MAX_ADDRESSES);
    if let Some(ttl) = records.iter().map(|r| r.ttl).min()
        && !addresses.is_empty()
    {
        return Some(Answer::Addresses(addresses, seconds(ttl)));
    }
    // A malformed record ends the second section, and the first one counts regardless.
    let mut authority = (0..counts[1]).map_while(|_| reader.record());
    let ttl = authority.find_map(|r| negative_ttl(&r));
    Some(Answer::Nothing(seconds(ttl.unwrap_or_default())))
}

impl Record<'_> {
    fn is(&self, kind: u16) -> bool {
        self.kind == kind && self.class == 1
    }
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(ttl.into())
}

/// The name at the end of the aliases. An alias whose data is not a single name is none. Aliases
/// count in every class: a server that wrote one could have written it with the right class.
fn end_of_aliases(mut name: Labels, records: &[Record<'_>]) -> Option<Labels> {
    for _ in 0..=MOST_ALIASES {
        let next = records.iter().filter(|r| r.kind == 5 && r.owner == name);
        let mut next = next.filter_map(|r| {
            let mut data = r.data;
            let next = data.name()?;
            data.is_at_end().then_some(next)
        });
        match next.next() {
            Some(next) => name = next,
            None => return Some(name),
        }
    }
    None
}

/// The TTL of a SOA record, at most its last field (RFC 2308, section 5).
fn negative_ttl(record: &Record<'_>) -> Option<u32> {
    if !record.is(6) {
        return None;
    }
    let mut data = record.data;
    data.name()?;
    data.name()?;
    data.take(16)?;
    let minimum = data.long()?;
    data.is_at_end().then_some(record.ttl.min(minimum))
}
