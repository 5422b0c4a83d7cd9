//! Bytes of each subflow in a transfer, by the daemons' status.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::processes::{Daemons, POLL};
use super::status::{Status, Transfer};
use crate::error::Result;
use crate::experiment::{Direction, Role};
use crate::record::SubflowShare;

/// Maximum wait for a complete account: both directions of a stream close shortly after the
/// client's last byte.
const PATIENCE: Duration = Duration::from_secs(1);

/// Account of a transfer by the daemons.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub redundant_bytes: Option<u64>,
    pub subflows: Vec<SubflowShare>,
    /// Traffic classes of its streams.
    pub classes: BTreeSet<String>,
}

impl Shares {
    /// Subtracts what the same connection had carried `before`, at an age of `opened_before_s`
    /// seconds.
    pub fn since(mut self, before: &Self, opened_before_s: f64) -> Self {
        let redundant_before = before.redundant_bytes.unwrap_or_default();
        if let Some(redundant) = &mut self.redundant_bytes {
            *redundant = redundant.saturating_sub(redundant_before);
        }
        for share in &mut self.subflows {
            let same = |b: &&SubflowShare| b.name == share.name;
            let bytes_before = before.subflows.iter().find(same).map_or(0, |b| b.bytes);
            share.bytes = share.bytes.saturating_sub(bytes_before);
            let finished = share.finished_s.filter(|_| share.bytes > 0);
            share.finished_s = finished.map(|at| (at - opened_before_s).max(0.0));
        }
        self
    }

    /// The account of one stream.
    fn of(transfer: &Transfer) -> Self {
        Self::default().with(transfer, transfer.opened_s)
    }

    /// Adds a stream. Ends count from `begun_s`, by the daemon's clock.
    fn with(mut self, transfer: &Transfer, begun_s: f64) -> Self {
        let redundant = self.redundant_bytes.unwrap_or_default();
        self.redundant_bytes = Some(redundant + transfer.redundant_bytes);
        self.classes.insert(transfer.class.clone());
        for share in &transfer.subflows {
            let finished = share.finished_in_s.filter(|_| share.bytes_in > 0);
            let finished = finished.map(|at| at + transfer.opened_s - begun_s);
            match self.subflows.iter_mut().find(|s| s.name == share.name) {
                Some(all) => {
                    all.bytes += share.bytes_in;
                    all.finished_s = all.finished_s.into_iter().chain(finished).reduce(f64::max);
                }
                None => self.subflows.push(SubflowShare {
                    name: share.name.clone(),
                    bytes: share.bytes_in,
                    finished_s: finished,
                }),
            }
        }
        self
    }
}

impl Daemons {
    /// Bytes of each subflow in the last transfer to `destination`, by the receiver.
    pub fn shares(&self, direction: Direction, destination: &str) -> Result<Shares> {
        self.shares_within(direction, destination, PATIENCE)
    }

    /// The same for a transfer whose connection stays open.
    pub fn shares_so_far(&self, direction: Direction, destination: &str) -> Result<Shares> {
        self.shares_within(direction, destination, Duration::ZERO)
    }

    /// Opening time of the latest connection to `destination`, by the receiving daemon's clock, in
    /// seconds; `None` without one.
    pub fn latest_opened_s(&self, direction: Direction, destination: &str) -> Result<Option<f64>> {
        let status = self.status(receiver(direction))?;
        let opened = ours(&status, destination).map(|t| t.opened_s);
        Ok(opened.reduce(f64::max))
    }

    /// Bytes of each subflow over all connections to `destination` opened later than `after_s`
    /// (`None`: all). Daemons keep the last 64 closed connections.
    pub fn shares_of_all(
        &self,
        direction: Direction,
        destination: &str,
        after_s: Option<f64>,
    ) -> Result<Shares> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status(receiver(direction))?;
            let later = |t: &&Transfer| after_s.is_none_or(|after| t.opened_s > after);
            let transfers: Vec<_> = ours(&status, destination).filter(later).collect();
            if transfers.iter().any(|t| t.state != "closed") && Instant::now() < deadline {
                std::thread::sleep(POLL);
                continue;
            }
            let begun_s = transfers.iter().map(|t| t.opened_s).reduce(f64::min);
            let begun_s = begun_s.unwrap_or_default();
            let shares = Shares::default();
            return Ok(transfers
                .into_iter()
                .fold(shares, |all, t| all.with(t, begun_s)));
        }
    }

    fn shares_within(
        &self,
        direction: Direction,
        destination: &str,
        patience: Duration,
    ) -> Result<Shares> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.status(receiver(direction))?;
            let Some(last) = ours(&status, destination).last() else {
                return Ok(Shares::default());
            };
            if last.state != "closed" && Instant::now() < deadline {
                std::thread::sleep(POLL);
                continue;
            }
            return Ok(Shares::of(last));
        }
    }
}

fn receiver(direction: Direction) -> Role {
    match direction {
        Direction::Down => Role::Primary,
        Direction::Up => Role::Proxy,
    }
}

fn ours<'a>(status: &'a Status, destination: &str) -> impl Iterator<Item = &'a Transfer> {
    let all = status.transfers.iter();
    all.filter(move |t| t.destination == destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kept_connection_carried_before_is_taken_off() {
        let shares = |redundant, all: &[(&str, u64, f64)]| Shares {
            redundant_bytes: Some(redundant),
            subflows: all
                .iter()
                .map(|(name, bytes, finished)| SubflowShare {
                    name: (*name).to_owned(),
                    bytes: *bytes,
                    finished_s: Some(*finished),
                })
                .collect(),
            classes: BTreeSet::new(),
        };
        let before = shares(5, &[("lte", 60, 0.2), ("phone", 4, 0.1)]);
        let after = shares(
            7,
            &[("lte", 100, 5.75), ("phone", 4, 0.1), ("tablet", 9, 6.0)],
        );
        let since = after.since(&before, 5.5);
        assert_eq!(since.redundant_bytes, Some(2));
        let all: Vec<_> = since
            .subflows
            .iter()
            .map(|s| (s.bytes, s.finished_s))
            .collect();
        assert_eq!(all, [(40, Some(0.25)), (0, None), (9, Some(0.5))]);
    }

    #[test]
    fn connections_add_up() {
        let transfer = |text: &str| -> Transfer { serde_json::from_str(text).unwrap() };
        let one = transfer(
            "{\"destination\": \"d\", \"state\": \"closed\", \"opened_s\": 10.0, \"class\": \"interactive\", \
             \"redundant_bytes\": 3, \"subflows\": [{\"name\": \"lte\", \"bytes_in\": 5, \
             \"finished_in_s\": 2.0}, {\"name\": \"phone\", \"bytes_in\": 0, \
             \"finished_in_s\": 1.0}]}",
        );
        let other = transfer(
            "{\"destination\": \"d\", \"state\": \"closed\", \"opened_s\": 11.5, \"class\": \"bulk\", \
             \"redundant_bytes\": 1, \"subflows\": [{\"name\": \"lte\", \"bytes_in\": 7, \
             \"finished_in_s\": 1.0}]}",
        );
        let both = Shares::default().with(&one, 10.0).with(&other, 10.0);
        assert_eq!(both.redundant_bytes, Some(4));
        assert!(both.classes.iter().eq(["bulk", "interactive"]));
        let all: Vec<_> = both
            .subflows
            .iter()
            .map(|s| (s.bytes, s.finished_s))
            .collect();
        assert_eq!(all, [(12, Some(2.5)), (0, None)]);
        assert_eq!(Shares::of(&other).subflows[0].finished_s, Some(1.0));
    }
}
