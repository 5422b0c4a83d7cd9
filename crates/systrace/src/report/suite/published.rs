//! Values that the Android Wear characterization publishes for its fifteen benchmarks.

use serde::Serialize;

/// Tables 1 to 3, sections 5.2.1 and 5.2.2, as `scenario,table,what,unit,mean,sd,calls,calls_sd`.
const SHIPPED: &str = include_str!("../../../data/wear_published.csv");

/// A published value of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Published {
    pub scenario: &'static str,
    pub table: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    pub mean: f64,
    pub sd: Option<f64>,
    pub calls: Option<(f64, f64)>,
}

/// All published values, in the order of the tables.
pub(super) fn published() -> Vec<Published> {
    let lines = SHIPPED.lines().filter(|l| !l.starts_with('#')).skip(1);
    lines.filter_map(row).collect()
}

fn row(line: &'static str) -> Option<Published> {
    let mut cells = line.split(',');
    let mut next = || cells.next();
    let (scenario, table, what, unit) = (next()?, next()?, next()?, next()?);
    let mut number = || next()?.parse::<f64>().ok();
    let (mean, sd) = (number()?, number());
    Some(Published {
        scenario,
        table,
        what,
        unit,
        mean,
        sd,
        calls: number().zip(number()),
    })
}

/// A published statement about all scenarios, or about most of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Claim {
    /// Table or figure.
    pub table: &'static str,
    /// Quantity.
    pub what: &'static str,
    /// Unit of the limits; empty for a plain number.
    pub unit: &'static str,
    /// Smallest value.
    pub at_least: Option<f64>,
    /// Greatest value.
    pub at_most: Option<f64>,
    /// Approximate value; a value within a quarter of it agrees.
    pub around: Option<f64>,
    /// Whether the statement is about most scenarios; otherwise it is about all.
    pub most: bool,
    /// Section of the paper.
    pub section: &'static str,
}

const fn claim(
    (table, what, unit): (&'static str, &'static str, &'static str),
    at_least: Option<f64>,
    at_most: Option<f64>,
    most: bool,
    section: &'static str,
) -> Claim {
    Claim {
        table,
        what,
        unit,
        at_least,
        at_most,
        around: None,
        most,
        section,
    }
}

/// A statement with an approximate value, in ms.
const fn around(table: &'static str, what: &'static str, ms: f64) -> Claim {
    Claim {
        around: Some(ms),
        ..claim((table, what, "ms"), None, None, false, "5.2.1")
    }
}

/// The statements of section 5 whose quantities a trace shows.
pub(super) const CLAIMS: &[Claim] = &[
    claim(
        ("Figure 3(a)", "OS", "%"),
        Some(48.0),
        Some(93.0),
        false,
        "5.1.1",
    ),
    claim(
        ("Figure 4", "top 5 functions", "%"),
        Some(20.0),
        None,
        true,
        "5.1.3",
    ),
    claim(
        ("Figure 4", "top 50 functions", "%"),
        Some(50.0),
        None,
        true,
        "5.1.3",
    ),
    claim(("Table 2", "Total", "%"), None, Some(45.1), false, "5.1.3"),
    claim(
        ("Section 5.1.4", "setLightLocked", "ms"),
        Some(100.0),
        None,
        false,
        "5.1.4",
    ),
    claim(
        ("Table 4", "idle share", "%"),
        None,
        Some(87.0),
        false,
        "5.2",
    ),
    claim(
        ("Table 4", "explained", "%"),
        Some(91.0),
        None,
        false,
        "5.2",
    ),
    claim(
        ("Table 4", "voice UI share of P1 + P2", "%"),
        None,
        Some(19.0),
        false,
        "5.2.1",
    ),
    around("Section 5.2.1", "voice UI hand-over", 120.0),
    around("Section 5.2.1", "suspending", 200.0),
    around("Section 5.2.1", "idle in suspending", 130.0),
    claim(("Figure 5(a)", "TLP", ""), None, Some(2.2), false, "5.3"),
    // The mean of smartphone workloads, which most benchmarks exceed.
    claim(("Figure 5(a)", "TLP", ""), Some(1.44), None, true, "5.3"),
    claim(("Figure 6", "CPI", ""), Some(2.0), Some(5.0), false, "5.4"),
    claim(
        ("Figure 6", "L1 icache MPKI", ""),
        Some(30.0),
        Some(76.0),
        true,
        "5.4",
    ),
    claim(
        ("Figure 6", "branch misprediction", "%"),
        None,
        Some(28.0),
        false,
        "5.4",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_published_values_are_read() {
        let list = published();
        let of = |table: &str| list.iter().filter(|p| p.table == table).count();
        assert_eq!((of("Table 1"), of("Table 2"), of("Table 3")), (45, 105, 75));
        assert_eq!((of("Table 4"), of("Section 5.2.1")), (1, 9));
        let lines = SHIPPED.lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(list.len(), lines - 1);
        let p = (list.iter()).find(|p| p.scenario == "wrist" && p.what.ends_with("setLightLocked"));
        let p = p.unwrap();
        assert_eq!(
            (p.mean, p.sd, p.calls),
            (164.08, Some(30.1), Some((23.0, 4.16)))
        );
    }
}
