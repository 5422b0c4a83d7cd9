//! Requests of the page that are passed on to the API of a primary: what a person changes, what he
//! has to see for that, and why a stream is treated as it is.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Response, StatusCode, Uri};
use serde_json::json;
use tokio::time::timeout;

use super::answers::{Body, with_type};
use super::hub::Hub;

/// Maximum size of a request's body; those of the page have some hundred octets.
const MAX_BODY_BYTES: usize = 16 << 10;

/// Time for the body of a request.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Methods by which a resource of the API is asked for; none of another path.
pub(super) fn methods(path: &str) -> Option<&'static str> {
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(is_segment);
    match path {
        "/v1/links" | "/v1/devices" | "/v1/streams" => Some("GET"),
        "/v1/mode" => Some("GET, PUT"),
        "/v1/pairing" => Some("GET, POST, PATCH, DELETE"),
        _ if is_explanation(path) => Some("GET"),
        _ if is_in("/v1/links/") => Some("PATCH"),
        _ if is_in("/v1/devices/") => Some("DELETE"),
        _ => None,
    }
}

/// Whether such a request is passed on.
pub(super) fn are_asked(method: &Method, path: &str) -> bool {
    methods(path).is_some_and(|methods| methods.split(", ").any(|m| m == method.as_str()))
}

/// Whether a path is that of a stream's explanation, `/v1/streams/NUMBER/explain`.
fn is_explanation(path: &str) -> bool {
    let number = path.strip_prefix("/v1/streams/");
    let number = number.and_then(|rest| rest.strip_suffix("/explain"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|octet| octet.is_ascii_digit()))
}

/// Whether a query may be passed on: only the list of streams has one, percent-encoded.
fn has_query(path: &str, query: &str) -> bool {
    path == "/v1/streams"
        && query
            .bytes()
            .all(|octet| is_plain(octet) || b"=&".contains(&octet))
}

/// Whether this is one segment of a path.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_plain) && text != "." && text != ".."
}

/// Whether an octet is one of a name as the page encodes it (encodeURIComponent, ECMA-262, section
/// 19.2.6.4): that leaves the marks of RFC 2396, section 2.3, as they are.
fn is_plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-_.!~*'()%".contains(&octet)
}

/// Passes a request on; the answer is that of the API, whose rights are those of this process.
pub(super) async fn pass(hub: &Hub, method: &Method, uri: &Uri, body: Incoming) -> Response<Body> {
    let resource = match (uri.path(), uri.query()) {
        (path, None) => path.to_owned(),
        (path, Some(query)) if has_query(path, query) => format!("{path}?{query}"),
        _ => return refused(StatusCode::BAD_REQUEST, "there is no such query"),
    };
    let whole = Limited::new(body, MAX_BODY_BYTES).collect();
    let Ok(Ok(body)) = timeout(BODY_WITHIN, whole).await else {
        return refused(StatusCode::BAD_REQUEST, "the body is too long or too slow");
    };
    let client = hub.client();
    match client
        .pass(method.as_str(), &resource, &body.to_bytes())
        .await
    {
        Ok((code, body)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
            with_code(code, body.into())
        }
        Err(why) => refused(StatusCode::BAD_GATEWAY, &why),
    }
}

/// A refusal in the form of the API.
fn refused(code: StatusCode, why: &str) -> Response<Body> {
    with_code(code, json!({ "error": why }).to_string().into())
}

fn with_code(code: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = with_type("application/json", Full::from(body).boxed());
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_devices_and_the_mode_are_changed_and_nothing_else() {
        let asked = |method: &str, path| are_asked(&method.parse().unwrap(), path);
        for (method, path) in [
            ("GET", "/v1/links"),
            ("PATCH", "/v1/links/wifi"),
            ("PATCH", "/v1/links/my%20wifi"),
            ("PATCH", "/v1/links/phone%20(old)!"),
            ("POST", "/v1/pairing"),
            ("DELETE", "/v1/pairing"),
            ("DELETE", "/v1/devices/AB-C"),
            ("PUT", "/v1/mode"),
            ("GET", "/v1/streams"),
            ("GET", "/v1/streams/7/explain"),
        ] {
            assert!(asked(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/v1/status"),
            ("GET", "/v1/links/wifi"),
            ("PUT", "/v1/policy"),
            ("PUT", "/v1/pairing"),
            ("DELETE", "/v1/devices/"),
            ("DELETE", "/v1/links/wifi"),
            ("PATCH", "/v1/links/"),
            ("PATCH", "/v1/links/a/b"),
            ("PATCH", "/v1/links/.."),
            ("PATCH", "/v1/links/a?b"),
            ("PATCH", "/v1/links/a b"),
            ("POST", "/"),
            ("PATCH", "/v1/streams/7"),
            ("GET", "/v1/streams/7"),
            ("GET", "/v1/streams//explain"),
            ("GET", "/v1/streams/../explain"),
        ] {
            assert!(!asked(method, path), "{method} {path}");
        }
        assert!(has_query("/v1/streams", "destination=a%3A1&limit=1"));
        assert!(has_query("/v1/streams", "app=Web%20(beta)'s*&limit=1"));
        assert!(!has_query("/v1/streams", "a=\r\n"));
        assert!(!has_query("/v1/links", "a=1"));
    }
}
