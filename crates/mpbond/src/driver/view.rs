//! State of a session for `mpbond status`.

use std::collections::BTreeMap;

use mpbond_net::DeviceId;
use mpbond_session::{PathBytes, Session, StreamClass, SubflowState};

use super::clock::Clock;
use crate::status::{PathShare, SessionStatus, SubflowStatus};

/// State of a session, with the octets of its paths' connections.
pub(super) fn session_status(
    session: &Session,
    clock: &Clock,
    peer: &DeviceId,
    octets: &BTreeMap<String, u64>,
) -> SessionStatus {
    let now = clock.now();
    let path_share = |path: PathBytes| PathShare {
        octets: octets.get(&path.name).copied().unwrap_or_default(),
        name: path.name,
        bytes_in: path.bytes_in,
        bytes_out: path.bytes_out,
    };
    let stats = session.stats();
    let subflows: Vec<SubflowStatus> = session.subflows(now).iter().map(subflow_status).collect();
    let state = match (session.is_lost(), session.is_established()) {
        (true, _) => "lost",
        _ if session.is_going_away() => "retiring",
        (false, true) if subflows.is_empty() => "waiting",
        (false, true) => "up",
        (false, false) => "joining",
    };
    SessionStatus {
        id: session.id().map(|id| id.to_string()).unwrap_or_default(),
        peer: peer.to_string(),
        state: state.to_owned(),
        scheduler: session.config().scheduler.to_string(),
        streams_open: stats.streams_open,
        streams_by_class: by_class(session),
        streams_total: stats.streams_total,
        bytes_in: stats.bytes_in,
        bytes_out: stats.bytes_out,
        redundant_bytes_in: stats.redundant_bytes_in,
        redundant_bytes_out: stats.copies_out.total(),
        copies_out: stats.copies_out,
        reinjected_bytes_out: stats.reinjected_bytes_out,
        unscheduled_bytes: session.unscheduled_bytes(),
        subflows,
        paths: session.paths().into_iter().map(path_share).collect(),
    }
}

/// Open streams by class, classes without any left out.
fn by_class(session: &Session) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (class, open) in StreamClass::IN_ORDER
        .iter()
        .zip(session.streams_open_by_class())
    {
        if open > 0 {
            counts.insert(class.to_string(), open);
        }
    }
    counts
}

fn subflow_status(s: &mpbond_session::SubflowStats) -> SubflowStatus {
    let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    SubflowStatus {
        id: s.id.0,
        name: s.name.clone(),
        kind: if s.helper.is_some() {
            "helper"
        } else {
            "direct"
        }
        .to_owned(),
        state: match s.state {
            SubflowState::Joining => "joining",
            SubflowState::Up => "up",
            SubflowState::Backup => "backup",
            SubflowState::Express => "express",
            SubflowState::PotentiallyFailed => "potentially-failed",
        }
        .to_owned(),
        bytes_in: s.bytes_in,
        bytes_out: s.bytes_out,
        last_in_s: s.last_in.map(|t| t.as_secs_f64()),
        last_out_s: s.last_out.map(|t| t.as_secs_f64()),
        pad_ms: ms(s.pad),
        b_s: s.b_near_bytes,
        b_p: s.b_far_bytes,
        th_mbps: s.throughput_under_load.map(|t| t.mbps()),
        far_th_mbps: s.far_throughput.map(|t| t.mbps()),
        rtt_ms: ms(s.rtt),
    }
}
