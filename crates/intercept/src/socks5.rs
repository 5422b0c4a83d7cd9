//! Server side of the SOCKS5 handshake (RFC 1928, RFC 1929), without I/O. A client that begins with
//! version 4 is served by [`socks4`](crate::socks4).
//!
//! [`Handshake::advance`] consumes received bytes incrementally and returns the next action. Bytes
//! after the request stay in the buffer: they are early data of a client that does not wait for the
//! reply.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BytesMut};

use crate::destination::{BadDestination, Destination};
use crate::{Credentials, Intent, Refusal, socks4};

pub use crate::socks_step::{BadHandshake, Failure, Step};

const VERSION: u8 = 5;
/// Version of the user name and password sub-negotiation (RFC 1929, section 2).
const AUTH_VERSION: u8 = 1;
const METHOD_NONE: u8 = 0x00;
const METHOD_PASSWORD: u8 = 0x02;
const METHOD_UNACCEPTABLE: u8 = 0xff;
const COMMAND_CONNECT: u8 = 1;
const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;

/// Reply field: the request was granted (RFC 1928, section 6).
pub const SUCCEEDED: u8 = 0;
const GENERAL_FAILURE: u8 = 1;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;

/// Maximum length of a client's message in bytes: user name and password with their lengths and
/// version (RFC 1929, section 2), or a request of SOCKS 4A, which is longer. No more is ever
/// buffered.
pub const MAX_MESSAGE_BYTES: usize = socks4::MAX_REQUEST_BYTES;
const _: () = assert!(MAX_MESSAGE_BYTES >= 1 + 1 + 255 + 1 + 255);

/// A reply (RFC 1928, section 6) with this code.
///
/// The bound address is zero: there is no local socket to the destination, and clients ignore the
/// field for CONNECT.
pub fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, ADDRESS_V4, 0, 0, 0, 0, 0, 0]
}

/// The reply for a refusal.
pub fn refusal(refusal: Refusal) -> [u8; 10] {
    reply(refusal.socks5_reply())
}

#[derive(Clone, Copy, Debug)]
enum State {
    Greeting,
    Password,
    Request,
}

/// One handshake.
#[derive(Debug)]
pub struct Handshake<'a> {
    state: State,
    version: u8,
    credentials: Option<&'a Credentials>,
    intent: Intent,
}

impl<'a> Handshake<'a> {
    /// A new handshake; `credentials`, if given, are required of the client.
    pub fn new(credentials: Option<&'a Credentials>) -> Self {
        Self {
            state: State::Greeting,
            version: VERSION,
            credentials,
            intent: Intent::default(),
        }
    }

    /// The client's parameters, once the handshake is complete.
    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// The client's version of SOCKS: 4 or 5.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Consumes the next message from `input`, if it is complete.
    ///
    /// # Errors
    /// [`Failure`] with the answer to send before closing.
    pub fn advance(&mut self, input: &mut BytesMut) -> Result<Step, Failure> {
        match self.state {
            State::Greeting => self.greeting(input),
            State::Password => self.password(input),
            State::Request => request(input),
        }
    }

    /// RFC 1928, section 3: VER, NMETHODS, METHODS.
    fn greeting(&mut self, input: &mut BytesMut) -> Result<Step, Failure> {
        if input.first() == Some(&socks4::VERSION) {
            self.version = socks4::VERSION;
            return socks4::request(input, self.credentials.is_some(), &mut self.intent);
        }
        expect_version(input, VERSION)?;
        let Some(&[_, count]) = input.first_chunk() else {
            return Ok(Step::NeedMore);
        };
        let end = 2 + usize::from(count);
        let Some(methods) = input.get(2..end) else {
            return Ok(Step::NeedMore);
        };
        // A client that offers a user name and password is asked for them also where none are
        // required: its class may follow the name.
        let asks = self.credentials.is_some() || methods.contains(&METHOD_PASSWORD);
        let (method, next) = match asks {
            true => (METHOD_PASSWORD, State::Password),
            false => (METHOD_NONE, State::Request),
        };
        if !methods.contains(&method) {
            return Err(Failure {
                answer: vec![VERSION, METHOD_UNACCEPTABLE],
                reason: BadHandshake::NoMethod,
            });
        }
        input.advance(end);
        self.state = next;
        Ok(Step::Send([VERSION, method]))
    }

    /// RFC 1929, section 2: VER, ULEN, UNAME, PLEN, PASSWD.
    fn password(&mut self, input: &mut BytesMut) -> Result<Step, Failure> {
        expect_version(input, AUTH_VERSION)?;
        let Some((user, end)) = counted(input, 1) else {
            return Ok(Step::NeedMore);
        };
        let Some((password, end)) = counted(input, end) else {
            return Ok(Step::NeedMore);
        };
        let refused = |reason| Failure {
            answer: vec![AUTH_VERSION, 1],
            reason,
        };
        let intent = match &self.credentials {
            Some(c) => {
                let (name, intent) = Intent::split(user);
                if !c.matches(name, password) {
                    return Err(refused(BadHandshake::WrongCredentials));
                }
                intent
            }
            None => Intent::of_any_name(user),
        };
        self.intent = intent.map_err(|e| refused(e.into()))?;
        input.advance(end);
        self.state = State::Request;
        Ok(Step::Send([AUTH_VERSION, 0]))
    }
}

/// RFC 1928, section 4: VER, CMD, RSV, ATYP, DST.ADDR, DST.PORT.
fn request(input: &mut BytesMut) -> Result<Step, Failure> {
    expect_version(input, VERSION)?;
    let Some(&[_, command, _, kind]) = input.first_chunk() else {
        return Ok(Step::NeedMore);
    };
    if command != COMMAND_CONNECT {
        return Err(failure(
            COMMAND_NOT_SUPPORTED,
            BadHandshake::Command(command),
        ));
    }
    let (destination, end) = match kind {
        ADDRESS_V4 => {
            let Some(&octets) = input.get(4..).and_then(<[u8]>::first_chunk::<4>) else {
                return Ok(Step::NeedMore);
            };
            let ip = IpAddr::V4(Ipv4Addr::from(octets));
            let Some(port) = port_at(input, 8) else {
                return Ok(Step::NeedMore);
            };
            (non_zero(ip, port), 10)
        }
        ADDRESS_V6 => {
            let Some(&octets) = input.get(4..).and_then(<[u8]>::first_chunk::<16>) else {
                return Ok(Step::NeedMore);
            };
            let ip = IpAddr::V6(Ipv6Addr::from(octets));
            let Some(port) = port_at(input, 20) else {
                return Ok(Step::NeedMore);
            };
            (non_zero(ip, port), 22)
        }
        ADDRESS_NAME => {
            let Some((name, end)) = counted(input, 4) else {
                return Ok(Step::NeedMore);
            };
            let Some(port) = port_at(input, end) else {
                return Ok(Step::NeedMore);
            };
            let destination = std::str::from_utf8(name)
                .map_err(|_| BadDestination::BadCharacter)
                .and_then(|name| Destination::from_host(name, port));
            (destination, end + 2)
        }
        other => {
            return Err(failure(
                ADDRESS_TYPE_NOT_SUPPORTED,
                BadHandshake::AddressType(other),
            ));
        }
    };
    let destination = destination.map_err(|e| failure(GENERAL_FAILURE, e.into()))?;
    input.advance(end);
    Ok(Step::Connect(destination))
}

fn failure(code: u8, reason: BadHandshake) -> Failure {
    Failure {
        answer: reply(code).to_vec(),
        reason,
    }
}

/// Checks the version as soon as its octet is received, so that a client of another protocol is
/// rejected before the deadline.
fn expect_version(input: &[u8], want: u8) -> Result<(), Failure> {
    match input.first() {
        Some(&version) if version != want => Err(Failure {
            answer: Vec::new(),
            reason: BadHandshake::Version(version),
        }),
        _ => Ok(()),
    }
}

/// The bytes after the length octet at `at`, and their end.
fn counted(input: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at + 1;
    let end = start + usize::from(*input.get(at)?);
    Some((input.get(start..end)?, end))
}

fn port_at(input: &[u8], at: usize) -> Option<u16> {
    let octets = input.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*octets))
}

fn non_zero(ip: IpAddr, port: u16) -> Result<Destination, BadDestination> {
    match port {
        0 => Err(BadDestination::BadPort),
        _ => Ok(Destination::from_ip(ip, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadIntent, Class};
    use proptest::prelude::*;

    /// Feeds `bytes` to a handshake in pieces of the given sizes, cyclically; returns the bytes
    /// sent, the outcome and the bytes left.
    fn play(
        bytes: &[u8],
        pieces: &[usize],
        credentials: Option<&Credentials>,
    ) -> (Vec<u8>, Option<Result<Destination, Failure>>, Vec<u8>) {
        let mut handshake = Handshake::new(credentials);
        let mut sent = Vec::new();
        let mut buffer = BytesMut::new();
        let mut rest = bytes;
        let mut pieces = pieces.iter().cycle();
        loop {
            match handshake.advance(&mut buffer) {
                Ok(Step::Send(b)) => sent.extend(b),
                Ok(Step::Connect(d)) => {
                    buffer.extend_from_slice(rest);
                    return (sent, Some(Ok(d)), buffer.to_vec());
                }
                Err(f) => return (sent, Some(Err(f)), Vec::new()),
                Ok(Step::NeedMore) if rest.is_empty() => return (sent, None, buffer.to_vec()),
                Ok(Step::NeedMore) => {
                    assert!(buffer.len() < MAX_MESSAGE_BYTES, "holds too much");
                    let n = (*pieces.next().unwrap()).clamp(1, rest.len());
                    buffer.extend_from_slice(&rest[..n]);
                    rest = &rest[n..];
                }
            }
        }
    }

    fn with_greeting(request: &[u8]) -> Vec<u8> {
        [&[5, 1, 0], request].concat()
    }

    #[test]
    fn requests() {
        let mut v6 = vec![5, 1, 0, 4];
        v6.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend([1, 187]);
        let mut mapped = vec![5, 1, 0, 4];
        mapped.extend("::ffff:192.0.2.9".parse::<Ipv6Addr>().unwrap().octets());
        mapped.extend([0, 80]);
        for (request, want) in [
            (
                &b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"[..],
                "192.0.2.1:80",
            ),
            (
                b"\x05\x01\x00\x03\x0bexample.com\x01\xbb",
                "example.com:443",
            ),
            (b"\x05\x01\x00\x03\x09192.0.2.8\x01\xbb", "192.0.2.8:443"),
            (&v6, "[2001:db8::7]:443"),
            (&mapped, "192.0.2.9:80"),
        ] {
            let (sent, end, early) = play(&with_greeting(request), &[3], None);
            assert_eq!(sent, [5, 0]);
            assert_eq!(end.unwrap().unwrap().to_string(), want);
            assert!(early.is_empty());
        }
    }

    #[test]
    fn failures() {
        use BadHandshake::*;
        for (bytes, code, reason) in [
            (
                &b"\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"[..],
                7,
                Command(2),
            ),
            (b"\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", 7, Command(3)),
            (b"\x05\x01\x00\x02", 8, AddressType(2)),
            (
                b"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00",
                1,
                Destination(BadDestination::BadPort),
            ),
            (
                b"\x05\x01\x00\x03\x00\x00\x50",
                1,
                Destination(BadDestination::EmptyHost),
            ),
            (
                b"\x05\x01\x00\x03\x02\xff\xfe\x00\x50",
                1,
                Destination(BadDestination::BadCharacter),
            ),
        ] {
            let (_, end, _) = play(&with_greeting(bytes), &[100], None);
            let failure = end.unwrap().unwrap_err();
            assert_eq!(failure.answer[..2], [5, code]);
            assert_eq!(failure.answer.len(), 10);
            assert_eq!(failure.reason, reason);
        }
        for (bytes, answer, reason) in [
            (&b"\x03\x01"[..], &[][..], Version(3)),
            (b"GET / HTTP/1.1\r\n", &[], Version(b'G')),
            (b"\x05\x01\x01", &[5, 0xff], NoMethod),
            (b"\x05\x00", &[5, 0xff], NoMethod),
            (b"\x05\x01\x00\x04", &[], Version(4)),
        ] {
            let (_, end, _) = play(bytes, &[1], None);
            let failure = end.unwrap().unwrap_err();
            assert_eq!(
                (failure.answer.as_slice(), failure.reason),
                (answer, reason)
            );
        }
    }

    #[test]
    fn version_4_needs_no_greeting() {
        let (sent, end, left) = play(b"\x04\x01\x00\x50\xc0\x00\x02\x01me\0x", &[1], None);
        assert_eq!((sent, left), (Vec::new(), b"x".to_vec()));
        let to = Destination::from_ip([192, 0, 2, 1].into(), 80);
        assert_eq!(end.unwrap().unwrap(), to);
    }

    #[test]
    fn a_password_can_be_required() {
        let c = Credentials::new("me", "pw").unwrap();
        let request = b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
        let good = [&b"\x05\x02\x00\x02\x01\x02me\x02pw"[..], request].concat();
        let (sent, end, _) = play(&good, &[1], Some(&c));
        assert_eq!(sent, [5, 2, 1, 0]);
        assert!(end.unwrap().is_ok());

        let bad = [&b"\x05\x01\x02\x01\x02me\x02px"[..], request].concat();
        let (_, end, _) = play(&bad, &[1], Some(&c));
        let failure = end.unwrap().unwrap_err();
        assert_eq!(failure.answer, [1, 1]);
        assert_eq!(failure.reason, BadHandshake::WrongCredentials);

        // A client that does not offer the password method is refused at once.
        let (_, end, _) = play(&with_greeting(request), &[1], Some(&c));
        assert_eq!(end.unwrap().unwrap_err().reason, BadHandshake::NoMethod);
    }

    #[test]
    fn parameters_stand_behind_the_user_name_whether_or_not_one_is_required() {
        let c = Credentials::new("me", "pw").unwrap();
        let request = b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
        let named = |methods: &[u8], user: &str| {
            let greeting = [&[5, methods.len() as u8], methods].concat();
            let name = [&[1, user.len() as u8], user.as_bytes(), b"\x02pw"].concat();
            [greeting, name, request.to_vec()].concat()
        };
        let background = Intent {
            class: Some(Class::Background),
            deadline: None,
        };
        for credentials in [None, Some(&c)] {
            let mut handshake = Handshake::new(credentials);
            let mut input = BytesMut::from(&named(&[0, 2], "me,class=background")[..]);
            assert_eq!(handshake.advance(&mut input), Ok(Step::Send([5, 2])));
            assert_eq!(handshake.advance(&mut input), Ok(Step::Send([1, 0])));
            assert!(matches!(
                handshake.advance(&mut input),
                Ok(Step::Connect(_))
            ));
            assert_eq!(handshake.intent(), background);
        }
        for (credentials, user, reason) in [
            (None, "me,class=urgent", BadIntent::Class.into()),
            (Some(&c), "me,class=urgent", BadIntent::Class.into()),
            (Some(&c), "m,class=urgent", BadHandshake::WrongCredentials),
            (Some(&c), "m,class=bulk", BadHandshake::WrongCredentials),
        ] {
            let (_, end, _) = play(&named(&[2], user), &[7], credentials);
            let failure = end.unwrap().unwrap_err();
            assert_eq!(
                (failure.answer.as_slice(), failure.reason),
                (&[1, 1][..], reason)
            );
        }
        // SOCKS 4 has a user id.
        let mut handshake = Handshake::new(None);
        let mut four = BytesMut::from(&b"\x04\x01\x00\x50\xc0\x00\x02\x01,class=background\0"[..]);
        assert!(matches!(handshake.advance(&mut four), Ok(Step::Connect(_))));
        assert_eq!(handshake.intent(), background);
        let mut four = BytesMut::from(&b"\x04\x01\x00\x50\xc0\x00\x02\x01,x=1\0"[..]);
        let failure = Handshake::new(None).advance(&mut four).unwrap_err();
        assert_eq!(failure.answer, socks4::reply(false));
    }

    #[test]
    fn a_name_with_commas_is_accepted_where_none_is_required() {
        let mut input = b"\x05\x01\x02\x01\x0banna,laptop\x01x".to_vec();
        input.extend_from_slice(b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50");
        let (_, end, _) = play(&input, &[7], None);
        assert!(matches!(end, Some(Ok(_))), "{end:?}");
        let mut four = BytesMut::from(&b"\x04\x01\x00\x50\xc0\x00\x02\x01anna,laptop\0"[..]);
        let step = Handshake::new(None).advance(&mut four);
        assert!(matches!(step, Ok(Step::Connect(_))), "{step:?}");
    }

    #[test]
    fn truncated_anywhere_means_wait() {
        let whole = with_greeting(b"\x05\x01\x00\x03\x0bexample.com\x01\xbb");
        for cut in 0..whole.len() {
            let (_, end, _) = play(&whole[..cut], &[1], None);
            assert_eq!(end, None, "cut at {cut}");
        }
    }

    #[test]
    fn replies() {
        assert_eq!(reply(SUCCEEDED), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for r in Refusal::ALL {
            assert_eq!(refusal(r)[1], r.socks5_reply());
            assert_ne!(refusal(r)[1], SUCCEEDED);
        }
    }

    proptest! {
        /// The outcome does not depend on how the bytes are split, and bytes after the request are
        /// kept.
        #[test]
        fn splitting_does_not_matter(
            host in "[a-z]{1,20}(\\.[a-z]{1,20}){0,3}",
            port in 1u16..,
            early in proptest::collection::vec(any::<u8>(), 0..50),
            pieces in proptest::collection::vec(1usize..40, 1..10),
        ) {
            let mut bytes = vec![5, 3, 1, 0, 9, 5, 1, 0, 3, host.len() as u8];
            bytes.extend(host.as_bytes());
            bytes.extend(port.to_be_bytes());
            bytes.extend(&early);
            let (sent, end, left) = play(&bytes, &pieces, None);
            prop_assert_eq!(sent, [5, 0]);
            prop_assert_eq!(end.unwrap().unwrap(), Destination::Name { host, port });
            prop_assert_eq!(left, early);
        }

        /// The outcome of random bytes does not depend on how they are split.
        #[test]
        fn garbage(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
            shape in 0usize..4,
            pieces in proptest::collection::vec(1usize..40, 1..10),
        ) {
            // Let some inputs pass the first checks.
            for (at, b) in [5, 1, 0, 5, 1, 0, 3].into_iter().enumerate().take(shape * 2 + 1) {
                if let Some(slot) = bytes.get_mut(at) {
                    *slot = b;
                }
            }
            prop_assert_eq!(play(&bytes, &pieces, None), play(&bytes, &[600], None));
        }
    }
}
