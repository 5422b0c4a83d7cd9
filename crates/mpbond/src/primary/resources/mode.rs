//! `/v1/mode`: the mode of the policy in force, a change of which leaves the rest as it is.

use std::path::Path;

use hyper::{Response, StatusCode};
use mpbond_policy::Mode;
use serde::{Deserialize, Serialize};

use super::Resources;
use super::policy::{NAME, text};
use crate::api::{Failure, json, value_of};
use crate::config::{PolicySource, policy_with_mode};
use crate::http::Answer;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    mode: Mode,
}

impl Resources {
    pub(super) fn policy_mode(&self) -> Response<Answer> {
        let mode = self.reloader.get(|config| {
            let policy = config.policy.as_ref();
            policy.map_or_else(Mode::default, |policy| policy.policy().mode)
        });
        json(StatusCode::OK, &Body { mode })
    }

    /// Puts the same policy with another mode in force, until the next reload or restart.
    pub(super) fn put_mode(&self, body: &str) -> Result<Response<Answer>, Failure> {
        let Body { mode } = value_of(body)?;
        let text = policy_with_mode(&self.reloader.get(text), mode);
        let text = text.map_err(|e| Failure::at(None, e))?;
        let new = PolicySource::of_text(Path::new(NAME), text)?;
        self.reloader.get(|config| config.check_policy(&new))?;
        self.reloader.change(|config| config.policy = Some(new));
        Ok(self.policy_mode())
    }
}
