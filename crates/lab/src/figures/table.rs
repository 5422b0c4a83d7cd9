//! Results as tables.

use crate::experiment::{Direction, Role, name_of};
use crate::figures::grid::Grid;
use crate::figures::pooled::{POOLED, POOLED_NOTE, pooled};
use crate::figures::quantity::Quantity;
use crate::figures::statistics::estimate;
use crate::figures::waiting::{WAITING, WAITING_NOTE, waiting};
use crate::machine_use::{Use, are_undisturbed};
use crate::record::{
    Comparison, Estimate, Judgement, RunReport, Standing, SubflowShare, Summary, Transfer, Verdict,
};

impl RunReport {
    /// The report as text: every transfer of a short run, statistics of a long one, asserts, and
    /// published figures. `colour` is for terminals.
    pub fn to_text(&self, colour: bool) -> String {
        let commit = self.commit.as_deref().unwrap_or("no repository");
        let mut text = format!(
            "{}: {}\n{}, commit {commit}, {}\n\n",
            self.experiment,
            self.title,
            self.date,
            self.place_text()
        );
        if let Some(simulated) = &self.simulated {
            for what in &simulated.left_out {
                text += &format!("left out: {what}\n");
            }
            if !simulated.left_out.is_empty() {
                text.push('\n');
            }
        }
        if let Some(reduced) = &self.reduced {
            text += &format!("a short run: {reduced}\n\n");
        }
        let repeated = self.transfers.iter().any(|d| d.repetition > 0);
        if repeated {
            text += &summaries(&self.summary).to_text();
        } else {
            text += &transfers(&self.transfers).to_text();
        }
        text.push('\n');
        let noticed = noticed(&self.summary);
        if !noticed.is_empty() {
            text += &format!("\n{}\n", noticed.to_text());
        }
        let messages = pooled(&self.transfers);
        if !messages.is_empty() {
            text += &format!("\n{POOLED}, {POOLED_NOTE}\n{}\n", messages.to_text());
        }
        let machine = machine(&self.transfers);
        if !machine.is_empty() {
            text += &format!("\n{MACHINE}, {MACHINE_NOTE}\n{}\n", machine.to_text());
        }
        let waiting = waiting(&self.transfers);
        if !waiting.is_empty() {
            text += &format!("\n{WAITING}, {WAITING_NOTE}\n{}\n", waiting.to_text());
        }
        if !self.asserts.is_empty() {
            text += &format!("\n{}\n", judgements(&self.asserts).to_text());
        }
        if !self.paper.is_empty() {
            text += &format!("\n{}\n", comparisons(&self.paper).to_text());
        }
        for d in self.transfers.iter().filter(|d| d.is_unfit()) {
            let why = d.unfit_because.as_deref().unwrap_or("no reason given");
            text += &format!("unfit: {}, {}: {why}\n", d.name, d.workload);
        }
        for d in self.transfers.iter().filter(|d| d.is_disturbed()) {
            if let Some(why) = &d.disturbed {
                text += &format!("disturbed: {}, {}: {why}\n", d.name, d.workload);
            }
        }
        for words in self.disturbed_words() {
            text += &format!("{words}\n");
        }
        let number = match self.verdict() {
            Verdict::Passed => 32,
            Verdict::Failed => 31,
            Verdict::Unfit => 33,
        };
        let verdict = self.verdict().words(!self.asserts.is_empty());
        if colour {
            text += &format!("\x1b[{number}m{verdict}\x1b[0m\n");
        } else {
            text += &format!("{verdict}\n");
        }
        if let Some(reached) = self.published_words() {
            text += &format!("published figures: {reached}\n");
        }
        if let Some(gain) = self.gain_text() {
            text += &format!("{gain}\n");
        }
        text
    }
}

impl Verdict {
    /// The verdict on the experiment's own asserts, in words. `asserts` is false for an experiment
    /// without any.
    pub fn words(self, asserts: bool) -> &'static str {
        match (self, asserts) {
            (Self::Passed, true) => "asserts hold",
            (Self::Passed, false) => "no asserts",
            (Self::Failed, true) => "asserts MISSED",
            (Self::Failed, false) => "DAMAGED",
            (Self::Unfit, _) => "not all judged",
        }
    }
}

fn transfers(transfers: &[Transfer]) -> Grid {
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
    let mut grid = Grid::new(header, &[0, 1, 3, 9, 10]);
    for d in transfers {
        let arrow = match d.direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        let workload = if d.workload.contains(arrow) {
            d.workload.clone()
        } else {
            format!("{} {arrow}", d.workload)
        };
        grid.row(vec![
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
    grid
}

fn share(s: &SubflowShare) -> String {
    let megabytes = s.bytes as f64 / 1e6;
    match s.finished_s {
        Some(at) => format!("{}: {megabytes:.2} MB, {at:.3} s", s.name),
        None => format!("{}: {megabytes:.2} MB", s.name),
    }
}

/// Statistics of every scheme and workload.
pub(crate) fn summaries(all: &[Summary]) -> Grid {
    let mut header: Vec<String> = [
        "transfer",
        "scheme",
        "n",
        "unfit",
        "disturbed",
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
    ]
    .map(str::to_owned)
    .into();
    let mut models: Vec<&str> = Vec::new();
    for energy in all.iter().flat_map(|s| &s.energy) {
        if !models.contains(&energy.model.as_str()) {
            models.push(&energy.model);
        }
    }
    for model in &models {
        header.push(format!("mean J, {model}"));
        header.push("95 % of mean".into());
        header.push("without last tail".into());
        header.push("95 % of mean".into());
    }
    let mut grid = Grid::new(header, &[0, 1]);
    let number = |e: Option<Estimate>| show(e, |e| Some(e.median));
    let interval = |e: Option<Estimate>| range(e.and_then(|e| e.interval));
    let mean_interval = |e: Option<Estimate>| range(e.and_then(|e| e.mean_interval));
    for s in all {
        let mut row = vec![
            s.workload.clone(),
            s.scheme.clone(),
            s.fit.to_string(),
            s.unfit.to_string(),
            s.disturbed.to_string(),
            show(s.seconds, |e| Some(e.mean)),
            show(s.seconds, |e| e.standard_deviation),
            mean_interval(s.seconds),
            number(s.seconds),
            interval(s.seconds),
            number(s.ratio),
            interval(s.ratio),
            s.redundant_share
                .map_or("-".into(), |e| format!("{:.2} %", e.median * 100.0)),
            number(s.finish_spread_s),
            number(s.longest_stall_s),
        ];
        for model in &models {
            let energy = s.energy.iter().find(|e| e.model == *model);
            for figure in [
                energy.and_then(|e| e.joules),
                energy.and_then(|e| e.joules_without_last_tail),
            ] {
                row.push(show(figure, |e| Some(e.mean)));
                row.push(mean_interval(figure));
            }
        }
        grid.row(row);
    }
    grid
}

/// Means of the quantities of applications; empty without applications.
pub(crate) fn noticed(all: &[Summary]) -> Grid {
    let there = |q: &Quantity| all.iter().any(|s| s.noticed.contains_key(q));
    let quantities: Vec<Quantity> = Quantity::ALL.into_iter().filter(there).collect();
    let mut header: Vec<String> = vec!["workload".into(), "scheme".into()];
    for quantity in &quantities {
        header.push(quantity.axis());
        header.push("95 % of mean".into());
    }
    let mut grid = Grid::new(header, &[0, 1]);
    for s in all.iter().filter(|s| !s.noticed.is_empty()) {
        let mut row = vec![s.workload.clone(), s.scheme.clone()];
        for quantity in &quantities {
            let figure = s.noticed.get(quantity).copied();
            row.push(show(figure, |e| Some(e.mean)));
            row.push(range(figure.and_then(|e| e.mean_interval)));
        }
        grid.row(row);
    }
    grid
}

fn show(e: Option<Estimate>, figure: impl Fn(&Estimate) -> Option<f64>) -> String {
    let figure = e.as_ref().and_then(figure);
    figure.map_or("-".into(), |f| format!("{f:.3}"))
}

fn range(interval: Option<(f64, f64)>) -> String {
    interval.map_or("-".into(), |(low, high)| format!("{low:.3}-{high:.3}"))
}

/// Title of [`machine`], and what its columns are.
pub(crate) const MACHINE: &str = "Use of the whole machine, % of one processor";
pub(crate) const MACHINE_NOTE: &str = "means of all transfers: own is everything but idle time, \
    steal and other programs, the idle machine's use included; of it, by the processes of \
    daemons, in system calls as well. The rest is the work of client, origin, links, and of the \
    kernel. A transfer is undisturbed when steal and others are at most 25 %";

/// Use of the whole machine; empty where it was not measured.
pub(crate) fn machine(all: &[Transfer]) -> Grid {
    let daemons = [
        (Role::Primary, "primary's"),
        (Role::Helper, "busiest helper's"),
        (Role::Proxy, "proxy's"),
    ];
    let mut header = vec!["transfer", "scheme", "undisturbed", "own"];
    header.extend(daemons.map(|(_, name)| name));
    header.extend(["steal", "others"]);
    let mut grid = Grid::new(header, &[0, 1, 2]);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for d in all {
        let name = (d.workload.as_str(), d.name.as_str());
        if d.machine.is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    for (workload, scheme) in names {
        let of = all
            .iter()
            .filter(|d| d.workload == workload && d.name == scheme);
        let measured: Vec<(&Transfer, Use)> = of.filter_map(|d| Some((d, d.machine?))).collect();
        let mean = |value: &dyn Fn(&Transfer, &Use) -> Option<f64>| {
            let values = measured.iter().filter_map(|(d, used)| value(d, used));
            show(estimate(values), |e| Some(e.mean))
        };
        let quiet = measured
            .iter()
            .filter(|(_, used)| are_undisturbed(&[*used]));
        let mut row = vec![
            workload.to_owned(),
            scheme.to_owned(),
            format!("{} of {}", quiet.count(), measured.len()),
            mean(&|_, used| Some(used.own() * 100.0)),
        ];
        let of_role = |role| mean(&|d, _| d.cpu_percent.get(&role).copied());
        row.extend(daemons.map(|(role, _)| of_role(role)));
        row.push(mean(&|_, used| Some(used.steal * 100.0)));
        row.push(mean(&|_, used| Some(used.others * 100.0)));
        grid.row(row);
    }
    grid
}

/// Asserts, with measured values and verdicts.
pub(crate) fn judgements(all: &[Judgement]) -> Grid {
    let header = [
        "transfer",
        "scheme",
        "figure",
        "target",
        "measured",
        "95 % interval",
        "",
    ];
    let mut grid = Grid::new(header, &[0, 1, 2, 6]);
    for j in all {
        grid.row(vec![
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
    grid
}

/// Published figures beside ours.
pub(crate) fn comparisons(all: &[Comparison]) -> Grid {
    let header = [
        "paper",
        "transfer",
        "scheme",
        "figure",
        "paper's",
        "ours",
        "95 % of mean",
        "ours is",
        "note",
    ];
    let mut grid = Grid::new(header, &[0, 1, 2, 3, 7, 8]);
    for c in all {
        grid.row(vec![
            c.figure.clone(),
            c.workload.clone(),
            c.scheme.clone(),
            c.what(),
            c.published_text(),
            c.ours_text(),
            c.interval_text(),
            c.standing_text().to_owned(),
            c.note.clone(),
        ]);
    }
    grid
}

impl Comparison {
    /// The quantity that is compared, in words.
    fn what(&self) -> String {
        let mut text = match &self.versus {
            Some(other) if self.is_difference => {
                format!("{} more than \"{other}\"", self.quantity.axis())
            }
            Some(other) => format!("{} against \"{other}\"", self.quantity.label()),
            None => self.quantity.axis(),
        };
        if let Some(model) = &self.model {
            text += &format!(", {model}");
        }
        text
    }

    /// A value of this comparison; a change has a sign.
    fn figure_text(&self, x: f64) -> String {
        match self.versus {
            Some(_) if self.is_difference => format!("{x:+.3}"),
            Some(_) => format!("{x:+.1} %"),
            None => format!("{x:.3}"),
        }
    }

    fn published_text(&self) -> String {
        let number = |x: f64| match self.versus {
            Some(_) => format!("{x:+}"),
            None => x.to_string(),
        };
        let is_change = self.versus.is_some() && !self.is_difference;
        let unit = if is_change { " %" } else { "" };
        let (low, high) = self.published;
        if low == high {
            format!("{}{unit}", number(low))
        } else {
            format!("{} to {}{unit}", number(low), number(high))
        }
    }

    fn ours_text(&self) -> String {
        let ours = self.ours.map(|e| self.figure_text(e.mean));
        ours.unwrap_or_else(|| "-".into())
    }

    fn interval_text(&self) -> String {
        let interval = self.ours.and_then(|e| e.mean_interval);
        let text = |(low, high)| format!("{} to {}", self.figure_text(low), self.figure_text(high));
        interval.map_or_else(|| "-".into(), text)
    }

    fn standing_text(&self) -> &'static str {
        match self.standing {
            Some(Standing::Within) => "as published",
            Some(Standing::Better) => "better",
            Some(Standing::PerhapsBetter) => "better, within the noise",
            Some(Standing::PerhapsWorse) => "worse, within the noise",
            Some(Standing::Worse) => "worse",
            None => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_the_machine_is_shown_beside_that_of_daemons() {
        let transfer = |name, repetition, others| {
            let mut d = Transfer::for_test(name, repetition, 20.0);
            d.cpu_percent = [(Role::Primary, 4.0), (Role::Helper, 1.0)].into();
            d.machine = Some(Use {
                seconds: 20.0,
                all: 0.30 + others,
                steal: 0.0,
                others,
            });
            d
        };
        let all = [
            transfer("a", 0, 0.02),
            transfer("b", 0, 0.02),
            transfer("a", 1, 0.50),
            Transfer::for_test("c", 0, 20.0),
        ];
        let text = machine(&all).to_markdown();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{text}");
        let cells: Vec<&str> = rows[0].split('|').map(str::trim).collect();
        let expect = [
            "w", "a", "1 of 2", "30.000", "4.000", "1.000", "-", "0.000", "26.000",
        ];
        assert_eq!(cells[1..10], expect, "{text}");
        assert!(machine(&all[3..]).is_empty());
    }
}
