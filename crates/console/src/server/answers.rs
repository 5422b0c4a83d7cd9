//! Answers of the server.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

pub(super) type Body = BoxBody<Bytes, Infallible>;

/// An answer of this type.
pub(super) fn with_type(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The refusal of a request without the token.
pub(super) fn unauthorized() -> Response<Body> {
    plain(StatusCode::UNAUTHORIZED, "the token is missing or wrong\n")
}

/// A text.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = with_type("text/plain; charset=utf-8", Full::from(text).boxed());
    *response.status_mut() = status;
    response
}
