//! Middleboxes at the far end of a link: NATs that forget idle flows, captive portals.

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use crate::tcp::{End, Kind, Segment};

/// Receive window of a captive portal.
const PORTAL_WINDOW_BYTES: u64 = 64 << 10;

/// A NAT that forgets a flow without packets. RFC 5382, section 5 (REQ-5) demands 2 h 4 min for
/// established connections; devices and carriers that are shipped keep to less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nat {
    /// Time without packets in either direction after which a flow is forgotten.
    pub timeout: Duration,
    /// Whether later packets from inside are answered with a reset, else they are dropped
    /// silently. Packets from outside are always dropped.
    pub resets: bool,
}

/// A captive portal: it accepts every new connection itself, and none reaches its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portal {
    /// It carries nothing.
    Swallows,
    /// It resets a connection at its first data.
    Resets,
}

/// The middleboxes of one link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gate {
    pub(super) nat: Option<Nat>,
    pub(super) portal: Option<Portal>,
}

/// State of one connection at the gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// When its last packet passed.
    last: Timestamp,
    /// The NAT's behaviour towards it, once it has forgotten it.
    forgotten: Option<Nat>,
    /// A portal has accepted it.
    captive: bool,
}

/// Treatment of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Drop,
    /// It is lost, and its sender gets a reset.
    Refuse,
    /// It is a SYN, which the portal answers.
    Accept,
}

impl Flow {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            last: now,
            forgotten: None,
            captive: false,
        }
    }
}

impl Gate {
    /// Treats a packet that end `from` sends. The flag is set when the NAT forgets the flow by it.
    pub(super) fn treat(
        &self,
        now: Timestamp,
        flow: &mut Flow,
        from: End,
        kind: Kind,
    ) -> (Verdict, bool) {
        let outbound = from == End::A;
        if self.portal.is_some() || flow.captive {
            return (self.detain(flow, outbound, kind), false);
        }
        let idle = now.since(flow.last);
        let forgets = self.nat.filter(|nat| idle > nat.timeout);
        let is_new = flow.forgotten.is_none() && forgets.is_some();
        flow.forgotten = flow.forgotten.or(forgets);
        let verdict = match flow.forgotten {
            Some(nat) if nat.resets && outbound && kind != Kind::Reset => Verdict::Refuse,
            Some(_) => Verdict::Drop,
            None => {
                flow.last = now;
                Verdict::Pass
            }
        };
        (verdict, is_new)
    }

    fn detain(&self, flow: &mut Flow, outbound: bool, kind: Kind) -> Verdict {
        match (self.portal, kind) {
            _ if !outbound => Verdict::Drop,
            (_, Kind::Reset) => Verdict::Drop,
            (Some(_), Kind::Syn) => {
                flow.captive = true;
                Verdict::Accept
            }
            (Some(Portal::Swallows), _) => Verdict::Drop,
            // After the portal is gone, the destination does not know what it has accepted.
            (Some(Portal::Resets) | None, _) => Verdict::Refuse,
        }
    }
}

/// The segment with which a middlebox answers a packet that it keeps.
pub(super) fn answer(verdict: Verdict) -> Option<Segment> {
    let kind = match verdict {
        Verdict::Pass | Verdict::Drop => return None,
        Verdict::Refuse => Kind::Reset,
        Verdict::Accept => Kind::SynAck,
    };
    Some(Segment {
        kind,
        seq: 0,
        payload: Bytes::new(),
        fin: false,
        ack: 0,
        window_end: PORTAL_WINDOW_BYTES,
        sack: [None; 3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn gate(resets: bool) -> Gate {
        Gate {
            nat: Some(Nat {
                timeout: Duration::from_secs(60),
                resets,
            }),
            portal: None,
        }
    }

    #[test]
    fn a_flow_is_forgotten_after_its_time_without_packets_and_never_remembered() {
        let gate = gate(true);
        let mut flow = Flow::new(s(0));
        let mut send = |at, from| gate.treat(s(at), &mut flow, from, Kind::Data);
        assert_eq!(send(50, End::A), (Verdict::Pass, false));
        // Packets in either direction keep it.
        assert_eq!(send(110, End::B), (Verdict::Pass, false));
        assert_eq!(send(171, End::B), (Verdict::Drop, true));
        assert_eq!(send(172, End::A), (Verdict::Refuse, false));
        assert_eq!(send(173, End::B), (Verdict::Drop, false));
    }

    #[test]
    fn a_silent_nat_answers_nothing() {
        let mut flow = Flow::new(s(0));
        let verdict = gate(false).treat(s(61), &mut flow, End::A, Kind::Data);
        assert_eq!(verdict, (Verdict::Drop, true));
    }

    #[test]
    fn a_portal_accepts_connections_and_carries_nothing() {
        for (portal, then) in [
            (Portal::Swallows, Verdict::Drop),
            (Portal::Resets, Verdict::Refuse),
        ] {
            let mut gate = Gate {
                nat: None,
                portal: Some(portal),
            };
            let mut flow = Flow::new(s(0));
            let syn = gate.treat(s(0), &mut flow, End::A, Kind::Syn);
            assert_eq!(syn.0, Verdict::Accept);
            assert_eq!(gate.treat(s(1), &mut flow, End::A, Kind::Data).0, then);
            assert_eq!(
                gate.treat(s(1), &mut flow, End::B, Kind::Data).0,
                Verdict::Drop
            );
            // The connection stays useless when the portal lets others through.
            gate.portal = None;
            let later = gate.treat(s(2), &mut flow, End::A, Kind::Data);
            assert_eq!(later.0, Verdict::Refuse);
        }
    }
}
