//! Rates between two answers of a daemon.

use mpbond::status::{RelayStatus, SessionStatus, Status, SubflowStatus};

/// Rates in Mbit/s, where they are known. At a helper, incoming means towards the primary.
#[derive(Default)]
pub(super) struct Rates {
    pub incoming: Option<f64>,
    pub outgoing: Option<f64>,
}

impl Rates {
    /// Adds those of another path; what is unknown of one counts for nothing.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, part) in [
            (&mut self.incoming, other.incoming),
            (&mut self.outgoing, other.outgoing),
        ] {
            *sum = part.map(|part| sum.unwrap_or_default() + part).or(*sum);
        }
    }
}

/// Time between two answers of the same process.
pub(super) struct Span<'a> {
    before: Option<&'a Status>,
    seconds: f64,
}

impl<'a> Span<'a> {
    pub(super) fn between(before: Option<&'a Status>, now: &Status) -> Self {
        let before = before.filter(|b| b.process == now.process && b.uptime_s < now.uptime_s);
        let seconds = before.map_or(0.0, |b| now.uptime_s - b.uptime_s);
        Self { before, seconds }
    }

    fn rates(&self, now: [u64; 2], before: Option<[u64; 2]>) -> Rates {
        let rate = |now: u64, before: u64| {
            let moved = now.checked_sub(before)?;
            Some(moved as f64 * 8e-6 / self.seconds)
        };
        before.map_or_else(Rates::default, |before| Rates {
            incoming: rate(now[0], before[0]),
            outgoing: rate(now[1], before[1]),
        })
    }

    /// Rates of a subflow of this session.
    pub(super) fn subflow(&self, session: &SessionStatus, now: &SubflowStatus) -> Rates {
        let earlier = self.before.map(|b| {
            let session = b.sessions.iter().find(|s| s.id == session.id);
            let subflow = session.and_then(|s| s.subflows.iter().find(|f| f.id == now.id));
            // A new one has moved everything since.
            subflow.map_or([0, 0], |f| [f.bytes_in, f.bytes_out])
        });
        self.rates([now.bytes_in, now.bytes_out], earlier)
    }

    /// Rates of the relay at this place of the list, unless others have come or gone.
    pub(super) fn relay(&self, index: usize, now: &RelayStatus) -> Rates {
        let same = |r: &&RelayStatus| r.primary == now.primary && r.proxy == now.proxy;
        let earlier = self.before.and_then(|b| b.relays.get(index).filter(same));
        let earlier = earlier.map(|r| [r.bytes_down, r.bytes_up]);
        self.rates([now.bytes_down, now.bytes_up], earlier)
    }
}
