//! The pictures of an experiment's results.

use mpbond_plot::{Bar, BarChart, Chart, Form, Group, Point, Series};

use super::heading;
use super::section::{Section, titled};
use super::study::Study;
use super::unfit;
use crate::figures::bins;
use crate::figures::paper::Measure;
use crate::figures::quantity::Quantity;
use crate::figures::statistics::estimate;
use crate::record::{Estimate, Transfer};

/// Largest ratio of bars in one picture; beyond it each workload gets a picture of its own.
const MAX_SPAN: f64 = 6.0;
/// Minimum number of values of a distribution.
const MIN_VALUES: usize = 10;
/// Minimum number of values of a distribution of bins of throughput, which follow each other.
const MIN_BINS: usize = 30;

/// Workloads that are drawn in one picture.
struct Cluster {
    title: String,
    /// Names in the picture, and names in the record.
    groups: Vec<(String, String)>,
}

/// All pictures of the study, and a warning where some show what is unfit.
pub(super) fn sections(study: &Study) -> (Vec<Section>, Option<String>) {
    let (unfit, warning) = unfit::drawn(study);
    let study = unfit.as_ref().unwrap_or(study);
    let plain = |quantity| Measure {
        quantity,
        model: None,
    };
    let mut all = vec![
        bars(
            study,
            &plain(Quantity::Seconds),
            "Bars: means, with their 95 % intervals; dots: single transfers; dashed: the fluid \
             bound.",
        ),
        bars(
            study,
            &plain(Quantity::Ratio),
            "1 is the fluid bound, which no scheme can beat.",
        ),
    ];
    for quantity in Quantity::ALL {
        let noticed = |d: &Transfer| d.noticed.contains_key(&quantity);
        if study.report.transfers.iter().any(noticed) {
            all.push(bars(study, &plain(quantity), "As the user perceives it."));
        }
    }
    for model in &study.experiment.energy {
        let model = model.name.get_ref();
        for quantity in [Quantity::JoulesWithoutLastTail, Quantity::Joules] {
            let measure = Measure {
                quantity,
                model: Some(model.clone()),
            };
            all.push(bars(study, &measure, "All devices that take part."));
            all.push(scatter(study, &measure));
        }
    }
    all.push(bars(
        study,
        &plain(Quantity::FinishSpreadS),
        "Between the end of the first and of the last subflow.",
    ));
    all.push(parameter(study));
    all.push(super::progress::section(study));
    all.push(distributions(study));
    all.retain(|section| !section.pictures.is_empty());
    (all, warning)
}

impl Study {
    /// All pictures as SVG files, each with a name of letters, digits and dashes.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let plain = |text: &str| {
            let dashed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let text: String = text.to_lowercase().chars().map(dashed).collect();
            let words: Vec<&str> = text.split('-').filter(|w| !w.is_empty()).collect();
            words.join("-")
        };
        let mut all = Vec::new();
        for section in sections(self).0 {
            let name = plain(&format!("{} {}", self.report.experiment, section.title));
            for (i, picture) in section.pictures.into_iter().enumerate() {
                all.push((format!("{name}-{}", i + 1), picture));
            }
        }
        all
    }
}

fn scheme_names(study: &Study) -> Vec<String> {
    let schemes = study.experiment.schemes.iter();
    schemes.map(|s| s.name.get_ref().clone()).collect()
}

fn values(study: &Study, m: &Measure, workload: &str, scheme: &str) -> Vec<f64> {
    let mine = |d: &&Transfer| d.fit && d.workload == workload && d.name == scheme;
    let mine = study.report.transfers.iter().filter(mine);
    mine.filter_map(|d| m.of(d)).collect()
}

fn of(study: &Study, m: &Measure, workload: &str, scheme: &str) -> Option<Estimate> {
    m.estimate(workload, scheme, &study.report.transfers)
}

/// One picture for each workload of the file when there are settings; otherwise one for all
/// workloads, or one for each when they differ too much.
fn clusters(study: &Study, m: &Measure) -> Vec<Cluster> {
    let e = &study.experiment;
    let schemes = scheme_names(study);
    let measured: Vec<_> = e
        .workloads
        .iter()
        .filter_map(|w| {
            let name = w.name.get_ref();
            let means = schemes.iter().filter_map(|s| of(study, m, name, s));
            let highest = means.map(|e| e.mean).reduce(f64::max)?;
            Some((w, highest))
        })
        .collect();
    let mut all: Vec<Cluster> = Vec::new();
    if e.settings.is_empty() {
        let highest = measured.iter().map(|(_, h)| *h).fold(0.0, f64::max);
        let lowest = measured.iter().map(|(_, h)| *h).fold(highest, f64::min);
        let together = highest <= lowest * MAX_SPAN || m.quantity == Quantity::FinishSpreadS;
        for (w, _) in measured {
            let name = w.name.get_ref().clone();
            let group = (name.clone(), name.clone());
            match all.last_mut() {
                Some(cluster) if together => cluster.groups.push(group),
                _ => all.push(Cluster {
                    title: if together { String::new() } else { name },
                    groups: vec![group],
                }),
            }
        }
        return all;
    }
    for (w, _) in measured {
        let Some((setting, in_file)) = &w.setting else {
            continue;
        };
        let group = (setting.name.get_ref().clone(), w.name.get_ref().clone());
        match all.iter_mut().find(|c| c.title == *in_file) {
            Some(cluster) => cluster.groups.push(group),
            None => all.push(Cluster {
                title: in_file.clone(),
                groups: vec![group],
            }),
        }
    }
    all
}

fn section_title(m: &Measure) -> String {
    titled(&named(m, m.quantity.label()))
}

/// Heading of a picture of a quantity.
fn measured(m: &Measure, which: &str) -> String {
    heading::with(&named(m, heading::of(m.quantity)), which)
}

/// A quantity with its model of energy.
fn named(m: &Measure, quantity: &str) -> String {
    match &m.model {
        Some(model) => format!("{quantity}, by {model}"),
        None => quantity.to_owned(),
    }
}

fn bars(study: &Study, m: &Measure, note: &'static str) -> Section {
    let schemes = scheme_names(study);
    let bound = |workload: &str, scheme: &str| match m.quantity {
        Quantity::Ratio => Some(1.0),
        Quantity::Seconds => {
            let mut mine = study.report.transfers.iter();
            let mine = mine.find(|d| d.workload == workload && d.name == scheme);
            mine.map(|d| d.ideal_seconds)
        }
        _ => None,
    };
    let pictures = clusters(study, m).into_iter().map(|cluster| {
        let groups = cluster.groups.into_iter().map(|(name, workload)| {
            let bars = schemes.iter().enumerate().filter_map(|(series, scheme)| {
                let figure = of(study, m, &workload, scheme)?;
                Some(Bar {
                    series,
                    value: figure.mean,
                    interval: figure.mean_interval,
                    values: values(study, m, &workload, scheme),
                    reference: bound(&workload, scheme),
                })
            });
            Group {
                name,
                bars: bars.collect(),
            }
        });
        let chart = BarChart {
            title: measured(m, &cluster.title),
            y_label: m.quantity.axis(),
            series: schemes.clone(),
            reference: "ideal".into(),
            groups: groups.collect(),
        };
        chart.to_svg()
    });
    Section {
        title: section_title(m),
        note,
        pictures: pictures.collect(),
    }
}

/// A picture in the form of the paper's Figure 9: closer to the corner is better.
fn scatter(study: &Study, m: &Measure) -> Section {
    let time = Measure {
        quantity: Quantity::Seconds,
        model: None,
    };
    let mut pictures = Vec::new();
    for w in &study.experiment.workloads {
        let workload = w.name.get_ref();
        let mut series = Vec::new();
        for (style, scheme) in scheme_names(study).into_iter().enumerate() {
            let (Some(x), Some(y)) = (
                of(study, &time, workload, &scheme),
                of(study, m, workload, &scheme),
            ) else {
                continue;
            };
            let mine = |d: &&Transfer| d.fit && d.workload == *workload && d.name == scheme;
            let each = study.report.transfers.iter().filter(mine);
            let each: Vec<Point> = each
                .filter_map(|d| Some(Point::from((d.seconds, m.of(d)?))))
                .collect();
            series.push(Series {
                name: scheme.clone(),
                style,
                form: Form::Cloud,
                points: each,
            });
            series.push(Series {
                name: scheme,
                style,
                form: Form::Markers,
                points: vec![Point {
                    x: x.mean,
                    y: y.mean,
                    x_interval: x.mean_interval,
                    y_interval: y.mean_interval,
                }],
            });
        }
        if !series.is_empty() {
            let chart = Chart {
                title: heading::with("Time and energy of the transfers", workload),
                x_label: Quantity::Seconds.axis(),
                y_label: m.quantity.axis(),
                from_zero: (false, false),
                series,
            };
            pictures.push(chart.to_svg());
        }
    }
    Section {
        title: format!("Time against {}", named(m, m.quantity.label())),
        note: "Large: means with their 95 % intervals; faint: single transfers. Bottom left is \
               best.",
        pictures,
    }
}

/// Results over the experiment's parameter, a line for each series.
fn parameter(study: &Study) -> Section {
    let e = &study.experiment;
    let mut pictures = Vec::new();
    let mut measures = vec![Measure {
        quantity: Quantity::Seconds,
        model: None,
    }];
    measures.extend(e.energy.iter().map(|m| Measure {
        quantity: Quantity::JoulesWithoutLastTail,
        model: Some(m.name.get_ref().clone()),
    }));
    for m in measures.iter().filter(|_| e.parameter.is_some()) {
        // Title of the picture, name of the line, its points.
        let mut lines: Vec<(String, String, Vec<Point>)> = Vec::new();
        for w in &e.workloads {
            for s in &e.schemes {
                let at_setting = w.setting.as_ref().and_then(|(s, _)| s.parameter);
                let Some(x) = at_setting.or(s.parameter) else {
                    continue;
                };
                let Some(y) = of(study, m, w.name.get_ref(), s.name.get_ref()) else {
                    continue;
                };
                let title = match (&w.setting, at_setting) {
                    (Some((_, in_file)), Some(_)) => in_file.clone(),
                    _ => w.name.get_ref().clone(),
                };
                let name = s.series.clone().unwrap_or_else(|| match s.parameter {
                    Some(_) => String::from("all"),
                    None => s.name.get_ref().clone(),
                });
                let point = Point {
                    y_interval: y.mean_interval,
                    ..Point::from((x, y.mean))
                };
                match lines.iter_mut().find(|l| l.0 == title && l.1 == name) {
                    Some(line) => line.2.push(point),
                    None => lines.push((title, name, vec![point])),
                }
            }
        }
        let mut titles: Vec<String> = lines.iter().map(|l| l.0.clone()).collect();
        titles.dedup();
        for title in titles {
            let mine = lines.iter().filter(|l| l.0 == title);
            let series = mine.enumerate().map(|(style, (_, name, points))| {
                let mut points = points.clone();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                Series {
                    name: name.clone(),
                    style,
                    form: Form::MarkedLine,
                    points,
                }
            });
            let chart = Chart {
                title: measured(m, &title),
                x_label: e.parameter.clone().unwrap_or_default(),
                y_label: m.quantity.axis(),
                from_zero: (false, true),
                series: series.collect(),
            };
            pictures.push(chart.to_svg());
        }
    }
    Section {
        title: format!("Against {}", e.parameter.as_deref().unwrap_or_default()),
        note: "Means with their 95 % intervals.",
        pictures,
    }
}

/// Throughput and delay of all transfers of a workload, over all settings.
fn distributions(study: &Study) -> Section {
    let e = &study.experiment;
    let mut names: Vec<&str> = Vec::new();
    for w in &e.workloads {
        let in_file = w
            .setting
            .as_ref()
            .map_or(w.name.get_ref(), |(_, name)| name);
        if !names.contains(&in_file.as_str()) {
            names.push(in_file);
        }
    }
    let mut pictures = Vec::new();
    for name in names {
        pictures.extend(throughput_bins(study, name));
        for quantity in [Quantity::Mbps, Quantity::FirstByteS] {
            let m = Measure {
                quantity,
                model: None,
            };
            let mut series = Vec::new();
            for (style, scheme) in scheme_names(study).into_iter().enumerate() {
                let called = e.workloads.iter().filter(|w| w.is_called(name));
                let all: Vec<f64> = called
                    .flat_map(|w| values(study, &m, w.name.get_ref(), &scheme))
                    .collect();
                if all.len() >= MIN_VALUES {
                    series.push(cdf(scheme, style, all));
                }
            }
            if !series.is_empty() {
                let chart = Chart {
                    title: heading::with(heading::of(quantity), name),
                    x_label: quantity.axis(),
                    y_label: "share of transfers".into(),
                    from_zero: (false, true),
                    series,
                };
                pictures.push(chart.to_svg());
            }
        }
    }
    Section {
        title: "Distributions".into(),
        note: "The share of transfers, or of bins of 100 ms of all transfers, with at most the \
               value below.",
        pictures,
    }
}

/// A picture in the form of the paper's Figure 15: all bins of all transfers.
fn throughput_bins(study: &Study, workload: &str) -> Option<String> {
    let e = &study.experiment;
    let mut series = Vec::new();
    for (style, scheme) in scheme_names(study).into_iter().enumerate() {
        let called = e.workloads.iter().filter(|w| w.is_called(workload));
        let names: Vec<&String> = called.map(|w| w.name.get_ref()).collect();
        let mine = |d: &&Transfer| d.fit && d.name == scheme && names.contains(&&d.workload);
        let mine = study.report.transfers.iter().filter(mine);
        let all: Vec<f64> = mine
            .flat_map(|d| bins::throughput_mbps(&d.progress, d.seconds))
            .collect();
        if all.len() >= MIN_BINS {
            series.push(cdf(scheme, style, all));
        }
    }
    let chart = Chart {
        title: heading::with("Throughput of each 100 ms of the transfers", workload),
        x_label: Quantity::Mbps.axis(),
        y_label: "share of bins of 100 ms".into(),
        from_zero: (true, true),
        series,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}

fn cdf(name: String, style: usize, mut values: Vec<f64>) -> Series {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let first = values.first().map(|x| Point::from((*x, 0.0)));
    let steps = (1..).zip(&values);
    let steps = steps.map(|(i, x)| Point::from((*x, f64::from(i) / n)));
    Series {
        name,
        style,
        form: Form::Steps,
        points: first.into_iter().chain(steps).collect(),
    }
}

/// The mean of `values`, if there are any.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    estimate(values).map(|e| e.mean)
}
