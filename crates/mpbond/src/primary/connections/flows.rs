//! Applications' connections that sessions carry now, for the API. What is only shown is found out
//! when it is asked for.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpbond_policy::{Multipath, Origin};
use mpbond_session::{PathSet, SessionId, StreamClass, StreamId, TreatmentError};
use tokio::time::Instant;

use crate::driver::{Driver, Handle, TransferLog};
use crate::primary::connections::{clients::ClientPlace, identity::Identity};
use crate::primary::rules::ruling::Ruling;

/// Number of sockets whose owners are asked for at a status, and until the next one. The kernel
/// takes some 50 microseconds for each, and nothing else runs meanwhile.
pub(super) const ASKED: usize = 64;

/// Time since the last status for which owners of new sockets are asked for at once: somebody
/// watches, who asks each second.
const WATCHED: Duration = Duration::from_secs(3);

/// An application's connection.
#[derive(Clone)]
pub(in crate::primary) struct Flow {
    pub(in crate::primary) identity: Rc<Identity>,
    /// Absent while no session carries it.
    carried: Option<Carried>,
}

/// The stream that carries a connection, and its treatment.
#[derive(Clone)]
pub(in crate::primary) struct Carried {
    ruling: Ruling,
    multipath: Multipath,
    session: Handle,
    /// Known once the proxy has answered, as it has when a session takes streams.
    session_id: Option<SessionId>,
    stream: StreamId,
    /// The decision that was told last about a new connection like this one, if it differs from
    /// the ruling.
    told: Option<Rc<Ruling>>,
}

impl Flow {
    /// Its stream, if this session carries it.
    pub(in crate::primary) fn stream_of(&self, session: &Driver) -> Option<StreamId> {
        let carried = self.carried.as_ref()?;
        let is_here = carried.session.is_of(session);
        is_here.then_some(carried.stream)
    }

    /// The stream that carries it, with its treatment.
    pub(in crate::primary) const fn carried(&self) -> Option<&Carried> {
        self.carried.as_ref()
    }

    /// Name of the rule that has selected it, if one has.
    pub(in crate::primary) fn rule(&self) -> Option<&str> {
        self.carried.as_ref()?.ruling.rule_name()
    }

    /// Name of the rule that sets its class, if one does.
    pub(in crate::primary) fn class_rule(&self) -> Option<&str> {
        let ruling = &self.carried.as_ref()?.ruling;
        let (_, origin) = ruling.class(None);
        ruling.rule_name().filter(|_| origin == Origin::Rule)
    }

    /// Changes its class; its program's DSCP changes it no more.
    pub(in crate::primary) fn set_class(&self, class: StreamClass) {
        if let Some(carried) = &self.carried {
            carried.session.set_class(carried.stream, class);
        }
    }
}

impl Flow {
    /// A chunk of its program ends here: in what it downloads, in what it uploads.
    pub(in crate::primary) fn mark_chunk_ends(&self, download: Option<u64>, upload: Option<u64>) {
        if let Some(carried) = &self.carried {
            let session = &carried.session;
            session.mark_chunk_ends(carried.stream, download, upload);
        }
    }
}

impl Carried {
    pub(in crate::primary) const fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// The decision that was told last about a new connection like this one, or its own.
    pub(in crate::primary) fn told(&self) -> &Ruling {
        self.told.as_deref().unwrap_or(&self.ruling)
    }

    pub(in crate::primary) const fn multipath(&self) -> Multipath {
        self.multipath
    }

    /// Whether its stream has one path at a time.
    pub(in crate::primary) fn is_single(&self) -> bool {
        self.multipath != Multipath::Aggregate
    }

    /// The paths that its stream may use, while it is open.
    pub(in crate::primary) fn paths(&self) -> Option<PathSet> {
        self.session.paths_of(self.stream)
    }

    /// # Errors
    /// As [`Handle::set_paths`].
    pub(in crate::primary) fn set_paths(&self, paths: PathSet) -> Result<(), TreatmentError> {
        self.session.set_paths(self.stream, paths)
    }
}

/// The connections by numbers, which rise in the order in which clients come. For one thread.
#[derive(Clone, Default)]
pub(in crate::primary) struct Flows(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    flows: BTreeMap<u64, Flow>,
    /// Number of those that have one path at a time.
    single: usize,
    /// The last ones whose clients have left, the latest last: as many as the status has streams
    /// that have ended.
    ended: VecDeque<Ended>,
    /// Until when, and of how many new connections, the owner is asked for as they come.
    watched: Option<(Instant, usize)>,
}

/// A connection whose client has left.
struct Ended {
    session: SessionId,
    stream: StreamId,
    identity: Rc<Identity>,
    rule: Option<String>,
}

/// What a client has as long as its connection is open.
pub(in crate::primary) struct Share {
    _place: ClientPlace,
    flows: Flows,
    number: u64,
}

impl Flows {
    /// Enters a client's connection.
    pub(in crate::primary) fn enter(&self, place: ClientPlace, identity: &Rc<Identity>) -> Share {
        let mut table = self.0.borrow_mut();
        if let Some((until, left @ 1..)) = &mut table.watched
            && Instant::now() < *until
        {
            *left -= 1;
            identity.owner();
        }
        table.last += 1;
        let number = table.last;
        let flow = Flow {
            identity: Rc::clone(identity),
            carried: None,
        };
        table.flows.insert(number, flow);
        Share {
            _place: place,
            flows: self.clone(),
            number,
        }
    }

    /// A stream carries the connection with this number now, if it is still open.
    pub(in crate::primary) fn carried(
        &self,
        number: u64,
        session: &Driver,
        stream: StreamId,
        (ruling, multipath): (&Ruling, Multipath),
    ) {
        let mut table = self.0.borrow_mut();
        let Some(flow) = table.flows.get_mut(&number) else {
            return;
        };
        let carried = Carried {
            ruling: ruling.clone(),
            multipath,
            session: session.handle(),
            session_id: session.inspect(|session, _, _| session.id()),
            stream,
            told: None,
        };
        let is_single = carried.is_single();
        let before = flow.carried.replace(carried);
        table.single += usize::from(is_single);
        table.single -= usize::from(before.is_some_and(|before| before.is_single()));
    }

    /// It is told what would be decided about a new connection like the one with this number.
    pub(in crate::primary) fn told(&self, number: u64, ruling: Ruling) {
        let mut table = self.0.borrow_mut();
        let flow = table.flows.get_mut(&number);
        if let Some(carried) = flow.and_then(|flow| flow.carried.as_mut()) {
            carried.told = Some(Rc::new(ruling));
        }
    }

    /// The streams that carry connections now.
    pub(in crate::primary) fn carried_now(&self) -> Vec<Carried> {
        let table = self.0.borrow();
        table
            .flows
            .values()
            .filter_map(|flow| flow.carried.clone())
            .collect()
    }

    /// Somebody looks at the connections. Programs that leave before the next look are known then,
    /// too.
    pub(super) fn watch(&self) {
        let until = Instant::now() + WATCHED;
        self.0.borrow_mut().watched = Some((until, ASKED));
    }

    /// Calls `visit` with each connection that is carried, the latest first.
    pub(super) fn visit(&self, visit: impl FnMut(&Flow)) {
        let table = self.0.borrow();
        let flows = table.flows.values().rev();
        flows.filter(|flow| flow.carried.is_some()).for_each(visit);
    }

    /// Calls `visit` with the identity of each connection that is carried, and of the last ones
    /// whose clients have left.
    pub(super) fn visit_all(&self, mut visit: impl FnMut(&Rc<Identity>)) {
        self.visit(|flow| visit(&flow.identity));
        let table = self.0.borrow();
        table.ended.iter().for_each(|ended| visit(&ended.identity));
    }

    /// Streams of the connections that are carried now, with their sessions, of those that the
    /// proxy has answered, and the numbers of the connections; in the order of the streams.
    pub(super) fn streams(&self) -> Vec<(StreamId, SessionId, u64)> {
        let table = self.0.borrow();
        let flows = table.flows.iter();
        let streams = flows.filter_map(|(number, flow)| {
            let carried = flow.carried.as_ref()?;
            Some((carried.stream, carried.session_id?, *number))
        });
        let mut streams: Vec<_> = streams.collect();
        streams.sort_unstable_by_key(|(stream, ..)| *stream);
        streams
    }

    /// Calls `with` with the identity and the rule of the connection with this number, or else of
    /// one of the last ones whose clients have left, that of this stream.
    pub(super) fn with_stream<T>(
        &self,
        number: Option<u64>,
        (stream, session): (StreamId, &str),
        with: impl FnOnce(&Identity, Option<&str>) -> T,
    ) -> Option<T> {
        let table = self.0.borrow();
        if let Some(flow) = number.and_then(|number| table.flows.get(&number)) {
            return Some(with(&flow.identity, flow.rule()));
        }
        let is_it = |of: &&Ended| of.stream == stream && of.session.to_string() == session;
        let ended = table.ended.iter().find(is_it)?;
        Some(with(&ended.identity, ended.rule.as_deref()))
    }

    /// Whether a stream has one path at a time.
    pub(in crate::primary) fn has_single(&self) -> bool {
        self.0.borrow().single > 0
    }

    /// The connection with this number, if it is carried.
    pub(in crate::primary) fn get(&self, number: u64) -> Option<Flow> {
        let table = self.0.borrow();
        let flow = table.flows.get(&number)?;
        flow.carried.is_some().then(|| flow.clone())
    }

    /// The connection that is carried of a client's socket with this address.
    pub(in crate::primary) fn of_client(&self, client: SocketAddr) -> Option<(u64, Flow)> {
        let table = self.0.borrow();
        let is_it = |flow: &Flow| flow.carried.is_some() && flow.identity.ends().client == client;
        let mut flows = table.flows.iter();
        let (number, flow) = flows.find(|(_, flow)| is_it(flow))?;
        Some((*number, flow.clone()))
    }

    /// Up to `limit` connections that are carried, the first with numbers after this one.
    pub(in crate::primary) fn after(&self, number: u64, limit: usize) -> Vec<(u64, Flow)> {
        let table = self.0.borrow();
        let later = table.flows.range(number.saturating_add(1)..);
        let carried = later.filter(|(_, flow)| flow.carried.is_some());
        let later = carried.map(|(number, flow)| (*number, flow.clone()));
        later.take(limit).collect()
    }
}

impl Share {
    /// Number of the connection.
    pub(in crate::primary) const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.flows.0.borrow_mut();
        let flow = table.flows.remove(&self.number);
        let Some((identity, carried)) = flow.and_then(|f| Some((f.identity, f.carried?))) else {
            return;
        };
        table.single -= usize::from(carried.is_single());
        let Some(session) = carried.session_id else {
            return;
        };
        if table.ended.len() == TransferLog::KEPT {
            table.ended.pop_front();
        }
        table.ended.push_back(Ended {
            session,
            stream: carried.stream,
            identity,
            rule: carried.ruling.rule_name().map(str::to_owned),
        });
    }
}
