//! `/v1/policy:compare`: the open connections that another policy would treat otherwise.

use std::net::SocketAddr;
use std::path::Path;

use hyper::{Response, StatusCode};
use mpbond_intercept::Destination;
use mpbond_policy::{Class, Device, Flow as Facts, Handling, Policy, changes};
use serde::Serialize;

use super::Resources;
use crate::api::{Failure, json};
use crate::config::PolicySource;
use crate::http::Answer;
use crate::policy::{Client, flow};
use crate::primary::connections::flows::Flow;
use crate::primary::rules::{claims::by_dscp, other_rules::destination};

/// Maximum number of connections that are looked at: each is compared with all rules of both
/// policies, and nothing else runs meanwhile.
const MAX_LOOKED_AT: usize = 512;

/// The connections for which the decisions differ.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Compared {
    streams: Vec<Difference>,
    /// Number of connections that were looked at.
    looked_at: usize,
}

/// A connection for which the decisions differ.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Difference {
    id: u64,
    client: SocketAddr,
    destination: String,
    before: Outcome,
    after: Outcome,
}

/// What a policy decides about a new connection with these facts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Outcome {
    action: Handling,
    /// The rule; null for the default.
    rule: Option<String>,
    class: Option<Class>,
    /// Links that it may use and that work.
    links: Vec<String>,
}

impl Outcome {
    fn of(policy: &Policy, facts: &Facts, device: &Device) -> Self {
        let explained = policy.explain(facts, device);
        let links = explained.links.into_iter();
        let links = links.filter(|link| link.use_.is_some());
        Self {
            action: explained.action,
            rule: explained.rule.map(|rule| rule.name.to_owned()),
            class: explained.class,
            links: links.map(|link| link.name).collect(),
        }
    }
}

impl Resources {
    pub(super) async fn compare_policy(&self, text: String) -> Result<Response<Answer>, Failure> {
        let new = PolicySource::of_text(Path::new("policy"), text)?;
        self.reloader.get(|config| config.check_policy(&new))?;
        let old = self.reloader.get(|config| config.policy.clone());
        let none = PolicySource::of_text(Path::new(""), String::new())?;
        let (old, new) = (old.as_ref().unwrap_or(&none).policy(), new.policy());
        let device = self.primary.device(self.primary.power.read().await);
        let mut streams = Vec::new();
        let mut facts = Vec::new();
        for (id, flow) in self.primary.flows.after(0, MAX_LOOKED_AT) {
            let Some(transfer) = self.transfer_of(&flow) else {
                continue;
            };
            let Some(to) = destination(&transfer.destination) else {
                continue;
            };
            facts.push(self.facts(&flow, &to).await);
            streams.push((id, flow.identity.ends().client, transfer.destination));
        }
        let differ = changes(old, new, &facts, &device).into_iter();
        let differ = differ.filter_map(|change| {
            let (id, client, destination) = streams.get(change.flow)?.clone();
            let of = facts.get(change.flow)?;
            Some(Difference {
                id,
                client,
                destination,
                before: Outcome::of(old, of, &device),
                after: Outcome::of(new, of, &device),
            })
        });
        let compared = Compared {
            streams: differ.collect(),
            looked_at: facts.len(),
        };
        Ok(json(StatusCode::OK, &compared))
    }

    /// Facts of an open connection, without a name that its ClientHello had, and without those that
    /// were looked up: any user may ask about a connection of his own, and others have asked.
    pub(super) async fn facts(&self, open: &Flow, to: &Destination) -> Facts {
        let owner = open.identity.owner();
        let cgroup = open.identity.group(&self.primary.cgroups).await;
        let ends = open.identity.ends();
        flow(&Client {
            via: ends.via,
            address: ends.client.ip(),
            destination: to,
            owner,
            cgroup,
            claim: owner.and_then(by_dscp),
        })
    }
}
