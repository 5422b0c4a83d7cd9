//! `/v1/policy` and `/v1/policy:check`.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;

use hyper::header::{ETAG, HeaderMap, HeaderValue, IF_MATCH};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::Resources;
use crate::api::{Failure, json};
use crate::config::{PolicySource, PrimaryConfig};
use crate::http::{self, Answer};

/// Name of a policy that came over the API, in errors.
pub(super) const NAME: &str = "policy";

/// Errors of a policy; the first one only, since what follows may be a consequence of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Checked {
    errors: Vec<Wrong>,
}

/// An error, with its place if it has one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PolicyError"))]
struct Wrong {
    error: String,
    line: Option<usize>,
    column: Option<usize>,
}

/// Text of the policy in force; empty where there is none.
pub(super) fn text(config: &PrimaryConfig) -> String {
    let policy = config.policy.as_ref();
    policy.map_or_else(String::new, |policy| policy.text().to_owned())
}

/// Entity tag of a text (RFC 9110, section 8.8.3).
fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    format!("\"{:016x}\"", hasher.finish())
}

impl Resources {
    pub(super) fn policy(&self) -> Response<Answer> {
        let text = self.reloader.get(text);
        with_tag(StatusCode::OK, text)
    }

    pub(super) fn check_policy(&self, text: String) -> Response<Answer> {
        let policy = PolicySource::of_text(Path::new(NAME), text);
        let checked = policy.and_then(|new| self.reloader.get(|config| config.check_policy(&new)));
        let errors = checked.err().into_iter().map(|e| Wrong {
            line: e.place().map(|place| place.line),
            column: e.place().map(|place| place.column),
            error: e.to_string(),
        });
        let errors = errors.collect();
        json(StatusCode::OK, &Checked { errors })
    }

    /// Puts a policy in force, until the next reload or restart: the file cannot be written.
    pub(super) fn put_policy(
        &self,
        headers: &HeaderMap,
        new: String,
    ) -> Result<Response<Answer>, Failure> {
        let now = tag(&self.reloader.get(text));
        match headers.get(IF_MATCH).map(HeaderValue::as_bytes) {
            None => {
                let error = "If-Match is missing: send the ETag of the policy that you have read";
                return Err(Failure::new(StatusCode::PRECONDITION_REQUIRED, error));
            }
            Some(b"*") => {}
            Some(known) if known == now.as_bytes() => {}
            Some(_) => {
                let error = "the policy has changed since: read it again";
                return Err(Failure::new(StatusCode::PRECONDITION_FAILED, error));
            }
        }
        let new = PolicySource::of_text(Path::new(NAME), new)?;
        self.reloader.get(|config| config.check_policy(&new))?;
        self.reloader.change(|config| config.policy = Some(new));
        Ok(with_tag(StatusCode::OK, self.reloader.get(text)))
    }
}

fn with_tag(code: StatusCode, text: String) -> Response<Answer> {
    let tag = HeaderValue::from_str(&tag(&text));
    let mut answer = http::answer(code, "application/toml", text);
    if let Ok(tag) = tag {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}
