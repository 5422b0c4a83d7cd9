//! `/v1/explain`: what the policy in force would decide about a connection, and why.

use std::net::IpAddr;
use std::path::Path;

use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Response, StatusCode};
use mpbond_policy::{Claim, DomainName, Fact, Flow, Policy};
use serde::Deserialize;

use super::Resources;
use crate::api::{Failure, json, value_of};
use crate::http::{Answer, answer};

/// Origin of the facts.
const REQUEST: &str = "the request";

/// Facts of a connection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    domain: Option<String>,
    ip: Option<IpAddr>,
    port: u16,
    app: Option<String>,
    uid: Option<u32>,
    cgroup: Option<String>,
    dscp: Option<u8>,
    source: Option<IpAddr>,
}

fn stated<T>(value: Option<T>) -> Fact<T> {
    value.map_or(Fact::unknown("not in the request"), |value| {
        Fact::known(value, REQUEST)
    })
}

impl TryFrom<Question> for Flow {
    type Error = Failure;

    fn try_from(asked: Question) -> Result<Self, Failure> {
        let name = |name: String| {
            let name = DomainName::new(&name);
            name.ok_or_else(|| Failure::at(None, "domain: not a valid name".to_owned()))
        };
        let domain = asked.domain.map(name).transpose()?;
        if asked.dscp.is_some_and(|dscp| dscp > 63) {
            return Err(Failure::at(None, "dscp: 0 to 63".to_owned()));
        }
        Ok(Self {
            app: stated(asked.app),
            uid: stated(asked.uid),
            cgroup: stated(asked.cgroup),
            dscp: stated(asked.dscp),
            domain: stated(domain.map(|name| vec![name])),
            ip: stated(asked.ip.map(|ip| ip.to_canonical())),
            port: asked.port,
            source: stated(asked.source.map(|ip| ip.to_canonical())),
            claim: Claim::default(),
        })
    }
}

impl Resources {
    /// The explanation, as JSON or as text.
    pub(super) async fn explain(
        &self,
        head: &HeaderMap,
        question: &str,
    ) -> Result<Response<Answer>, Failure> {
        let flow = Flow::try_from(value_of::<Question>(question)?)?;
        let device = self.primary.device(self.primary.power.read().await);
        let as_text = head
            .get(ACCEPT)
            .is_some_and(|accept| accept == "text/plain");
        let of = |policy: &Policy| {
            let explanation = policy.explain(&flow, &device);
            match as_text {
                true => answer(StatusCode::OK, "text/plain", explanation.to_string()),
                false => json(StatusCode::OK, &explanation),
            }
        };
        let policy = self.reloader.get(|config| config.policy.clone());
        match policy {
            Some(source) => Ok(of(source.policy())),
            None => Ok(of(&Policy::parse(Path::new(""), "", &|_| None)?)),
        }
    }
}
