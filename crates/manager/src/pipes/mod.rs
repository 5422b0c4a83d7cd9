//! Choice among several pipes to one helper ([`Link::place`](crate::Link::place), ADR 0040).
//!
//! Of the pipes of such a helper one is *used*; the others stand by: they are joined, as backups.
//!
//! Their order by cost is that of their radios' energy per bit at the present demand, where these
//! are named ([`Link::radios`](crate::Link::radios), ADR 0066): of both ends where those of all
//! helpers' ends are, else of the primary's. A pipe is cheaper than the used one only if that one
//! needs 1.25 times its energy. Those without named radios come after those with, in the order of
//! the configuration.
//!
//! - The used pipe does not work, or is suspect, and another one works: the cheapest one that
//!   suffices is used at once.
//! - The signal of the used pipe is weak, and that of another one that works is not: the same, and
//!   what the weak one carries is sent again.
//! - Bytes have waited for the used pipe for 500 ms, and it is not for applications to choose: the
//!   cheapest other one that may suffice is *tried*, that is used beside it for 1 s, from when it
//!   brings something, at most 1 s later; of the two, the one that carried more is used from then
//!   on. It is used earlier once it has carried what the used one does in a second (ADR 0084).
//! - A cheaper one has sufficed for 5 s, and answers when it is asked then: that one is used. If it
//!   was left for a weak signal and no good one was heard since, it is asked for 4 s, about each
//!   half second, which brings the samples that judge it.
//! - Nothing moves: the cheapest one is used that works and was neither too slow nor weak lately.
//!
//! A pipe *suffices* unless its signal is weak, or it was left less than a pause ago: for a weak
//! signal, and nothing better has been heard since; or for being too slow, with a rate of less than
//! 1.25 times the demand. The pause is 10 s, doubled each time up to 10 minutes.
//!
//! A pipe is *suspect* when it is asked and does not answer in time, while another one to the same
//! helper does; or when its interface has no carrier.
//!
//! One on standby whose link sleeps is asked each 4 s while 1 Mbit/s or more is carried, and so is
//! awake when it is needed (ADR 0085).
//!
//! The pipe that is left becomes a backup, and brings what it carries for up to 2 s. If it still
//! does by then, or what waits at the helper would take longer, or if it is suspect, its subflow is
//! closed: the session sends the rest on other subflows. It joins again.

mod average;
mod choice;
mod cost;
mod facts;
mod known;
mod pause;
mod signal;
mod why;

use std::collections::BTreeMap;

use mpbond_price::PipeRadios;
use mpbond_session::{HelperId, SubflowId};
use mpbond_units::Timestamp;

use crate::action::{Action, Notice};
use crate::config;
use crate::context::Context;
use crate::ids::LinkId;
use choice::{Choice, Step};

pub use facts::{PIPES_EVERY, PipeFacts, SNIFF_PAUSE};
pub use signal::Signal;
pub use why::{PipeChoice, PipeUse, Why};

/// The choices of all helpers with several pipes of which the best one is used.
#[derive(Debug, Default)]
pub(crate) struct Pipes(BTreeMap<HelperId, Choice>);

impl Pipes {
    pub(crate) fn add(&mut self, link: LinkId, of: &config::Link) {
        if let Some(helper) = of.helper
            && let Some(place) = of.place
            && !of.backup
        {
            let choice = self.0.entry(helper).or_default();
            choice.add(link, place, of);
        }
    }

    pub(crate) fn remove(&mut self, link: LinkId) {
        self.0.retain(|_, choice| choice.remove(link));
    }

    /// The radios of a pipe are other ones.
    pub(crate) fn set_radios(&mut self, link: LinkId, radios: Option<PipeRadios>) {
        for choice in self.0.values_mut() {
            choice.set_radios(link, radios);
        }
    }

    /// Whether there is anything to choose from.
    pub(crate) fn is_needed(&self) -> bool {
        self.0.values().any(Choice::is_needed)
    }

    /// Whether a pipe carries data only while no other link does.
    pub(crate) fn is_standby(&self, link: LinkId) -> bool {
        let of_link = self.of(link);
        of_link.is_some_and(|choice| choice.state == PipeUse::Standby)
    }

    /// Use of a pipe that is chosen from several ones.
    pub(crate) fn of(&self, link: LinkId) -> Option<PipeChoice> {
        let mut choices = self.0.values().filter(|choice| choice.is_needed());
        choices.find_map(|choice| choice.of(link))
    }

    /// Takes in the state of the pipes.
    pub(crate) fn look(&mut self, now: Timestamp, facts: &[PipeFacts]) {
        for choice in self.0.values_mut() {
            choice.look(now, facts);
        }
    }

    /// A helper has told how many bytes wait there for the pipe of a subflow.
    pub(crate) fn reported(&mut self, now: Timestamp, subflow: SubflowId, bytes: u64) {
        for choice in self.0.values_mut() {
            choice.reported(now, subflow, bytes);
        }
    }

    /// Decides. `subflow` is the regular subflow of a pipe on which the proxy has answered.
    pub(crate) fn settle(&mut self, now: Timestamp, subflow: impl Fn(LinkId) -> Option<SubflowId>) {
        for choice in self.0.values_mut() {
            choice.settle(now, &subflow);
        }
    }

    /// Has decisions carried out. Returns the pipes whose subflows are to be replaced, with the
    /// reason.
    pub(crate) fn act(&mut self, cx: &mut Context) -> Vec<(LinkId, &'static str)> {
        let mut again = Vec::new();
        for step in self.0.values_mut().flat_map(Choice::steps) {
            match step {
                Step::Roles => cx.act(Action::Roles),
                Step::Chosen(link, why) => cx.tell(Notice::PipeChosen { link, why }),
                Step::Tried(link) => cx.tell(Notice::PipeTried { link }),
                Step::Ask(subflow) => cx.act(Action::Ask { subflow }),
                Step::Rejoin(link, reason) => again.push((link, reason)),
            }
        }
        again
    }
}

#[cfg(test)]
mod tests;
