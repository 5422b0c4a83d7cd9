//! A survey as one HTML file.

use std::fmt::Write as _;

use mpbond_plot::{Chart, Form, PAGE_STYLE, Series, escaped};
use mpbond_units::Size;

use super::case::SurveyScheme;
use super::record::{Group, Row, Survey};
use super::{figures, summary};
use crate::experiment::Direction;

/// Horizontal axis of all charts.
const TIME: &str = "time / time over the best link alone";
/// Charts stand side by side where there is room.
const STYLE: &str = ".pictures { display: flex; flex-wrap: wrap; gap: 1rem; max-width: 100%; }\n";
/// Number of worst transfers that are listed.
const WORST: usize = 20;

pub(super) fn to_html(survey: &Survey, date: &str) -> String {
    let title = "Transfers over links drawn at random";
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"meta\">{}, {} transfers each, in virtual time. Made {}{}.</p>\n\
         <p>Each transfer is compared with the same transfer over the best link alone, which is \
         chosen on other seeds among plain TCP and mpbond over each single path. A ratio below 1 \
         means that several devices are faster. <em>Slower</em> is slower by over 3 % and 5 ms. \
         <em>Smooth</em> links lose no packets at random and have no jitter. <em>Slow start</em> \
         is a lower bound: all hops open with a window of 10 segments that doubles each round \
         trip.</p>\n",
        match survey.seed.as_slice() {
            [] => "Pairs of recorded links".to_owned(),
            [seed] => format!("Settings of seed {seed}"),
            seeds => {
                let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
                format!("Settings of seeds {}", seeds.join(", "))
            }
        },
        survey.seeds,
        escaped(date),
        match survey.commit.as_str() {
            "" => String::new(),
            commit => format!(" from {}", escaped(commit)),
        }
    );
    out.push_str("<h2>Wanted figures</h2>\n");
    out += &figures::grid(&survey.figures).to_html();
    out.push_str("<h2>Times and copies</h2>\n<div class=\"pictures\">\n");
    let mut drawn: Vec<(SurveyScheme, Direction)> = Vec::new();
    for Group {
        scheme, direction, ..
    } in &survey.summary
    {
        if !drawn.contains(&(*scheme, *direction)) {
            drawn.push((*scheme, *direction));
            add(&mut out, &copies(survey, *scheme, *direction));
        }
    }
    out.push_str("</div>\n<h2>Distributions</h2>\n<div class=\"pictures\">\n");
    for kind in survey.summary.iter().filter(|g| is_first(survey, g)) {
        add(&mut out, &distribution(survey, kind));
    }
    out.push_str("</div>\n<h2>Kinds of transfers</h2>\n");
    out += &summary::grid(&survey.summary).to_html();
    out.push_str("<h2>Slowest against the best link</h2>\n<ol>\n");
    let mut rows: Vec<&Row> = survey.settings.iter().collect();
    rows.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    for row in rows.iter().take(WORST) {
        let _ = writeln!(
            out,
            "<li>{:.2}: {:.3} s, over the best link ({}) {:.3} s; <code>{}</code></li>",
            row.ratio,
            row.seconds,
            escaped(&row.best_link),
            row.best_link_seconds,
            escaped(&row.replay)
        );
    }
    out.push_str("</ol>\n</body>\n</html>\n");
    out
}

fn add(out: &mut String, chart: &Chart) {
    let _ = writeln!(out, "<div class=\"chart\">{}</div>", chart.to_svg());
}

/// Time against the best link and bytes sent twice of each row, a series for each size.
fn copies(survey: &Survey, scheme: SurveyScheme, direction: Direction) -> Chart {
    let rows = survey.settings.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.scheme == scheme && row.direction == direction)
        .collect();
    let mut sizes: Vec<Size> = rows.iter().map(|row| row.transfer).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let series = sizes.iter().zip(0..).map(|(size, style)| {
        let of_size = rows.iter().filter(|row| row.transfer == *size);
        Series {
            name: size.to_string(),
            style,
            form: Form::Markers,
            points: of_size
                .map(|row| (row.ratio, row.redundant_share * 100.0).into())
                .collect(),
        }
    });
    Chart {
        title: format!("{}, {scheme}", title_of(direction)),
        x_label: TIME.to_owned(),
        y_label: "bytes sent twice (%)".to_owned(),
        from_zero: (true, true),
        series: series.collect(),
    }
}

fn title_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "Downloads",
        Direction::Up => "Uploads",
    }
}

/// Whether it is the first group of its kind, sizes left aside.
fn is_first(survey: &Survey, group: &Group) -> bool {
    let first = survey.summary.iter().find(|g| same_kind(g, group));
    first.is_some_and(|first| std::ptr::eq(first, group))
}

fn same_kind(a: &Group, b: &Group) -> bool {
    let key = |g: &Group| (g.links, g.devices, g.start, g.direction);
    key(a) == key(b) && a.scheme == b.scheme
}

/// Distribution of the ratios to the best link, a line for each size.
fn distribution(survey: &Survey, kind: &Group) -> Chart {
    let sizes = survey.summary.iter().filter(|g| same_kind(g, kind));
    let mut series: Vec<Series> = Vec::new();
    for size in sizes.filter_map(|g| g.transfer) {
        let of_kind = |row: &&Row| {
            (row.links_are(), row.devices, row.start, row.direction)
                == (kind.links, kind.devices, kind.start, kind.direction)
                && row.scheme == kind.scheme
                && row.transfer == size
        };
        let rows = survey.settings.iter().filter(of_kind);
        let mut ratios: Vec<f64> = rows.map(|row| row.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let share = |n: usize| (n + 1) as f64 / ratios.len() as f64 * 100.0;
        let points = ratios
            .iter()
            .enumerate()
            .map(|(n, r)| (*r, share(n)).into());
        series.push(Series {
            name: size.to_string(),
            style: series.len(),
            form: Form::Steps,
            points: points.collect(),
        });
    }
    series.push(Series {
        name: "best link".to_owned(),
        style: series.len(),
        form: Form::Reference,
        points: vec![(1.0, 0.0).into(), (1.0, 100.0).into()],
    });
    Chart {
        title: format!(
            "{}, {} devices, {} session, {} links, {}",
            title_of(kind.direction),
            kind.devices,
            kind.start.name(),
            kind.links,
            kind.scheme
        ),
        x_label: TIME.to_owned(),
        y_label: "share of settings (%)".to_owned(),
        from_zero: (true, true),
        series,
    }
}
