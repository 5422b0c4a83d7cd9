//! DNS messages of a stub resolver: queries for addresses, and what their answers say.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Question, Ttl};
use domain::rdata::{A, Aaaa, Soa};

/// Address family of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A records.
    V4,
    /// AAAA records.
    V6,
}

/// Maximum number of addresses taken from an answer.
pub const MAX_ADDRESSES: usize = 16;

/// A domain name in wire format.
pub type DomainName = Name<Vec<u8>>;

/// A query for the addresses of a name.
#[derive(Clone, Debug)]
pub struct Query {
    name: DomainName,
    family: Family,
    id: u16,
}

/// Content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Addresses, and how long they may be kept.
    Addresses(Vec<IpAddr>, Duration),
    /// The name, or its family, does not exist, for as long as given.
    Nothing(Duration),
    /// The server cannot or does not want to answer.
    Failure,
    /// Complete over TCP only.
    Truncated,
}

impl Query {
    /// A query with this id.
    pub fn new(name: DomainName, family: Family, id: u16) -> Self {
        Self { name, family, id }
    }

    fn record_type(&self) -> Rtype {
        match self.family {
            Family::V4 => Rtype::A,
            Family::V6 => Rtype::AAAA,
        }
    }

    /// The message. It is without EDNS: addresses mostly fit 512 octets, and TCP serves the rest.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageBuilder::new_vec();
        message.header_mut().set_id(self.id);
        message.header_mut().set_rd(true);
        let mut message = message.question();
        let question = Question::new(&self.name, self.record_type(), Class::IN);
        // A vector takes any question.
        let _ = message.push(question);
        message.finish()
    }

    /// Parses a message. `None` if it is malformed or no answer to this query.
    pub fn parse(&self, octets: &[u8]) -> Option<Answer> {
        let message = Message::from_octets(octets).ok()?;
        let header = message.header();
        if !header.qr() || header.id() != self.id {
            return None;
        }
        let question = message.sole_question().ok()?;
        let is_ours = *question.qname() == self.name
            && question.qtype() == self.record_type()
            && question.qclass() == Class::IN;
        if !is_ours {
            return None;
        }
        match header.rcode() {
            Rcode::NOERROR | Rcode::NXDOMAIN => {}
            _ => return Some(Answer::Failure),
        }
        if header.tc() {
            return Some(Answer::Truncated);
        }
        let (addresses, ttl) = self.addresses(&message)?;
        if addresses.is_empty() {
            return Some(Answer::Nothing(negative_ttl(&message)));
        }
        Some(Answer::Addresses(addresses, ttl))
    }

    /// Addresses of the name at the end of the chain of aliases, with the lowest of all TTLs.
    fn addresses(&self, message: &Message<&[u8]>) -> Option<(Vec<IpAddr>, Duration)> {
        let owner = message.canonical_name()?;
        let mut ttl = Duration::MAX;
        for record in message.answer().ok()? {
            ttl = ttl.min(duration(record.ok()?.ttl()));
        }
        let mut addresses: Vec<IpAddr> = Vec::new();
        match self.family {
            Family::V4 => {
                for record in message.answer().ok()?.limit_to_in::<A>() {
                    let record = record.ok()?;
                    if *record.owner() == owner {
                        addresses.push(record.data().addr().into());
                    }
                }
            }
            Family::V6 => {
                for record in message.answer().ok()?.limit_to_in::<Aaaa>() {
                    let record = record.ok()?;
                    if *record.owner() == owner {
                        addresses.push(record.data().addr().into());
                    }
                }
            }
        }
        addresses.truncate(MAX_ADDRESSES);
        Some((addresses, ttl))
    }
}

/// How long a name may be taken not to exist (RFC 2308, section 5).
fn negative_ttl(message: &Message<&[u8]>) -> Duration {
    let Ok(authority) = message.authority() else {
        return Duration::ZERO;
    };
    let soa = authority.limit_to_in::<Soa<_>>().flatten().next();
    soa.map_or(Duration::ZERO, |r| {
        duration(r.ttl().min(r.data().minimum()))
    })
}

fn duration(ttl: Ttl) -> Duration {
    Duration::from_secs(ttl.as_secs().into())
}

#[cfg(test)]
mod tests {
    use domain::base::message_builder::AnswerBuilder;
    use domain::rdata::Cname;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> DomainName {
        text.parse().unwrap()
    }

    fn query() -> Query {
        Query::new(name("www.example.com"), Family::V4, 77)
    }

    fn answer(to: &Query, rcode: Rcode) -> AnswerBuilder<Vec<u8>> {
        let query = Message::from_octets(to.encode()).unwrap();
        let builder = MessageBuilder::new_vec();
        builder.start_answer(&query, rcode).unwrap()
    }

    fn secs(n: u32) -> Ttl {
        Ttl::from_secs(n)
    }

    #[test]
    fn addresses_at_the_end_of_the_aliases_with_the_lowest_ttl() {
        let query = query();
        let mut message = answer(&query, Rcode::NOERROR);
        let alias = Cname::new(name("cdn.example.net"));
        message
            .push((name("WWW.example.COM"), secs(300), alias))
            .unwrap();
        let one = A::from_octets(192, 0, 2, 1);
        message
            .push((name("cdn.example.net"), secs(60), one))
            .unwrap();
        // Not asked for: a server may add anything.
        let other = A::from_octets(192, 0, 2, 66);
        message
            .push((name("bank.example.org"), secs(90), other))
            .unwrap();
        let expected = Answer::Addresses(vec![[192, 0, 2, 1].into()], Duration::from_secs(60));
        assert_eq!(query.parse(&message.finish()), Some(expected));
    }

    #[test]
    fn nothing_lasts_as_long_as_the_zone_says() {
        let query = query();
        let mut message = answer(&query, Rcode::NXDOMAIN).authority();
        let (m, r) = (name("a.example.com"), name("b.example.com"));
        let soa = Soa::new(m, r, 1.into(), secs(2), secs(3), secs(4), secs(30));
        message.push((name("example.com"), secs(900), soa)).unwrap();
        let nothing = Answer::Nothing(Duration::from_secs(30));
        assert_eq!(query.parse(&message.finish()), Some(nothing));
        let bare = answer(&query, Rcode::NOERROR).finish();
        let nothing = Answer::Nothing(Duration::ZERO);
        assert_eq!(query.parse(&bare), Some(nothing));
    }

    #[test]
    fn refusals_truncated_and_strange_messages() {
        let query = query();
        let failed = answer(&query, Rcode::SERVFAIL).finish();
        assert_eq!(query.parse(&failed), Some(Answer::Failure));
        let mut truncated = answer(&query, Rcode::NOERROR);
        truncated.header_mut().set_tc(true);
        assert_eq!(query.parse(&truncated.finish()), Some(Answer::Truncated));
        assert_eq!(query.parse(&query.encode()), None, "a query");
        let good = answer(&query, Rcode::NOERROR).finish();
        for (name, family, id) in [
            ("www.example.com", Family::V4, 78),
            ("www.example.com", Family::V6, 77),
            ("example.com", Family::V4, 77),
        ] {
            let other = Query::new(self::name(name), family, id);
            assert_eq!(other.parse(&good), None, "the answer to another query");
        }
        assert_eq!(query.parse(&good[..11]), None);
    }

    #[test]
    fn a_circle_of_aliases_is_no_answer() {
        let query = query();
        let mut message = answer(&query, Rcode::NOERROR);
        let own = name("www.example.com");
        let alias = Cname::new(own.clone());
        message.push((own, secs(300), alias)).unwrap();
        assert_eq!(query.parse(&message.finish()), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_an_answer_or_none(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            let query = query();
            query.parse(&octets);
            let mut after = answer(&query, Rcode::NOERROR).finish();
            // Counts of records, then anything.
            let counts = octets.iter().take(4).copied();
            for (place, count) in after.iter_mut().skip(6).zip(counts) {
                *place = count;
            }
            after.extend(octets);
            query.parse(&after);
        }
    }
}
