//! Results as tables for people.

use comfy_table::{CellAlignment, Table, presets};

use crate::experiment::{Direction, name_of};
use crate::record::{
    Comparison, Download, Estimate, Judgement, RunReport, Standing, SubflowShare, Summary, Verdict,
};

impl RunReport {
    /// The report as text: every transfer of a short run, means and medians of
    /// a long one, and the asserts. `colour` is for terminals.
    pub fn to_text(&self, colour: bool) -> String {
        let commit = self.commit.as_deref().unwrap_or("no repository");
        let mut text = format!(
            "{}: {}\n{}, commit {commit}, Linux {}\n\n",
            self.experiment, self.title, self.date, self.kernel
        );
        let repeated = self.downloads.iter().any(|d| d.repetition > 0);
        if repeated {
            text += &summaries(&self.summary).to_string();
        } else {
            text += &transfers(&self.downloads).to_string();
        }
        text.push('\n');
        if !self.asserts.is_empty() {
            text += &format!("\n{}\n", judgements(&self.asserts));
        }
        if !self.paper.is_empty() {
            text += &format!("\n{}\n", comparisons(&self.paper));
        }
        for d in self.downloads.iter().filter(|d| !d.fit) {
            let why = d.unfit_because.as_deref().unwrap_or("no reason given");
            text += &format!("unfit: {}, {}: {why}\n", d.name, d.workload);
        }
        let (verdict, number) = match self.verdict() {
            Verdict::Passed => ("passed", 32),
            Verdict::Failed => ("FAILED", 31),
            Verdict::Unfit => ("unfit: not everything could be judged, see above", 33),
        };
        if colour {
            text += &format!("\x1b[{number}m{verdict}\x1b[0m\n");
        } else {
            text += &format!("{verdict}\n");
        }
        text
    }
}

/// An empty table; columns whose numbers are in `left` are not aligned right.
pub(crate) fn table(header: &[&str], left: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !left.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn transfers(downloads: &[Download]) -> Table {
    let header = [
        "scheme",
        "transfer",
        "devices",
        "via",
        "seconds",
        "ideal",
        "ratio",
        "redundant",
        "stall",
        "sha256",
        "subflow: bytes, finished",
    ];
    let mut table = table(&header, &[0, 1, 3, 9, 10]);
    for d in downloads {
        let arrow = match d.direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        let workload = if d.workload.contains(arrow) {
            d.workload.clone()
        } else {
            format!("{} {arrow}", d.workload)
        };
        table.add_row([
            d.name.clone(),
            workload,
            d.devices.to_string(),
            name_of(d.interception),
            format!("{:.3}", d.seconds),
            format!("{:.3}", d.ideal_seconds),
            format!("{:.3}", d.ratio),
            d.redundant_bytes.map_or("-".into(), |b| b.to_string()),
            format!("{:.3}", d.longest_stall_s),
            if d.sha256_ok { "ok" } else { "WRONG" }.into(),
            d.subflows.iter().map(share).collect::<Vec<_>>().join("\n"),
        ]);
    }
    table
}

fn share(s: &SubflowShare) -> String {
    let mebibytes = s.bytes as f64 / f64::from(1 << 20);
    match s.finished_s {
        Some(at) => format!("{}: {mebibytes:.2} MiB, {at:.3} s", s.name),
        None => format!("{}: {mebibytes:.2} MiB", s.name),
    }
}

fn summaries(all: &[Summary]) -> Table {
    let header = [
        "transfer",
        "scheme",
        "n",
        "unfit",
        "mean s",
        "sd",
        "95 % of mean",
        "median s",
        "95 % of median",
        "ratio",
        "95 % of median",
        "redundant",
        "spread s",
        "stall s",
    ];
    let mut table = table(&header, &[0, 1]);
    let number = |e: Option<Estimate>| e.map_or("-".into(), |e| format!("{:.3}", e.median));
    let interval = |e: Option<Estimate>| range(e.and_then(|e| e.interval));
    let seconds = |figure: fn(&Estimate) -> Option<f64>, s: &Summary| {
        let figure = s.seconds.as_ref().and_then(figure);
        figure.map_or("-".into(), |f| format!("{f:.3}"))
    };
    for s in all {
        table.add_row([
            s.workload.clone(),
            s.scheme.clone(),
            s.fit.to_string(),
            s.unfit.to_string(),
            seconds(|e| Some(e.mean), s),
            seconds(|e| e.standard_deviation, s),
            range(s.seconds.and_then(|e| e.mean_interval)),
            number(s.seconds),
            interval(s.seconds),
            number(s.ratio),
            interval(s.ratio),
            s.redundant_share
                .map_or("-".into(), |e| format!("{:.2} %", e.median * 100.0)),
            number(s.finish_spread_s),
            number(s.longest_stall_s),
        ]);
    }
    table
}

fn range(interval: Option<(f64, f64)>) -> String {
    interval.map_or("-".into(), |(low, high)| format!("{low:.3}-{high:.3}"))
}

fn judgements(all: &[Judgement]) -> Table {
    let header = [
        "transfer",
        "scheme",
        "figure",
        "target",
        "measured",
        "95 % interval",
        "",
    ];
    let mut table = table(&header, &[0, 1, 2, 6]);
    for j in all {
        table.add_row([
            j.workload.clone(),
            j.scheme.clone(),
            j.what.clone(),
            format!("{:.3}", j.target),
            j.measured.map_or("-".into(), |m| format!("{m:.3}")),
            range(j.interval),
            match j.holds {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "not judged",
            }
            .into(),
        ]);
    }
    table
}

fn comparisons(all: &[Comparison]) -> Table {
    let header = [
        "paper",
        "transfer",
        "scheme",
        "figure",
        "paper's",
        "ours",
        "95 % of mean",
        "",
    ];
    let mut table = table(&header, &[0, 1, 2, 3, 7]);
    for c in all {
        table.add_row([
            c.figure.clone(),
            c.workload.clone(),
            c.scheme.clone(),
            c.what(),
            c.published_text(),
            c.ours_text(),
            c.interval_text(),
            c.standing_text().to_owned(),
        ]);
    }
    table
}

impl Comparison {
    /// What is compared, in words.
    pub(crate) fn what(&self) -> String {
        let mut text = match &self.versus {
            Some(other) => format!("{} against \"{other}\"", self.quantity.label()),
            None => self.quantity.axis(),
        };
        if let Some(model) = &self.model {
            text += &format!(", {model}");
        }
        text
    }

    /// A figure in the form of this comparison: a change has its sign.
    fn figure_text(&self, x: f64) -> String {
        match self.versus {
            Some(_) => format!("{x:+.1} %"),
            None => format!("{x:.3}"),
        }
    }

    /// What the paper gives.
    pub(crate) fn published_text(&self) -> String {
        let number = |x: f64| match self.versus {
            Some(_) => format!("{x:+}"),
            None => x.to_string(),
        };
        let unit = if self.versus.is_some() { " %" } else { "" };
        let (low, high) = self.published;
        if low == high {
            format!("{}{unit}", number(low))
        } else {
            format!("{} to {}{unit}", number(low), number(high))
        }
    }

    /// Our mean.
    pub(crate) fn ours_text(&self) -> String {
        let ours = self.ours.map(|e| self.figure_text(e.mean));
        ours.unwrap_or_else(|| "-".into())
    }

    /// The interval of our mean.
    pub(crate) fn interval_text(&self) -> String {
        let interval = self.ours.and_then(|e| e.mean_interval);
        let text = |(low, high)| format!("{} to {}", self.figure_text(low), self.figure_text(high));
        interval.map_or_else(|| "-".into(), text)
    }

    /// How the two stand to each other, in words.
    pub(crate) fn standing_text(&self) -> &'static str {
        match self.standing {
            Some(Standing::Within) => "as published",
            Some(Standing::Better) => "better",
            Some(Standing::Unclear) => "worse, within the noise",
            Some(Standing::Worse) => "worse",
            None => "not measured",
        }
    }
}
