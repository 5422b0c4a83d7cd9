//! Two ends with applications that write and read known octets.

use std::time::Duration;

use mpbond_l2::{Channel, Config, Error, Key, Read, SILENCE, Side};
use mpbond_units::Timestamp;

use super::link::{Faults, Link, Random};

/// A transfer.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// Octets that each end writes.
    pub bytes: [u64; 2],
    pub window_bytes: u32,
    pub mtu: u16,
    pub delay: Duration,
    pub faults: Faults,
    /// Readers pause.
    pub pauses: bool,
    /// A stranger sends frames to both ends.
    pub forged: bool,
}

struct End {
    channel: Channel,
    write: u64,
    written: u64,
    read: u64,
    has_ended: bool,
    /// The reader takes nothing before.
    reads_at: Timestamp,
    heard_at: Timestamp,
    failure: Option<(Error, Timestamp)>,
}

pub struct Peers {
    ends: [End; 2],
    /// From each end.
    links: [Link; 2],
    random: Random,
    now: Timestamp,
    plan: Plan,
    longest_pause: Duration,
    /// Frames that a stranger may send again.
    heard: Vec<Vec<u8>>,
}

/// Longest of any transfer here, in virtual time.
const PATIENCE: Duration = Duration::from_secs(600);

/// More than any transfer here takes.
const MAX_STEPS: usize = 200_000;

/// The octet of a direction at an offset.
fn octet(end: usize, offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ end as u8
}

impl Peers {
    pub fn new(plan: Plan) -> Self {
        let now = Timestamp::from_millis(1);
        let end = |side, write| End {
            channel: Channel::new(
                now,
                Config {
                    channel: 7,
                    key: Key::from_bytes([3; 16]),
                    side,
                    mtu: plan.mtu,
                    window_bytes: plan.window_bytes,
                },
            ),
            write,
            written: 0,
            read: 0,
            has_ended: false,
            reads_at: now,
            heard_at: now,
            failure: None,
        };
        Self {
            ends: [
                end(Side::Primary, plan.bytes[0]),
                end(Side::Helper, plan.bytes[1]),
            ],
            links: [(); 2].map(|()| Link::new(plan.faults, plan.delay)),
            random: Random(plan.seed),
            now,
            plan,
            longest_pause: Duration::ZERO,
            heard: Vec::new(),
        }
    }

    /// Runs until both ends are over.
    pub fn run(&mut self) {
        self.run_until(PATIENCE);
        for (n, end) in self.ends.iter().enumerate() {
            assert!(
                end.channel.is_over(self.now),
                "end {n} never ends: {:?}",
                self.plan
            );
        }
    }

    pub fn run_until(&mut self, time: Duration) {
        let end = Timestamp::from_millis(1) + time;
        let mut steps = 0;
        while let Some(next) = self.next_at().filter(|at| *at <= end) {
            self.now = self.now.max(next);
            self.step();
            steps += 1;
            assert!(steps < MAX_STEPS, "time stands still: {:?}", self.plan);
        }
    }

    fn next_at(&self) -> Option<Timestamp> {
        let is_over = self.ends.iter().all(|e| e.channel.is_over(self.now));
        if is_over {
            return None;
        }
        let links = self.links.iter().filter_map(Link::next_at);
        // The driver of an end that is over has ended.
        let open = || self.ends.iter().filter(|e| !e.channel.is_over(self.now));
        let timers = open().filter_map(|end| end.channel.next_timeout());
        let reads = open().filter(|end| end.reads_at > self.now);
        let reads = reads.map(|end| end.reads_at);
        // A step at the same instant has done all there was.
        let later = |at: Timestamp| at.max(self.now + Duration::from_nanos(1));
        links.chain(timers).chain(reads).map(later).min()
    }

    fn step(&mut self) {
        for n in [0, 1] {
            self.deliver(n);
        }
        for n in [0, 1] {
            let end = &mut self.ends[n];
            end.channel.handle_timeout(self.now);
            loop {
                let moved = self.read(n) | self.write(n);
                if !(self.transmit(n) | moved) {
                    break;
                }
            }
            let end = &mut self.ends[n];
            if let Some(error) = end.channel.error() {
                end.failure.get_or_insert((error, self.now));
            }
        }
    }

    /// Frames to end `n`.
    fn deliver(&mut self, n: usize) {
        while let Some(frame) = self.links[1 - n].take(self.now) {
            if self.plan.forged {
                self.stranger(n, &frame);
            }
            let end = &mut self.ends[n];
            if end.channel.handle_frame(self.now, &frame).is_ok() && end.failure.is_none() {
                end.heard_at = self.now;
            }
        }
    }

    /// A stranger hears a frame to end `n` and answers it with frames of its own: changed ones, and
    /// whole ones of either end, much later.
    fn stranger(&mut self, n: usize, frame: &[u8]) {
        let mut forged = frame.to_vec();
        let at = self.random.below(36) as usize;
        // No change of one bit, which would undo the fault of a changed frame.
        forged[at] = forged[at].wrapping_add(0x55);
        let refused = self.ends[n].channel.handle_frame(self.now, &forged);
        assert!(refused.is_err(), "octet {at} of {frame:?}");
        let own = self.ends[1 - n].channel.handle_frame(self.now, frame);
        assert!(own.is_err(), "{frame:?}");
        if self.heard.len() < 500 {
            self.heard.push(frame.to_vec());
        }
        let old = self.random.below(self.heard.len() as u64) as usize;
        let end = &mut self.ends[n];
        let replayed = end.channel.handle_frame(self.now, &self.heard[old]);
        if replayed.is_ok() && end.failure.is_none() {
            end.heard_at = self.now;
        }
    }

    fn read(&mut self, n: usize) -> bool {
        let end = &mut self.ends[n];
        if self.now < end.reads_at {
            return false;
        }
        if self.plan.pauses && self.random.chance(0.05) {
            let pause = Duration::from_millis(self.random.below(700));
            end.reads_at = self.now + pause;
            self.longest_pause = self.longest_pause.max(pause);
            return false;
        }
        let mut into = vec![0; 1 + self.random.below(9000) as usize];
        match end.channel.read(&mut into) {
            Ok(Read::Octets(count)) => {
                for octet_read in &into[..count] {
                    assert_eq!(*octet_read, octet(1 - n, end.read), "{:?}", self.plan);
                    end.read += 1;
                }
                true
            }
            Ok(Read::End) => {
                end.has_ended = true;
                false
            }
            Ok(Read::Nothing) | Err(_) => false,
        }
    }

    fn write(&mut self, n: usize) -> bool {
        let end = &mut self.ends[n];
        let count = (end.write - end.written).min(1 + self.random.below(20_000));
        let octets: Vec<u8> = (0..count).map(|i| octet(n, end.written + i)).collect();
        let Ok(count) = end.channel.write(&octets) else {
            return false;
        };
        end.written += count as u64;
        if end.written == end.write {
            end.channel.finish();
        }
        count > 0
    }

    fn transmit(&mut self, n: usize) -> bool {
        let mut frame = vec![0; 9000];
        let mut any = false;
        while let Some(length) = self.ends[n].channel.poll_frame(self.now, &mut frame) {
            assert!(length <= usize::from(self.plan.mtu.max(576)), "{length}");
            self.links[n].send(self.now, &mut self.random, &frame[..length]);
            any = true;
        }
        any
    }

    /// Lets time pass in which nothing runs, and frames under way are lost.
    pub fn pause(&mut self, time: Duration) {
        self.now += time;
        for link in &mut self.links {
            while link.take(self.now).is_some() {}
        }
    }

    /// Lets time pass in which nothing runs, and frames under way wait in the sockets.
    pub fn hold(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn cut(&mut self) -> Timestamp {
        for link in &mut self.links {
            link.is_cut = true;
        }
        self.now
    }

    pub fn drop_longer_than(&mut self, bytes: usize) {
        for link in &mut self.links {
            link.longest = bytes;
        }
    }

    pub fn set_mtu(&mut self, mtu: u16) {
        for end in &mut self.ends {
            end.channel.set_mtu(mtu);
        }
    }

    pub fn fail_at_loss(&mut self) {
        for end in &mut self.ends {
            end.channel.fail_at_loss();
        }
    }

    pub fn reset(&mut self, n: usize) -> Timestamp {
        self.ends[n].channel.reset();
        self.step();
        self.now
    }

    pub fn failure(&self, n: usize) -> Option<(Error, Timestamp)> {
        self.ends[n].failure
    }

    /// The end that failed first.
    pub fn first_failure(&self) -> Option<(usize, Error)> {
        let failed = [0, 1].into_iter().filter_map(|n| {
            let (error, at) = self.ends[n].failure?;
            Some((at, n, error))
        });
        failed
            .min_by_key(|(at, ..)| *at)
            .map(|(_, n, error)| (n, error))
    }

    pub fn was_silent_to(&self, n: usize) -> bool {
        let end = &self.ends[n];
        end.failure
            .is_some_and(|(_, at)| at >= end.heard_at + SILENCE)
    }

    pub fn assert_prefix(&self) {
        for n in [0, 1] {
            assert!(self.ends[n].read <= self.ends[1 - n].written);
        }
    }

    /// Also of an application that pauses longer than its channel lasts.
    pub fn assert_complete(&mut self) {
        self.plan.pauses = false;
        self.now = Timestamp::FAR_FUTURE;
        for n in [0, 1] {
            while self.read(n) {}
        }
        for n in [0, 1] {
            let end = &self.ends[n];
            assert_eq!(end.failure, None, "end {n}: {:?}", self.plan);
            assert!(end.has_ended, "end {n}: {:?}", self.plan);
            assert_eq!(end.read, self.plan.bytes[1 - n], "end {n}");
        }
    }

    pub fn frames(&self) -> [u64; 2] {
        [self.links[0].frames, self.links[1].frames]
    }

    pub fn repeated(&self) -> [u64; 2] {
        [0, 1].map(|n| self.ends[n].channel.counts().repeated)
    }

    pub fn longest_pause(&self) -> Duration {
        self.longest_pause
    }
}
