//! `/v1/explain`: what the policy in force would decide about a connection, and why; and
//! `/v1/streams/ID/explain`, the same of an open one.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Response, StatusCode};
use mpbond_policy::{
    Claim, DomainName, Explanation, Fact, Flow, Measured, Multipath, Phase, Unusable,
};
use serde::{Deserialize, Serialize};

use super::Resources;
use crate::api::{Failure, json, value_of};
use crate::config::PolicySource;
use crate::http::{Answer, answer};
use crate::primary::rules::other_rules::destination;
use crate::rights::{Caller, Rights};

/// Origin of the facts.
const REQUEST: &str = "the request";

/// Facts of a connection; those that are left out are unknown.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    domain: Option<String>,
    ip: Option<IpAddr>,
    #[cfg_attr(test, schemars(range(min = 1)))]
    port: u16,
    app: Option<String>,
    uid: Option<u32>,
    cgroup: Option<String>,
    #[cfg_attr(test, schemars(range(max = 63)))]
    dscp: Option<u8>,
    source: Option<IpAddr>,
}

/// Why an open connection is treated as it is.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StreamExplanation<'a> {
    id: u64,
    destination: &'a str,
    #[cfg_attr(test, schemars(with = "mpbond_policy::Class"))]
    class: &'a str,
    multipath: Multipath,
    /// The rule by which it was opened, and its line then; null for the default.
    rule: Option<&'a str>,
    line: Option<usize>,
    /// Whether another policy is in force since: open connections keep their rule.
    policy_has_changed: bool,
    links: Vec<StreamLink<'a>>,
    /// What the policy in force would decide about a new connection with these facts.
    now: Explanation<'a>,
}

/// Use of a link by an open connection.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamLink<'a> {
    /// Its name.
    name: &'a str,
    /// The reason for which it may not use the link now.
    unusable: Option<Unusable>,
    /// Whether the session may give its bytes to the link: all those that it may use, or one.
    used: bool,
    bytes_in: u64,
    bytes_out: u64,
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
        if asked.port == 0 {
            return Err(Failure::at(None, "port: 1 to 65535".to_owned()));
        }
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
        let mut flow = Flow::try_from(value_of::<Question>(question)?)?;
        self.primary.guess_name(&mut flow);
        let device = self.primary.device(self.primary.power.read().await);
        let as_text = head
            .get(ACCEPT)
            .is_some_and(|accept| accept == "text/plain");
        let source = self.policy_source()?;
        let mut explanation = source.policy().explain(&flow, &device);
        self.measure(&mut explanation);
        Ok(match as_text {
            true => answer(StatusCode::OK, "text/plain", explanation.to_string()),
            false => json(StatusCode::OK, &explanation),
        })
    }

    /// The policy in force; one without rules if there is none.
    fn policy_source(&self) -> Result<PolicySource, Failure> {
        let none = || PolicySource::of_text(Path::new(""), String::new());
        let policy = self.reloader.get(|config| config.policy.clone());
        Ok(policy.map_or_else(none, Ok)?)
    }

    /// Adds what is known of links beside the policy.
    fn measure(&self, explanation: &mut Explanation<'_>) {
        let subflows = self.primary.subflows();
        let links = self.primary.link_status();
        for line in &mut explanation.links {
            let link = links.iter().find(|link| link.name == line.name);
            let subflow = subflows.iter().find(|s| s.name == line.name);
            // Zero without a measurement.
            let ms = |time: Duration| (!time.is_zero()).then_some(time.as_secs_f64() * 1e3);
            let energy = link.and_then(|link| link.energy.as_ref());
            line.measured = Some(Measured {
                rtt_ms: subflow.and_then(|s| ms(s.rtt)),
                pad_ms: subflow.and_then(|s| ms(s.pad)),
                cap_left_bytes: link
                    .and_then(|link| link.cap.as_ref())
                    .map(|cap| cap.bytes.saturating_sub(cap.used_bytes)),
                signal_dbm: self.primary.signal_of_link(&line.name),
                radio_awake: self.primary.is_awake(&line.name),
                joules: energy.map(|energy| energy.joules),
            });
        }
    }

    /// Why an open connection is treated as it is: the rule by which it was opened, and the links
    /// that it may use; and how a new one like it would be treated now.
    pub(super) async fn explain_stream(
        &self,
        caller: Caller,
        id: &str,
    ) -> Result<Response<Answer>, Failure> {
        let (id, flow) = self.owned(caller, id, Rights::Read)?;
        let gone = || Failure::new(StatusCode::NOT_FOUND, "this connection is not carried now");
        let transfer = self.transfer_of(&flow).ok_or_else(gone)?;
        let carried = flow.carried().ok_or_else(gone)?;
        let to = destination(&transfer.destination).ok_or_else(gone)?;
        let facts = self.facts(&flow, &to).await;
        let device = self.primary.device(self.primary.power.read().await);
        let source = self.policy_source()?;
        let (ruling, paths) = (carried.ruling(), carried.paths());
        let current = self.primary.policy.borrow().clone();
        let links = device.links.iter().map(|link| {
            let shares = || transfer.subflows.iter().filter(|s| s.name == link.name);
            let path = self.primary.links.borrow().paths([&*link.name]);
            StreamLink {
                name: &link.name,
                unusable: ruling.unusable(current.as_deref(), link, Phase::Open),
                used: paths.is_some_and(|paths| paths.intersects(path)),
                bytes_in: shares().map(|s| s.bytes_in).sum(),
                bytes_out: shares().map(|s| s.bytes_out).sum(),
            }
        });
        let body = StreamExplanation {
            id,
            destination: &transfer.destination,
            class: &transfer.class,
            multipath: carried.multipath(),
            rule: ruling.rule_name(),
            line: ruling.rule_line(),
            policy_has_changed: !ruling.is_current(&self.primary),
            links: links.collect(),
            now: source.policy().explain(&facts, &device),
        };
        Ok(json(StatusCode::OK, &body))
    }
}
