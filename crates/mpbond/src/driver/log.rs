//! Streams that have ended, for `mpbond status`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use mpbond_session::{StreamStats, SubflowId};

use super::totals::Totals;
use crate::status::{ShareStatus, TransferStatus};

/// The last streams of a daemon that have ended, over all its sessions.
#[derive(Clone, Default)]
pub struct TransferLog {
    // Written once a stream, read by status: contention does not occur on the data path.
    entries: Arc<Mutex<VecDeque<TransferStatus>>>,
    totals: Totals,
}

impl TransferLog {
    /// Number of streams that are kept.
    pub(crate) const KEPT: usize = 64;

    fn lock(&self) -> MutexGuard<'_, VecDeque<TransferStatus>> {
        self.entries
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn push(
        &self,
        session: &str,
        stats: &StreamStats,
        name: impl Fn(SubflowId) -> String,
    ) {
        let mut entries = self.lock();
        if entries.len() == Self::KEPT {
            entries.pop_front();
        }
        entries.push_back(transfer(session, stats, name));
    }

    /// Counters over all sessions of the daemon.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The streams, oldest first.
    pub fn closed(&self) -> Vec<TransferStatus> {
        self.lock().iter().cloned().collect()
    }
}

/// State of a stream for `mpbond status`.
pub fn transfer(
    session: &str,
    s: &StreamStats,
    name: impl Fn(SubflowId) -> String,
) -> TransferStatus {
    let mut subflows: Vec<ShareStatus> = Vec::new();
    let since = |t: mpbond_units::Timestamp| t.since(s.opened).as_secs_f64();
    let later = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    for share in &s.subflows {
        let name = name(share.subflow);
        let (finished_in, finished_out) = (share.last_in.map(since), share.last_out.map(since));
        // A path that was lost and joined again counts as one path.
        match subflows.iter_mut().find(|x| x.name == name) {
            Some(x) => {
                x.bytes_in += share.bytes_in;
                x.bytes_out += share.bytes_out;
                x.finished_in_s = later(x.finished_in_s, finished_in);
                x.finished_out_s = later(x.finished_out_s, finished_out);
            }
            None => subflows.push(ShareStatus {
                name,
                bytes_in: share.bytes_in,
                bytes_out: share.bytes_out,
                finished_in_s: finished_in,
                finished_out_s: finished_out,
            }),
        }
    }
    TransferStatus {
        session: session.to_owned(),
        stream: s.id.0,
        destination: s
            .destination
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        class: s.class.to_string(),
        state: if s.closed.is_some() { "closed" } else { "open" }.to_owned(),
        bytes_in: s.bytes_in,
        bytes_out: s.bytes_out,
        opened_s: s.opened.as_secs_f64(),
        first_byte_s: s.first_in.map(|t| t.as_secs_f64()),
        closed_s: s.closed.map(|t| t.as_secs_f64()),
        redundant_bytes: s.redundant_bytes_in + s.copies_out.total(),
        rule: None,
        application: None,
        reason: s.reset.map(|code| code.to_string()),
        subflows,
    }
}
