//! Figures of a survey by kind of transfer.

use mpbond_statistics::Sample;

use super::record::{Group, Row};
use crate::figures::grid::Grid;

/// Groups of the rows, in the order of their first rows: one for each size, then one for all sizes.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let same = |a: &Row, b: &Row| {
        let key = |r: &Row| (r.links_are(), r.devices, r.start, r.direction);
        key(a) == key(b) && a.scheme == b.scheme
    };
    let mut kinds: Vec<&Row> = Vec::new();
    for row in rows {
        if !kinds.iter().any(|kind| same(kind, row)) {
            kinds.push(row);
        }
    }
    let mut groups = Vec::new();
    for kind in kinds {
        let all: Vec<&Row> = rows.iter().filter(|row| same(row, kind)).collect();
        let mut sizes: Vec<_> = all.iter().map(|row| row.transfer).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in &sizes {
            let of_size = all.iter().copied().filter(|row| row.transfer == *size);
            groups.extend(group(&of_size.collect::<Vec<_>>(), true));
        }
        if sizes.len() > 1 {
            groups.extend(group(&all, false));
        }
    }
    groups
}

fn group(rows: &[&Row], one_size: bool) -> Option<Group> {
    let first = rows.first()?;
    let sample = |value: &dyn Fn(&Row) -> f64| {
        let values = rows.iter().map(|row| value(row));
        Sample::new(values.filter(|v| v.is_finite()).collect())
    };
    let at = |sample: &Sample, share| sample.quantile(share).unwrap_or(f64::NAN);
    let three = |sample: Sample| [0.5, 0.95, 1.0].map(|share| at(&sample, share));
    let two = |sample: Sample| [0.5, 0.95].map(|share| at(&sample, share));
    let worst = rows.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let count = |test: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| test(row)).count();
    Some(Group {
        scheme: first.scheme,
        links: first.links_are(),
        devices: first.devices,
        start: first.start,
        direction: first.direction,
        transfer: one_size.then_some(first.transfer),
        rows: rows.len(),
        ratio: three(sample(&|row| row.ratio)),
        slower_share: count(&|row| row.slower) as f64 / rows.len() as f64,
        worst: worst.replay.clone(),
        over_slow_start: two(sample(&|row| row.seconds / row.slow_start_seconds)),
        over_clairvoyant: two(sample(&|row| {
            row.seconds / row.clairvoyant_seconds.unwrap_or(f64::NAN)
        })),
        redundant_share: three(sample(&|row| row.redundant_share)),
        redundant_bytes: (rows.iter().map(|row| row.redundant_bytes_max).max()).unwrap_or(0),
        alone_slower: count(&|row| row.alone_over_tcp.is_some_and(|ratio| ratio > 1.03)),
        failed: rows.iter().map(|row| row.failed).sum(),
    })
}

/// The groups as a table.
pub(super) fn grid(groups: &[Group]) -> Grid {
    let header = [
        "scheme",
        "links",
        "devices",
        "start",
        "transfer",
        "rows",
        "best link: median",
        "95 %",
        "worst",
        "slower",
        "slow start: median",
        "95 %",
        "twice: median",
        "95 %",
        "most",
    ];
    let mut grid = Grid::new(header, &[0, 1, 3, 4]);
    for g in groups {
        let times = |ratio: f64| format!("{ratio:.2}");
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let size = g.transfer.map_or("all".to_owned(), |size| size.to_string());
        let direction = match g.direction {
            crate::experiment::Direction::Down => "down",
            crate::experiment::Direction::Up => "up",
        };
        grid.row(vec![
            g.scheme.to_string(),
            g.links.to_owned(),
            g.devices.to_string(),
            g.start.name().to_owned(),
            format!("{size} {direction}"),
            g.rows.to_string(),
            times(g.ratio[0]),
            times(g.ratio[1]),
            times(g.ratio[2]),
            percent(g.slower_share),
            times(g.over_slow_start[0]),
            times(g.over_slow_start[1]),
            percent(g.redundant_share[0]),
            percent(g.redundant_share[1]),
            percent(g.redundant_share[2]),
        ]);
    }
    grid
}
