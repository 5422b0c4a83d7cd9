//! An ablation as tables.

use super::effect::{Change, Effect, percent};
use super::record::{Ablation, Finding};
use crate::figures::grid::Grid;

/// Heading of the tables of one kind.
pub(super) fn title(alone: bool) -> &'static str {
    match alone {
        false => "Each mechanism left out",
        true => "Each mechanism alone",
    }
}

fn of(report: &Ablation, alone: bool) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(move |f| f.alone == alone)
}

/// Gains and costs of each mechanism, and its effects on rows and random worlds.
pub(super) fn verdicts(report: &Ablation, alone: bool) -> Grid {
    let header = [
        "mechanism",
        "rows: copies",
        "rows: energy",
        "worlds: copies",
        "mean gap",
        "gap of 99 %",
        "fail",
        "processor",
        "gains at least 1 %",
        "costs at least 1 %",
    ];
    let mut grid = Grid::new(header, &[0, 8, 9]);
    for finding in of(report, alone) {
        let rows = || {
            finding
                .effects
                .iter()
                .filter(|e| e.group.starts_with("rows"))
        };
        let worlds = finding.effects.iter().find(|e| e.group == "worlds");
        let mean = |values: Vec<f64>| match values.len() {
            0 => "-".to_owned(),
            n => percent(values.iter().sum::<f64>() / n as f64),
        };
        let change = |change| {
            mean(
                Option::<Change>::into_iter(change)
                    .map(|c| c.mean)
                    .collect(),
            )
        };
        let gaps = worlds.and_then(|e| e.gap_99_s);
        let failed = |n: usize| finding.effects.iter().map(|e| e.failed[n]).sum::<usize>();
        let list = |all: &[String]| match all {
            [] => "none".to_owned(),
            all => all.join("; "),
        };
        grid.row(vec![
            finding.mechanism.to_owned(),
            mean(rows().filter_map(|e| Some(e.copies?.mean)).collect()),
            mean(rows().filter_map(|e| Some(e.joules?.mean)).collect()),
            change(worlds.and_then(|e| e.copies)),
            change(worlds.and_then(|e| e.gap)),
            gaps.map_or("-".to_owned(), |[with, without]| {
                format!("{with:.2} → {without:.2} s")
            }),
            format!("{} → {}", failed(0), failed(1)),
            percent(finding.cpu),
            list(&finding.gains),
            list(&finding.costs),
        ]);
    }
    grid
}

/// Changes of the times by group, each with the largest ratio of a pair.
pub(super) fn times(report: &Ablation, alone: bool) -> Grid {
    let first = of(report, alone).next();
    let groups = first.map(|f| f.effects.iter().map(|e| e.group.clone()));
    let header = std::iter::once("mechanism".to_owned()).chain(groups.into_iter().flatten());
    let mut grid = Grid::new(header, &[0]);
    for finding in of(report, alone) {
        let cells = finding.effects.iter().map(time);
        let name = std::iter::once(finding.mechanism.to_owned());
        grid.row(name.chain(cells).collect());
    }
    grid
}

/// Empty where nothing changes.
fn time(effect: &Effect) -> String {
    let (Some(time), Some((worst, _))) = (effect.time, &effect.worst) else {
        return "-".to_owned();
    };
    match time.mean.abs() < 0.000_5 && *worst < 1.005 {
        true => String::new(),
        false => format!("{}, {worst:.2}", percent(time.mean)),
    }
}

/// All tables as Markdown.
pub(super) fn to_markdown(report: &Ablation) -> String {
    let mut out = String::new();
    for alone in [false, true] {
        out += &format!(
            "### {}\n\n{}\n{}\n",
            title(alone),
            verdicts(report, alone).to_markdown(),
            times(report, alone).to_markdown()
        );
    }
    out
}
