//! Messages of the kernel's socket diagnostics: netlink(7), sock_diag(7), and the kernel's headers
//! linux/netlink.h and linux/inet_diag.h. Numbers are in the byte order of the host, ports and
//! addresses in that of the network.

use std::net::{IpAddr, SocketAddr};

use super::owner::SocketOwner;

/// SOCK_DIAG_BY_FAMILY, which is also the type of an answer.
const BY_FAMILY: u16 = 20;
/// NLMSG_ERROR.
const ERROR: u16 = 2;
/// NLM_F_REQUEST.
const REQUEST: u16 = 1;

/// Octets of a message's header (struct nlmsghdr).
const HEADER: usize = 16;
/// The same of a request (struct inet_diag_req_v2) and of an answer (struct inet_diag_msg).
const ASKED: usize = 56;
const FOUND: usize = 72;
/// Where an answer has the ports and addresses of both ends, the user, and the inode.
const PORTS_AT: usize = 4;
const ADDRESSES_AT: usize = 8;
const UID_AT: usize = 64;
const INODE_AT: usize = 68;
/// Octets of an attribute's header (struct nlattr), and their alignment.
const ATTRIBUTE: usize = 4;

/// Attributes: INET_DIAG_TOS, INET_DIAG_TCLASS, INET_DIAG_CGROUP_ID. The first two are asked for by
/// a bit each, the last is always there.
const TOS: u16 = 5;
const TCLASS: u16 = 6;
const CGROUP_ID: u16 = 21;
const EXTENSIONS: u8 = 1 << (TOS - 1) | 1 << (TCLASS - 1);

/// Room for an answer; there are some ten attributes of a few octets each.
pub(super) const ANSWER_BYTES: usize = 1024;

/// Content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A socket, with its owner if a process holds it.
    Found(Ends, Option<SocketOwner>),
    /// The request has failed with this number.
    Error(i32),
    /// It is the answer to another request.
    Other,
}

/// Addresses and ports of both ends of a socket, its own first.
pub(super) type Ends = [(IpAddr, u16); 2];

/// The same in the form of answers.
pub(super) fn ends(local: SocketAddr, remote: SocketAddr) -> Ends {
    [local, remote].map(|end| (end.ip().to_canonical(), end.port()))
}

/// A request for the socket with exactly these ends; `None` if they are of two families.
pub(super) fn request(sequence: u32, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
    let family = match (local.ip().to_canonical(), remote.ip().to_canonical()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => libc::AF_INET,
        (IpAddr::V6(_), IpAddr::V6(_)) => libc::AF_INET6,
        _ => return None,
    };
    let mut out = Vec::with_capacity(HEADER + ASKED);
    out.extend(((HEADER + ASKED) as u32).to_ne_bytes());
    out.extend(BY_FAMILY.to_ne_bytes());
    out.extend(REQUEST.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    // To the kernel, from a port that it knows.
    out.extend(0_u32.to_ne_bytes());
    out.extend([family as u8, libc::IPPROTO_TCP as u8, EXTENSIONS, 0]);
    // In any state.
    out.extend(u32::MAX.to_ne_bytes());
    out.extend(local.port().to_be_bytes());
    out.extend(remote.port().to_be_bytes());
    for end in [local, remote] {
        let mut address = [0; 16];
        match end.ip().to_canonical() {
            IpAddr::V4(ip) => {
                for (to, octet) in address.iter_mut().zip(ip.octets()) {
                    *to = octet;
                }
            }
            IpAddr::V6(ip) => address = ip.octets(),
        }
        out.extend(address);
    }
    // On any interface, with any cookie (INET_DIAG_NOCOOKIE).
    out.extend(0_u32.to_ne_bytes());
    out.extend(u64::MAX.to_ne_bytes());
    Some(out)
}

/// Parses one message of the kernel. `None` if it is malformed.
pub(super) fn parse(octets: &[u8], sequence: u32) -> Option<Answer> {
    let length = u32_at(octets, 0)? as usize;
    let kind = u16_at(octets, 4)?;
    if u32_at(octets, 8)? != sequence {
        return Some(Answer::Other);
    }
    let body = octets.get(HEADER..length)?;
    match kind {
        ERROR => {
            // A negative number; zero would be an acknowledgement, which is not asked for.
            let error = (u32_at(body, 0)? as i32).checked_neg()?;
            (error > 0).then_some(Answer::Error(error))
        }
        BY_FAMILY => {
            let is_v6 = i32::from(*body.first()?) == libc::AF_INET6;
            let ends = [end(body, is_v6, 0)?, end(body, is_v6, 1)?];
            let mut owner = SocketOwner {
                uid: u32_at(body, UID_AT)?,
                cgroup: None,
                tos: None,
            };
            // A socket of IPv6 that is connected over IPv4 sends IP_TOS.
            let tos = if ends[1].0.is_ipv6() { TCLASS } else { TOS };
            let mut rest = body.get(FOUND..)?;
            while let Some((kind, value, after)) = attribute(rest) {
                match kind {
                    CGROUP_ID => owner.cgroup = u64_at(value),
                    _ if kind == tos => owner.tos = value.first().copied(),
                    _ => {}
                }
                rest = after;
            }
            // One that was closed, or not accepted yet, is in no process: its user is given as 0.
            let is_held = u32_at(body, INODE_AT)? != 0;
            Some(Answer::Found(ends, is_held.then_some(owner)))
        }
        _ => None,
    }
}

/// Address and port of the first or the second end in an answer.
fn end(body: &[u8], is_v6: bool, nth: usize) -> Option<(IpAddr, u16)> {
    let port = body.get(PORTS_AT + 2 * nth..)?.first_chunk().copied()?;
    let address = body.get(ADDRESSES_AT + 16 * nth..)?;
    let ip: IpAddr = match is_v6 {
        true => address.first_chunk::<16>().copied()?.into(),
        false => address.first_chunk::<4>().copied()?.into(),
    };
    Some((ip.to_canonical(), u16::from_be_bytes(port)))
}

/// The first attribute: its kind, its value, and the octets after it. `None` at the end, or where
/// the rest is no attribute.
fn attribute(octets: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16_at(octets, 0)?);
    let kind = u16_at(octets, 2)?;
    let value = octets.get(ATTRIBUTE..length)?;
    let next = length.next_multiple_of(ATTRIBUTE);
    Some((kind, value, octets.get(next..).unwrap_or_default()))
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_ne_bytes)
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes)
}

fn u64_at(octets: &[u8]) -> Option<u64> {
    octets.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut out = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend(0_u16.to_ne_bytes());
        out.extend(sequence.to_ne_bytes());
        out.extend(0_u32.to_ne_bytes());
        out.extend(body);
        out
    }

    fn found(family: i32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; FOUND];
        body[0] = family as u8;
        body[UID_AT..UID_AT + 4].copy_from_slice(&1_000_u32.to_ne_bytes());
        body[INODE_AT] = 1;
        body[PORTS_AT..PORTS_AT + 4].copy_from_slice(&[0, 80, 4, 56]);
        body[ADDRESSES_AT..ADDRESSES_AT + 4].copy_from_slice(&[192, 0, 2, 1]);
        body[ADDRESSES_AT + 16..ADDRESSES_AT + 20].copy_from_slice(&[192, 0, 2, 2]);
        for (kind, value) in attributes {
            body.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(ATTRIBUTE), 0);
        }
        body
    }

    #[test]
    fn answers_and_errors() {
        let group = 0x1234_5678_9abc_u64.to_ne_bytes();
        let all: [(u16, &[u8]); 4] = [
            (9, &[1; 5]),
            (TOS, &[4]),
            (CGROUP_ID, &group),
            (TCLASS, &[8]),
        ];
        let owner = |tos| {
            Some(SocketOwner {
                uid: 1_000,
                cgroup: Some(0x1234_5678_9abc),
                tos: Some(tos),
            })
        };
        let v4_ends = [([192, 0, 2, 1].into(), 80), ([192, 0, 2, 2].into(), 1080)];
        let v6_ends = ["c000:201::", "c000:202::"].map(|ip| ip.parse().unwrap());
        let v6_ends = [(v6_ends[0], 80), (v6_ends[1], 1080)];
        let v4 = message(BY_FAMILY, 7, &found(libc::AF_INET, &all));
        assert_eq!(parse(&v4, 7), Some(Answer::Found(v4_ends, owner(4))));
        let v6 = message(BY_FAMILY, 7, &found(libc::AF_INET6, &all));
        assert_eq!(parse(&v6, 7), Some(Answer::Found(v6_ends, owner(8))));
        assert_eq!(parse(&v6, 8), Some(Answer::Other));
        let old = message(BY_FAMILY, 7, &found(libc::AF_INET, &[]));
        let bare = SocketOwner {
            uid: 1_000,
            cgroup: None,
            tos: None,
        };
        assert_eq!(parse(&old, 7), Some(Answer::Found(v4_ends, Some(bare))));
        let mut closed = found(libc::AF_INET, &all);
        closed[INODE_AT] = 0;
        let closed = message(BY_FAMILY, 7, &closed);
        assert_eq!(parse(&closed, 7), Some(Answer::Found(v4_ends, None)));
        let none = message(ERROR, 7, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(parse(&none, 7), Some(Answer::Error(libc::ENOENT)));
        assert_eq!(parse(&message(ERROR, 7, &[0; 4]), 7), None);
        assert_eq!(parse(&message(99, 7, &[]), 7), None);
        for end in 0..v4.len() {
            assert!(
                !matches!(parse(&v4[..end], 7), Some(Answer::Found(..))),
                "{end}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_an_answer_or_none(
            octets in proptest::collection::vec(any::<u8>(), 0..400),
            kind in any::<u16>(),
        ) {
            let _ = parse(&octets, 0);
            for kind in [kind, ERROR, BY_FAMILY] {
                let _ = parse(&message(kind, 7, &octets), 7);
            }
        }
    }
}
