//! `/v1/streams`: applications' connections that sessions carry now.

use std::net::SocketAddr;

use hyper::{Response, StatusCode};
use mpbond_policy::{Class, FactLine};
use serde::{Deserialize, Serialize};

use super::Resources;
use crate::api::{Failure, Query, decoded, json, number_of, value_of};
use crate::http::Answer;
use crate::policy::program;
use crate::primary::connections::flows::Flow;
use crate::primary::rules::classes;
use crate::rights::{Caller, Rights};
use crate::status::{ShareStatus, TransferStatus};

/// Number of streams in an answer, unless the request names one; and the most of them: the kernel
/// may be asked about each, which takes some 50 microseconds.
const PAGE: usize = 100;
const MAX_PAGE: usize = 256;

/// Offsets at which a chunk can end: those of the protocol but the first.
const CHUNK_ENDS: std::ops::RangeInclusive<u64> = 1..=(1 << 62) - 1;

/// Applications' connections.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Streams"))]
pub(super) struct Page {
    streams: Vec<StreamBody>,
    /// Value of `after` for those that follow; absent where none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// A connection of an application.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Stream"))]
struct StreamBody {
    /// Rises in the order in which connections come.
    id: u64,
    /// First half of the id of its session.
    session: String,
    /// Its number in the session.
    stream: u64,
    /// The application's own end of its connection.
    client: SocketAddr,
    destination: String,
    #[cfg_attr(test, schemars(with = "Class"))]
    class: String,
    /// The rule that has selected it; null for the default.
    rule: Option<String>,
    /// Since the daemon started.
    opened_s: f64,
    bytes_in: u64,
    bytes_out: u64,
    links: Vec<Share>,
    /// The application, its user and its control group.
    application: [FactLine; 3],
}

/// Bytes of a stream over one link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "StreamShare"))]
struct Share {
    name: String,
    bytes_in: u64,
    bytes_out: u64,
}

impl From<ShareStatus> for Share {
    fn from(share: ShareStatus) -> Self {
        Self {
            name: share.name,
            bytes_in: share.bytes_in,
            bytes_out: share.bytes_out,
        }
    }
}

/// What an application tells of its connection.
#[derive(Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(rename = "StreamChange", extend("minProperties" = 1))
)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Its class from now on.
    class: Option<Class>,
    /// Ends of chunks.
    chunk_end: Option<ChunkEnd>,
}

/// Bytes of a connection before the end of a chunk (MPBond section 4.4).
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("minProperties" = 1)))]
#[serde(deny_unknown_fields)]
struct ChunkEnd {
    /// Of bytes to the application.
    #[cfg_attr(test, schemars(range(min = *CHUNK_ENDS.start(), max = *CHUNK_ENDS.end())))]
    download: Option<u64>,
    /// Of bytes from it.
    #[cfg_attr(test, schemars(range(min = *CHUNK_ENDS.start(), max = *CHUNK_ENDS.end())))]
    upload: Option<u64>,
}

impl Resources {
    /// A connection by its number, or by the address of the application's socket.
    fn find(&self, id: &str) -> Result<(u64, Flow), Failure> {
        let flows = &self.primary.flows;
        let found = match (id.parse::<u64>(), id.parse::<SocketAddr>()) {
            (Ok(number), _) => flows.get(number).map(|flow| (number, flow)),
            (_, Ok(client)) => flows.of_client(client),
            _ => None,
        };
        let unknown = "no open connection has this number or address";
        found.ok_or_else(|| Failure::new(StatusCode::NOT_FOUND, unknown))
    }

    /// The connection, if the caller may read everything, or its user has made it.
    pub(super) fn owned(
        &self,
        caller: Caller,
        id: &str,
        needs: Rights,
    ) -> Result<(u64, Flow), Failure> {
        let found = self.find(id);
        let owner = found
            .as_ref()
            .ok()
            .and_then(|(_, flow)| flow.identity.owner());
        let is_own = owner.is_some_and(|owner| Some(owner.uid) == caller.user);
        if !is_own && caller.rights < needs {
            let error = "only the user who has made this connection may do this";
            return Err(Failure::new(StatusCode::FORBIDDEN, error));
        }
        found
    }

    pub(super) async fn one_stream(
        &self,
        caller: Caller,
        id: &str,
    ) -> Result<Response<Answer>, Failure> {
        let (number, flow) = self.owned(caller, id, Rights::Read)?;
        let transfer = self.transfer_of(&flow);
        let gone = || Failure::new(StatusCode::NOT_FOUND, "this connection is not carried now");
        let body = self.stream(number, &flow, transfer.ok_or_else(gone)?).await;
        Ok(json(StatusCode::OK, &body))
    }

    /// Changes the class of a connection, unless its rule sets it, and marks ends of chunks.
    pub(super) async fn change_stream(
        &self,
        caller: Caller,
        id: &str,
        change: &str,
    ) -> Result<Response<Answer>, Failure> {
        let (_, flow) = self.owned(caller, id, Rights::Change)?;
        let Change { class, chunk_end } = value_of(change)?;
        let ChunkEnd { download, upload } = chunk_end.unwrap_or_default();
        if class.is_none() && download.is_none() && upload.is_none() {
            let error = "neither `class` nor `chunk_end` with `download` or `upload` is there";
            return Err(Failure::at(None, error.to_owned()));
        }
        for (key, end) in [("download", download), ("upload", upload)] {
            if end.is_some_and(|end| !CHUNK_ENDS.contains(&end)) {
                let most = CHUNK_ENDS.end();
                let error = format!("chunk_end.{key}: a number of bytes from 1 to {most}");
                return Err(Failure::at(None, error));
            }
        }
        if let Some(class) = class {
            if let Some(rule) = flow.class_rule() {
                let error = format!("the rule {rule:?} sets the class of this connection");
                return Err(Failure::new(StatusCode::CONFLICT, error));
            }
            flow.set_class(classes::stream(class));
        }
        flow.mark_chunk_ends(download, upload);
        self.one_stream(caller, id).await
    }

    pub(super) async fn streams(&self, query: &Query<'_>) -> Result<Response<Answer>, Failure> {
        let keys = ["after", "limit", "app", "destination"];
        let [after, limit, app, destination] = query.values(keys)?;
        let mut after = number_of("after", after)?.unwrap_or(0);
        let limit = number_of("limit", limit)?;
        let limit = limit.map_or(PAGE, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let app = decoded("app", app)?;
        let destination = decoded("destination", destination)?;
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Failure::bad(format!("limit in the query: 1 to {MAX_PAGE}")));
        }
        let mut streams = Vec::new();
        let (mut looked_at, mut next) = (0, None);
        let mut flows = Vec::new().into_iter();
        loop {
            if flows.len() == 0 {
                flows = self.primary.flows.after(after, MAX_PAGE).into_iter();
            }
            let Some((id, flow)) = flows.next() else {
                break;
            };
            if streams.len() == limit || looked_at == MAX_PAGE {
                next = Some(after);
                break;
            }
            after = id;
            looked_at += 1;
            // It has ended, or waits for its application to read the rest.
            let Some(transfer) = self.transfer_of(&flow) else {
                continue;
            };
            if destination
                .as_ref()
                .is_some_and(|to| *to != transfer.destination)
            {
                continue;
            }
            let body = self.stream(id, &flow, transfer).await;
            let [known, ..] = &body.application;
            if app.is_none() || app == known.value {
                streams.push(body);
            }
        }
        Ok(json(StatusCode::OK, &Page { streams, next }))
    }

    /// The stream of a connection. None for one that has ended, or waits for its application to
    /// read the rest.
    pub(super) fn transfer_of(&self, flow: &Flow) -> Option<TransferStatus> {
        let drivers = self.primary.drivers();
        let mut open = drivers.iter().filter_map(|driver| {
            let stream = flow.stream_of(driver)?;
            driver.transfers_of(&[stream]).pop()
        });
        open.next()
    }

    async fn stream(&self, id: u64, flow: &Flow, transfer: TransferStatus) -> StreamBody {
        let owner = flow.identity.owner();
        let cgroup = flow.identity.group(&self.primary.cgroups).await;
        let program = program(owner, cgroup.as_deref());
        StreamBody {
            id,
            session: transfer.session,
            stream: transfer.stream,
            client: flow.identity.ends().client,
            destination: transfer.destination,
            class: transfer.class,
            rule: flow.rule().map(str::to_owned),
            opened_s: transfer.opened_s,
            bytes_in: transfer.bytes_in,
            bytes_out: transfer.bytes_out,
            links: transfer.subflows.into_iter().map(Share::from).collect(),
            application: [
                FactLine::of("app", &program.app),
                FactLine::of("uid", &program.uid),
                FactLine::of("cgroup", &program.cgroup),
            ],
        }
    }
}
