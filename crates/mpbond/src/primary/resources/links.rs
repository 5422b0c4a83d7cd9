//! `/v1/links`: paths and helpers, and their modes.

use hyper::{Response, StatusCode};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::links::LinkConfig;
use super::Resources;
use crate::api::{Failure, json, value_of};
use crate::http::Answer;
use crate::primary::links::{
    facts::{LinkFacts, Metered, SIGNALS_DBM},
    modes::Mode,
};
use crate::status::LinkStatus;

/// Paths and helpers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Links {
    links: Vec<LinkBody>,
}

/// A path or helper.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Link"))]
struct LinkBody {
    #[serde(flatten)]
    status: LinkStatus,
    /// Use of the link.
    mode: Mode,
    #[serde(flatten)]
    facts: LinkFacts,
}

/// Changes of a link; at least one.
#[derive(Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(
        rename = "LinkChange",
        extend("minProperties" = 1, "dependentRequired" = { "metered_guessed": ["metered"] })
    )
)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    mode: Option<Mode>,
    /// Whether it is metered; null: it is not known.
    #[serde(default, deserialize_with = "value_or_null")]
    metered: Option<Option<bool>>,
    /// Whether `metered`, true or false beside it, is a guess.
    metered_guessed: Option<bool>,
    /// Whether it roams; null: it is not known.
    #[serde(default, deserialize_with = "value_or_null")]
    roaming: Option<Option<bool>>,
    /// Strength of the signal of its radio in dBm; null: it is not known.
    #[serde(default, deserialize_with = "value_or_null")]
    #[cfg_attr(test, schemars(range(min = *SIGNALS_DBM.start(), max = *SIGNALS_DBM.end())))]
    signal_dbm: Option<Option<i16>>,
}

/// A value that is there, which may be null.
fn value_or_null<'de, T, D>(de: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(de).map(Some)
}

impl Resources {
    fn all(&self) -> Vec<LinkBody> {
        let mode = |status: LinkStatus| LinkBody {
            mode: self.mode(&status.name),
            facts: self.primary.facts_of(&status.name),
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

    /// Changes the mode of a link, or what is known of it, until the next restart.
    pub(super) fn change_link(
        &self,
        name: &str,
        change: &str,
    ) -> Result<Response<Answer>, Failure> {
        self.link(name)?;
        let Change {
            mode,
            metered,
            metered_guessed,
            roaming,
            signal_dbm,
        } = value_of(change)?;
        let is_told = metered.is_some() || roaming.is_some();
        if mode.is_none() && !is_told && signal_dbm.is_none() {
            let error = "no change: mode, metered, roaming or signal_dbm";
            return Err(Failure::at(None, error.to_owned()));
        }
        if metered_guessed.is_some() && metered.flatten().is_none() {
            let error = "metered_guessed: with true or false of metered only";
            return Err(Failure::at(None, error.to_owned()));
        }
        let is_wrong = |dbm: i16| !SIGNALS_DBM.contains(&dbm);
        if signal_dbm.flatten().is_some_and(is_wrong) {
            let error = "signal_dbm: from -150 to 0, or null";
            return Err(Failure::at(None, error.to_owned()));
        }
        if let Some(mode) = mode {
            self.change_mode(name, mode)?;
        }
        if let Some(dbm) = signal_dbm {
            let now = self.primary.clock.now();
            self.primary.link_facts.heard(now, name, dbm);
        }
        if is_told {
            let metered = metered.map(|value| Metered {
                value,
                is_guess: metered_guessed.unwrap_or(false),
            });
            self.primary.link_facts.change(name, metered, roaming);
            self.primary.links_came_or_went();
        }
        self.link(name)
    }

    fn change_mode(&self, name: &str, mode: Mode) -> Result<(), Failure> {
        let mut others = self.all();
        others.retain(|l| l.status.name != name && l.mode != Mode::Off);
        if mode == Mode::Off && others.is_empty() {
            let error = "this is the only link that is not off: switch another one on first";
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
        self.primary.modes.set(name, mode);
        self.reloader.change(|_| ());
        Ok(())
    }
}
