//! Server side of SOCKS 4 and its extension 4A, without I/O ("SOCKS: A protocol for TCP proxy
//! across firewalls" and "SOCKS 4A: A Simple Extension to SOCKS 4 Protocol", by Ying-Da Lee).
//!
//! There is one request, without a greeting and without a password. With 4A it may have a name.

use std::net::Ipv4Addr;

use bytes::{Buf as _, BytesMut};

use crate::Intent;
use crate::destination::{BadDestination, Destination, MAX_NAME_BYTES};
use crate::socks_step::{BadHandshake, Failure, Step};

pub(crate) const VERSION: u8 = 4;
const COMMAND_CONNECT: u8 = 1;

/// Reply fields: the request was granted, or rejected for whatever reason.
const GRANTED: u8 = 90;
const REJECTED: u8 = 91;

/// Version, command, port and address.
const HEAD_BYTES: usize = 8;

/// Maximum length of a user id, in bytes.
const MAX_USER_BYTES: usize = 255;

/// Maximum length of a request, in bytes: with the zeros that end user id and name.
pub(crate) const MAX_REQUEST_BYTES: usize = HEAD_BYTES + MAX_USER_BYTES + 1 + MAX_NAME_BYTES + 1;

/// A reply, with a bound address that clients ignore for CONNECT.
pub(crate) fn reply(is_granted: bool) -> [u8; 8] {
    let code = if is_granted { GRANTED } else { REJECTED };
    [0, code, 0, 0, 0, 0, 0, 0]
}

/// Consumes a request, if it is complete: VN, CD, DSTPORT, DSTIP, USERID, NULL, and with an address
/// 0.0.0.x the name, NULL.
///
/// The parameters behind the user id are put into `intent`.
pub(crate) fn request(
    input: &mut BytesMut,
    needs_password: bool,
    intent: &mut Intent,
) -> Result<Step, Failure> {
    if needs_password {
        return Err(failure(BadHandshake::NoMethod));
    }
    let Some(&[_, command, p, q, a, b, c, d]) = input.first_chunk() else {
        return Ok(Step::NeedMore);
    };
    if command != COMMAND_CONNECT {
        return Err(failure(BadHandshake::Command(command)));
    }
    let port = u16::from_be_bytes([p, q]);
    let Some((user, mut end)) = terminated(input, HEAD_BYTES, MAX_USER_BYTES)? else {
        return Ok(Step::NeedMore);
    };
    let parameters = Intent::of_any_name(user).map_err(|e| failure(e.into()))?;
    let has_name = matches!([a, b, c], [0, 0, 0]) && d != 0;
    let host = if has_name {
        let Some((name, after)) = terminated(input, end, MAX_NAME_BYTES)? else {
            return Ok(Step::NeedMore);
        };
        end = after;
        let name = std::str::from_utf8(name).map_err(|_| BadDestination::BadCharacter);
        name.map(str::to_owned)
    } else {
        Ok(Ipv4Addr::new(a, b, c, d).to_string())
    };
    let destination = host.and_then(|host| Destination::from_host(&host, port));
    let destination = destination.map_err(|e| failure(e.into()))?;
    input.advance(end);
    *intent = parameters;
    Ok(Step::Connect(destination))
}

/// The bytes from here to a zero, and the end behind it; `None` while there is no zero yet.
fn terminated(input: &[u8], from: usize, most: usize) -> Result<Option<(&[u8], usize)>, Failure> {
    let rest = input.get(from..).unwrap_or_default();
    match rest.iter().take(most + 1).position(|octet| *octet == 0) {
        Some(length) => Ok(rest.get(..length).map(|text| (text, from + length + 1))),
        None if rest.len() > most => Err(failure(BadDestination::TooLong.into())),
        None => Ok(None),
    }
}

fn failure(reason: BadHandshake) -> Failure {
    Failure {
        answer: reply(false).to_vec(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The outcome of a request of which one octet after the other arrives, and what is left.
    fn play(bytes: &[u8]) -> (Result<Step, Failure>, Vec<u8>) {
        let mut buffer = BytesMut::new();
        for octet in bytes {
            assert!(buffer.len() < MAX_REQUEST_BYTES, "holds too much");
            buffer.extend_from_slice(&[*octet]);
            match request(&mut buffer, false, &mut Intent::default()) {
                Ok(Step::NeedMore) => {}
                other => return (other, buffer.to_vec()),
            }
        }
        (Ok(Step::NeedMore), buffer.to_vec())
    }

    fn connect(to: &str) -> Result<Step, Failure> {
        Ok(Step::Connect(
            Destination::from_authority(to, None).unwrap(),
        ))
    }

    #[test]
    fn addresses_and_names() {
        let (outcome, _) = play(b"\x04\x01\x00\x50\xc0\x00\x02\x01me\0");
        assert_eq!(outcome, connect("192.0.2.1:80"));
        let (outcome, _) = play(b"\x04\x01\x01\xbb\x00\x00\x00\x01\0Site.Example\0");
        assert_eq!(outcome, connect("site.example:443"));
        // Without a last octet it is an address.
        let (outcome, _) = play(b"\x04\x01\x01\xbb\x00\x00\x00\x00\0");
        assert_eq!(outcome, connect("0.0.0.0:443"));
        let mut early = BytesMut::from(&b"\x04\x01\x00\x50\xc0\x00\x02\x01\0GET /"[..]);
        assert_eq!(
            request(&mut early, false, &mut Intent::default()),
            connect("192.0.2.1:80")
        );
        assert_eq!(&early[..], b"GET /");
    }

    #[test]
    fn failures() {
        let long = [b'a'; 256];
        let name = b"\x04\x01\x00\x50\x00\x00\x00\x01";
        for (bytes, reason) in [
            (
                b"\x04\x02\x00\x50\xc0\x00\x02\x01\0".to_vec(),
                BadHandshake::Command(2),
            ),
            (
                b"\x04\x01\x00\x00\xc0\x00\x02\x01\0".to_vec(),
                BadDestination::BadPort.into(),
            ),
            (
                [&name[..], b"\0\0"].concat(),
                BadDestination::EmptyHost.into(),
            ),
            (
                [&name[..], b"\0\xff\xfe\0"].concat(),
                BadDestination::BadCharacter.into(),
            ),
            ([&name[..], &long].concat(), BadDestination::TooLong.into()),
            (
                [&name[..], b"\0", &long].concat(),
                BadDestination::TooLong.into(),
            ),
        ] {
            let failure = play(&bytes).0.unwrap_err();
            assert_eq!(failure.reason, reason);
            assert_eq!(failure.answer, [0, 91, 0, 0, 0, 0, 0, 0]);
        }
        let mut locked = BytesMut::from(&b"\x04"[..]);
        let failure = request(&mut locked, true, &mut Intent::default()).unwrap_err();
        assert_eq!(failure.reason, BadHandshake::NoMethod);
    }

    proptest! {
        /// The outcome of random bytes does not depend on how they are split.
        #[test]
        fn garbage(
            mut bytes in proptest::collection::vec(any::<u8>(), 9..600),
            shape in 0usize..9,
        ) {
            for (at, b) in [4, 1, 0, 80, 0, 0, 0, 1].into_iter().enumerate().take(shape) {
                bytes[at] = b;
            }
            let (outcome, _) = play(&bytes);
            let mut whole = BytesMut::from(&bytes[..]);
            prop_assert_eq!(outcome, request(&mut whole, false, &mut Intent::default()));
        }
    }
}
