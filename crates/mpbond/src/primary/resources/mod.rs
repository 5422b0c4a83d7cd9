//! Resources of the API (docs/api.md): this file leads a request to the one that it is about.

mod attempt;
mod compare;
mod devices;
#[cfg(test)]
mod document;
mod explain;
mod links;
mod mode;
mod pairing;
mod policy;
mod samples;
mod status;
mod streams;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::state::Primary;
use crate::api::{Failure, Query, number_of, percent_decoded, text_of};
use crate::config::PrimaryConfig;
use crate::http::{Answer, Answering};
use crate::reload::Reloader;
use crate::rights::{Caller, Rights};
use crate::status::Status;
use attempt::Attempt;

/// The resources of a primary.
pub(super) struct Resources {
    pub(super) primary: Rc<Primary>,
    pub(super) reloader: Rc<Reloader<PrimaryConfig>>,
    pub(super) status: Rc<dyn Fn() -> Status>,
    /// The last status for clients that may not read everything, and its time.
    public: RefCell<Option<(Instant, Bytes)>>,
    /// The pairing that was begun last.
    pairing: RefCell<Option<Rc<Attempt>>>,
}

/// A resource, with the methods that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    Status,
    Streams,
    Stream(String),
    StreamExplain(String),
    Policy,
    PolicyCheck,
    PolicyCompare,
    Mode,
    Explain,
    Links,
    Link(String),
    Devices,
    Device(String),
    Pairing,
    Events,
    Samples,
}

impl Resource {
    /// That of a path.
    fn at(path: &str) -> Option<Self> {
        Some(match path.strip_prefix("/v1/")? {
            "status" => Self::Status,
            "streams" => Self::Streams,
            "policy" => Self::Policy,
            "policy:check" => Self::PolicyCheck,
            "policy:compare" => Self::PolicyCompare,
            "mode" => Self::Mode,
            "explain" => Self::Explain,
            "links" => Self::Links,
            "devices" => Self::Devices,
            "pairing" => Self::Pairing,
            "events" => Self::Events,
            "samples" => Self::Samples,
            other => match other.split_once('/')? {
                ("links", name) => Self::Link(percent_decoded(name)?),
                ("devices", id) => Self::Device(percent_decoded(id)?),
                ("streams", id) => match id.strip_suffix("/explain") {
                    Some(id) => Self::StreamExplain(percent_decoded(id)?),
                    None => Self::Stream(percent_decoded(id)?),
                },
                _ => return None,
            },
        })
    }

    const fn methods(&self) -> &'static [Method] {
        match self {
            Self::Status
            | Self::Streams
            | Self::StreamExplain(_)
            | Self::Links
            | Self::Devices
            | Self::Events
            | Self::Samples => &[Method::GET],
            Self::Policy | Self::Mode => &[Method::GET, Method::PUT],
            Self::PolicyCheck | Self::PolicyCompare | Self::Explain => &[Method::POST],
            Self::Link(_) | Self::Stream(_) => &[Method::GET, Method::PATCH],
            Self::Device(_) => &[Method::DELETE],
            Self::Pairing => &[Method::DELETE, Method::GET, Method::PATCH, Method::POST],
        }
    }

    /// The rights that a request needs. A POST has no effect on the daemon, but that of a pairing,
    /// whose code is not for others either. Whose stream it is shows only when that is found.
    fn needs(&self, method: &Method) -> Rights {
        match (self, *method == Method::PUT || *method == Method::PATCH) {
            (Self::Pairing | Self::Device(_), _) => Rights::Change,
            (Self::Stream(_) | Self::StreamExplain(_), _) => Rights::Status,
            (_, true) => Rights::Change,
            (Self::Status, false) => Rights::Status,
            (_, false) => Rights::Read,
        }
    }
}

impl Resources {
    pub(super) fn new(
        primary: &Rc<Primary>,
        reloader: &Rc<Reloader<PrimaryConfig>>,
        status: Rc<dyn Fn() -> Status>,
    ) -> Rc<Self> {
        Rc::new(Self {
            primary: Rc::clone(primary),
            reloader: Rc::clone(reloader),
            status,
            public: RefCell::default(),
            pairing: RefCell::default(),
        })
    }

    /// The answer to a request of this program.
    pub(super) fn answer(self: Rc<Self>, caller: Caller, request: Request<Incoming>) -> Answering {
        Box::pin(async move {
            let answered = self.answered(caller, request).await;
            answered.unwrap_or_else(|failure| failure.answer())
        })
    }

    async fn answered(
        &self,
        caller: Caller,
        request: Request<Incoming>,
    ) -> Result<Response<Answer>, Failure> {
        let rights = caller.rights;
        let (head, body) = request.into_parts();
        let Some(resource) = Resource::at(head.uri.path()) else {
            let error = "there is no such resource";
            return Err(Failure::new(StatusCode::NOT_FOUND, error));
        };
        if !resource.methods().contains(&head.method) {
            return Ok(not_allowed(&resource));
        }
        let needs = resource.needs(&head.method);
        if rights < needs {
            let error = match needs {
                Rights::Change => "only root and the user of the daemon may do this",
                _ => "only root, the user of the daemon and its group may read this",
            };
            return Err(Failure::new(StatusCode::FORBIDDEN, error));
        }
        let query = Query::new(head.uri.query());
        let is_get = head.method == Method::GET;
        match resource {
            Resource::Streams => return self.streams(&query).await,
            Resource::Samples => return self.samples(&query),
            Resource::Events => {
                let [since] = query.values(["since"])?;
                let since = number_of("since", since)?;
                return Rc::clone(&self.primary.events).listen(&head.headers, since);
            }
            _ => query.values([])?,
        };
        match resource {
            Resource::Status => self.status_for(rights).await,
            Resource::Links => self.links(),
            Resource::Stream(id) if is_get => self.one_stream(caller, &id).await,
            Resource::StreamExplain(id) => self.explain_stream(caller, &id).await,
            Resource::Stream(id) => self.change_stream(caller, &id, &text_of(body).await?).await,
            Resource::Link(name) if is_get => self.link(&name),
            Resource::Link(name) => self.change_link(&name, &text_of(body).await?),
            Resource::Policy if is_get => Ok(self.policy()),
            Resource::Policy => self.put_policy(&head.headers, text_of(body).await?),
            Resource::Mode if is_get => Ok(self.policy_mode()),
            Resource::Mode => self.put_mode(&text_of(body).await?),
            Resource::PolicyCheck => Ok(self.check_policy(text_of(body).await?)),
            Resource::PolicyCompare => self.compare_policy(text_of(body).await?).await,
            Resource::Explain => self.explain(&head.headers, &text_of(body).await?).await,
            Resource::Devices => Ok(self.devices()),
            Resource::Device(id) => self.unpair(&id),
            Resource::Pairing if is_get => Ok(self.pairing()),
            Resource::Pairing if head.method == Method::DELETE => Ok(self.cancel_pairing()),
            Resource::Pairing => {
                let body = text_of(body).await?;
                match head.method == Method::POST {
                    true => self.begin_pairing(&body).await,
                    false => self.answer_pairing(&body),
                }
            }
            Resource::Streams | Resource::Events | Resource::Samples => Ok(not_allowed(&resource)),
        }
    }
}

impl Drop for Resources {
    /// No code is valid without somebody who answers.
    fn drop(&mut self) {
        self.cancel_pairing();
    }
}

fn not_allowed(resource: &Resource) -> Response<Answer> {
    let methods: Vec<_> = resource.methods().iter().map(Method::as_str).collect();
    let methods = methods.join(", ");
    let error = format!("this resource has {methods}");
    let mut answer = Failure::new(StatusCode::METHOD_NOT_ALLOWED, error).answer();
    if let Ok(methods) = HeaderValue::from_str(&methods) {
        answer.headers_mut().insert(ALLOW, methods);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of a resource in the document.
    const fn template(resource: &Resource) -> &'static str {
        match resource {
            Resource::Status => "/v1/status",
            Resource::Streams => "/v1/streams",
            Resource::Stream(_) => "/v1/streams/{id}",
            Resource::StreamExplain(_) => "/v1/streams/{id}/explain",
            Resource::Policy => "/v1/policy",
            Resource::PolicyCheck => "/v1/policy:check",
            Resource::PolicyCompare => "/v1/policy:compare",
            Resource::Mode => "/v1/mode",
            Resource::Explain => "/v1/explain",
            Resource::Links => "/v1/links",
            Resource::Link(_) => "/v1/links/{name}",
            Resource::Devices => "/v1/devices",
            Resource::Device(_) => "/v1/devices/{device}",
            Resource::Pairing => "/v1/pairing",
            Resource::Events => "/v1/events",
            Resource::Samples => "/v1/samples",
        }
    }

    #[test]
    fn the_document_has_all_resources() {
        let all = [
            Resource::Status,
            Resource::Streams,
            Resource::Stream(String::new()),
            Resource::StreamExplain(String::new()),
            Resource::Policy,
            Resource::PolicyCheck,
            Resource::PolicyCompare,
            Resource::Mode,
            Resource::Explain,
            Resource::Links,
            Resource::Link(String::new()),
            Resource::Devices,
            Resource::Device(String::new()),
            Resource::Pairing,
            Resource::Events,
            Resource::Samples,
        ];
        let document = include_str!("../../../../../docs/openapi.json");
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), all.len());
        for resource in all {
            let methods = paths[template(&resource)].as_object().unwrap();
            let methods: Vec<_> = methods.keys().map(|m| m.to_uppercase()).collect();
            let served: Vec<_> = resource.methods().iter().map(Method::as_str).collect();
            assert_eq!(methods, served, "{resource:?}");
        }
    }

    #[test]
    fn only_changes_need_the_right_to_change_and_the_status_needs_none() {
        let needs = |path: &str, method| Resource::at(path).unwrap().needs(&method);
        assert_eq!(needs("/v1/status", Method::GET), Rights::Status);
        assert_eq!(needs("/v1/policy", Method::PUT), Rights::Change);
        assert_eq!(needs("/v1/mode", Method::PUT), Rights::Change);
        assert_eq!(needs("/v1/links/a", Method::PATCH), Rights::Change);
        // Whose stream it is decides.
        assert_eq!(needs("/v1/streams/1", Method::PATCH), Rights::Status);
        for (path, method) in [
            ("/v1/streams", Method::GET),
            ("/v1/policy", Method::GET),
            ("/v1/policy:check", Method::POST),
            ("/v1/links/a", Method::GET),
            ("/v1/events", Method::GET),
            ("/v1/samples", Method::GET),
        ] {
            assert_eq!(needs(path, method), Rights::Read, "{path}");
        }
        // The code of a pairing is for those who may agree to it.
        assert_eq!(needs("/v1/pairing", Method::GET), Rights::Change);
        assert_eq!(needs("/v1/pairing", Method::POST), Rights::Change);
        assert_eq!(needs("/v1/devices/a", Method::DELETE), Rights::Change);
        assert_eq!(needs("/v1/devices", Method::GET), Rights::Read);
        let spaced = Resource::at("/v1/links/my%20wifi");
        assert_eq!(spaced, Some(Resource::Link("my wifi".to_owned())));
        let explained = Resource::at("/v1/streams/127.0.0.1:5/explain");
        let client = "127.0.0.1:5".to_owned();
        assert_eq!(explained, Some(Resource::StreamExplain(client)));
        for none in [
            "/",
            "/v2/status",
            "/v1",
            "/v1/",
            "/v1/links/%",
            "/v1/Status",
        ] {
            assert_eq!(Resource::at(none), None, "{none}");
        }
    }
}
