//! Wanted figures (ADR 0022), and whether a survey's rows have them.

use mpbond_statistics::Sample;

use super::case::{SurveyScheme, SurveyStart};
use super::record::{Figure, Row};
use crate::figures::grid::Grid;

/// Bytes above which copies are judged by their share.
const LARGE_BYTES: u64 = 256 << 10;

/// Unit of a figure's value.
#[derive(Clone, Copy)]
enum Unit {
    Share,
    Ratio,
    Kib,
    Count,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.2} %", value * 100.0),
            Self::Ratio => format!("{value:.3}"),
            Self::Kib => format!("{:.1} KiB", value / 1024.0),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// A wanted maximum.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    name: &'a str,
    /// Rows that it is of.
    of: &'a dyn Fn(&Row) -> bool,
    /// Whether it is judged for each kind of transfer (size, direction, devices, state); the value
    /// is then that of the worst kind.
    by_kind: bool,
    /// Quantity of a row.
    quantity: &'a dyn Fn(&Row) -> f64,
    /// Value of several rows.
    value: fn(&Sample) -> Option<f64>,
    at_most: f64,
    unit: Unit,
}

/// The wanted figures of each scheme's rows. A figure without rows is left out.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut schemes: Vec<SurveyScheme> = Vec::new();
    for row in rows {
        if !schemes.contains(&row.scheme) {
            schemes.push(row.scheme);
        }
    }
    let mut figures = Vec::new();
    for scheme in schemes {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.scheme == scheme).collect();
        figures.extend(wanted(&|wanted| judge(wanted, &rows)));
    }
    figures
}

/// All wanted figures, each judged by `judge`.
fn wanted(judge: &dyn Fn(&Wanted) -> Option<Figure>) -> Vec<Figure> {
    fn one_if(holds: bool) -> f64 {
        f64::from(u8::from(holds))
    }
    let open = |row: &Row| row.start != SurveyStart::Cold;
    let drawn = |row: &Row| row.links_are() != "recorded";
    let smooth = |row: &Row| row.links_are() == "smooth" && open(row);
    let rough = |row: &Row| row.links_are() == "rough" && open(row);
    let opened = |row: &Row| drawn(row) && open(row);
    let cold = |row: &Row| drawn(row) && !open(row);
    let large = |row: &Row| row.transfer.0 > LARGE_BYTES;
    let small = |row: &Row| !large(row);
    let slower = |row: &Row| one_if(row.slower);
    let share = |row: &Row| row.copies_beyond_hedges();
    let over_bound = |row: &Row| row.seconds / row.slow_start_seconds;
    let best_link = Wanted {
        name: "smooth links, not cold: share slower than the best link, worst kind",
        of: &smooth,
        by_kind: true,
        quantity: &slower,
        value: Sample::mean,
        at_most: 0.01,
        unit: Unit::Share,
    };
    let copies = Wanted {
        name: "over 256 KiB: share sent twice, hedges of up to 1 % apart, median",
        of: &large,
        by_kind: false,
        quantity: &share,
        value: Sample::median,
        at_most: 0.001,
        unit: Unit::Share,
    };
    let bound = Wanted {
        name: "time against the bound with slow start, median",
        of: &drawn,
        by_kind: false,
        quantity: &over_bound,
        value: Sample::median,
        at_most: 1.05,
        unit: Unit::Ratio,
    };
    let all = [
        judge(&best_link),
        judge(&Wanted {
            name: "rough links, not cold: share slower than the best link, worst kind",
            of: &rough,
            at_most: 0.03,
            ..best_link
        }),
        judge(&Wanted {
            name: "smooth links, not cold: time against the best link, worst",
            by_kind: false,
            // A difference of up to 5 ms does not count.
            quantity: &|row| {
                if row.slower {
                    row.ratio
                } else {
                    row.ratio.min(1.0)
                }
            },
            value: Sample::max,
            at_most: 1.10,
            unit: Unit::Ratio,
            ..best_link
        }),
        judge(&Wanted {
            name: "cold: time against the best link, median, worst kind",
            of: &cold,
            quantity: &|row| row.ratio,
            value: Sample::median,
            at_most: 1.10,
            unit: Unit::Ratio,
            ..best_link
        }),
        judge(&Wanted {
            name: "not cold, mpbond over the best link alone: rows over 3 % slower than TCP",
            of: &opened,
            by_kind: false,
            quantity: &|row| one_if(row.alone_over_tcp.is_some_and(|ratio| ratio > 1.03)),
            value: sum,
            at_most: 0.0,
            unit: Unit::Count,
        }),
        judge(&copies),
        judge(&Wanted {
            name: "over 256 KiB: share sent twice, hedges of up to 1 % apart, 95th percentile",
            value: high,
            at_most: 0.02,
            ..copies
        }),
        judge(&Wanted {
            name: "over 256 KiB: share sent twice, hedges of up to 1 % apart, most",
            value: Sample::max,
            at_most: 0.05,
            ..copies
        }),
        judge(&Wanted {
            name: "up to 256 KiB: bytes sent twice, most of a transfer",
            of: &small,
            quantity: &|row| row.redundant_bytes_max as f64,
            value: Sample::max,
            at_most: 32_768.0,
            unit: Unit::Kib,
            ..copies
        }),
        judge(&bound),
        judge(&Wanted {
            name: "time against the bound with slow start, 95th percentile",
            value: high,
            at_most: 1.25,
            ..bound
        }),
        judge(&Wanted {
            name: "transfers that did not end",
            of: &|_| true,
            quantity: &|row| f64::from(row.failed),
            value: sum,
            at_most: 0.0,
            unit: Unit::Count,
            ..bound
        }),
    ];
    all.into_iter().flatten().collect()
}

fn judge(wanted: &Wanted, rows: &[&Row]) -> Option<Figure> {
    let rows: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| (wanted.of)(row))
        .collect();
    let key = |r: &Row| (r.links_are(), r.devices, r.start, r.direction, r.transfer);
    let mut kinds: Vec<Vec<&Row>> = Vec::new();
    for &row in &rows {
        let same = |kind: &Vec<&Row>| {
            let first = kind.first();
            !wanted.by_kind || first.is_some_and(|first| key(first) == key(row))
        };
        match kinds.iter_mut().find(|kind| same(kind)) {
            Some(kind) => kind.push(row),
            None => kinds.push(vec![row]),
        }
    }
    let valued = kinds.iter().filter_map(|kind| {
        let values = kind.iter().map(|row| (wanted.quantity)(row));
        let sample = Sample::new(values.filter(|v| v.is_finite()).collect());
        Some(((wanted.value)(&sample)?, kind))
    });
    let (value, kind) = valued.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let finite = kind.iter().filter(|row| (wanted.quantity)(row).is_finite());
    let worst = finite.max_by(|a, b| {
        let order = |row: &Row| ((wanted.quantity)(row), row.ratio);
        let (a, b) = (order(a), order(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })?;
    let holds = value <= wanted.at_most;
    Some(Figure {
        scheme: worst.scheme,
        name: wanted.name.to_owned(),
        rows: rows.len(),
        value,
        at_most: wanted.at_most,
        text: [value, wanted.at_most].map(|value| wanted.unit.text(value)),
        holds,
        worst: (!holds).then(|| worst.replay.clone()),
    })
}

fn sum(sample: &Sample) -> Option<f64> {
    sample.mean().map(|mean| mean * sample.len() as f64)
}

fn high(sample: &Sample) -> Option<f64> {
    sample.quantile(0.95)
}

/// The figures as a table.
pub(super) fn grid(figures: &[Figure]) -> Grid {
    let header = ["", "figure", "value", "at most", "rows", "scheme"];
    let mut grid = Grid::new(header, &[0, 1, 5]);
    for figure in figures {
        let [value, at_most] = figure.text.clone();
        grid.row(vec![
            if figure.holds { "holds" } else { "MISSED" }.to_owned(),
            figure.name.clone(),
            value,
            at_most,
            figure.rows.to_string(),
            figure.scheme.to_string(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use mpbond_units::Size;

    use super::*;
    use crate::experiment::Direction;

    fn row(start: SurveyStart, kib: u64, ratio: f64) -> Row {
        Row {
            seed: Some(1),
            setting: 0,
            pair: None,
            rough: false,
            links: std::collections::BTreeMap::new(),
            devices: 2,
            start,
            direction: Direction::Down,
            transfer: Size(kib << 10),
            scheme: SurveyScheme::default(),
            seconds: ratio,
            best_link: "own link".to_owned(),
            best_link_seconds: 1.0,
            ratio,
            slower: ratio > 1.03,
            alone_over_tcp: Some(1.0),
            ideal_seconds: 0.9,
            slow_start_seconds: 1.0,
            clairvoyant_seconds: None,
            redundant_share: 0.0,
            hedged_share: 0.0,
            redundant_bytes: 0.0,
            redundant_bytes_max: 0,
            failed: 0,
            transfers: 20,
            replay: format!("replay {ratio}"),
        }
    }

    fn value<'f>(figures: &'f [Figure], name: &str) -> &'f Figure {
        let found = figures.iter().find(|figure| figure.name.starts_with(name));
        found.unwrap_or_else(|| panic!("no figure {name}: {figures:?}"))
    }

    #[test]
    fn figures_are_those_of_the_worst_kind() {
        // One of 100 small transfers is slower, and one of 50 large ones.
        let mut rows = vec![row(SurveyStart::Joined, 64, 0.9); 99];
        rows.push(row(SurveyStart::Joined, 64, 1.05));
        rows.extend(vec![row(SurveyStart::Joined, 512, 0.7); 49]);
        let small = figures(&rows);
        let slower = value(&small, "smooth links, not cold: share slower");
        assert!(
            (slower.value - 0.01).abs() < 1e-12 && slower.holds,
            "{slower:?}"
        );
        assert_eq!(slower.rows, 149);
        rows.push(row(SurveyStart::Joined, 512, 1.08));
        let both = figures(&rows);
        let slower = value(&both, "smooth links, not cold: share slower");
        assert_eq!((slower.value, slower.holds), (0.02, false));
        assert_eq!(slower.worst.as_deref(), Some("replay 1.08"));
        let worst = value(&both, "smooth links, not cold: time");
        assert_eq!((worst.value, worst.holds), (1.08, true));
        assert!(both.iter().all(|figure| !figure.name.starts_with("cold")));
    }

    /// A row without a value, which the order of numbers has last.
    #[test]
    fn the_worst_row_has_a_value() {
        let slow = row(SurveyStart::Joined, 64, 9.0);
        let none = row(SurveyStart::Joined, 64, f64::NAN);
        let all = figures(&[slow, none]);
        let time = value(&all, "smooth links, not cold: time");
        assert_eq!((time.value, time.holds), (9.0, false));
        assert_eq!(time.worst.as_deref(), Some("replay 9"));
    }

    #[test]
    fn copies_are_judged_by_size() {
        let mut small = row(SurveyStart::Kept, 256, 1.0);
        (small.redundant_share, small.redundant_bytes_max) = (0.3, 33 << 10);
        // Of 5.5 %, 1.5 % are hedges, of which 1 % counts apart.
        let mut large = row(SurveyStart::Cold, 512, 1.0);
        (large.redundant_share, large.redundant_bytes_max) = (0.055, 1 << 20);
        large.hedged_share = 0.015;
        let figures = figures(&[small, large]);
        let text = |name| {
            let figure = value(&figures, name);
            (figure.text[0].as_str(), figure.holds)
        };
        assert_eq!(
            text("over 256 KiB: share sent twice, hedges of up to 1 % apart, median"),
            ("4.50 %", false)
        );
        assert_eq!(
            text("over 256 KiB: share sent twice, hedges of up to 1 % apart, most"),
            ("4.50 %", true)
        );
        assert_eq!(text("up to 256 KiB"), ("33.0 KiB", false));
        assert_eq!(text("cold"), ("1.000", true));
    }
}
