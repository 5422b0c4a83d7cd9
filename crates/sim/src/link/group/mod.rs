//! Links that share a medium, a radio, or both.
//!
//! A [`Link`] is independent of others. Links that share airtime (both directions of a WiFi link),
//! a cell, or a radio that has to wake up before it carries packets are members of a [`Group`],
//! which handles the events of all its links in order of time.

use std::sync::Arc;

use mpbond_radio::machine::{Band, BandUser};
use mpbond_radio::{Direction, Packet, Placement, Radio, RadioProfile};
use mpbond_units::Timestamp;

use super::airtime::Medium;
use super::pace::Finish;
use super::{Delivered, Dropped, Link, LinkChange};

/// A medium of a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediumId(usize);

/// A radio of a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadioId(usize);

/// Links that share media or radios.
///
/// A medium next carries the packet that has been at the head of its link's queue for the longest
/// time. Links so alternate packet by packet, as stations of a WiFi channel do in the long run, and
/// a packet of an idle link does not wait for the queues of the others. A link with rate zero
/// leaves the medium to the others; the packet that it was sending begins again later.
///
/// A radio decides when the packet at the head of a queue may pass ([`Radio::packet`] with
/// [`Placement::Live`]). Where it passes two, that of the sender stays awake until the other one
/// is. From then on the packet is sent or waits for the medium.
#[derive(Debug)]
pub struct Group<P> {
    members: Vec<Member<P>>,
    radios: Vec<(Arc<RadioProfile>, Radio)>,
    airs: Vec<Air>,
    /// All events up to here are handled.
    clock: Timestamp,
}

#[derive(Debug)]
struct Member<P> {
    link: Link<P>,
    /// Its medium, if any.
    air: Option<usize>,
    /// Radios that its packets pass, the sender's first, and the packets' direction at each.
    radios: Vec<(RadioId, Direction)>,
    head: Head,
    /// End of the previous packet, so that the rest of its last nanosecond or opportunity is used.
    last_end: Option<Finish>,
}

/// The packet at the head of a link's queue.
#[derive(Debug, Clone, Copy)]
enum Head {
    /// The queue is empty.
    None,
    /// It has waited for the medium since then (in the future: waits for a radio until then).
    Waiting(Timestamp),
    /// It is being sent. `stalls` is the time at which the link's rate falls to zero and the
    /// sending fails, on a medium that others need.
    Sending { stalls: Option<Timestamp> },
}

#[derive(Debug)]
struct Air {
    medium: Medium,
    taken: Option<Taken>,
    /// That of Bluetooth with the same antenna.
    band: Option<Band>,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    by: usize,
    /// End of the occupation; `None`: while its link sends.
    until: Option<Timestamp>,
}

impl<P> Default for Group<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> Group<P> {
    /// A group without links.
    pub fn new() -> Self {
        Self {
            members: Vec::new(),
            radios: Vec::new(),
            airs: Vec::new(),
            clock: Timestamp::ZERO,
        }
    }

    /// Adds a medium, for links that are added after it.
    pub fn add_medium(&mut self, medium: Medium) -> MediumId {
        self.airs.push(Air {
            medium,
            taken: None,
            band: medium.shares_antenna.then(Band::of_one_antenna),
        });
        MediumId(self.airs.len() - 1)
    }

    /// The band of the medium that shares its antenna with Bluetooth, if one does
    /// ([`Medium::shares_antenna`]). Packets that begin by `now` count.
    pub fn band(&mut self, now: Timestamp) -> Option<&mut Band> {
        let air = self.airs.iter().position(|air| air.band.is_some())?;
        self.advance(now);
        self.airs[air].band.as_mut()
    }

    /// Adds an idle radio, for links that are added after it.
    pub fn add_radio(&mut self, profile: Arc<RadioProfile>) -> RadioId {
        let radio = Radio::new(&profile, Placement::Live);
        self.radios.push((profile, radio));
        RadioId(self.radios.len() - 1)
    }

    /// Adds a new link, on a medium or without one, and returns its index. `radios` are those that
    /// its packets pass, the sender's first, with the direction seen from the device with the
    /// radio.
    pub fn add(
        &mut self,
        mut link: Link<P>,
        medium: Option<MediumId>,
        radios: Vec<(RadioId, Direction)>,
    ) -> usize {
        link.managed = true;
        let air = medium.map(|MediumId(air)| air);
        let of = air.and_then(|air| self.airs.get(air));
        link.frame_bytes = of.map_or(0, |air| air.medium.frame_bytes());
        self.members.push(Member {
            link,
            air,
            radios,
            head: Head::None,
            last_end: None,
        });
        self.members.len() - 1
    }

    /// A link by its index from [`Group::add`].
    pub fn link(&self, index: usize) -> Option<&Link<P>> {
        Some(&self.members.get(index)?.link)
    }

    /// Offers a packet to a link; see [`Link::enqueue`]. An unknown link counts as down.
    ///
    /// # Errors
    /// Gives the packet back with the reason.
    pub fn enqueue(
        &mut self,
        index: usize,
        now: Timestamp,
        bytes: u32,
        packet: P,
    ) -> Result<(), Dropped<P>> {
        self.advance(now);
        let Some(member) = self.members.get_mut(index) else {
            let reason = super::DropReason::Down;
            return Err(Dropped { packet, reason });
        };
        member.link.enqueue(now, bytes, packet)?;
        if matches!(member.head, Head::None) {
            self.new_head(index, now);
            self.grant_all(now);
        }
        Ok(())
    }

    /// The next packet of a link that has arrived by `now`.
    pub fn poll(&mut self, index: usize, now: Timestamp) -> Option<Delivered<P>> {
        self.advance(now);
        self.members.get_mut(index)?.link.poll(now)
    }

    /// Time of the next call of [`Group::poll`] for any of the links; may be early, see
    /// [`Link::next_event`].
    pub fn next_event(&self) -> Option<Timestamp> {
        self.members
            .iter()
            .filter_map(|member| {
                // It leaves when the medium is free, or later.
                let free = self.air_free(member).map(|free| free + member.link.delay);
                member.link.next_event().into_iter().chain(free).min()
            })
            .min()
    }

    /// Changes one link now; see [`Link::apply`].
    pub fn apply(&mut self, index: usize, now: Timestamp, change: &LinkChange) {
        self.advance(now);
        let Some(member) = self.members.get_mut(index) else {
            return;
        };
        member.link.apply(now, change);
        if change.rate.is_some() {
            member.last_end = None;
        }
        if !member.link.is_up() {
            member.head = Head::None;
            self.release(index);
        } else if let Head::Sending { .. } = member.head {
            let air = member.air.and_then(|air| self.airs.get(air));
            let stalls = stall(&member.link, air, now);
            member.head = Head::Sending { stalls };
        }
        self.grant_all(now);
    }

    /// Returns every radio to idle.
    pub fn rest_radios(&mut self) {
        for (profile, radio) in &mut self.radios {
            *radio = Radio::new(profile, Placement::Live);
        }
    }

    /// Handles all events up to `now`.
    fn advance(&mut self, now: Timestamp) {
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            self.step(at);
        }
        self.clock = self.clock.max(now);
    }

    /// Next beginning or end of a packet's sending.
    fn next_step(&self) -> Option<Timestamp> {
        let ends = self.members.iter().filter_map(Member::end);
        let frees = self.members.iter().filter_map(|m| self.air_free(m));
        let held = self.members.iter().filter_map(|m| m.link.held.until());
        ends.chain(frees).chain(held).min()
    }

    /// When the packet at a link's head, or another one in its place, may next take the medium;
    /// `None` also if none waits.
    fn air_free(&self, member: &Member<P>) -> Option<Timestamp> {
        if !matches!(member.head, Head::Waiting(_)) {
            return None;
        }
        match self.airs.get(member.air?)?.taken {
            None => member.may_start(self.clock),
            Some(Taken {
                until: Some(until), ..
            }) => Some(until),
            Some(Taken { by, until: None }) => self.members.get(by)?.end(),
        }
    }

    fn step(&mut self, at: Timestamp) {
        for air in &mut self.airs {
            air.taken
                .take_if(|taken| taken.until.is_some_and(|until| until <= at));
        }
        for index in 0..self.members.len() {
            let Some(member) = self.members.get_mut(index) else {
                return;
            };
            let released = member.link.held.release(at).is_some();
            if released && matches!(member.head, Head::None) {
                self.new_head(index, at);
                continue;
            }
            let Head::Sending { stalls } = member.head else {
                continue;
            };
            if stalls.is_some_and(|stalls| stalls <= at) {
                member.link.stop_sending();
                member.head = Head::Waiting(at);
                self.release(index);
            } else if let Some(finish) = member.link.complete(at) {
                member.last_end = Some(finish);
                self.release(index);
                self.new_head(index, at);
            }
        }
        self.grant_all(at);
    }

    /// Ends the sending of the link at `index`.
    fn release(&mut self, index: usize) {
        for air in &mut self.airs {
            air.taken
                .take_if(|taken| taken.by == index && taken.until.is_none());
        }
    }

    /// Another packet is at the head of a queue, or none.
    fn new_head(&mut self, index: usize, at: Timestamp) {
        let Some(member) = self.members.get_mut(index) else {
            return;
        };
        member.head = Head::None;
        let Some(bytes) = member.link.head_bytes() else {
            return;
        };
        let mut ready = at;
        for (RadioId(radio), direction) in &member.radios {
            if let Some((_, radio)) = self.radios.get_mut(*radio) {
                let packet = Packet {
                    direction: *direction,
                    bytes,
                };
                ready = ready.max(radio.packet(ready, packet, &mut ()));
            }
        }
        for (RadioId(radio), _) in &member.radios {
            if let Some((_, radio)) = self.radios.get_mut(*radio) {
                radio.keep_awake(ready);
            }
        }
        member.head = Head::Waiting(ready);
        if member.air.is_none() {
            member.start(ready, None);
        }
    }

    fn grant_all(&mut self, at: Timestamp) {
        for air in 0..self.airs.len() {
            self.grant(air, at);
        }
    }

    /// Gives a medium that is free at `at` to the next link.
    fn grant(&mut self, index: usize, at: Timestamp) {
        let Some(air) = self.airs.get_mut(index).filter(|air| air.taken.is_none()) else {
            return;
        };
        let next = self
            .members
            .iter_mut()
            .enumerate()
            .filter(|(_, member)| member.air == Some(index) && member.may_start(at) == Some(at))
            .min_by_key(|(_, member)| match member.head {
                Head::Waiting(since) => since,
                _ => Timestamp::FAR_FUTURE,
            });
        let Some((by, member)) = next else {
            return;
        };
        let until = air.medium.rate.map(|rate| {
            let bytes = member.link.head_bytes().unwrap_or(0);
            at + rate.time_for(u64::from(bytes))
        });
        // Contention and the rest of the exchange of frames come first, so that the packet leaves
        // when the medium is free again.
        let overhead = air.medium.frame_overhead * member.link.head_tries();
        member.start(at + overhead, until);
        let stalls = stall(&member.link, Some(&*air), at);
        member.head = Head::Sending { stalls };
        air.taken = Some(Taken { by, until });
        let leaves = until.or_else(|| member.end());
        if let (Some(band), Some(leaves)) = (&mut air.band, leaves) {
            band.packet(at, BandUser::Wifi, leaves.since(at));
        }
    }
}

/// When the packet that `link` sends from `from` on fails because the rate falls to zero.
fn stall<P>(link: &Link<P>, air: Option<&Air>, from: Timestamp) -> Option<Timestamp> {
    let until = match air {
        // The medium is not kept any longer than the packet takes at its rate.
        None
        | Some(Air {
            medium: Medium { rate: Some(_), .. },
            ..
        }) => return None,
        Some(_) => link.sending_ends().unwrap_or(Timestamp::FAR_FUTURE),
    };
    link.pace.first_zero(from).filter(|zero| *zero < until)
}

impl<P> Member<P> {
    /// When the packet that is being sent leaves or fails.
    fn end(&self) -> Option<Timestamp> {
        match self.head {
            Head::Sending { stalls } => stalls.or_else(|| self.link.sending_ends()),
            _ => None,
        }
    }

    /// When the packet that waits can begin, at `now` or later, as far as this link decides.
    fn may_start(&self, now: Timestamp) -> Option<Timestamp> {
        match self.head {
            Head::Waiting(since) => self.link.pace.first_nonzero(since.max(now)),
            _ => None,
        }
    }

    /// Sends the packet at the head from `at` on; it has not left before
    /// `not_before`.
    fn start(&mut self, at: Timestamp, not_before: Option<Timestamp>) {
        let last = self.last_end.filter(|last| last.at.at == at);
        self.link.start(at, last, not_before);
        self.head = Head::Sending { stalls: None };
    }
}

#[cfg(test)]
mod tests;
