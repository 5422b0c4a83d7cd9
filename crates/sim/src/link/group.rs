//! Links that share a medium, a radio, or both.
//!
//! A link alone is a [`Link`]; nothing that happens to it depends on another
//! one. Where both directions of a WiFi link share its airtime, where several
//! links lie in one cell, or where a radio has to wake up before either
//! direction carries anything, links are members of a [`Group`], which goes
//! through what happens to all of them in the order of time.

use std::sync::Arc;

use mpbond_radio::{Direction, Packet, Placement, Radio, RadioProfile};
use mpbond_units::{BitRate, Timestamp};

use super::pace::Finish;
use super::{Delivered, Dropped, Link, LinkChange};

/// What carries the packets of several links, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Medium {
    /// How fast it is, whoever uses it, such as a cell that devices share: a
    /// packet takes the medium for its bytes at this rate, and each link has
    /// its own rate beside that. `None`: a packet takes the medium while its
    /// link sends it, as on a WiFi channel, where a slow station slows all.
    pub rate: Option<BitRate>,
}

/// A medium of a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediumId(usize);

/// A radio of a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadioId(usize);

/// Links that are played together.
///
/// On a medium, the packet goes next that has been at the head of its link's
/// queue for the longest time. So links take turns packet by packet, as
/// stations of a WiFi channel do in the long run, and a packet of a link that
/// had nothing to send does not wait for the queues of the others. A link that
/// cannot send (its rate is zero) leaves the medium to the others; a packet
/// that it was sending begins again later.
///
/// Radios say when the packet at the head of a queue may pass
/// ([`Radio::packet`] with [`Placement::Live`]); it begins to be sent, or to
/// wait for the medium, then.
#[derive(Debug)]
pub struct Group<P> {
    members: Vec<Member<P>>,
    radios: Vec<(Arc<RadioProfile>, Radio)>,
    airs: Vec<Air>,
    /// Up to here all that happens is done.
    clock: Timestamp,
}

#[derive(Debug)]
struct Member<P> {
    link: Link<P>,
    /// The medium that it is on.
    air: Option<usize>,
    /// The radios on its way, the sender's first, and which way its packets
    /// go as each of them sees it.
    radios: Vec<(RadioId, Direction)>,
    head: Head,
    /// The end of the packet before, so that what it left of a nanosecond or
    /// an opportunity is used.
    last_end: Option<Finish>,
}

/// The packet at the head of a link's queue.
#[derive(Debug, Clone, Copy)]
enum Head {
    /// There is none.
    None,
    /// It waits for the medium since then (or, in the future, for a radio).
    Waiting(Timestamp),
    /// It is being sent. `stalls` is when the link's rate falls to zero and
    /// the packet with it, on a medium that others need.
    Sending { stalls: Option<Timestamp> },
}

#[derive(Debug)]
struct Air {
    medium: Medium,
    taken: Option<Taken>,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    by: usize,
    /// Until when; `None`: while its link sends.
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

    /// A medium that nobody uses, for links that are added after it.
    pub fn add_medium(&mut self, medium: Medium) -> MediumId {
        let taken = None;
        self.airs.push(Air { medium, taken });
        MediumId(self.airs.len() - 1)
    }

    /// A radio at rest, for links that are added after it.
    pub fn add_radio(&mut self, profile: Arc<RadioProfile>) -> RadioId {
        let radio = Radio::new(&profile, Placement::Live);
        self.radios.push((profile, radio));
        RadioId(self.radios.len() - 1)
    }

    /// Adds a link to which nothing has happened yet, on a medium or not, and
    /// returns its index. `radios` are those that its packets pass, the sender's first, with the
    /// direction as seen from the device that owns the radio.
    pub fn add(
        &mut self,
        mut link: Link<P>,
        medium: Option<MediumId>,
        radios: Vec<(RadioId, Direction)>,
    ) -> usize {
        link.managed = true;
        self.members.push(Member {
            link,
            air: medium.map(|MediumId(air)| air),
            radios,
            head: Head::None,
            last_end: None,
        });
        self.members.len() - 1
    }

    /// A link by the index that [`Group::add`] gave.
    pub fn link(&self, index: usize) -> Option<&Link<P>> {
        Some(&self.members.get(index)?.link)
    }

    /// Offers a packet to a link; see [`Link::enqueue`]. A link that is not
    /// there refuses as one that is down.
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

    /// The next packet of a link whose arrival is not after `now`.
    pub fn poll(&mut self, index: usize, now: Timestamp) -> Option<Delivered<P>> {
        self.advance(now);
        self.members.get_mut(index)?.link.poll(now)
    }

    /// When [`Group::poll`] next has something to do for any of the links; may
    /// be early, see [`Link::next_event`].
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

    /// Replaces every radio by one at rest.
    pub fn rest_radios(&mut self) {
        for (profile, radio) in &mut self.radios {
            *radio = Radio::new(profile, Placement::Live);
        }
    }

    /// Everything that happens up to `now`.
    fn advance(&mut self, now: Timestamp) {
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            self.step(at);
        }
        self.clock = self.clock.max(now);
    }

    /// When a packet next begins or ends to be sent.
    fn next_step(&self) -> Option<Timestamp> {
        let ends = self.members.iter().filter_map(Member::end);
        let frees = self.members.iter().filter_map(|m| self.air_free(m));
        ends.chain(frees).min()
    }

    /// When the packet that waits at a link's head may next take the medium,
    /// or another one in its place; `None` also when none waits.
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

    /// The link at `index` no longer sends.
    fn release(&mut self, index: usize) {
        for air in &mut self.airs {
            air.taken
                .take_if(|taken| taken.by == index && taken.until.is_none());
        }
    }

    /// Another packet has come to the head of a queue, or none.
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

    /// Gives a medium to whoever is next at `at`, if it is free.
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
        member.start(at, until);
        let stalls = stall(&member.link, Some(&*air), at);
        member.head = Head::Sending { stalls };
        air.taken = Some(Taken { by, until });
    }
}

/// When the packet that `link` sends from `from` on fails for want of rate.
fn stall<P>(link: &Link<P>, air: Option<&Air>, from: Timestamp) -> Option<Timestamp> {
    let until = match air {
        // The medium is not kept any longer than the packet takes at its rate.
        None
        | Some(Air {
            medium: Medium { rate: Some(_) },
            ..
        }) => return None,
        Some(_) => link.sending_ends().unwrap_or(Timestamp::FAR_FUTURE),
    };
    link.pace.first_zero(from).filter(|zero| *zero < until)
}

impl<P> Member<P> {
    /// When the packet that is being sent has left, or failed.
    fn end(&self) -> Option<Timestamp> {
        match self.head {
            Head::Sending { stalls } => stalls.or_else(|| self.link.sending_ends()),
            _ => None,
        }
    }

    /// When the packet that waits can begin at `now` or later, for all that
    /// concerns this link.
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
