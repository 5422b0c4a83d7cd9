//! The choice among pipes of given rates, in virtual time.

use std::time::Duration;

use mpbond_session::{HelperId, SubflowId};
use mpbond_units::{BitRate, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::choice::{Choice, Step};
use super::facts::{PIPES_EVERY, PipeFacts};
use super::signal::Signal;
use super::why::{PipeUse, Why};
use crate::config;
use crate::ids::LinkId;

mod candidates;
mod energy;
mod ready;
mod signal;
mod silence;
mod trial;

const FIRST: LinkId = LinkId(0);
const SECOND: LinkId = LinkId(1);

fn mbps(mbps: f64) -> BitRate {
    BitRate::from_mbps(mbps)
}

/// A pipe: a queue that is emptied at a rate.
struct Pipe {
    rate: BitRate,
    /// It delivers and answers.
    works: bool,
    carrier: bool,
    joined: bool,
    subflow: SubflowId,
    queue: u64,
    carried: u64,
    /// Bytes that the primary has sent.
    sent: u64,
    /// Octets of it that were acknowledged late, on another subflow.
    late: u64,
    heard: Timestamp,
    asked: bool,
    signal: Option<Signal>,
}

/// A helper with its pipes, and a source of bytes.
struct World {
    choice: Choice,
    now: Timestamp,
    pipes: Vec<Pipe>,
    source: BitRate,
    /// Round-trip time to the proxy.
    rtt: Duration,
    /// Bytes that came, that arrived, and that wait for a pipe.
    came: u64,
    arrived: u64,
    waits: u64,
    subflows: u32,
    chosen: Vec<(u64, LinkId, Why)>,
    /// When one was chosen after a time without bytes: that costs nothing.
    at_rest: Vec<u64>,
    moved: Timestamp,
    rejoined: Vec<(u64, LinkId)>,
    tried: u32,
    /// When pipes were asked.
    asked: Vec<u64>,
}

impl World {
    fn new(rates: &[f64], source: f64) -> Self {
        Self::with(rates, source, |_| config::Link::pipe("pipe", HelperId(0)))
    }

    fn with(rates: &[f64], source: f64, setup: impl Fn(usize) -> config::Link) -> Self {
        let mut world = Self {
            choice: Choice::default(),
            now: Timestamp::from_millis(0),
            pipes: Vec::new(),
            source: mbps(source),
            rtt: Duration::from_millis(40),
            came: 0,
            arrived: 0,
            waits: 0,
            subflows: 0,
            chosen: Vec::new(),
            at_rest: Vec::new(),
            moved: Timestamp::ZERO,
            rejoined: Vec::new(),
            tried: 0,
            asked: Vec::new(),
        };
        for (i, rate) in rates.iter().enumerate() {
            world.choice.add(LinkId(i), i, &setup(i));
            world.pipes.push(Pipe {
                rate: mbps(*rate),
                works: true,
                carrier: true,
                joined: true,
                subflow: SubflowId(i as u32),
                queue: 0,
                carried: 0,
                sent: 0,
                late: 0,
                heard: Timestamp::ZERO,
                asked: false,
                signal: None,
            });
        }
        world.subflows = rates.len() as u32;
        world.settle();
        world
    }

    fn used(&self) -> LinkId {
        let links = (0..self.pipes.len()).map(LinkId);
        let is_used = |link: &LinkId| self.choice.of(*link).unwrap().state == PipeUse::Used;
        let used: Vec<_> = links.filter(is_used).collect();
        assert_eq!(used.len(), 1);
        used[0]
    }

    fn ms(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    fn settle(&mut self) {
        let pipes = &self.pipes;
        let subflow = |link: LinkId| {
            let pipe = &pipes[link.0];
            pipe.joined.then_some(pipe.subflow)
        };
        self.choice.settle(self.now, &subflow);
        let steps = self.choice.steps();
        for step in steps {
            match step {
                Step::Roles => {}
                Step::Chosen(link, why) => {
                    self.chosen.push((self.ms(), link, why));
                    let rests = self.now.since(self.moved) >= seconds(1);
                    self.at_rest.extend(rests.then_some(self.ms()));
                }
                Step::Tried(_) => self.tried += 1,
                Step::Ask(subflow) => {
                    self.asked.push(self.ms());
                    for pipe in self.pipes.iter_mut().filter(|p| p.subflow == subflow) {
                        pipe.asked = true;
                    }
                }
                Step::Rejoin(link, _) => {
                    self.rejoined.push((self.ms(), link));
                    self.lose(link);
                    self.pipes[link.0].joined = self.pipes[link.0].works;
                }
            }
        }
    }

    /// The subflow of a pipe is gone: what it carries is sent again.
    fn lose(&mut self, link: LinkId) {
        let pipe = &mut self.pipes[link.0];
        self.waits += std::mem::take(&mut pipe.queue);
        pipe.subflow = SubflowId(self.subflows);
        self.subflows += 1;
        (pipe.carried, pipe.asked, pipe.joined) = (0, false, false);
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += PIPES_EVERY;
            self.step();
        }
    }

    fn step(&mut self) {
        let came = self.source.bytes_in(PIPES_EVERY);
        self.came += came;
        self.waits += came;
        // Each pipe that is used is given what it has room for, the one with the shortest queue
        // first.
        let in_use: Vec<usize> = (0..self.pipes.len())
            .filter(|i| self.pipes[*i].joined)
            .filter(|i| self.choice.of(LinkId(*i)).unwrap().state != PipeUse::Standby)
            .collect();
        while self.waits > 0
            && let Some(i) = in_use.iter().copied().min_by_key(|i| self.pipes[*i].queue)
            && self.pipes[i].queue < 100_000
        {
            let bytes = self.waits.min(1_000);
            self.waits -= bytes;
            self.pipes[i].queue += bytes;
        }
        let mut facts = Vec::new();
        for (i, pipe) in self.pipes.iter_mut().enumerate() {
            if pipe.works && pipe.joined {
                let bytes = pipe.queue.min(pipe.rate.bytes_in(PIPES_EVERY));
                pipe.queue -= bytes;
                pipe.carried += bytes;
                self.arrived += bytes;
                if bytes > 0 {
                    self.moved = self.now;
                }
                if bytes > 0 || std::mem::take(&mut pipe.asked) {
                    pipe.heard = self.now;
                }
                self.choice.reported(self.now, pipe.subflow, pipe.queue);
            }
            if pipe.joined {
                facts.push(PipeFacts {
                    link: LinkId(i),
                    subflow: pipe.subflow,
                    carrier: pipe.carrier,
                    bytes: [pipe.carried, pipe.sent],
                    octets: pipe.carried + pipe.late,
                    waiting_bytes: 0,
                    heard: pipe.heard,
                    rtt: self.rtt,
                    // The kernel has that of WiFi always.
                    signal: pipe.signal.map(|signal| match signal {
                        Signal::Wifi(_) => (self.now, signal),
                        Signal::Bluetooth(_) => (pipe.heard, signal),
                    }),
                });
            }
        }
        self.choice.look(self.now, &facts);
        self.settle();
    }
}

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[test]
fn the_cheapest_one_is_used_while_it_suffices() {
    let mut world = World::new(&[2.0, 20.0], 1.0);
    world.run(seconds(60));
    assert_eq!((world.used(), world.tried), (FIRST, 0));
    assert_eq!(world.chosen, []);
    assert_eq!(world.choice.of(SECOND).unwrap().state, PipeUse::Standby);
    // Nobody asks while bytes come.
    assert_eq!(world.asked, []);
}

#[test]
fn bytes_that_wait_for_half_a_second_bring_the_next_one() {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    world.run(seconds(3));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::TooSlow(FIRST)));
    // The queue begins to grow at once; then 0.5 s, and 0.2 s of the trial.
    assert!((700..=1_100).contains(&at), "{at}");
    // The demand is far more than the first one's rate: it is not returned to.
    world.run(seconds(7));
    assert_eq!(world.used(), SECOND);
    assert!(world.came - world.arrived < 100_000);
}

#[test]
fn a_slow_one_that_is_cheaper_is_tried_at_longer_and_longer_intervals() {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    world.run(seconds(600));
    let returns: Vec<u64> = world
        .chosen
        .iter()
        .filter(|(_, link, _)| *link == FIRST)
        .map(|(at, ..)| *at)
        .collect();
    // After pauses of 10, 20, 40, 80, 160 and 320 s, each with 5 s more.
    assert!((4..=6).contains(&returns.len()), "{returns:?}");
    let gaps: Vec<u64> = returns.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.windows(2).all(|g| g[1] > 3 * g[0] / 2), "{gaps:?}");
}

#[test]
fn less_demand_leads_back_to_the_cheaper_one_after_five_seconds() {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    world.run(seconds(5));
    assert_eq!(world.used(), SECOND);
    world.source = mbps(0.5);
    let before = world.ms();
    world.run(seconds(10));
    let (at, link, why) = *world.chosen.last().unwrap();
    assert_eq!((link, why), (FIRST, Why::Cheaper(SECOND)));
    // 5 s, once the average is below 0.8 of the rate.
    assert!((5_000..9_000).contains(&(at - before)), "{}", at - before);
    assert_eq!(world.used(), FIRST);
}

/// 1.5 Mbit/s of a source: Bluetooth of 1.7 Mbit/s carries it, but not with a quarter to spare.
#[test]
fn a_demand_just_below_the_rate_makes_no_changes() {
    let mut world = World::new(&[1.7, 20.0], 1.5);
    world.run(seconds(120));
    assert_eq!(world.chosen, []);
}

#[test]
fn a_silent_one_is_left_soon_and_nothing_is_lost() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.pipes[0].works = false;
    let before = world.ms();
    world.run(seconds(2));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
    assert!((at - before) <= 600, "{}", at - before);
    assert_eq!(world.rejoined, [(at, FIRST)]);
    world.run(seconds(5));
    assert!(world.came - world.arrived < 50_000);
    // It comes back, has to stay for 5 s, and is asked once then.
    world.pipes[0].works = true;
    world.pipes[0].joined = true;
    let asked = world.asked.len();
    world.run(seconds(5));
    assert_eq!((world.used(), world.asked.len()), (SECOND, asked));
    world.run(Duration::from_millis(300));
    assert_eq!((world.used(), world.asked.len()), (FIRST, asked + 1));
}

/// A question wakes a radio: none is for nothing.
#[test]
fn demand_that_rises_again_and_again_brings_at_most_30_questions_in_an_hour() {
    for low in [3, 4, 5, 6] {
        let mut world = World::new(&[1.0, 20.0], 5.0);
        while world.ms() < 3_600_000 {
            for (rate, time) in [(5.0, 2), (0.3, low)] {
                world.source = mbps(rate);
                world.run(seconds(time));
            }
        }
        assert!(world.asked.len() <= 30, "{low} s: {}", world.asked.len());
    }
}

/// A pause of the application is none of the pipe.
#[test]
fn a_silent_one_is_left_as_soon_after_a_pause() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.source = BitRate::ZERO;
    world.run(seconds(10));
    // A request, and its answer.
    world.pipes[0].sent += 100;
    world.run(PIPES_EVERY);
    world.source = mbps(2.0);
    world.run(Duration::from_millis(500));
    world.pipes[0].works = false;
    let before = world.ms();
    world.run(seconds(3));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
    assert!((at - before) <= 800, "{}", at - before);
}

#[test]
fn a_radio_may_wake_before_the_first_bytes_come() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.source = BitRate::ZERO;
    world.run(seconds(10));
    // The request has gone out, and nothing comes for a time.
    world.pipes[0].sent += 100;
    world.pipes[0].works = false;
    world.source = mbps(2.0);
    world.run(Duration::from_millis(600));
    world.pipes[0].works = true;
    world.run(seconds(3));
    assert_eq!((world.used(), world.chosen.len()), (FIRST, 0));
}

/// No radio has to wake: the first bytes after the pause have come.
#[test]
fn a_silence_right_after_the_first_bytes_is_that_of_a_pipe_in_use() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.source = BitRate::ZERO;
    world.run(seconds(10));
    world.source = mbps(2.0);
    world.run(PIPES_EVERY);
    world.pipes[0].works = false;
    let before = world.ms();
    world.run(seconds(3));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
    assert!((at - before) <= 1_000, "{}", at - before);
}

/// For more than the longest pause that counts, since the other one is silent, too.
#[test]
fn a_silent_one_that_bytes_are_sent_on_is_left_when_another_one_answers() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    let sends = |world: &mut World, looks: u32| {
        for _ in 0..looks {
            world.pipes[0].sent += 100;
            world.run(PIPES_EVERY);
        }
    };
    (world.pipes[0].works, world.pipes[1].works) = (false, false);
    sends(&mut world, 30);
    assert_eq!(world.chosen, []);
    let before = world.ms();
    world.pipes[1].works = true;
    sends(&mut world, 10);
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
    assert!((at - before) <= 200, "{}", at - before);
}

/// What it brought before is acknowledged on the other one.
#[test]
fn a_late_acknowledgement_is_no_answer() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.pipes[0].works = false;
    let before = world.ms();
    world.run(Duration::from_millis(300));
    world.pipes[0].late = 1_000;
    world.run(seconds(2));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
    assert!((at - before) <= 1_100, "{}", at - before);
}

#[test]
fn a_trial_does_not_end_for_one_that_is_silent() {
    let mut world = World::new(&[4.0, 1.0], 8.0);
    for _ in 0..20 {
        if world.tried == 0 {
            world.run(PIPES_EVERY);
        }
    }
    world.run(Duration::from_millis(700));
    assert_eq!((world.tried, world.used()), (1, FIRST));
    world.pipes[0].works = false;
    // It has carried more.
    world.run(Duration::from_millis(300));
    assert_eq!(world.choice.of(SECOND).unwrap().state, PipeUse::Tried);
    world.run(seconds(2));
    let (_, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::Failed(FIRST)));
}

#[test]
fn one_without_a_carrier_is_left_at_once() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    (world.pipes[0].works, world.pipes[0].carrier) = (false, false);
    let before = world.ms();
    world.run(seconds(1));
    assert_eq!(world.chosen, [(before + 100, SECOND, Why::Failed(FIRST))]);
    assert_eq!(world.rejoined, [(before + 100, FIRST)]);
}

/// The helper's own link is silent, or the proxy: no pipe is to blame.
#[test]
fn a_silence_of_all_changes_nothing() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    (world.pipes[0].works, world.pipes[1].works) = (false, false);
    world.run(seconds(5));
    assert_eq!((world.chosen.len(), world.rejoined.len()), (0, 0));
    assert_eq!(world.asked.len(), 2);
    (world.pipes[0].works, world.pipes[1].works) = (true, true);
    world.run(seconds(5));
    assert_eq!((world.chosen.len(), world.rejoined.len()), (0, 0));
}

#[test]
fn one_that_is_slow_to_bring_the_rest_is_closed_after_two_seconds() {
    let mut world = World::new(&[10.0, 4.0], 3.0);
    world.run(seconds(5));
    world.pipes[0].rate = mbps(0.5);
    while world.chosen.is_empty() {
        world.run(PIPES_EVERY);
    }
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::TooSlow(FIRST)));
    // It was expected to bring the rest sooner.
    world.pipes[0].rate = mbps(0.05);
    world.run(seconds(10));
    assert_eq!(world.rejoined, [(at + 2_000, FIRST)]);
    // It stands by again, with the memory of its rate.
    world.settle();
    world.pipes[0].joined = true;
    world.run(seconds(3));
    assert_eq!(world.used(), SECOND);
    assert!(world.came - world.arrived < 50_000);
}

/// What waits there would take longer than it is waited for.
#[test]
fn one_that_is_far_too_slow_to_bring_the_rest_is_closed_at_once() {
    let mut world = World::new(&[10.0, 4.0], 3.0);
    world.run(seconds(5));
    world.pipes[0].rate = mbps(0.2);
    world.run(seconds(10));
    let (at, link, why) = world.chosen[0];
    assert_eq!((link, why), (SECOND, Why::TooSlow(FIRST)));
    assert_eq!(world.rejoined, [(at, FIRST)]);
}

#[test]
fn one_that_has_brought_everything_stays_joined() {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    world.run(seconds(9));
    assert_eq!(world.used(), SECOND);
    assert_eq!(world.rejoined, []);
}

#[test]
fn while_nothing_moves_the_cheapest_one_that_works_is_used_at_once() {
    let mut world = World::new(&[10.0, 4.0], 0.0);
    world.pipes[0].joined = false;
    world.settle();
    assert_eq!(world.used(), SECOND);
    world.pipes[0].joined = true;
    world.settle();
    assert_eq!(world.used(), FIRST);
}

#[test]
fn while_nothing_moves_one_that_was_too_slow_lately_does_not_hide_the_next_one() {
    let mut world = World::new(&[1.0, 8.0, 20.0], 5.0);
    world.run(seconds(3));
    assert_eq!(world.chosen.last().unwrap().2, Why::TooSlow(FIRST));
    world.pipes[1].carrier = false;
    world.run(PIPES_EVERY);
    assert_eq!(world.used(), LinkId(2));
    world.pipes[1].carrier = true;
    world.source = mbps(0.0);
    world.run(seconds(2));
    assert_eq!(world.used(), SECOND);
    assert_eq!(world.chosen.last().unwrap().2, Why::Cheaper(LinkId(2)));
    // From 10 s on, it may suffice.
    world.run(seconds(8));
    assert_eq!(world.used(), FIRST);
}

/// It was used again because the other one had failed.
#[test]
fn while_nothing_moves_one_that_was_too_slow_is_left_for_a_later_one() {
    let mut world = World::new(&[1.0, 20.0], 5.0);
    world.run(seconds(3));
    assert_eq!(world.used(), SECOND);
    world.pipes[1].carrier = false;
    world.run(PIPES_EVERY);
    assert_eq!(world.used(), FIRST);
    world.pipes[1].carrier = true;
    world.source = mbps(0.0);
    world.run(seconds(3));
    assert_eq!(world.used(), SECOND);
    assert_eq!(world.chosen.last().unwrap().2, Why::TooSlow(FIRST));
}

#[test]
fn a_cheaper_one_that_does_not_answer_is_not_returned_to() {
    let mut world = World::new(&[10.0, 4.0], 2.0);
    world.run(seconds(5));
    world.pipes[0].carrier = false;
    world.run(seconds(2));
    assert_eq!(world.used(), SECOND);
    (world.pipes[0].carrier, world.pipes[0].works) = (true, false);
    let asked = world.asked.len();
    world.run(seconds(30));
    assert_eq!((world.used(), world.asked.len()), (SECOND, asked + 1));
    world.pipes[0].works = true;
    world.run(2 * PIPES_EVERY);
    assert_eq!(world.used(), FIRST);
}

#[test]
fn pipes_come_and_go() {
    let mut choice = Choice::default();
    let pipe = config::Link::pipe("pipe", HelperId(0));
    choice.add(LinkId(3), 1, &pipe);
    assert!(!choice.is_needed());
    choice.add(LinkId(7), 0, &pipe);
    assert!(choice.is_needed());
    assert_eq!(choice.of(LinkId(7)).unwrap().state, PipeUse::Used);
    assert!(choice.remove(LinkId(7)));
    assert_eq!(choice.of(LinkId(3)).unwrap().state, PipeUse::Used);
    assert_eq!(choice.of(LinkId(7)), None);
    assert!(!choice.remove(LinkId(3)));
}

/// A change of the world, for a while.
fn change() -> impl Strategy<Value = (usize, u8, f64, u64)> {
    (0_usize..3, 0_u8..7, 0.1_f64..30.0, 1_u64..80)
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    /// Whatever pipes do: one is used, it is one that may work if any is known to, changes for the
    /// sake of rates are seldom, and bytes arrive once the world is good again.
    #[test]
    fn whatever_happens(
        changes in proptest::collection::vec(change(), 1..40),
        by_energy in proptest::bool::ANY,
    ) {
        let radios = ["wifi-s4", "lte-2020-tmobile", "watch-bt"].map(energy::radios);
        let mut world = World::with(&[1.0, 8.0, 20.0], 3.0, |i| config::Link {
            radios: radios[i].filter(|_| by_energy),
            ..config::Link::pipe("pipe", HelperId(0))
        });
        for (i, what, rate, steps) in changes {
            match what {
                0 => world.pipes[i].works = false,
                1 => (world.pipes[i].works, world.pipes[i].joined) = (true, true),
                2 => world.pipes[i].rate = mbps(rate),
                3 => world.pipes[i].carrier = !world.pipes[i].carrier,
                4 => world.source = mbps(rate / 3.0),
                5 => {
                    world.lose(LinkId(i));
                    world.settle();
                }
                _ => {}
            }
            world.settle();
            for _ in 0..steps {
                world.now += PIPES_EVERY;
                world.step();
                let used = world.used();
                let usable = |p: &Pipe| p.joined && p.carrier;
                if world.pipes.iter().any(usable) {
                    prop_assert!(usable(&world.pipes[used.0]), "{used:?}");
                }
            }
        }
        for pipe in &mut world.pipes {
            (pipe.works, pipe.joined, pipe.carrier) = (true, true, true);
            pipe.rate = pipe.rate.max(mbps(5.0));
        }
        world.source = mbps(2.0);
        world.run(seconds(20));
        world.source = mbps(0.0);
        for pipe in &mut world.pipes {
            pipe.joined = true;
        }
        // As long as the slowest one takes.
        let left = world.came - world.arrived;
        world.run(mbps(5.0).time_for(left) + seconds(20));
        prop_assert_eq!(world.came - world.arrived, 0, "lost");
        // 0.5 s in which bytes wait, and the shortest trial.
        let seldom = world.chosen.windows(2).all(|w| {
            matches!(w[1].2, Why::Failed(_)) || matches!(w[0].2, Why::Failed(_))
                || w[1].0 - w[0].0 >= 600 || world.at_rest.contains(&w[1].0)
        });
        prop_assert!(seldom, "{:?}", world.chosen);
    }
}

/// Rules of applications name the faster one; what waits for the first one is no reason.
#[test]
fn where_applications_choose_only_a_failure_brings_the_next_one() {
    let mut world = World::with(&[1.0, 20.0], 5.0, |_| config::Link {
        by_app: true,
        ..config::Link::pipe("pipe", HelperId(0))
    });
    world.run(seconds(60));
    assert_eq!((world.used(), world.tried), (FIRST, 0));
    world.pipes[0].works = false;
    world.run(seconds(2));
    assert_eq!(world.chosen.last().unwrap().1, SECOND);
    // The first one works again: it is returned to, however slow.
    (world.pipes[0].works, world.pipes[0].joined) = (true, true);
    world.run(seconds(6));
    assert_eq!((world.used(), world.tried), (FIRST, 0));
}
