//! `/v1/mode`: the mode of the policy in force, a change of which leaves the rest as it is.

use std::path::Path;

use hyper::{Response, StatusCode};
use mpbond_policy::Mode;
use serde::{Deserialize, Serialize};

use super::Resources;
use super::policy::{NAME, text};
use crate::api::{Failure, json, value_of};
use crate::config::{ConfigError, PolicySource, PrimaryConfig, policy_with_mode};
use crate::http::Answer;

/// Another mode.
#[derive(Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(rename = "PolicyModeChange")
)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    mode: Mode,
}

/// Mode of the policy in force.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PolicyMode"))]
pub(super) struct Body {
    mode: Mode,
    /// A link of the policy has a cost, is metered, or has a threshold or a radio.
    has_effect: bool,
}

impl Body {
    fn of(config: &PrimaryConfig) -> Self {
        let policy = config.policy.as_ref().map(PolicySource::policy);
        Self {
            mode: policy.map_or_else(Mode::default, |policy| policy.mode),
            has_effect: policy.is_some_and(|policy| policy.mode_has_effect()),
        }
    }
}

impl Resources {
    pub(super) fn policy_mode(&self) -> Response<Answer> {
        json(StatusCode::OK, &self.reloader.get(Body::of))
    }

    /// Puts the same policy with another mode in force, until the next reload or restart.
    pub(super) fn put_mode(&self, body: &str) -> Result<Response<Answer>, Failure> {
        let Change { mode } = value_of(body)?;
        if !self.reloader.get(Body::of).has_effect {
            let error = "the mode has no effect: no [[link]] of the policy has a `radio` or a cost";
            return Err(Failure::at(None, error.to_owned()));
        }
        let before = self.reloader.get(text);
        let after = policy_with_mode(&before, mode).map_err(|e| Failure::at(None, e))?;
        if after != before {
            // A place would be one in a text that the client has not sent.
            let placeless = |e: ConfigError| Failure::at(None, e.to_string());
            let new = PolicySource::of_text(Path::new(NAME), after).map_err(placeless)?;
            let checked = self.reloader.get(|config| config.check_policy(&new));
            checked.map_err(placeless)?;
            self.reloader.change(|config| config.policy = Some(new));
        }
        Ok(self.policy_mode())
    }
}
