//! Rules for the values in an experiment file.

mod bluetooth;
mod links;
mod names;
mod results;
mod schemes;
mod signals;
mod workloads;

use super::file::Experiment;
use super::place::Place;
use crate::error::Result;

/// Limits on the size of an experiment, so that a wrong file does not exhaust the machine.
const MAX_HOSTS: usize = 16;
const MAX_LINKS: usize = 32;
const MAX_REPETITIONS: u32 = 10_000;

pub(super) fn check(e: &Experiment, place: &Place) -> Result<()> {
    let whole = |message: &str| Err(place.error(None, message));
    if !names::is_name(&e.name, 60) {
        return whole("name: letters, digits and dashes only, 1 to 60 of them");
    }
    if !(1..=MAX_REPETITIONS).contains(&e.repetitions) {
        return whole("repetitions: from 1 to 10000");
    }
    if e.hosts.len() > MAX_HOSTS || e.links.len() > MAX_LINKS {
        return whole("at most 16 hosts and 32 links");
    }
    if e.schemes.is_empty() || e.workloads.is_empty() {
        return whole("at least one [[scheme]] and one [[workload]] are needed");
    }
    links::hosts(e, place)?;
    links::media(e, place)?;
    links::links(e, place)?;
    schemes::schemes(e, place)?;
    workloads::workloads(e, place)?;
    workloads::settings(e, place)?;
    links::changes(e, place)?;
    signals::signals(e, place)?;
    results::asserts(e, place)?;
    results::parameter(e, place)?;
    results::papers(e, place)
}
