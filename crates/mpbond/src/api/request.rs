//! Reading of requests to the API.

use std::future::poll_fn;
use std::pin::Pin;

use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use mpbond_toml_text::Place;
use serde::de::DeserializeOwned;

use super::Failure;

/// Maximum size of a request's body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The body as text.
pub(crate) async fn text_of(mut body: Incoming) -> Result<String, Failure> {
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|e| Failure::bad(format!("the body ends early: {e}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if octets.len() + data.len() > MAX_BODY_BYTES {
            return Err(Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is longer than {MAX_BODY_BYTES} bytes"),
            ));
        }
        octets.extend_from_slice(&data);
    }
    String::from_utf8(octets).map_err(|_| Failure::bad("the body is not UTF-8 text"))
}

/// An object in JSON.
pub(crate) fn value_of<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    // Its values without keys would do as well.
    if !text.trim_start().starts_with('{') {
        return Err(Failure::at(None, "the body is no JSON object".to_owned()));
    }
    serde_json::from_str(text).map_err(|e| {
        let place = Place {
            line: e.line(),
            column: e.column(),
        };
        Failure::at(Some(place), e.to_string())
    })
}

/// The part of an address behind the question mark: keys with numbers, and such with text.
pub(crate) struct Query<'a>(Option<&'a str>);

impl<'a> Query<'a> {
    /// That of an address.
    pub(crate) const fn new(query: Option<&'a str>) -> Self {
        Self(query)
    }

    /// The values of these keys.
    ///
    /// # Errors
    /// There is another key, one twice, or a value that is no number.
    pub(crate) fn numbers<const N: usize>(
        &self,
        keys: [&str; N],
    ) -> Result<[Option<u64>; N], Failure> {
        self.numbers_beside(keys, &[])
    }

    /// The percent-encoded text of a key.
    ///
    /// # Errors
    /// It is there twice, or its encoding is wrong.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, Failure> {
        let parts = self.0.unwrap_or_default().split('&');
        let mut values = parts.filter_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        let value = values.next();
        if values.next().is_some() {
            return Err(Failure::bad(format!("{key} is twice in the query")));
        }
        let wrong = || Failure::bad(format!("{key} in the query: not percent-encoded text"));
        let read = |value| percent_decoded(value).ok_or_else(wrong);
        value.map(read).transpose()
    }

    /// The values of these keys beside some with [text](Self::text).
    ///
    /// # Errors
    /// As [`numbers`](Self::numbers).
    pub(crate) fn numbers_beside<const N: usize>(
        &self,
        keys: [&str; N],
        texts: &[&str],
    ) -> Result<[Option<u64>; N], Failure> {
        let mut values = [None; N];
        let parts = self.0.unwrap_or_default().split('&');
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if texts.contains(&key) && part != key {
                continue;
            }
            let known = keys.iter().position(|known| *known == key);
            let Some(slot) = known.and_then(|at| values.get_mut(at)) else {
                let keys = [&keys[..], texts].concat().join(", ");
                return Err(Failure::bad(format!(
                    "unknown key in the query; known are: {keys}"
                )));
            };
            let is_number = value.bytes().all(|b| b.is_ascii_digit());
            let number = value.parse().ok().filter(|_| is_number);
            let number =
                number.ok_or_else(|| Failure::bad(format!("{key} in the query: not a number")))?;
            if slot.replace(number).is_some() {
                return Err(Failure::bad(format!("{key} is twice in the query")));
            }
        }
        Ok(values)
    }
}

/// A part of a path without percent-encoding (RFC 3986, section 2.1); `None` if that is wrong.
pub(crate) fn percent_decoded(part: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'%' => {
                let digit = |octet: Option<u8>| char::from(octet?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high << 4 | low).ok()?
            }
            octet => octet,
        });
    }
    String::from_utf8(octets).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_has_known_keys_with_numbers() {
        let read = |query| Query::new(query).numbers(["after", "limit"]).ok();
        assert_eq!(read(None), Some([None, None]));
        assert_eq!(read(Some("limit=7&after=0")), Some([Some(0), Some(7)]));
        for wrong in [
            "limit",
            "limit=",
            "limit=-1",
            "limit=+1",
            "limit=99999999999999999999",
            "limit=1&limit=1",
            "since=1",
        ] {
            assert_eq!(read(Some(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn a_query_may_have_text_beside_numbers() {
        let query = Query::new(Some("app=a%26b.service&limit=7"));
        let numbers = query.numbers_beside(["after", "limit"], &["app", "to"]);
        assert_eq!(numbers.ok(), Some([None, Some(7)]));
        assert_eq!(query.text("app").ok(), Some(Some("a&b.service".to_owned())));
        assert_eq!(query.text("to").ok(), Some(None));
        assert!(query.numbers(["limit"]).is_err());
        for wrong in ["app=a&app=b", "app=%", "app=%ff"] {
            assert!(Query::new(Some(wrong)).text("app").is_err(), "{wrong}");
        }
        assert!(
            Query::new(Some("app"))
                .numbers_beside(["limit"], &["app"])
                .is_err()
        );
    }

    #[test]
    fn a_name_that_was_encoded_is_read() {
        assert_eq!(percent_decoded("my%20wifi").as_deref(), Some("my wifi"));
        for wrong in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert_eq!(percent_decoded(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_name_passes_through_the_encoding(name in ".{0,40}") {
            let encoded: String = name.bytes().map(|octet| format!("%{octet:02X}")).collect();
            prop_assert_eq!(percent_decoded(&encoded), Some(name));
        }

        #[test]
        fn any_query_and_part_is_read_or_refused(text in ".{0,60}") {
            let _ = Query::new(Some(&text)).numbers(["since"]);
            let _ = percent_decoded(&text);
        }
    }
}
