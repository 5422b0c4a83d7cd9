//! State machine of each side, inferred from transitions and traffic ("Understanding the Networking
//! Performance of Wear OS", section 3.2): inactivity timer, and whether received data resets it.

use mpbond_statistics::Sample;
use serde::Serialize;

/// End of a link, as seen from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The device that wrote the log.
    Local,
    /// The other device.
    Peer,
}

/// Traffic that resets the inactivity timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResetBy {
    /// Traffic in either direction, as on phones.
    Both,
    /// Sent data only, as on the watches of section 3.2.
    Sent,
    /// Undetermined: both rules explain the traffic.
    Unknown,
}

/// One entry into Sniff, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub(super) by: Side,
    /// Time of the request, or of the mode change where the request is not visible.
    pub(super) at_s: f64,
    /// Time at which the link last became Active.
    pub(super) active_s: Option<f64>,
    /// Time of the last traffic that the requesting side sent, and that it received.
    pub(super) sent_s: Option<f64>,
    pub(super) received_s: Option<f64>,
}

impl Entry {
    /// Time since the last reset, under either rule; `None` when the log does not show it.
    fn waited(&self) -> Option<(f64, f64)> {
        let latest = |times: &[Option<f64>]| {
            let seen = times.iter().flatten().copied();
            seen.reduce(f64::max).map(|from| self.at_s - from)
        };
        let both = latest(&[self.active_s, self.sent_s, self.received_s])?;
        Some((both, latest(&[self.active_s, self.sent_s])?))
    }
}

/// A side's inactivity timer, as inferred from its entries into Sniff.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inferred {
    /// Side.
    pub side: Side,
    /// Number of Sniff requests from this side.
    pub entries: usize,
    /// Median time before a request, in seconds; `None` when the log shows none.
    pub timer_s: Option<f64>,
    /// Median absolute deviation from it, in seconds.
    pub spread_s: Option<f64>,
    /// Traffic that resets the timer.
    pub reset_by: ResetBy,
}

/// Inferred timers of both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StateMachine {
    /// Timers; a side without Sniff requests is missing.
    pub timers: Vec<Inferred>,
}

/// Times that differ by less are equal: controllers answer in slots, hosts in milliseconds.
const SAME_S: f64 = 0.25;

pub(super) fn infer(entries: &[Entry]) -> StateMachine {
    let timers = [Side::Local, Side::Peer].into_iter().filter_map(|side| {
        let own = entries.iter().filter(|e| e.by == side);
        let waits: Vec<(f64, f64)> = own.clone().filter_map(Entry::waited).collect();
        let entries = own.count();
        (entries > 0).then(|| timer(side, entries, &waits))
    });
    StateMachine {
        timers: timers.collect(),
    }
}

fn timer(side: Side, entries: usize, waits: &[(f64, f64)]) -> Inferred {
    let centre = |pick: fn(&(f64, f64)) -> f64| {
        let middle = waits.iter().map(pick).collect::<Sample>().median()?;
        let distances = waits.iter().map(|w| (pick(w) - middle).abs());
        let spread = distances.collect::<Sample>().median()?;
        Some((middle, spread))
    };
    let (both, sent) = (centre(|w| w.0), centre(|w| w.1));
    // Only entries after traffic that the side merely received distinguish the rules.
    let telling = waits.iter().filter(|(b, s)| s - b > SAME_S).count();
    let (chosen, reset_by) = match (both, sent) {
        (Some(both), Some(sent)) if telling * 2 >= waits.len() && telling > 0 => {
            // Under the true rule all times equal the timer; under the other they scatter, or
            // shrink to zero.
            if sent.1 <= both.1 || both.0 < SAME_S {
                (Some(sent), ResetBy::Sent)
            } else {
                (Some(both), ResetBy::Both)
            }
        }
        (both, _) => (both, ResetBy::Unknown),
    };
    let round = |s: f64| (s * 1e3).round() / 1e3;
    Inferred {
        side,
        entries,
        timer_s: chosen.map(|c| round(c.0)),
        spread_s: chosen.map(|c| round(c.1)),
        reset_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(by: Side, at: f64, active: f64, sent: f64, received: f64) -> Entry {
        Entry {
            by,
            at_s: at,
            active_s: Some(active),
            sent_s: Some(sent),
            received_s: Some(received),
        }
    }

    /// A watch that receives all the time and enters Sniff 5 s after it last sent.
    #[test]
    fn a_watch_is_distinguished_from_a_phone() {
        let watch: Vec<Entry> = (0..10)
            .map(|i| {
                let at = f64::from(i) * 10.0 + 10.0;
                entry(
                    Side::Local,
                    at,
                    at - 9.0,
                    at - 5.0,
                    at - 0.01 * f64::from(i),
                )
            })
            .collect();
        let machine = infer(&watch);
        assert_eq!(machine.timers.len(), 1);
        assert_eq!(machine.timers[0].side, Side::Local);
        assert_eq!(machine.timers[0].timer_s, Some(5.0));
        assert_eq!(machine.timers[0].reset_by, ResetBy::Sent);

        let phone: Vec<Entry> = (0..10)
            .map(|i| {
                let at = f64::from(i) * 30.0 + 30.0;
                entry(Side::Peer, at, at - 20.0, at - 6.0 - f64::from(i), at - 5.0)
            })
            .collect();
        let machine = infer(&phone);
        assert_eq!(machine.timers[0].timer_s, Some(5.0));
        assert_eq!(machine.timers[0].reset_by, ResetBy::Both);
    }

    #[test]
    fn what_traffic_does_not_show_is_unknown() {
        let entries = [entry(Side::Local, 10.0, 1.0, 8.0, 8.0)];
        let machine = infer(&entries);
        assert_eq!(machine.timers[0].timer_s, Some(2.0));
        assert_eq!(machine.timers[0].reset_by, ResetBy::Unknown);
        assert_eq!(infer(&[]), StateMachine::default());
    }
}
