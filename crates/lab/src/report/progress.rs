//! Progress of single transfers, in the form of the paper's Figure 4: bytes that each link had
//! carried over time, beside the fluid bound.

use mpbond_plot::{Chart, Form, Point, Series};

use super::heading;
use super::section::Section;
use super::study::Study;
use crate::experiment::{Experiment, Role, Workload};
use crate::record::Transfer;

/// Maximum number of pictures.
const MAX_PICTURES: usize = 24;

/// One picture for each scheme and workload: its transfer of median time.
pub(super) fn section(study: &Study) -> Section {
    let e = &study.experiment;
    let mut pictures = Vec::new();
    // When there are too many, the longest transfers, whose curves show more.
    let mut workloads: Vec<&Workload> = e.workloads.iter().collect();
    if workloads.len() * e.schemes.len() > MAX_PICTURES {
        workloads.sort_by_key(|w| std::cmp::Reverse(w.bytes));
    }
    for w in workloads {
        for s in &e.schemes {
            let (workload, scheme) = (w.name.get_ref(), s.name.get_ref());
            if pictures.len() < MAX_PICTURES
                && let Some(typical) = typical(study, workload, scheme)
            {
                let which = format!("{workload}, {scheme}");
                let title = heading::with("Bytes that each link had carried, over time", &which);
                pictures.push(picture(study, typical, title));
            }
        }
    }
    Section {
        title: "Progress".into(),
        note: "The transfer whose time is in the middle. Lines: bytes of TCP that have come out \
               of each link, frames and copies included. \"arrived\": \
               what has come to the receiver's host, over whatever link; \"read\": what the \
               application has, in order.",
        pictures,
    }
}

/// The transfer of median time among the fit ones that have curves.
fn typical<'s>(study: &'s Study, workload: &str, scheme: &str) -> Option<&'s Transfer> {
    let mine =
        |d: &&Transfer| d.fit && d.workload == workload && d.name == scheme && !d.links.is_empty();
    let mut all: Vec<&Transfer> = study.report.transfers.iter().filter(mine).collect();
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    all.get(all.len().saturating_sub(1) / 2).copied()
}

fn picture(study: &Study, d: &Transfer, title: String) -> String {
    let megabytes = |(at, bytes): &(f64, u64)| Point::from((*at, *bytes as f64 / 1e6));
    let mut series: Vec<Series> = Vec::new();
    // A link that finished early keeps its last value.
    let ends = d.links.iter().filter_map(|l| l.points.last());
    let end = ends.map(|(at, _)| *at).fold(0.0, f64::max);
    let to_the_end = |points: &[(f64, u64)]| {
        let last = points.last().map(|(_, bytes)| (end, *bytes));
        points.iter().copied().chain(last).collect::<Vec<_>>()
    };
    for (style, link) in d.links.iter().enumerate() {
        series.push(Series {
            name: link.link.clone(),
            // Skips the styles that stand for sums.
            style: if style < ARRIVED { style } else { style + 2 },
            form: Form::Line,
            points: to_the_end(&link.points).iter().map(megabytes).collect(),
        });
    }
    let last = last_links(&study.experiment, d);
    if last.len() > 1 {
        series.push(Series {
            name: "arrived".into(),
            style: ARRIVED,
            form: Form::Line,
            points: sum(&last).iter().map(megabytes).collect(),
        });
    }
    if !d.progress.is_empty() {
        series.push(Series {
            name: "read".into(),
            style: READ,
            form: Form::Steps,
            points: d.progress.iter().map(megabytes).collect(),
        });
    }
    let mut ideals = study.report.ideal.iter();
    let ideal = ideals.find(|c| c.scheme == d.name && c.workload == d.workload);
    if let Some(ideal) = ideal {
        series.push(Series {
            name: "ideal".into(),
            style: 0,
            form: Form::Reference,
            points: ideal.points.iter().map(megabytes).collect(),
        });
    }
    let chart = Chart {
        title,
        x_label: "time (s)".into(),
        y_label: "bytes (MB)".into(),
        from_zero: (true, true),
        series,
    };
    chart.to_svg()
}

/// Style of the sum over links, a solid line.
const ARRIVED: usize = 4;
/// Style of the bytes that the application had read.
const READ: usize = 5;

/// The curves of links that end at the receiver's side: at the primary for a download, at the proxy
/// for an upload.
fn last_links<'d>(e: &Experiment, d: &'d Transfer) -> Vec<&'d [(f64, u64)]> {
    use crate::experiment::Direction::{Down, Up};
    let ends = |name: &str| {
        let link = e.links.iter().find(|l| l.name.get_ref() == name);
        link.is_some_and(|l| match d.direction {
            Down => e.role_of(l.from.get_ref()) == Some(Role::Primary),
            Up => e.role_of(l.to.get_ref()) == Some(Role::Proxy),
        })
    };
    let mine = d.links.iter().filter(|l| ends(&l.link));
    mine.map(|l| l.points.as_slice()).collect()
}

/// The sum of all curves.
fn sum(curves: &[&[(f64, u64)]]) -> Vec<(f64, u64)> {
    let mut steps: Vec<(f64, u64)> = Vec::new();
    for curve in curves {
        let mut before = 0;
        for (at, bytes) in *curve {
            steps.push((*at, bytes.saturating_sub(before)));
            before = *bytes;
        }
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut so_far: u64 = 0;
    for (_, bytes) in &mut steps {
        so_far = so_far.saturating_add(*bytes);
        *bytes = so_far;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn curves_add_up() {
        let a = [(1.0, 10), (3.0, 30)];
        let b = [(2.0, 5), (4.0, 6)];
        let all = [(1.0, 10), (2.0, 15), (3.0, 35), (4.0, 36)];
        assert_eq!(sum(&[&a, &b]), all);
        assert_eq!(sum(&[]), []);
    }
}
