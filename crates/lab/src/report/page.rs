//! The report as one HTML file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mpbond_plot::{PAGE_STYLE, escaped};

use super::figures;
use super::sentences;
use super::setting;
use super::sheet::Sheet;
use super::study::Study;
use crate::figures::grid::Grid;
use crate::figures::pooled::{POOLED, POOLED_NOTE, pooled};
use crate::figures::table;
use crate::figures::waiting::{WAITING, WAITING_NOTE, waiting};
use crate::record::{RunReport, Transfer, Verdict};

const STYLE: &str = include_str!("page.css");

/// Maximum number of unfit or disturbed transfers that are listed; more are counted.
const MAX_LISTED: usize = 200;

/// The report as one HTML file without references to other files. `date` is when it is made.
pub fn to_html(title: &str, date: &str, studies: &[Study]) -> String {
    to_html_with(title, date, studies, &[])
}

/// As [`to_html`], with the records of measurements.
pub fn to_html_with(title: &str, date: &str, studies: &[Study], sheets: &[Sheet]) -> String {
    let title = escaped(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"meta\">Made {}.</p>\n",
        escaped(date)
    );
    out += &overview(studies, sheets).to_html();
    out.push_str(
        "<p class=\"note\">Intervals are 95 %: of means by Student's t, of medians by order \
         statistics. Changes are paired by repetition, within which schemes follow each other. \
         Unfit transfers, during which the emulated links did not keep their properties, enter \
         no figure; repetitions with disturbed ones, whose threads waited long for a processor, only \
         where there are too few others. \"ideal\" is the fluid bound on the links of the scheme.</p>\n",
    );
    for (index, study) in studies.iter().enumerate() {
        section(&mut out, index, study);
    }
    for sheet in sheets {
        out += &sheet.to_html();
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// One line for each experiment; the Markdown form begins with it, too.
pub(super) fn overview(studies: &[Study], sheets: &[Sheet]) -> Grid {
    let header = [
        "experiment",
        "title",
        "transfers",
        "unfit",
        "disturbed",
        "own asserts",
        "published figures",
        "verdict on asserts",
    ];
    let mut grid = Grid::new(header, &[0, 1, 7]);
    for s in studies {
        let r = &s.report;
        let held = r.asserts.iter().filter(|j| j.holds == Some(true)).count();
        let asserts = match r.asserts.len() {
            0 => "-".to_owned(),
            all => format!("{held} of {all} hold"),
        };
        grid.row(vec![
            r.experiment.clone(),
            r.title.clone(),
            r.transfers.len().to_string(),
            unfit(r).count().to_string(),
            disturbed(r).count().to_string(),
            asserts,
            r.published_words().unwrap_or_else(|| "-".to_owned()),
            r.verdict().words(!r.asserts.is_empty()).to_owned(),
        ]);
    }
    for sheet in sheets {
        grid.row(sheet.overview());
    }
    grid
}

fn unfit(r: &RunReport) -> impl Iterator<Item = &Transfer> {
    r.transfers.iter().filter(|d| d.is_unfit())
}

fn disturbed(r: &RunReport) -> impl Iterator<Item = &Transfer> {
    r.transfers.iter().filter(|d| d.is_disturbed())
}

fn section(out: &mut String, index: usize, study: &Study) {
    let r = &study.report;
    let words = r.verdict().words(!r.asserts.is_empty());
    let class = match r.verdict() {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Unfit => "unfit",
    };
    let _ = writeln!(
        out,
        "<h2 id=\"e{index}\">{}: {} <span class=\"verdict {class}\">{words}</span></h2>",
        escaped(&r.experiment),
        escaped(&r.title)
    );
    let mut sentences = sentences::of(r);
    let disturbed = r.disturbed_words().into_iter();
    sentences.extend(disturbed.map(|words| words + "."));
    if !sentences.is_empty() {
        out.push_str("<ul class=\"first\">\n");
        for sentence in sentences {
            let _ = writeln!(out, "<li>{}</li>", escaped(&sentence));
        }
        out.push_str("</ul>\n");
    }
    let _ = writeln!(out, "<p class=\"meta\">{}</p>", escaped(&provenance(study)));

    let mut titled = |title: &str, note: &str, grid: &Grid| {
        if !grid.is_empty() {
            let _ = writeln!(out, "<h3>{}</h3>", escaped(title));
            if !note.is_empty() {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
            }
            out.push_str(&grid.to_html());
        }
    };
    titled(
        "Published figures",
        "\"as published\": our mean lies in the published range; else it is better or worse, and \
         \"within the noise\" where its interval reaches that range.",
        &table::comparisons(&r.paper),
    );
    titled("Own asserts", "", &table::judgements(&r.asserts));
    titled("Results", "", &table::summaries(&r.summary));
    titled("As users perceive it", "", &table::noticed(&r.summary));
    titled(POOLED, POOLED_NOTE, &pooled(&r.transfers));
    let machine = table::machine(&r.transfers);
    titled(table::MACHINE, table::MACHINE_NOTE, &machine);
    titled(WAITING, WAITING_NOTE, &waiting(&r.transfers));
    pictures(out, study);
    let mut titled = |title: &str, note: &str, grid: &Grid| {
        if !grid.is_empty() {
            let _ = write!(
                out,
                "<h3>{}</h3>\n<p class=\"note\">{}</p>\n{}",
                escaped(title),
                escaped(note),
                grid.to_html()
            );
        }
    };
    titled(
        "Processor time",
        "Seconds of each host's daemon during a transfer, means.",
        &processor(r),
    );
    let e = &study.experiment;
    titled("Links", "", &setting::links(e));
    titled("Settings", "", &setting::settings(e));
    titled("Schemes", "", &setting::schemes(e));
    titled("Transfers", "", &setting::workloads(e));
    titled("Energy models", "", &setting::energy(e));
    troubles(out, r);
    let _ = writeln!(
        out,
        "<details><summary>The experiment's file</summary><pre>{}</pre></details>",
        // Line by line, since `escaped` replaces line ends by spaces.
        e.text.lines().map(escaped).collect::<Vec<_>>().join("\n")
    );
}

/// The study's charts; small ones beside each other.
fn pictures(out: &mut String, study: &Study) {
    let (sections, warning) = figures::sections(study);
    if let Some(warning) = warning {
        let _ = writeln!(out, "<p class=\"warning\">{}</p>", escaped(&warning));
    }
    // Single pictures stand beside each other.
    let (single, many): (Vec<_>, Vec<_>) = sections
        .into_iter()
        .partition(|section| section.pictures.len() == 1);
    out.push_str("<div class=\"sections\">\n");
    for section in single.into_iter().chain(many) {
        let many = section.pictures.len() > 1;
        let _ = writeln!(
            out,
            "<section{}><h3>{}</h3>\n<p class=\"note\">{}</p>\n<div class=\"pictures\">",
            if many { " class=\"many\"" } else { "" },
            escaped(&section.title),
            escaped(section.note)
        );
        for picture in section.pictures {
            let _ = write!(out, "<div class=\"chart\">{picture}</div>");
        }
        out.push_str("</div></section>\n");
    }
    out.push_str("</div>\n");
}

/// Date, commit, sources, and the lateness of links.
pub(super) fn provenance(study: &Study) -> String {
    let r = &study.report;
    let commit = r.commit.as_deref().unwrap_or("unknown");
    let runs = study.runs.iter();
    let runs: Vec<String> = runs
        .map(|run| {
            let reduced = run.reduced.as_ref();
            let reduced = reduced.map_or(String::new(), |r| format!(", a short run: {r}"));
            let (source, transfers, date) = (&run.source, run.transfers, &run.date);
            let seeds = run.simulated.as_ref();
            let seeds = seeds.map_or(String::new(), |s| format!(", {}", s.seeds_text()));
            format!("{source} ({transfers} transfers, {date}{seeds}{reduced})")
        })
        .collect();
    if let Some(simulated) = &r.simulated {
        let out: Vec<String> = simulated
            .left_out
            .iter()
            .map(|what| format!(" Left out: {what}."))
            .collect();
        return format!(
            "Commit {commit}, simulated in virtual time, from {}.{}",
            runs.join("; "),
            out.concat()
        );
    }
    let lateness = || r.transfers.iter().filter_map(|d| d.lateness_us);
    let worst = lateness().map(|l| l.p99).fold(0.0, f64::max);
    let realtime = lateness().all(|l| l.realtime);
    format!(
        "Commit {commit}, Linux {}, from {}. Emulated links with{} real-time priority; 99 % of \
         packets left them at most {worst:.0} µs late in the worst transfer (fit: at most {} µs).",
        r.kernel,
        runs.join("; "),
        if realtime { "" } else { "out" },
        study.experiment.max_lateness.as_micros()
    )
}

fn processor(r: &RunReport) -> Grid {
    let hosts: BTreeSet<&str> = r
        .transfers
        .iter()
        .flat_map(|d| d.cpu_s.keys().map(String::as_str))
        .collect();
    let header = ["transfer", "scheme"]
        .into_iter()
        .chain(hosts.iter().copied());
    let mut grid = Grid::new(header, &[0, 1]);
    for s in &r.summary {
        let mine = || {
            let all = r.transfers.iter().filter(|d| d.fit);
            all.filter(|d| d.name == s.scheme && d.workload == s.workload)
        };
        if mine().all(|d| d.cpu_s.is_empty()) {
            continue;
        }
        let mut row = vec![s.workload.clone(), s.scheme.clone()];
        row.extend(hosts.iter().map(|host| {
            let mean = figures::mean(mine().filter_map(|d| d.cpu_s.get(*host).copied()));
            mean.map_or("-".into(), |m| format!("{m:.3}"))
        }));
        grid.row(row);
    }
    grid
}

/// Lists of damaged, unfit and disturbed transfers.
fn troubles(out: &mut String, r: &RunReport) {
    let damaged: Vec<&Transfer> = r.transfers.iter().filter(|d| !d.sha256_ok).collect();
    if !damaged.is_empty() {
        out.push_str("<h3>Damaged transfers</h3>\n<ul>\n");
        for d in damaged {
            let _ = writeln!(out, "<li>{}</li>", escaped(&place(d)));
        }
        out.push_str("</ul>\n");
    }
    let why = |d: &Transfer| d.unfit_because.clone();
    listed(out, "Unfit transfers", &unfit(r).collect::<Vec<_>>(), why);
    let why = |d: &Transfer| {
        let counts = if d.fit { "counted" } else { "left out" };
        Some(format!("{}; {counts}", d.disturbed.as_deref()?))
    };
    listed(
        out,
        "Disturbed transfers",
        &disturbed(r).collect::<Vec<_>>(),
        why,
    );
}

/// A list of transfers with reasons, and their number.
fn listed(
    out: &mut String,
    title: &str,
    all: &[&Transfer],
    why: impl Fn(&Transfer) -> Option<String>,
) {
    let count = all.len();
    if count == 0 {
        return;
    }
    let _ = writeln!(out, "<h3>{title}: {count}</h3>\n<ul>");
    for d in all.iter().take(MAX_LISTED) {
        let why = why(d).unwrap_or_else(|| "no reason given".to_owned());
        let _ = writeln!(out, "<li>{}: {}</li>", escaped(&place(d)), escaped(&why));
    }
    if count > MAX_LISTED {
        let _ = writeln!(out, "<li>and {} more</li>", count - MAX_LISTED);
    }
    out.push_str("</ul>\n");
}

fn place(d: &Transfer) -> String {
    format!(
        "{}, {}, repetition {}",
        d.name,
        d.workload,
        d.repetition + 1
    )
}
