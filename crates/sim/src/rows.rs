//! Scenarios of the figures in virtual time, by row.

use std::time::Duration;

use crate::ideal::Direction;
use crate::world::{Before, Scenario};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const WWAN: Duration = Duration::from_millis(25);
const PIPE: Duration = Duration::from_millis(2);

/// One row: a scenario whose last exchange is measured.
pub struct Row {
    /// Condition of the links: `stable`, `changing`, `silent` or `direct`.
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

fn size(bytes: u64) -> String {
    if bytes < MIB {
        format!("{} KiB", bytes / KIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
