//! Sets of paths, kept whatever happens: random streams, changes and faults. [`Pair`] checks each
//! frame of a stream, first or copied, against the set that the stream has at its sender.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::pair::{Pair, at, hop, number, pattern};
use crate::*;

/// Paths of the session; the last one is through a helper, and has an express. One more subflow
/// has no number.
const PATHS: u64 = 4;

/// Something that happens to a session.
#[derive(Debug, Clone)]
enum Step {
    Open(PathSet),
    /// Bytes for a stream, from the client or the server.
    Write(usize, bool, usize),
    Finish(usize, bool),
    Reset(usize, bool),
    Stop(usize, bool),
    /// Another set, class or priority.
    Treat(usize, Treatment),
    /// The subflow of a path goes, or comes back if it is gone.
    Toggle(u64),
    /// A path falls silent, or works again.
    Silence(u64),
    Backup(u64, bool),
    Run(u64),
}

fn set() -> impl Strategy<Value = PathSet> {
    let some = (1..1u64 << PATHS).prop_map(|bits| {
        let numbers = (0..PATHS).filter(|n| bits >> n & 1 != 0);
        PathSet::of(numbers.map(number)).expect("a path")
    });
    prop_oneof![1 => Just(PathSet::ALL), 3 => some]
}

fn treatment() -> impl Strategy<Value = Treatment> {
    let class = select(&StreamClass::IN_ORDER[..]);
    (class, 0..=Treatment::MAX_PRIORITY, set()).prop_map(|(class, priority, paths)| Treatment {
        class,
        priority,
        paths,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 0..6usize;
    let end = any::<bool>();
    prop_oneof![
        2 => set().prop_map(Step::Open),
        6 => (stream.clone(), end, 1..300_000usize).prop_map(|(n, c, l)| Step::Write(n, c, l)),
        1 => (stream.clone(), end).prop_map(|(n, c)| Step::Finish(n, c)),
        1 => (stream.clone(), end).prop_map(|(n, c)| Step::Reset(n, c)),
        1 => (stream.clone(), end).prop_map(|(n, c)| Step::Stop(n, c)),
        3 => (stream, treatment()).prop_map(|(n, t)| Step::Treat(n, t)),
        2 => (0..PATHS).prop_map(Step::Toggle),
        2 => (0..PATHS).prop_map(Step::Silence),
        1 => (0..PATHS, end).prop_map(|(n, b)| Step::Backup(n, b)),
        8 => (5..800u64).prop_map(Step::Run),
    ]
}

/// A session, and what is open of it.
struct Bench {
    slow: bool,
    p: Pair,
    /// Index of the newest subflow of each path.
    links: Vec<usize>,
    streams: Vec<StreamId>,
}

impl Bench {
    /// Where direct paths are `slow`, the express is the fastest of all subflows.
    fn new(scheduler: SchedulerKind, slow: bool) -> Self {
        let mut bench = Self {
            slow,
            p: Pair::new(SessionConfig {
                scheduler,
                ..SessionConfig::default()
            }),
            links: Vec::new(),
            streams: Vec::new(),
        };
        for path in 0..PATHS {
            bench.join(path);
            bench.links.push(bench.p.links.len() - 1);
        }
        if !slow {
            bench.p.join(&[hop(4.0, 15)]);
        }
        bench.p.run(at(500), |_| false);
        let through = bench.p.links[bench.links[3]].id;
        bench.p.join_express(through, &[hop(20.0, 2), hop(1.0, 30)]);
        bench.p.run(at(1_000), |_| false);
        bench.p.announce_paths();
        bench
    }

    fn join(&mut self, path: u64) {
        let hops = match (path, self.slow) {
            (0, false) => &[hop(8.0, 25)][..],
            (1, false) => &[hop(2.0, 60)],
            (2, false) => &[hop(0.5, 120)],
            (0..3, true) => &[hop(0.5, 300)],
            _ => &[hop(20.0, 2), hop(1.0, 30)],
        };
        self.p.join_on(path, Role::Regular, hops);
    }

    fn take(&mut self, step: Step) {
        let p = &mut self.p;
        let stream = |n: usize| self.streams.get(n).copied();
        match step {
            Step::Open(paths) => {
                let to = Destination::Addr("192.0.2.1:80".parse().expect("address"));
                let treatment = Treatment {
                    paths,
                    ..Treatment::default()
                };
                let id = p.client.open(p.now, to, treatment).expect("stream");
                self.streams.push(id);
            }
            Step::Write(n, client, len) => {
                if let Some(id) = stream(n) {
                    end(p, client).write(id, pattern(len));
                }
            }
            Step::Finish(n, client) => {
                if let Some(id) = stream(n) {
                    end(p, client).finish(id);
                }
            }
            Step::Reset(n, client) => {
                let now = p.now;
                if let Some(id) = stream(n) {
                    end(p, client).reset(now, id, ResetCode::Cancelled);
                }
            }
            Step::Stop(n, client) => {
                let now = p.now;
                if let Some(id) = stream(n) {
                    end(p, client).stop(now, id, ResetCode::Cancelled);
                }
            }
            Step::Treat(n, treatment) => {
                if let Some(id) = stream(n) {
                    p.client.set_treatment(id, treatment).expect("few sets");
                }
            }
            Step::Toggle(path) => {
                let link = &p.links[self.links[path as usize]];
                if link.alive {
                    p.kill(link.id);
                } else {
                    self.join(path);
                    self.links[path as usize] = self.p.links.len() - 1;
                }
            }
            Step::Silence(path) => p.links[self.links[path as usize]].blackhole ^= true,
            Step::Backup(path, backup) => {
                let id = p.links[self.links[path as usize]].id;
                p.client.set_backup(id, backup);
            }
            Step::Run(ms) => p.run(p.now + Duration::from_millis(ms), |_| false),
        }
    }

    /// All paths work again: what was written arrives, on whatever set.
    fn finish(&mut self) {
        for link in &mut self.p.links {
            link.blackhole = false;
        }
        for path in 0..PATHS {
            if !self.p.links[self.links[path as usize]].alive {
                self.join(path);
            }
        }
        let until = self.p.now + Duration::from_secs(120);
        self.p.run(until, |p| {
            let ends = [&p.client, p.server.as_ref().expect("established")];
            ends.iter()
                .all(|s| s.held_bytes() == 0 && s.unscheduled_bytes() == 0)
        });
        for end in [&self.p.client, self.p.server.as_ref().expect("established")] {
            assert_eq!(end.held_bytes(), 0, "{:?}", end.streams());
        }
    }
}

fn end(p: &mut Pair, client: bool) -> &mut Session {
    match client {
        true => &mut p.client,
        false => p.server(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Both ways, for every scheduler, with paths that come, go and fall silent.
    #[test]
    fn no_frame_of_a_stream_goes_on_a_path_that_is_not_in_its_set(
        scheduler in select(vec![
            SchedulerKind::Mpbond,
            SchedulerKind::Mpbond,
            SchedulerKind::Pams,
            SchedulerKind::MinRtt,
            SchedulerKind::Redundant,
        ]),
        slow in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut bench = Bench::new(scheduler, slow);
        bench.take(Step::Open(PathSet::ALL));
        for step in steps {
            bench.take(step);
        }
        bench.finish();
        prop_assert!(bench.p.server_errors.is_empty(), "{:?}", bench.p.server_errors);
    }
}
