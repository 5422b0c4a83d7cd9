//! Analysis of a log: modes of links and their durations, undesired Sniff periods, throughput.

use std::collections::BTreeMap;
use std::io::Read;

use mpbond_units::Timestamp;
use serde::Serialize;

use super::decoder::{Decoder, Happening, seconds};
use super::infer::{Entry, Side, StateMachine, infer};
use super::link_id::LinkId;
use super::throughput::{Bins, Direction, Throughput};
use crate::error::CaptureError;
use crate::reader::Reader;
use crate::record::Record;

/// Sniff is undesired when the requesting side received data within this time before. Shorter than
/// any inactivity timer observed (2 s), so that no idle link is included.
const RECEIVING_S: f64 = 1.0;

/// Handle under which Qualcomm's controllers send diagnostics to the host; not a connection.
const VENDOR_DIAGNOSTICS: u16 = 0x0edc;

/// Maximum number of requests without an answer: a controller accepts at most as many commands at a
/// time (Bluetooth Core 5.4, volume 4, part E, section 7.7.15).
const MAX_UNANSWERED: usize = 255;

const ACTIVE: u8 = 0;
const SNIFF: u8 = 2;

/// Mode change of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeChange {
    /// Seconds since the first record.
    pub time_s: f64,
    /// Handle of the link.
    pub handle: u16,
    /// `active`, `sniff`, `hold`, `park`, or `unknown`.
    pub mode: &'static str,
    /// Interval in slots of 0.625 ms; 0 for Active.
    pub interval_slots: u16,
    /// Side that requested Sniff; `None` for other changes.
    pub asked_by: Option<Side>,
}

/// Number of mode commands from the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// Sniff Mode commands.
    pub sniff: u64,
    /// Exit Sniff Mode commands.
    pub exit_sniff: u64,
}

/// Time spent in each mode, in seconds, from the link's first Mode Change to its end or that of the
/// log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Dwell {
    /// Time in Active.
    pub active: f64,
    /// Time in Sniff.
    pub sniff: f64,
    /// Time in Hold and Park.
    pub other: f64,
    /// Time before the first Mode Change of a connection whose beginning is not in the log: its
    /// mode is unknown.
    pub unknown: f64,
    /// Time before the first Mode Change of a connection whose beginning is in the log: Active.
    pub active_before_first_change: f64,
}

/// Time interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// Start, in seconds since the first record.
    pub start_s: f64,
    /// End, in seconds since the first record.
    pub end_s: f64,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// Controller of the host.
    pub adapter: u16,
    /// Handle.
    pub handle: u16,
    /// Number of earlier connections with this handle.
    pub connection: u32,
    /// Start in seconds since the first record; `None` when it precedes the log.
    pub connected_s: Option<f64>,
    /// End in seconds since the first record; `None` when it follows the log.
    pub disconnected_s: Option<f64>,
    /// Time by mode, while the link existed.
    pub dwell_s: Dwell,
    /// Time from the link's end to the log's, in the last mode. Without meaning, but tools that
    /// ignore the end of links include it.
    pub after_disconnect_s: f64,
    /// Sniff periods that began while the requesting side was receiving ("Understanding the
    /// Networking Performance of Wear OS", section 3.3).
    pub undesired_sniff: Vec<Interval>,
    /// Inferred state machines of both sides.
    pub state_machine: StateMachine,
    /// Throughput in both directions.
    pub throughput: Vec<Throughput>,
    #[serde(skip)]
    pub(super) drawn: Drawn,
}

/// Further data for the chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Drawn {
    pub(super) sent: Vec<(f64, f64)>,
    pub(super) received: Vec<(f64, f64)>,
    /// Entries into Sniff, with the requesting side.
    pub(super) entries: Vec<(f64, Side)>,
    /// Returns to Active, with the requesting side.
    pub(super) exits: Vec<(f64, Side)>,
    /// Modes, each with its start.
    pub(super) modes: Vec<(f64, u8)>,
    pub(super) end_s: f64,
}

/// Number of entries into Sniff over all links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sniffs {
    /// Requested by the log's own host.
    pub local: u64,
    /// Requested by the other end.
    pub peer: u64,
}

/// Report on a Bluetooth log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BluetoothReport {
    /// Number of records of any kind.
    pub records: u64,
    /// Time of the last record, in seconds since the first.
    pub last_record_s: f64,
    /// Number of ACL packets.
    pub acl: u64,
    /// Number of reassembled L2CAP packets.
    pub l2cap: u64,
    /// Number of RFCOMM frames on channels whose opening is in the log.
    pub rfcomm: u64,
    /// Number of packets on other channels that have RFCOMM's form and check sequence.
    pub rfcomm_by_form: u64,
    /// Payload of all these RFCOMM frames in bytes, without the multiplexer's own.
    pub rfcomm_payload_bytes: u64,
    /// Credits given by all these RFCOMM frames.
    pub rfcomm_credits: u64,
    /// Number of Number Of Completed Packets events.
    pub completed_packets: u64,
    /// Mode changes in the order of the log.
    pub mode_changes: Vec<ModeChange>,
    /// Commands from the log's host.
    pub commands: Commands,
    /// Entries into Sniff by requesting side.
    pub sniff_asked_by: Sniffs,
    /// Links by controller, handle and connection.
    pub links: Vec<Link>,
    /// Limitations of the figures.
    pub notes: Vec<String>,
    /// Reason why reading stopped early.
    pub incomplete: Option<String>,
}

/// Request of the host to enter Sniff or to leave it.
struct Request {
    link: LinkId,
    sniff: bool,
    at: f64,
    /// Last traffic in each direction before it.
    sent: Option<f64>,
    received: Option<f64>,
}

/// State of a link while the log is read.
#[derive(Default)]
struct Followed {
    connected: Option<f64>,
    disconnected: Option<f64>,
    without_modes: bool,
    first_seen: f64,
    /// Current mode and its start; `None` before the first change.
    mode: Option<(u8, f64)>,
    active_since: Option<f64>,
    /// Time of the host's request that was accepted, and of the last traffic in each direction
    /// before it: the change of mode takes a while, and traffic continues.
    asked_sniff: Option<(f64, Option<f64>, Option<f64>)>,
    asked_exit: bool,
    last_sent: Option<f64>,
    last_received: Option<f64>,
    undesired_from: Option<f64>,
    dwell: Dwell,
    undesired: Vec<Interval>,
    entries: Vec<Entry>,
    sent: Bins,
    received: Bins,
    drawn: Drawn,
}

impl Followed {
    fn spend(&mut self, until: f64) {
        if let Some((mode, since)) = self.mode {
            let dwell = match mode {
                ACTIVE => &mut self.dwell.active,
                SNIFF => &mut self.dwell.sniff,
                _ => &mut self.dwell.other,
            };
            // Clocks of logs occasionally go back.
            *dwell += (until - since).max(0.0);
        } else if self.connected.is_some() {
            self.dwell.active_before_first_change = (until - self.first_seen).max(0.0);
        } else {
            self.dwell.unknown = (until - self.first_seen).max(0.0);
        }
    }

    /// Records that the controller accepted a request.
    fn accept(&mut self, request: &Request) {
        if request.sniff {
            self.asked_sniff = Some((request.at, request.sent, request.received));
        } else {
            self.asked_exit = true;
        }
    }

    /// Records a mode change; returns the requesting side if the change is into Sniff.
    fn change(&mut self, at: f64, mode: u8) -> Option<Side> {
        self.spend(at);
        let before = self.mode.replace((mode, at)).map(|(mode, _)| mode);
        self.drawn.modes.push((at, mode));
        // A change of the interval in Sniff answers the request too.
        let asked_sniff = self.asked_sniff.take_if(|_| mode == SNIFF);
        match mode {
            SNIFF if before != Some(SNIFF) => {
                let (by, asked_at, sent, received) = match asked_sniff {
                    Some((when, sent, received)) => (Side::Local, when, sent, received),
                    None => (Side::Peer, at, self.last_received, self.last_sent),
                };
                self.entries.push(Entry {
                    by,
                    at_s: asked_at,
                    active_s: self.active_since,
                    sent_s: sent,
                    received_s: received,
                });
                self.drawn.entries.push((at, by));
                if received.is_some_and(|last| asked_at - last <= RECEIVING_S) {
                    self.undesired_from = Some(at);
                }
                Some(by)
            }
            ACTIVE => {
                let by = if std::mem::take(&mut self.asked_exit) {
                    Side::Local
                } else {
                    Side::Peer
                };
                if before == Some(SNIFF) {
                    self.drawn.exits.push((at, by));
                }
                self.active_since = Some(at);
                self.end_undesired(at);
                None
            }
            _ => None,
        }
    }

    fn end_undesired(&mut self, at: f64) {
        if let Some(start_s) = self.undesired_from.take() {
            self.undesired.push(Interval { start_s, end_s: at });
        }
    }

    fn finish(mut self, id: LinkId, end: f64) -> Link {
        let log_end = end;
        let end = self.disconnected.unwrap_or(end);
        let mut after = (log_end - end).max(0.0);
        if self.without_modes {
            self.dwell = Dwell::default();
        } else {
            self.spend(end);
        }
        self.end_undesired(end);
        self.drawn.sent = self.sent.rates_kbps().collect();
        self.drawn.received = self.received.rates_kbps().collect();
        self.drawn.end_s = end;
        let round = |s: &mut f64| *s = (*s * 1e6).round() / 1e6;
        let dwell = &mut self.dwell;
        for s in [
            &mut dwell.active,
            &mut dwell.sniff,
            &mut dwell.other,
            &mut dwell.unknown,
            &mut dwell.active_before_first_change,
            &mut after,
        ] {
            round(s);
        }
        let both = [
            self.sent.summary(Direction::Sent),
            self.received.summary(Direction::Received),
        ];
        Link {
            adapter: id.adapter,
            handle: id.handle,
            connection: id.connection,
            connected_s: self.connected,
            disconnected_s: self.disconnected,
            dwell_s: self.dwell,
            after_disconnect_s: after,
            undesired_sniff: self.undesired,
            state_machine: infer(&self.entries),
            throughput: both.into_iter().flatten().collect(),
            drawn: self.drawn,
        }
    }
}

/// Analysis of a log, record by record.
#[derive(Default)]
pub struct Analysis {
    decoder: Decoder,
    start: Option<Timestamp>,
    last_s: f64,
    report: Counted,
    links: BTreeMap<LinkId, Followed>,
}

#[derive(Default)]
struct Counted {
    records: u64,
    hci: u64,
    cut: u64,
    backwards: u64,
    acl: u64,
    l2cap: u64,
    rfcomm: u64,
    rfcomm_by_form: u64,
    rfcomm_payload_bytes: u64,
    rfcomm_credits: u64,
    completed: u64,
    mode_changes: Vec<ModeChange>,
    commands: Commands,
    asked_by: Sniffs,
    /// Requests without an answer, in order: the answer names no link.
    unanswered: Vec<Request>,
}

impl Analysis {
    /// Processes the next record.
    pub fn push(&mut self, record: &Record<'_>) {
        let start = *self.start.get_or_insert(record.at);
        let at = seconds(start, record.at);
        self.report.records += 1;
        self.report.backwards += u64::from(at < self.last_s);
        self.last_s = self.last_s.max(at);
        let Self {
            decoder,
            report,
            links,
            ..
        } = self;
        let is_hci = decoder.push(record, &mut |what| hear(report, links, at, what));
        self.report.hci += u64::from(is_hci);
    }

    /// Report on the log; `incomplete` is the reason why reading stopped early.
    pub fn finish(self, incomplete: Option<String>) -> BluetoothReport {
        let Self {
            report,
            links,
            last_s,
            ..
        } = self;
        let mut notes = Vec::new();
        if report.cut > 0 {
            notes.push(format!(
                "{} ACL packets were truncated when they were logged: their contents are unknown",
                report.cut
            ));
        }
        if report.backwards > 0 {
            notes.push(format!("time goes back at {} records", report.backwards));
        }
        let connected = |l: &Followed| l.connected.is_some() || l.mode.is_some();
        let before = links.len();
        let links: BTreeMap<LinkId, Followed> = links
            .into_iter()
            .filter(|(id, l)| id.handle != VENDOR_DIAGNOSTICS || connected(l))
            .collect();
        if links.len() < before {
            notes.push(format!(
                "packets with the handle 0x{VENDOR_DIAGNOSTICS:03x} are the controller's own \
                 diagnostics, and left out of links"
            ));
        }
        let unknown = links
            .values()
            .filter(|l| l.connected.is_none() && l.mode.is_none() && !l.without_modes)
            .count();
        if unknown > 0 {
            notes.push(format!(
                "{unknown} links have neither a beginning nor a change of mode here: their mode is \
                 not known"
            ));
        }
        let joined = links
            .values()
            .filter(|l| l.connected.is_none() && l.mode.is_some())
            .count();
        if joined > 0 {
            notes.push(format!(
                "{joined} links were there before the log began: their mode is not known until it \
                 first changes"
            ));
        }
        BluetoothReport {
            records: report.records,
            last_record_s: last_s,
            acl: report.acl,
            l2cap: report.l2cap,
            rfcomm: report.rfcomm,
            rfcomm_by_form: report.rfcomm_by_form,
            rfcomm_payload_bytes: report.rfcomm_payload_bytes,
            rfcomm_credits: report.rfcomm_credits,
            completed_packets: report.completed,
            mode_changes: report.mode_changes,
            commands: report.commands,
            sniff_asked_by: report.asked_by,
            links: links
                .into_iter()
                .map(|(id, link)| link.finish(id, last_s))
                .collect(),
            notes,
            incomplete,
        }
    }
}

/// Reads a whole log. Records before an error count, and `incomplete` gives the error.
///
/// # Errors
/// When the file is not a capture, or contains no Bluetooth.
pub fn analyse<R: Read>(file: &str, from: R) -> Result<BluetoothReport, CaptureError> {
    let mut reader = Reader::new(file, from)?;
    let mut analysis = Analysis::default();
    let incomplete = loop {
        match reader.next() {
            Ok(Some(record)) => analysis.push(&record),
            Ok(None) => break None,
            Err(e) => break Some(e),
        }
    };
    if analysis.report.records > 0 && analysis.report.hci == 0 {
        return Err(CaptureError {
            file: file.to_owned(),
            place: crate::error::Place::Offset(0),
            reason: "a capture without Bluetooth HCI packets".to_owned(),
        });
    }
    match incomplete {
        Some(e) if analysis.report.records == 0 => Err(e),
        other => Ok(analysis.finish(other.map(|e| e.to_string()))),
    }
}

fn link(links: &mut BTreeMap<LinkId, Followed>, id: LinkId, at: f64) -> &mut Followed {
    links.entry(id).or_insert_with(|| Followed {
        first_seen: at,
        ..Followed::default()
    })
}

fn hear(
    report: &mut Counted,
    links: &mut BTreeMap<LinkId, Followed>,
    at: f64,
    what: Happening<'_>,
) {
    match what {
        Happening::Connected {
            link: id,
            without_modes,
        } => {
            let link = link(links, id, at);
            link.connected = Some(at);
            link.without_modes = without_modes;
        }
        Happening::Disconnected(id) => link(links, id, at).disconnected = Some(at),
        Happening::Asked { link: id, sniff } => {
            let count = match sniff {
                true => &mut report.commands.sniff,
                false => &mut report.commands.exit_sniff,
            };
            *count += 1;
            let known = link(links, id, at);
            if report.unanswered.len() >= MAX_UNANSWERED {
                report.unanswered.remove(0);
            }
            report.unanswered.push(Request {
                link: id,
                sniff,
                at,
                sent: known.last_sent,
                received: known.last_received,
            });
        }
        Happening::Answered {
            adapter,
            sniff,
            accepted,
        } => {
            let mut requests = report.unanswered.iter();
            let first = requests.position(|r| r.link.adapter == adapter && r.sniff == sniff);
            if let Some(request) = first.map(|i| report.unanswered.remove(i))
                && accepted
            {
                link(links, request.link, at).accept(&request);
            }
        }
        Happening::Unchanged(id) => {
            report.unanswered.retain(|r| r.link != id);
            if let Some(link) = links.get_mut(&id) {
                link.asked_sniff = None;
                link.asked_exit = false;
            }
        }
        Happening::Mode {
            link: id,
            mode,
            interval_slots,
        } => {
            let link = link(links, id, at);
            // Without the answer in the log, the change is one.
            report.unanswered.retain(|request| {
                let sought = if request.sniff { SNIFF } else { ACTIVE };
                let answered = request.link == id && mode == sought;
                if answered {
                    link.accept(request);
                }
                !answered
            });
            let asked_by = link.change(at, mode);
            match asked_by {
                Some(Side::Local) => report.asked_by.local += 1,
                Some(Side::Peer) => report.asked_by.peer += 1,
                None => {}
            }
            report.mode_changes.push(ModeChange {
                time_s: at,
                handle: id.handle,
                mode: match mode {
                    ACTIVE => "active",
                    1 => "hold",
                    SNIFF => "sniff",
                    3 => "park",
                    _ => "unknown",
                },
                interval_slots,
                asked_by,
            });
        }
        Happening::Acl {
            link: id,
            received,
            bytes,
            whole,
        } => {
            report.acl += 1;
            report.cut += u64::from(!whole);
            let link = link(links, id, at);
            if received {
                link.received.add(at, bytes);
                link.last_received = Some(at);
            } else {
                link.sent.add(at, bytes);
                link.last_sent = Some(at);
            }
        }
        Happening::L2cap { .. } => report.l2cap += 1,
        Happening::Rfcomm {
            channel_known,
            frame,
            ..
        } => {
            if channel_known {
                report.rfcomm += 1;
            } else {
                report.rfcomm_by_form += 1;
            }
            report.rfcomm_credits += u64::from(frame.credits.unwrap_or_default());
            if frame.dlci != 0 {
                report.rfcomm_payload_bytes += frame.payload.len() as u64;
            }
        }
        Happening::Completed => report.completed += 1,
    }
}
