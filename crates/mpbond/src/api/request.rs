//! Reading of requests to the API.

use std::future::poll_fn;
use std::pin::Pin;

use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, HeaderMap};
use mpbond_toml_text::Place;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

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
        Failure::at(Some(place), in_words(&e))
    })
}

/// What is wrong with a body, for people, without its place. The parser names keys and values, but
/// types as the language Rust does.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    match error.classify() {
        Category::Eof => return "the body is no JSON: it ends early".to_owned(),
        Category::Syntax | Category::Io => return format!("the body is no JSON: {text}"),
        Category::Data => {}
    }
    if let Some(key) = text.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if let Some(key) = text.strip_prefix("duplicate field ") {
        return format!("the key {key} is there twice");
    }
    let (found, expected) = text.rsplit_once(", expected ").unwrap_or((text, ""));
    let found = match found.split_once(": ") {
        Some(("invalid type" | "invalid value", value)) => match value {
            "map" => "an object is wrong here".to_owned(),
            "sequence" => "an array is wrong here".to_owned(),
            _ => format!("{value} is wrong here"),
        },
        _ => found
            .replace("unknown field ", "unknown key ")
            .replace("unknown variant ", "unknown value "),
    };
    match expected {
        "" => found,
        "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" => {
            format!("{found}: write a whole number that is allowed")
        }
        "f32" | "f64" => format!("{found}: write a number"),
        "a boolean" => format!("{found}: write true or false"),
        "a string" => format!("{found}: write text in quotes"),
        "a sequence" => format!("{found}: write an array"),
        "a map" => format!("{found}: write an object"),
        _ if expected.starts_with("struct ") => format!("{found}: write an object"),
        _ => format!("{found}: write {expected}"),
    }
}

/// The part of an address behind the question mark: keys with values.
pub(crate) struct Query<'a>(Option<&'a str>);

impl<'a> Query<'a> {
    /// That of an address.
    pub(crate) const fn new(query: Option<&'a str>) -> Self {
        Self(query)
    }

    /// The values of these keys, as they are written.
    ///
    /// # Errors
    /// There is another key, or one twice.
    pub(crate) fn values<const N: usize>(
        &self,
        keys: [&str; N],
    ) -> Result<[Option<&'a str>; N], Failure> {
        let mut values = [None; N];
        self.read(&keys, &mut values)?;
        Ok(values)
    }

    fn read(&self, keys: &[&str], values: &mut [Option<&'a str>]) -> Result<(), Failure> {
        let parts = self.0.unwrap_or_default().split('&');
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let known = keys.iter().position(|known| *known == key);
            let Some(slot) = known.and_then(|at| values.get_mut(at)) else {
                let keys = keys.join(", ");
                return Err(Failure::bad(format!(
                    "unknown key in the query; known are: {keys}"
                )));
            };
            if slot.replace(value).is_some() {
                return Err(Failure::bad(format!("{key} is twice in the query")));
            }
        }
        Ok(())
    }
}

/// Whether a client asks for answers of this kind (RFC 9110, section 12.5.1). It is to name the
/// kind itself, and its preferences among several do not count.
pub(crate) fn accepts(head: &HeaderMap, kind: &str) -> bool {
    let values = head.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
    let ranges = values.flat_map(|value| value.split(','));
    let mut kinds = ranges.filter_map(|range| range.split(';').next());
    kinds.any(|range| range.trim().eq_ignore_ascii_case(kind))
}

/// The number that is the value of a key in a query.
///
/// # Errors
/// It is no number.
pub(crate) fn number_of(key: &str, value: Option<&str>) -> Result<Option<u64>, Failure> {
    let read = |value: &str| {
        let is_number = value.bytes().all(|b| b.is_ascii_digit());
        let number = value.parse().ok().filter(|_| is_number);
        number.ok_or_else(|| Failure::bad(format!("{key} in the query: not a number")))
    };
    value.map(read).transpose()
}

/// The percent-encoded text that is the value of a key in a query.
///
/// # Errors
/// Its encoding is wrong.
pub(crate) fn decoded(key: &str, value: Option<&str>) -> Result<Option<String>, Failure> {
    let wrong = || Failure::bad(format!("{key} in the query: not percent-encoded text"));
    let read = |value| percent_decoded(value).ok_or_else(wrong);
    value.map(read).transpose()
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
    fn a_kind_of_answers_is_asked_for_by_its_name() {
        for (accept, is_asked) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream ;q=0.5", true),
            ("text/event-stream2", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut head = HeaderMap::new();
            head.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(accepts(&head, "text/event-stream"), is_asked, "{accept}");
        }
        assert!(!accepts(&HeaderMap::new(), "text/event-stream"));
    }

    #[test]
    fn a_query_has_known_keys_once_and_numbers_in_digits() {
        let read = |query| {
            let [after, limit] = Query::new(query).values(["after", "limit"]).ok()?;
            let after = number_of("after", after).ok()?;
            Some([after, number_of("limit", limit).ok()?])
        };
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

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)] // of which only errors are read
    struct Body {
        port: u16,
        is_on: Option<bool>,
        name: Option<String>,
        list: Option<Vec<u8>>,
        by_name: Option<std::collections::HashMap<String, u8>>,
    }

    #[test]
    fn errors_in_a_body_have_no_words_of_the_language_rust() {
        for (text, error) in [
            ("{", "the body is no JSON: it ends early"),
            ("{\"port\": 1,}", "the body is no JSON: trailing comma"),
            ("{}", "the key `port` is missing"),
            (
                "{\"port\": 1, \"x\": 2}",
                "unknown key `x`: write one of `port`, `is_on`, `name`, `list`, `by_name`",
            ),
            (
                "{\"port\": 70000}",
                "integer `70000` is wrong here: write a whole number that is allowed",
            ),
            (
                "{\"port\": \"a: b, expected c\"}",
                "string \"a: b, expected c\" is wrong here: write a whole number that is allowed",
            ),
            (
                "{\"port\": 1, \"is_on\": 1}",
                "integer `1` is wrong here: write true or false",
            ),
            (
                "{\"port\": 1, \"name\": {}}",
                "an object is wrong here: write text in quotes",
            ),
            (
                "{\"port\": 1, \"port\": 1}",
                "the key `port` is there twice",
            ),
            (
                "{\"port\": [1], \"port\": 1}",
                "an array is wrong here: write a whole number that is allowed",
            ),
            (
                "{\"port\": 1, \"list\": 1}",
                "integer `1` is wrong here: write an array",
            ),
            (
                "{\"port\": 1, \"by_name\": [1]}",
                "an array is wrong here: write an object",
            ),
        ] {
            let found = serde_json::from_str::<Body>(text).err().unwrap();
            assert_eq!(in_words(&found), error, "{text}");
        }
    }

    #[test]
    fn text_in_a_query_is_percent_encoded() {
        let text = |value| decoded("app", value).ok();
        assert_eq!(text(None), Some(None));
        let encoded = Some("a%26b.service");
        assert_eq!(text(encoded), Some(Some("a&b.service".to_owned())));
        for wrong in ["%", "%ff"] {
            assert_eq!(text(Some(wrong)), None, "{wrong}");
        }
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
            let _ = Query::new(Some(&text)).values(["since"]);
            let _ = number_of("since", Some(&text));
            let _ = percent_decoded(&text);
        }
    }
}
