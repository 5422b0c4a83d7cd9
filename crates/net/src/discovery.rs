//! Recognition of a trusted helper's announcement on the local network.
//!
//! A helper announces a nonce and, for every primary that it trusts, a tag: HMAC-SHA256 over the
//! nonce with a key derived from both device ids. A device that knows both ids finds the tag; to
//! others the tags are indistinguishable from random octets. The helper's id can be read from its
//! TLS port; the primary's id is disclosed only to the devices that it calls. Therefore the key
//! uses both.
//!
//! A tag authenticates nothing, because it can be replayed. It selects the address to call; TLS
//! authenticates the device that answers.

use std::fmt::Write as _;

use ring::hmac;
use subtle::ConstantTimeEq;

use crate::identity::DeviceId;

/// Length of a nonce in octets.
pub const NONCE_BYTES: usize = 16;
/// Length of a tag. A false match costs one failed connection and takes 2^64 announcements.
const TAG_BYTES: usize = 8;
/// Tags per set. Sets are padded with random octets, so that an announcement does not reveal the
/// number of trusted devices. A set in hexadecimal digits fits one TXT string (255 octets).
const TAGS_A_SET: usize = 8;
/// Maximum number of sets. Further primaries have no tag and need a configured address.
const MAX_SETS: usize = 4;
const NONCE_KEY: &str = "n";
const TAG_KEY: &str = "t";

/// Key and value pairs of a helper's TXT record (RFC 6763, section 6).
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

/// The announcement of a helper for these primaries. `nonce` must be fresh; `fill` returns random
/// octets as padding.
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
    // Sorted, so that the order does not reveal the padding.
    tags.sort_unstable();
    let mut properties = vec![(NONCE_KEY.to_owned(), hex(nonce))];
    for (i, set) in tags.chunks(TAGS_A_SET).enumerate() {
        properties.push((format!("{TAG_KEY}{i}"), hex(&set.concat())));
    }
    properties
}

/// Whether an announcement was made by this helper for this primary. `get` returns the value of a
/// key; malformed announcements do not match.
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
    fn recognition_takes_both_ids() {
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
    fn announcements_reveal_neither_ids_nor_their_number_and_repeat_no_tag() {
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
        fn malformed_announcements_do_not_match(
            n in "[0-9a-fA-Fé]{0,40}",
            t in prop::collection::vec("[0-9a-fé]{0,140}", 0..6),
        ) {
            let mut properties = vec![(NONCE_KEY.to_owned(), n)];
            properties.extend(t.into_iter().enumerate().map(|(i, t)| (format!("t{i}"), t)));
            prop_assert!(!finds(&properties, 1, 100));
        }
    }
}
