//! A status as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use clap::builder::styling::{AnsiColor, Style};
use mpbond::status::{
    DayJoules, LentStatus, LinkEnergy, LinkStatus, PipeEnergy, RadioEnergy, RelayStatus,
    RuleStatus, SessionStatus, Status, TransferStatus,
};
use mpbond_session::StreamClass;
use mpbond_units::human;

use super::super::hints::word;
use super::rates::{Rates, Span};
use super::table::{Align, Cell, Column, table, wrapped};

/// Number of transfers, and of connections that wait, shown; JSON has more.
const TRANSFERS_SHOWN: usize = 12;

/// In place of a value that is not known.
const UNKNOWN: &str = "-";

/// A daemon's status as text; with an earlier one, rates of the time between.
pub(super) fn render(status: &Status, before: Option<&Status>, socket: Option<&Path>) -> String {
    let mut text = format!(
        "{} {}  up {}\n{}\n",
        status.role,
        status.version,
        human::span(status.uptime_s),
        status.device
    );
    for line in about(status) {
        text.push_str(&wrapped(&line, 2));
    }
    if status.transfers_withheld {
        // A command has to stay in one line.
        let daemon = match socket {
            Some(socket) => format!("--socket {}", word(socket)),
            None => status.role.clone(),
        };
        text.push_str(&format!(
            "transfers are not shown to other users: sudo mpbond status {daemon}\n"
        ));
    }
    links(&mut text, &status.links);
    rules(&mut text, &status.rules, status.default_flows_total);
    let span = Span::between(before, status);
    let used_up = status.links.iter();
    let used_up = used_up.filter(|link| link.cap.as_ref().is_some_and(|cap| cap.used_up));
    let used_up = used_up.map(|link| link.name.as_str()).collect();
    for session in &status.sessions {
        one_session(&mut text, session, &span, &used_up);
    }
    if !status.sessions.iter().all(|s| s.subflows.is_empty()) {
        text.push_str(
            "\n  IN/s, OUT/s, TH: Mbit/s, TH where load has shown it lately. PAD, RTT: ms.\n",
        );
    }
    if status.role == "proxy" && status.sessions.is_empty() {
        text.push_str("\nno session\n");
    }
    relays(&mut text, status, &span);
    waiting(&mut text, status);
    transfers(&mut text, &status.transfers);
    text
}

/// Sentences about the daemon.
fn about(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(sandbox) = &status.sandbox {
        lines.push(format!("sandbox: {}", sandbox.summary()));
        let problems = sandbox.problems.iter();
        lines.extend(problems.map(|problem| format!("note: sandbox: {problem}")));
    }
    lines.extend(match status.on_proxy_loss.as_deref() {
        Some("direct") => Some(
            "without a path to the proxy: new connections go direct after 1.5 s, also if somebody \
             blocks all paths on purpose (on_proxy_loss = \"direct\")"
                .to_owned(),
        ),
        Some("fail") => Some("without a path to the proxy: new connections are refused".to_owned()),
        _ => None,
    });
    lines.extend(status.kill_switch.as_deref().map(|when| match when {
        "until-stop" => "kill switch: on until the primary is told to stop".to_owned(),
        _ => "kill switch: on, also without the primary".to_owned(),
    }));
    let lacks = status.proxy_lacks_note();
    let notes = lacks.iter().chain(&status.account_problem);
    let notes = notes.chain(&status.notes);
    lines.extend(notes.map(|note| format!("note: {note}")));
    let limited = |lent: &LentStatus| {
        let (interface, limits) = (&lent.interface, lent.limits.text()?);
        Some(format!(
            "relays are limited beside own traffic of {interface}: {limits}"
        ))
    };
    lines.extend(status.lent.as_ref().and_then(limited));
    let reason = status.ethernet.as_ref().and_then(|e| e.reason.as_ref());
    lines.extend(reason.map(|reason| format!("note: {reason}")));
    lines.extend(status.budget.as_ref().map(|budget| {
        let cap = budget.max_bytes.map_or_else(
            || "no cap".to_owned(),
            |max| format!("of {}", human::bytes(max)),
        );
        let used = human::bytes(budget.used_bytes);
        format!("lent in {}: {used} {cap}", budget.month)
    }));
    lines
}

/// A state in its colour: green carries data, yellow may soon, red does not.
fn state(text: &str) -> Cell {
    let (text, colour) = match text {
        "up" => (text, AnsiColor::Green),
        "express" | "backup" | "open" | "closed" => return text.into(),
        "potentially-failed" => ("silent", AnsiColor::Red),
        "down" | "lost" => (text, AnsiColor::Red),
        _ => (text, AnsiColor::Yellow),
    };
    Cell {
        text: text.to_owned(),
        style: Style::new().fg_color(Some(colour.into())),
    }
}

/// Rules that have selected connections, and the number of the others where there is a policy.
fn rules(text: &mut String, rules: &[RuleStatus], others: Option<u64>) {
    let selected = rules.iter().filter(|rule| rule.flows_total > 0);
    let rows = selected.map(|rule| {
        let (line, flows) = (rule.line.to_string(), rule.flows_total.to_string());
        vec![rule.name.as_str().into(), line.into(), flows.into()]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if let Some(others) = others {
        let (used, count) = (rows.len(), rules.len());
        text.push_str(&format!(
            "\nrules: {used} of {count} have selected connections, the default {others}\n"
        ));
    }
    if !rows.is_empty() {
        let columns = [
            Column("NAME", 40, Align::Left),
            Column("LINE", 6, Align::Right),
            Column("FLOWS", 10, Align::Right),
        ];
        text.push_str(&table(&columns, &rows));
    }
}

fn links(text: &mut String, links: &[LinkStatus]) {
    if links.is_empty() {
        return;
    }
    let rows = links.iter().map(|l| {
        vec![
            l.name.as_str().into(),
            l.kind.as_str().into(),
            state(match &l.cap {
                Some(cap) if cap.used_up && l.state == "up" => "cap used",
                _ => &l.state,
            }),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    text.push_str("\nlinks\n");
    let columns = [
        Column("NAME", 40, Align::Left),
        Column("KIND", 6, Align::Left),
        Column("STATE", 10, Align::Left),
    ];
    text.push_str(&table(&columns, &rows));
    for link in links {
        if let Some(octets) = link.max_segment_bytes {
            let name = &link.name;
            let why = format!("  {name}: segments of {octets} octets: large packets do not pass");
            text.push_str(&wrapped(&why, 4));
        }
        if let Some(choice) = &link.choice {
            let mut about = match &*choice.state {
                "used" => format!("used, since {}", choice.reason),
                state => state.to_owned(),
            };
            if let Some(milliwatts) = choice.milliwatts {
                let _ = write!(about, "; its radios need {milliwatts} mW while bytes move");
            }
            text.push_str(&wrapped(&format!("  {}: {about}", link.name), 4));
        }
        if let Some(ethernet) = &link.ethernet {
            let about = format!("  {}: {}", link.name, ethernet.text());
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(energy) = &link.energy {
            let about = format!("  {}: {}", link.name, energy_text(energy));
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(energy) = &link.pipe_energy {
            let about = format!("  {}: {}", link.name, pipe_energy_text(energy));
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(cap) = &link.cap {
            let (used, bytes) = (human::bytes(cap.used_bytes), human::bytes(cap.bytes));
            let nothing = if cap.used_up {
                ": carries nothing till then"
            } else {
                ""
            };
            let about = format!(
                "  {}: {used} of {bytes} used until {}{nothing}",
                link.name, cap.resets
            );
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(percent) = link.battery_percent {
            let charging = match link.charging {
                Some(true) => ", on mains",
                Some(false) | None => "",
            };
            let about = format!("  {}: battery at {percent}%{charging}", link.name);
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(metered) = link.metered {
            let not = if metered { "" } else { "not " };
            let guessed = if link.metered_guessed {
                " (guessed)"
            } else {
                ""
            };
            let about = format!("  {}: {not}metered{guessed}", link.name);
            text.push_str(&wrapped(&about, 4));
        }
        // What it told before it went may be of another month.
        if let Some(bytes) = link.lent_bytes_left.filter(|_| link.state == "up") {
            let left = human::bytes(bytes);
            let about = format!("  {}: lends {left} more this month", link.name);
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(limits) = link.limits.text() {
            let about = format!(
                "  {}: limited beside own traffic there: {limits}",
                link.name
            );
            text.push_str(&wrapped(&about, 4));
        }
        if let Some(error) = &link.error {
            text.push_str(&wrapped(&format!("  {}: {error}", link.name), 4));
        }
    }
}

/// Energy of the radios of a pipe.
fn pipe_energy_text(energy: &PipeEnergy) -> String {
    let of = |radio: &RadioEnergy| joules_text(&radio.radio, radio.joules, &radio.days);
    let near = format!("pipe here: {}", of(&energy.near));
    match &energy.far {
        Some(far) => format!("{near}; at the helper: {}", of(far)),
        None => near,
    }
}

/// Joules of a radio since the start, and by day, the present one first.
fn joules_text(radio: &str, joules: f64, days: &[DayJoules]) -> String {
    let mut spent = format!("about {joules:.1} J of {radio}");
    let mut days = days.iter();
    if let Some(today) = days.next_back() {
        let _ = write!(spent, ", today {:.1} J", today.joules);
    }
    days.for_each(|day| {
        let _ = write!(spent, ", {} {:.1} J", day.day, day.joules);
    });
    spent
}

/// Energy of a link, and for what it is woken.
fn energy_text(energy: &LinkEnergy) -> String {
    let spent = joules_text(&energy.radio, energy.joules, &energy.days);
    let Some(woken) = energy.woken_for else {
        return spent;
    };
    let of = |kind: &str, bytes: Option<u64>| match bytes {
        Some(0) => format!("all {kind}"),
        Some(bytes) => format!("{kind} from {} on", human::bytes(bytes)),
        None => format!("no {kind}"),
    };
    let down = of("downloads", woken.download_bytes);
    let up = of("uploads", woken.upload_bytes);
    format!("{spent}; woken for {down}, for {up}")
}

fn one_session(text: &mut String, s: &SessionStatus, span: &Span<'_>, used_up: &BTreeSet<&str>) {
    let id = if s.id.is_empty() { "(new)" } else { &s.id };
    let state_of = state(&s.state);
    text.push_str(&format!(
        "\nsession {id} with {}: {}{}{:#}, {}, {} of {} streams open\n",
        short(&s.peer),
        state_of.style,
        s.state,
        state_of.style,
        s.scheduler,
        s.streams_open,
        s.streams_total,
    ));
    text.push_str(&classes(s));
    if s.redundant_bytes_in + s.redundant_bytes_out + s.reinjected_bytes_out > 0 {
        text.push_str(&format!(
            "  redundant: in {}, out {}; reinjected: {}\n",
            human::bytes(s.redundant_bytes_in),
            human::bytes(s.redundant_bytes_out),
            human::bytes(s.reinjected_bytes_out),
        ));
    }
    if s.unscheduled_bytes > 0 {
        let waiting = human::bytes(s.unscheduled_bytes);
        text.push_str(&format!("  waiting for a path: {waiting}\n"));
    }
    if s.subflows.is_empty() {
        return;
    }
    let columns = [
        Column("PATH", 13, Align::Left),
        Column("STATE", 8, Align::Left),
        Column("IN", 8, Align::Right),
        Column("OUT", 8, Align::Right),
        Column("IN/s", 5, Align::Right),
        Column("OUT/s", 5, Align::Right),
        Column("TH", 5, Align::Right),
        Column("PAD", 5, Align::Right),
        Column("RTT", 5, Align::Right),
    ];
    let mut total = Rates::default();
    let rows = s.subflows.iter().map(|f| {
        let rates = span.subflow(s, f);
        total.add(&rates);
        // Nothing is known before the first round trip.
        let millis = |ms: f64| match f.rtt_ms > 0.0 {
            true => human::three_digits(ms),
            false => UNKNOWN.to_owned(),
        };
        vec![
            f.name.as_str().into(),
            state(match f.state.as_str() {
                "up" if used_up.contains(f.name.as_str()) => "cap used",
                other => other,
            }),
            human::bytes(f.bytes_in).into(),
            human::bytes(f.bytes_out).into(),
            number(rates.incoming),
            number(rates.outgoing),
            number(f.th_mbps),
            millis(f.pad_ms).into(),
            millis(f.rtt_ms).into(),
        ]
    });
    let mut rows: Vec<Vec<Cell>> = rows.collect();
    if rows.len() > 1 {
        let sum = |of: fn(&mpbond::status::SubflowStatus) -> u64| {
            human::bytes(s.subflows.iter().map(of).sum())
        };
        let cells = [
            "total".into(),
            Cell::default(),
            sum(|f| f.bytes_in).into(),
            sum(|f| f.bytes_out).into(),
            number(total.incoming),
            number(total.outgoing),
        ];
        rows.push(cells.map(bold).to_vec());
    }
    text.push_str(&table(&columns, &rows));
}

/// Line with the open streams by class, the first served first; none if all are bulk.
fn classes(s: &SessionStatus) -> String {
    let open = |class: StreamClass| {
        let count = s.streams_by_class.get(class.name())?;
        Some(format!("{count} {class}"))
    };
    let counts: Vec<_> = StreamClass::IN_ORDER.into_iter().filter_map(open).collect();
    let only_bulk = s.streams_by_class.keys().all(|name| name == "bulk");
    match only_bulk {
        true => String::new(),
        false => format!("  streams by class: {}\n", counts.join(", ")),
    }
}

/// A cell of a row of sums.
fn bold(cell: Cell) -> Cell {
    Cell {
        style: Style::new().bold(),
        ..cell
    }
}

/// A number of Mbit/s, if it is known.
fn number(mbps: Option<f64>) -> Cell {
    let text = mbps.map_or_else(|| UNKNOWN.to_owned(), human::three_digits);
    text.into()
}

/// First group of a device id.
fn short(id: &str) -> String {
    id.chars().take_while(|c| *c != '-').collect()
}

fn relays(text: &mut String, status: &Status, span: &Span<'_>) {
    if status.role != "helper" {
        return;
    }
    if status.relays.is_empty() {
        text.push_str("\nno relay\n");
        return;
    }
    let row = |(index, r): (usize, &RelayStatus)| {
        let rates = span.relay(index, r);
        vec![
            short(&r.primary).into(),
            r.proxy.as_str().into(),
            human::bytes(r.bytes_down).into(),
            human::bytes(r.bytes_up).into(),
            number(rates.incoming),
            number(rates.outgoing),
            human::bytes(r.level_down_bytes + r.level_up_bytes).into(),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = status.relays.iter().enumerate().map(row).collect();
    if rows.len() > 1 {
        let mut total = Rates::default();
        for (index, relay) in status.relays.iter().enumerate() {
            total.add(&span.relay(index, relay));
        }
        let sum = |of: fn(&RelayStatus) -> u64| human::bytes(status.relays.iter().map(of).sum());
        let cells = [
            "total".into(),
            Cell::default(),
            sum(|r| r.bytes_down).into(),
            sum(|r| r.bytes_up).into(),
            number(total.incoming),
            number(total.outgoing),
            sum(|r| r.level_down_bytes + r.level_up_bytes).into(),
        ];
        rows.push(cells.map(bold).to_vec());
    }
    text.push_str("\nrelays\n");
    let columns = [
        Column("PRIMARY", 7, Align::Left),
        Column("PROXY", 23, Align::Left),
        Column("DOWN", 8, Align::Right),
        Column("UP", 8, Align::Right),
        Column("DOWN/s", 6, Align::Right),
        Column("UP/s", 5, Align::Right),
        Column("WAITING", 8, Align::Right),
    ];
    text.push_str(&table(&columns, &rows));
    text.push_str("\n  DOWN/s, UP/s: Mbit/s of the last second.\n");
}

/// New connections that wait, those that came first.
fn waiting(text: &mut String, status: &Status) {
    let Some(count) = status.waiting_count.filter(|count| *count > 0) else {
        return;
    };
    let waiting = if count == 1 {
        "connection waits"
    } else {
        "connections wait"
    };
    let _ = write!(text, "\n{count} new {waiting}\n");
    let rows = status.waiting.iter().take(TRANSFERS_SHOWN).map(|w| {
        let at_most = w.left_s.map_or_else(|| UNKNOWN.to_owned(), human::span);
        vec![
            w.destination.as_str().into(),
            w.waits_for.as_str().into(),
            human::span(w.waited_s).into(),
            at_most.into(),
            w.rule.as_deref().unwrap_or(UNKNOWN).into(),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let columns = [
        Column("DESTINATION", 24, Align::Left),
        Column("FOR", 7, Align::Left),
        Column("WAITED", 11, Align::Right),
        Column("LEFT", 11, Align::Right),
        Column("RULE", 16, Align::Left),
    ];
    text.push_str(&table(&columns, &rows));
}

fn transfers(text: &mut String, transfers: &[TransferStatus]) {
    if transfers.is_empty() {
        return;
    }
    let hidden = transfers.len().saturating_sub(TRANSFERS_SHOWN);
    let rows = transfers.iter().skip(hidden).map(|t| {
        let took = match t.closed_s {
            Some(end) => human::millis((end - t.opened_s) * 1e3),
            None => "open".to_owned(),
        };
        let carried = |s: &mpbond::status::ShareStatus| s.bytes_in + s.bytes_out;
        let all: u64 = t.subflows.iter().map(carried).sum();
        let shares = t.subflows.iter().filter(|s| carried(s) > 0);
        let shares = shares.map(|s| {
            let percent = carried(s) as f64 * 100.0 / all as f64;
            format!("{percent:.0} % {}", s.name)
        });
        let notes: Vec<String> = t.reason.iter().cloned().chain(shares).collect();
        vec![
            t.destination.as_str().into(),
            human::bytes(t.bytes_in).into(),
            human::bytes(t.bytes_out).into(),
            took.into(),
            notes.join(", ").into(),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    text.push_str(match hidden {
        0 => "\ntransfers\n",
        _ => "\nlast transfers\n",
    });
    let columns = [
        Column("DESTINATION", 24, Align::Left),
        Column("IN", 8, Align::Right),
        Column("OUT", 8, Align::Right),
        Column("TOOK", 7, Align::Right),
        Column("CARRIED BY, REASON", 23, Align::Left),
    ];
    text.push_str(&table(&columns, &rows));
}

#[cfg(test)]
mod tests;
