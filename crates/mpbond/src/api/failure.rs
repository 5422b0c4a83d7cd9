//! Answers of the API.

use hyper::{Response, StatusCode};
use mpbond_toml_text::{FileError, Place};
use serde::Serialize;

use crate::http::{self, Answer};

/// A request that is refused. Nothing has changed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: StatusCode,
    error: String,
    place: Option<Place>,
}

/// A refusal; nothing has changed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Error"))]
pub(crate) struct Body<'a> {
    /// The reason.
    error: &'a str,
    /// The place, if it is in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PlaceBody>,
}

/// A place in the body of the request; lines and columns begin with 1.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Place"))]
struct PlaceBody {
    line: usize,
    column: usize,
}

impl Failure {
    /// A refusal with its reason.
    pub(crate) fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self {
            code,
            error: error.into(),
            place: None,
        }
    }

    /// A request that cannot be understood.
    pub(crate) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// An error at a place of the body.
    pub(crate) fn at(place: Option<Place>, error: String) -> Self {
        Self {
            place,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
        }
    }

    /// The answer.
    pub(crate) fn answer(&self) -> Response<Answer> {
        let Self { code, error, place } = self;
        let place = place.map(|Place { line, column }| PlaceBody { line, column });
        json(*code, &Body { error, place })
    }
}

impl From<FileError> for Failure {
    fn from(e: FileError) -> Self {
        Self::at(e.place(), e.to_string())
    }
}

/// An answer in JSON.
pub(crate) fn json(code: StatusCode, value: &impl Serialize) -> Response<Answer> {
    match serde_json::to_vec(value) {
        Ok(mut text) => {
            text.push(b'\n');
            http::answer(code, "application/json", text)
        }
        Err(e) => {
            let error = Failure::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string());
            tracing::warn!(%e, "an answer does not serialise");
            http::answer(error.code, "text/plain", error.error)
        }
    }
}
