//! How a primary recognizes its helper among the devices that announce themselves, and nobody
//! else does.
//!
//! A helper announces a nonce and, for every primary that it trusts, a tag: HMAC-SHA256 over the
//! nonce, by a key out of both ids. Who knows both ids finds the tag; to others it is random, and
//! so is everything else that is announced. The helper's id can be had from its TLS port; those of
//! its primaries are told to nobody but the devices that they call. So it is the pair of ids that
//! has to be known.
//!
//! A tag proves nothing: anybody can repeat it. It says whom to call, and TLS who answers.

use std::fmt::Write as _;

use ring::hmac;
use subtle::ConstantTimeEq;

use crate::identity::DeviceId;

/// Octets of a nonce.
pub const NONCE_BYTES: usize = 16;
/// A wrong match costs one connection that fails; 2^64 announcements would be needed for it.
const TAG_BYTES: usize = 8;
/// Tags are announced in numbers of these, the rest made up: how many devices a helper trusts is
/// nobody's business either. As hexadecimal digits they fit one TXT string (255 octets).
const TAGS_A_SET: usize = 8;
/// More primaries than this are not announced to, and need an address.
const MAX_SETS: usize = 4;
const NONCE_KEY: &str = "n";
const TAG_KEY: &str = "t";

/// What a helper says of itself: key and value of its TXT record (RFC 6763 section 6).
pub type Properties = Vec<(String, String)>;

fn tag(helper: &DeviceId, primary: &DeviceId, nonce: &[u8]) -> [u8; TAG_BYTES] {
    let secret = [helper.as_bytes().as_slice(), primary.as_bytes()].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let mut text = b"mpbond discovery 1".to_vec();
    text.extend_from_slice(nonce);
    let mut tag = [0; TAG_BYTES];
    let signed = hmac::sign(&key, &text);
    for (octet, from) in tag.iter_mut().zip(signed.as_ref()) {
        *octet = *from;
    }
    tag
}

fn hex(octets: &[u8]) -> String {
    let mut text = String::with_capacity(2 * octets.len());
    for octet in octets {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
    let pairs = digits.chunks(2);
    Some(
        pairs
            .map(|p| p.iter().fold(0, |all, d| all << 4 | d))
            .collect(),
    )
}

/// What a helper announces to these primaries. `nonce` is fresh; `fill` makes octets that nobody
/// can tell from tags.
pub fn announce(
    helper: &DeviceId,
    primaries: &[DeviceId],
    nonce: &[u8; NONCE_BYTES],
    mut fill: impl FnMut() -> [u8; TAG_BYTES],
) -> Properties {
    let mut tags: Vec<_> = primaries
        .iter()
        .take(TAGS_A_SET * MAX_SETS)
        .map(|primary| tag(helper, primary, nonce))
        .collect();
    let sets = tags.len().div_ceil(TAGS_A_SET).max(1);
    while tags.len() < sets * TAGS_A_SET {
        tags.push(fill());
    }
    // In an order that does not tell which ones are made up.
    tags.sort_unstable();
    let mut properties = vec![(NONCE_KEY.to_owned(), hex(nonce))];
    for (i, set) in tags.chunks(TAGS_A_SET).enumerate() {
        properties.push((format!("{TAG_KEY}{i}"), hex(&set.concat())));
    }
    properties
}

/// Whether what is announced is for this primary by this helper. `get` gives the value of a key;
/// whatever does not look as it should is not for it.
pub fn recognizes<'a>(
    primary: &DeviceId,
    helper: &DeviceId,
    get: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let Some(nonce) = get(NONCE_KEY)
        .and_then(unhex)
        .filter(|n| n.len() == NONCE_BYTES)
    else {
        return false;
    };
    let wanted = tag(helper, primary, &nonce);
    let sets = (0..MAX_SETS).filter_map(|i| unhex(get(&format!("{TAG_KEY}{i}"))?));
    sets.take_while(|set| set.len() == TAGS_A_SET * TAG_BYTES)
        .any(|set| {
            set.chunks(TAG_BYTES)
                .any(|tag| bool::from(tag.ct_eq(&wanted)))
        })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];

    fn id(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 32])
    }

    fn announced(primaries: &[u8], nonce: &[u8; NONCE_BYTES]) -> Properties {
        let primaries: Vec<_> = primaries.iter().map(|n| id(*n)).collect();
        let mut n = 0_u64;
        announce(&id(100), &primaries, nonce, || {
            n += 1;
            n.to_be_bytes()
        })
    }

    fn finds(properties: &Properties, primary: u8, helper: u8) -> bool {
        recognizes(&id(primary), &id(helper), |key| {
            let found = properties.iter().find(|(k, _)| k == key);
            found.map(|(_, v)| v.as_str())
        })
    }

    #[test]
    fn only_who_knows_both_ids_recognizes_a_helper() {
        for trusted in [vec![1], vec![1, 2, 3], (1..=32).collect()] {
            let properties = announced(&trusted, &NONCE);
            for primary in 1..60 {
                let expected = trusted.contains(&primary);
                assert_eq!(finds(&properties, primary, 100), expected, "{primary}");
                assert!(!finds(&properties, primary, 101), "another helper");
            }
        }
        assert!(!finds(&announced(&[], &NONCE), 1, 100));
    }

    #[test]
    fn neither_ids_nor_their_number_nor_the_same_tag_twice_are_announced() {
        let text = |p: &Properties| format!("{p:?}");
        assert_eq!(announced(&[], &NONCE).len(), 2);
        assert_eq!(
            text(&announced(&[1], &NONCE)).len(),
            text(&announced(&(1..9).collect::<Vec<_>>(), &NONCE)).len()
        );
        assert_eq!(announced(&(1..10).collect::<Vec<_>>(), &NONCE).len(), 3);
        assert_eq!(
            announced(&(1..90).collect::<Vec<_>>(), &NONCE).len(),
            5,
            "bounded"
        );
        let tags = |p: Properties| -> HashSet<Vec<u8>> {
            let sets = p.into_iter().skip(1).map(|(_, v)| unhex(&v).unwrap());
            sets.flat_map(|s| s.chunks(TAG_BYTES).map(<[u8]>::to_vec).collect::<Vec<_>>())
                .collect()
        };
        let all: Vec<u8> = (1..9).collect();
        let later = [8; NONCE_BYTES];
        assert!(tags(announced(&all, &NONCE)).is_disjoint(&tags(announced(&all, &later))));
        for (key, value) in announced(&(1..90).collect::<Vec<_>>(), &NONCE) {
            assert!(key.len() + 1 + value.len() <= 255, "{key}: one TXT string");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_announced_is_looked_at_and_no_more(
            n in "[0-9a-fA-Fé]{0,40}",
            t in prop::collection::vec("[0-9a-fé]{0,140}", 0..6),
        ) {
            let mut properties = vec![(NONCE_KEY.to_owned(), n)];
            properties.extend(t.into_iter().enumerate().map(|(i, t)| (format!("t{i}"), t)));
            prop_assert!(!finds(&properties, 1, 100));
        }
    }
}
