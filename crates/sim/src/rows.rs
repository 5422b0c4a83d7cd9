//! Scenarios of the figures in virtual time, by row.

use std::time::Duration;

use crate::ideal::Direction;
use crate::world::{Before, Daemon, Fault, Happening, Scenario, When};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const WWAN: Duration = Duration::from_millis(25);
const PIPE: Duration = Duration::from_millis(2);

/// One row: a scenario whose last exchange is measured.
pub struct Row {
    /// Condition of the links: `stable`, `changing`, `silent`, `direct`, `pauses` or `cut`; or of
    /// the ends: `windows`, `late`.
    pub kind: &'static str,
    /// Name of the row.
    pub label: String,
    /// Ratio to the ideal that is to be reached, if one was set.
    pub target: Option<f64>,
    /// Links, exchanges and faults.
    pub scenario: Scenario,
}

impl Row {
    fn new(kind: &'static str, label: String, target: Option<f64>, scenario: Scenario) -> Self {
        Self {
            kind,
            label,
            target,
            scenario,
        }
    }
}

/// All rows, in the order of the table.
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    stable(&mut rows);
    changing(&mut rows);
    silent(&mut rows);
    direct(&mut rows);
    windows(&mut rows);
    pauses(&mut rows);
    cut(&mut rows);
    late(&mut rows);
    rows
}

/// 8/10/5 and 8/10/5 twice.
fn stable(rows: &mut Vec<Row>) {
    let sizes = [
        (512 * KIB, [1.15, 1.25]),
        (2 * MIB, [1.07, 1.10]),
        (10 * MIB, [1.03, 1.05]),
    ];
    for direction in [Direction::Down, Direction::Up] {
        for helpers in 1..=2 {
            for (bytes, targets) in sizes {
                for before in [Before::Joined, Before::Used] {
                    let scenario = Scenario::bonded(8.0, &[(10.0, 5.0); 2][..helpers], WWAN, PIPE)
                        .measuring(before, direction, bytes);
                    let label = format!(
                        "{direction:?} 8/10/5, {} devices, {} {}",
                        helpers + 1,
                        size(bytes),
                        if before == Before::Used { "used" } else { "" }
                    );
                    let target = Some(targets[helpers - 1]);
                    rows.push(Row::new("stable", label, target, scenario));
                }
            }
        }
    }
}

/// 5/10/5, 4 MiB, a link falls or rises after 2 s.
fn changing(rows: &mut Vec<Row>) {
    for direction in [Direction::Down, Direction::Up] {
        for (link, mbps) in [("pipe1", 1.0), ("hs1", 1.0), ("ps", 1.0), ("pipe1", 10.0)] {
            let scenario = Scenario::bonded(5.0, &[(10.0, 5.0)], WWAN, PIPE)
                .measuring(Before::Joined, direction, 4 * MIB)
                .changing(link, mbps, Duration::from_secs(2));
            let label = format!("{direction:?} 5/10/5, 4 MiB, {link} to {mbps}");
            rows.push(Row::new("changing", label, None, scenario));
        }
    }
}

/// 10 MiB with one other path of 50 ms and more: a link falls silent after 2 s. The stall counts.
fn silent(rows: &mut Vec<Row>) {
    let after = Duration::from_secs(2);
    for direction in [Direction::Down, Direction::Up] {
        for link in ["ps", "pipe1", "hs1"] {
            let scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
                .measuring(Before::Joined, direction, 10 * MIB)
                .silencing(link, after);
            let label = format!("{direction:?} 8/10/5, 10 MiB, {link} silent");
            rows.push(Row::new("silent", label, None, scenario));
        }
        let early = Duration::from_millis(800);
        let scenario = Scenario::bonded(8.0, &[(10.0, 5.0); 2], WWAN, PIPE)
            .measuring(Before::Joined, direction, 4 * MIB)
            .silencing("ps", early);
        let label = format!("{direction:?} 8/10/5, 3 devices, ps silent early");
        rows.push(Row::new("silent", label, None, scenario));
        let mut scenario = Scenario::multihomed(&[(20.0, WWAN), (10.0, WWAN)]).measuring(
            Before::Joined,
            direction,
            10 * MIB,
        );
        let name = scenario.links.first().map(|l| l.name.clone());
        scenario = scenario.silencing(&name.unwrap_or_default(), after);
        let label = format!("{direction:?} 20 + 10, 10 MiB, first silent");
        rows.push(Row::new("silent", label, None, scenario));
    }
}

/// Two own interfaces.
fn direct(rows: &mut Vec<Row>) {
    let ms = Duration::from_millis;
    for (paths, loss, bytes) in [
        ([(20.0, ms(10)), (10.0, ms(40))], 0.0, 4 * MIB),
        ([(20.0, ms(10)), (10.0, ms(40))], 0.0, 40 * MIB),
        ([(20.0, ms(10)), (10.0, ms(40))], 0.01, 40 * MIB),
        ([(50.0, ms(5)), (5.0, ms(100))], 0.0, 4 * MIB),
        ([(50.0, ms(5)), (5.0, ms(100))], 0.0, 40 * MIB),
    ] {
        let mut scenario =
            Scenario::multihomed(&paths).measuring(Before::Joined, Direction::Down, bytes);
        scenario.links[1].up.loss = loss;
        scenario.links[1].down.loss = loss;
        let [(a, _), (b, _)] = paths;
        let label = format!("Down {a} + {b}, {} loss {loss}", size(bytes));
        rows.push(Row::new("direct", label, None, scenario));
    }
}

const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// A fast and a slow path, and a helper; windows that a fast path fills while a slow one owes the
/// bytes that the application waits for.
fn windows(rows: &mut Vec<Row>) {
    let ms = Duration::from_millis;
    for direction in DIRECTIONS {
        for window in [64 * KIB, 256 * KIB] {
            let paths = [(20.0, ms(10)), (2.0, ms(100))];
            for (name, world) in [
                ("20 + 2", Scenario::multihomed(&paths)),
                ("8/10/5", Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)),
            ] {
                let mut scenario = world.measuring(Before::Joined, direction, 4 * MIB);
                for end in [&mut scenario.client, &mut scenario.server] {
                    end.receive_window_bytes = window;
                    end.initial_stream_window_bytes = window;
                }
                let label = format!("{direction:?} {name}, 4 MiB, windows of {}", size(window));
                rows.push(Row::new("windows", label, None, scenario));
            }
        }
    }
}

/// 8/10/5, 10 MiB: a link stands still twice, and goes on.
fn pauses(rows: &mut Vec<Row>) {
    for direction in DIRECTIONS {
        for link in ["ps", "pipe1", "hs1"] {
            for pause in [1, 2] {
                let mut scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE).measuring(
                    Before::Joined,
                    direction,
                    10 * MIB,
                );
                for begin in [1, 5] {
                    let [from, to] = [begin, begin + pause].map(Duration::from_secs);
                    scenario = scenario.silencing(link, from).restoring(link, to);
                }
                let label = format!("{direction:?} 8/10/5, 10 MiB, {link} pauses for {pause} s");
                rows.push(Row::new("pauses", label, None, scenario));
            }
        }
    }
}

/// 8/10/5: the pipe falls to 0.2 Mbit/s during a transfer, whose copies it carries on at its end.
/// The next one begins soon after, over the same pipe or one that has recovered.
fn cut(rows: &mut Vec<Row>) {
    let soon = Duration::from_millis(200);
    for direction in DIRECTIONS {
        for after in [0.2, 5.0] {
            for bytes in [256 * KIB, 2 * MIB] {
                let mut scenario = Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)
                    .measuring(Before::Joined, direction, 2 * MIB)
                    .changing("pipe1", 0.2, Duration::from_secs(1));
                let mut next = scenario.exchanges[0].clone();
                next.start = When::AfterEnd(0, soon);
                match direction {
                    Direction::Down => next.down_bytes = bytes,
                    Direction::Up => next.up_bytes = bytes,
                }
                scenario = scenario
                    .with_exchange(next)
                    .changing("pipe1", after, Duration::ZERO);
                let label = format!("{direction:?} 8/10/5, {} next, pipe1 {after}", size(bytes));
                rows.push(Row::new("cut", label, None, scenario));
            }
        }
    }
}

/// 8 MiB, the process of the receiver does not run for 0.1 to 2 s at a time; its kernel does.
fn late(rows: &mut Vec<Row>) {
    let ms = Duration::from_millis;
    for (direction, who) in [
        (Direction::Down, Daemon::Primary),
        (Direction::Up, Daemon::Proxy),
    ] {
        for (name, world) in [
            (
                "20 + 10",
                Scenario::multihomed(&[(20.0, ms(10)), (10.0, ms(40))]),
            ),
            ("8/10/5", Scenario::bonded(8.0, &[(10.0, 5.0)], WWAN, PIPE)),
        ] {
            let mut scenario = world.measuring(Before::Joined, direction, 8 * MIB);
            let mut at = ms(300);
            for length in [100, 400, 1_000, 2_000, 200, 700, 1_500].map(ms) {
                let when = When::AfterStart(scenario.exchanges.len() - 1, at);
                let what = Happening::Freeze { who, length };
                scenario.faults.push(Fault { when, what });
                at += length + ms(300);
            }
            let label = format!("{direction:?} {name}, 8 MiB, late receiver");
            rows.push(Row::new("late", label, None, scenario));
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes < MIB {
        format!("{} KiB", bytes / KIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
