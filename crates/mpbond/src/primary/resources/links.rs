//! `/v1/links`: paths and helpers, and their modes.

use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::super::links::LinkConfig;
use super::super::modes::Mode;
use super::Resources;
use crate::api::{Failure, json, value_of};
use crate::http::Answer;
use crate::status::LinkStatus;

#[derive(Serialize)]
struct Links {
    links: Vec<LinkBody>,
}

#[derive(Serialize)]
struct LinkBody {
    #[serde(flatten)]
    status: LinkStatus,
    mode: Mode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    mode: Mode,
}

impl Resources {
    fn all(&self) -> Vec<LinkBody> {
        let mode = |status: LinkStatus| LinkBody {
            mode: self.mode(&status.name),
            status,
        };
        self.primary.link_status().into_iter().map(mode).collect()
    }

    /// Mode of a link.
    fn mode(&self, name: &str) -> Mode {
        if let Some(mode) = self.primary.modes.of(name) {
            return mode;
        }
        let configured = self.reloader.get(LinkConfig::all);
        let link = configured.iter().find(|link| link.name() == name);
        match link.is_some_and(LinkConfig::is_backup) {
            true => Mode::Standby,
            false => Mode::Bonded,
        }
    }

    pub(super) fn links(&self) -> Result<Response<Answer>, Failure> {
        Ok(json(StatusCode::OK, &Links { links: self.all() }))
    }

    pub(super) fn link(&self, name: &str) -> Result<Response<Answer>, Failure> {
        let link = self.all().into_iter().find(|l| l.status.name == name);
        let unknown = || Failure::new(StatusCode::NOT_FOUND, "no path or helper has this name");
        Ok(json(StatusCode::OK, &link.ok_or_else(unknown)?))
    }

    /// Changes the mode of a link, until the next restart.
    pub(super) fn change_link(
        &self,
        name: &str,
        change: &str,
    ) -> Result<Response<Answer>, Failure> {
        self.link(name)?;
        let Change { mode } = value_of(change)?;
        let mut others = self.all();
        others.retain(|l| l.status.name != name && l.mode != Mode::Off);
        if mode == Mode::Off && others.is_empty() {
            let error = "this is the only link that is not off: switch another one on first";
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
        self.primary.modes.set(name, mode);
        self.reloader.change(|_| ());
        self.link(name)
    }
}
