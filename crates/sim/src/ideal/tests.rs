//! Bounds worked out by hand. With everything in Mbit and s, `x` Mbit of IP
//! packets over direct paths of rate `r` end at begin + delay + x / r.

use proptest::prelude::*;

use super::*;
use crate::trace::MahimahiTrace;
use mpbond_units::BitRate;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn mbps(rate: f64) -> Capacity {
    Capacity::constant(BitRate::from_mbps(rate))
}

fn steps(steps: &[(f64, f64)]) -> Capacity {
    let steps: Vec<_> = steps
        .iter()
        .map(|(at, rate)| (Duration::from_secs_f64(*at), BitRate::from_mbps(*rate)))
        .collect();
    Capacity::schedule(&steps)
}

fn hop(capacity: Capacity, delay_ms: u64) -> Hop {
    Hop {
        down: capacity.clone(),
        up: capacity,
        delay: Duration::from_millis(delay_ms),
        shared_medium: None,
    }
}

fn on(medium: &str, mut hop: Hop) -> Hop {
    hop.shared_medium = Some(medium.to_owned());
    hop
}

fn path(hops: Vec<Hop>) -> Path {
    Path {
        name: "path".to_owned(),
        hops,
    }
}

fn topology(paths: Vec<Path>) -> Topology {
    Topology {
        paths,
        media: Vec::new(),
    }
}

fn with_medium(paths: Vec<Path>, capacity: Capacity) -> Topology {
    Topology {
        paths,
        media: vec![Medium {
            name: "air".to_owned(),
            capacity,
        }],
    }
}

/// The paper's setting: PS-Path 8, HS-Paths 10, pipes 5 Mbit/s; 25 and 2 ms.
fn devices(n: usize) -> Topology {
    let direct = path(vec![hop(mbps(8.0), 25)]);
    let helper = path(vec![hop(mbps(5.0), 2), hop(mbps(10.0), 25)]);
    let mut paths = vec![direct];
    paths.extend(std::iter::repeat_n(helper, n - 1));
    topology(paths)
}

fn down(topology: &Topology, bytes: u64) -> Result<f64, IdealError> {
    let transfer = Transfer {
        bytes,
        direction: Direction::Down,
    };
    ideal_time(topology, transfer).map(|t| t.as_secs_f64())
}

/// As many Mbit of IP packets as `bytes` make.
fn mbit(bytes: u64) -> f64 {
    bytes as f64 * 8.0 * 1500.0 / 1448.0 / 1e6
}

/// The bytes whose packets make `mbit`.
fn bytes(mbit: f64) -> u64 {
    (mbit * 1e6 / 8.0 * 1448.0 / 1500.0).round() as u64
}

fn assert_close(got: f64, want: f64) {
    // A transfer is whole bytes; one takes 8 us at 1 Mbit/s.
    assert!((got - want).abs() < 5e-6, "{got} s, by hand {want} s");
}

#[test]
fn stable_links() {
    for size in [512 * KIB, MIB, 2 * MIB, 4 * MIB, 10 * MIB] {
        let x = mbit(size);
        // The request takes 25 ms, then 8 (t - 50 ms) direct.
        assert_close(down(&devices(1), size).unwrap(), 0.050 + x / 8.0);
        // Through a helper 5 (t - 52 ms) more, each.
        let two = (x + 8.0 * 0.050 + 5.0 * 0.052) / 13.0;
        assert_close(down(&devices(2), size).unwrap(), two);
        let three = (x + 8.0 * 0.050 + 10.0 * 0.052) / 18.0;
        assert_close(down(&devices(3), size).unwrap(), three);
    }
    // In figures, so that a change of the formula above is seen.
    assert_close(down(&devices(2), 10 * MIB).unwrap(), 6.735_274);
    assert_close(down(&devices(3), 512 * KIB).unwrap(), 0.292_496);
}

#[test]
fn the_uplink_mirrors_the_downlink() {
    for n in 1..=3 {
        let transfer = Transfer {
            bytes: MIB,
            direction: Direction::Up,
        };
        let up = ideal_time(&devices(n), transfer).unwrap().as_secs_f64();
        assert_close(up, down(&devices(n), MIB).unwrap());
    }
    // The first hop of the uplink is the pipe: what it has carried waits at
    // the helper until the HS-Path rises.
    let rising = hop(steps(&[(0.0, 2.0), (2.0, 20.0)]), 0);
    let helper = topology(vec![path(vec![hop(mbps(5.0), 0), rising])]);
    let transfer = Transfer {
        bytes: bytes(12.5),
        direction: Direction::Up,
    };
    // 4 Mbit by 2 s, then the 6 that wait at 20 - 5 more: 4 + 20 (t - 2) until 2.4 s, then 5 t.
    let up = ideal_time(&helper, transfer).unwrap().as_secs_f64();
    assert_close(up, 2.5);
}

#[test]
fn a_pipe_that_falls() {
    // 5/10/5 without delays; the pipe to 1 at 2 s: 20 Mbit by then, 6 Mbit/s after.
    let direct = path(vec![hop(mbps(5.0), 0)]);
    let pipe = hop(steps(&[(0.0, 5.0), (2.0, 1.0)]), 0);
    let helper = path(vec![pipe, hop(mbps(10.0), 0)]);
    let t = down(&topology(vec![direct, helper]), 4 * MIB).unwrap();
    assert_close(t, 2.0 + (mbit(4 * MIB) - 20.0) / 6.0);
}

#[test]
fn a_buffer_at_the_helper_pays() {
    // HS-Path 10, pipe 5, and from 2 s on 20: by 2 s the helper holds 10 Mbit,
    // which last until 3 s; from then on the HS-Path's 10 set the pace.
    let pipe = || hop(steps(&[(0.0, 5.0), (2.0, 20.0)]), 0);
    let helper = topology(vec![path(vec![pipe(), hop(mbps(10.0), 0)])]);
    assert_close(down(&helper, bytes(10.0)).unwrap(), 2.0);
    assert_close(down(&helper, bytes(20.0)).unwrap(), 2.5);
    assert_close(down(&helper, bytes(35.0)).unwrap(), 3.5);
    // HS-Path from 10 to 1 at 2 s: the pipe lives on 10 Mbit that wait, until
    // 5 t = 20 + (t - 2) at 4.5 s.
    let falling = hop(steps(&[(0.0, 10.0), (2.0, 1.0)]), 0);
    let helper = topology(vec![path(vec![hop(mbps(5.0), 0), falling])]);
    assert_close(down(&helper, bytes(20.0)).unwrap(), 4.0);
    assert_close(down(&helper, bytes(23.5)).unwrap(), 5.5);
}

#[test]
fn delays_shift_each_hop() {
    // The pipe (2 ms) opens at 1 s of its own clock, so the primary sees bytes
    // from 1.002 s on, although the HS-Path began 1 s before.
    let pipe = hop(steps(&[(0.0, 0.0), (1.0, 10.0)]), 2);
    let helper = topology(vec![path(vec![pipe, hop(mbps(10.0), 25)])]);
    assert_close(down(&helper, bytes(5.0)).unwrap(), 1.502);
}

#[test]
fn a_trace_counts_packets() {
    let trace = MahimahiTrace::parse("t", "10\n20\n20\n30\n").unwrap();
    let direct = hop(Capacity::mahimahi(&trace), 0);
    let one = topology(vec![path(vec![direct])]);
    let packets = |n: u64| down(&one, n * MSS).unwrap();
    for (n, ms) in [(1, 10.0), (3, 20.0), (4, 30.0), (5, 40.0), (7, 50.0)] {
        assert_close(packets(n), ms / 1e3);
    }
}

#[test]
fn a_shared_cell() {
    // PS-Path and HS-Path of 8 each in a cell of 10; pipe 5. The cell is full
    // while both can use it; in the last 2 ms only the direct path still can.
    let paths = || {
        vec![
            path(vec![on("air", hop(mbps(8.0), 25))]),
            path(vec![hop(mbps(5.0), 2), on("air", hop(mbps(8.0), 25))]),
        ]
    };
    let t = down(&with_medium(paths(), mbps(10.0)), MIB).unwrap();
    assert_close(t, 0.052 + (mbit(MIB) - 8.0 * 0.002) / 10.0);
    // A cell that is no limit changes nothing.
    let wide = down(&with_medium(paths(), Capacity::unlimited()), MIB).unwrap();
    let mut alone = paths();
    for hop in alone.iter_mut().flat_map(|p| &mut p.hops) {
        hop.shared_medium = None;
    }
    assert_close(wide, down(&topology(alone), MIB).unwrap());
}

#[test]
fn pipes_on_one_channel() {
    // Two pipes of 5 on a channel of 6 behind HS-Paths of 25 and 40 ms: the
    // request needs 27 ms, the first pipe has data from 52, the second from 67.
    let helper = |delay| path(vec![on("air", hop(mbps(5.0), 2)), hop(mbps(10.0), delay)]);
    let both = with_medium(vec![helper(25), helper(40)], mbps(6.0));
    let t = down(&both, MIB).unwrap();
    assert_close(t, 0.069 + (mbit(MIB) - 5.0 * 0.015) / 6.0);
}

#[test]
fn a_medium_is_shared_with_foresight() {
    // One cell of 10 for two HS-Paths. Pipe A gives 5 and closes at 1 s; pipe B
    // opens then with 10. So 5 Mbit for B must be fetched in the first second:
    // 5 through A by 1 s, then 10 (t - 1) through B.
    let a = hop(steps(&[(0.0, 5.0), (1.0, 0.0)]), 0);
    let b = hop(steps(&[(0.0, 0.0), (1.0, 10.0)]), 0);
    let cell = || on("air", hop(mbps(10.0), 0));
    let both = with_medium(
        vec![path(vec![a, cell()]), path(vec![b, cell()])],
        mbps(10.0),
    );
    assert_close(down(&both, bytes(12.0)).unwrap(), 1.7);
    assert_close(down(&both, bytes(4.0)).unwrap(), 0.8);
}

#[test]
fn what_cannot_be_is_said() {
    let bound = |topology: &Topology| down(topology, MIB).unwrap_err();
    assert_eq!(bound(&topology(vec![])), IdealError::Empty);
    assert_eq!(bound(&topology(vec![path(vec![])])), IdealError::Empty);
    let dead = topology(vec![path(vec![hop(mbps(0.0), 5)])]);
    assert_eq!(bound(&dead), IdealError::Never);
    let nowhere = topology(vec![path(vec![on("sea", hop(mbps(1.0), 5))])]);
    assert_eq!(
        bound(&nowhere).to_string(),
        "path path: there is no medium named \"sea\""
    );
    let twice = vec![path(vec![
        on("air", hop(mbps(1.0), 1)),
        on("air", hop(mbps(1.0), 1)),
    ])];
    assert!(matches!(
        bound(&with_medium(twice, mbps(1.0))),
        IdealError::MediumInTheMiddle { .. }
    ));
    assert_close(down(&devices(2), 0).unwrap(), 0.025);
}

fn any_capacity() -> impl Strategy<Value = Capacity> {
    prop::collection::vec((0.0..1.5_f64, 0.5..30.0_f64), 1..4).prop_map(|mut parts| {
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps(&parts)
    })
}

fn any_path() -> impl Strategy<Value = Path> {
    prop::collection::vec((any_capacity(), 0..60_u64), 1..4)
        .prop_map(|hops| path(hops.into_iter().map(|(c, d)| hop(c, d)).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The two ways to compute it agree where they must: a medium that is no
    /// limit is none.
    #[test]
    fn the_flow_agrees_with_the_fluid(
        paths in prop::collection::vec(any_path(), 1..4),
        size in 1..4 * MIB,
    ) {
        let alone = down(&topology(paths.clone()), size).unwrap();
        let mut shared = paths;
        for path in &mut shared {
            // The last hop of the list is the first of the downlink.
            let last = path.hops.last_mut().unwrap();
            last.shared_medium = Some("air".to_owned());
        }
        let flow = down(&with_medium(shared, Capacity::unlimited()), size).unwrap();
        prop_assert!((alone - flow).abs() < 1e-6, "{alone} {flow}");
    }

    /// Another path never hurts, and no transfer beats the sum of all rates.
    #[test]
    fn more_paths_are_no_slower(
        paths in prop::collection::vec(any_path(), 2..4),
        size in 1..4 * MIB,
    ) {
        let all = down(&topology(paths.clone()), size).unwrap();
        let fewer = down(&topology(paths[1..].to_vec()), size).unwrap();
        prop_assert!(all <= fewer + 1e-6);
        prop_assert!(all >= mbit(size) / (30.0 * paths.len() as f64));
    }
}

#[test]
fn a_medium_under_a_trace_is_cut_evenly() {
    // Opportunities every other millisecond change the rate more often than
    // the flow has slices. By hand: 6 Mbit/s on average, up to a packet.
    let lines: String = (1..=500).map(|i| format!("{}\n", 2 * i)).collect();
    let trace = MahimahiTrace::parse("t", &lines).unwrap();
    let way = || path(vec![on("air", hop(Capacity::mahimahi(&trace), 0))]);
    let exact = 2.0 * mbit(MIB) / 12.0;
    let t = down(&with_medium(vec![way()], Capacity::unlimited()), MIB).unwrap();
    assert!(
        t <= exact + 0.002 && t >= exact * (1.0 - 1.0 / 400.0) - 0.002,
        "{t} {exact}"
    );
    // Two such links, averaged, fill a medium of 8 Mbit/s.
    let t = down(&with_medium(vec![way(), way()], mbps(8.0)), MIB).unwrap();
    let exact = mbit(MIB) / 8.0;
    assert!(
        t <= exact + 0.002 && t >= exact * (1.0 - 1.0 / 400.0) - 0.002,
        "{t} {exact}"
    );
}
