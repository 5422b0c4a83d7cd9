//! A frame of `top`: the same for the terminal and for `--once`.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, Widget as _};

use super::format::{bytes, milliseconds, percent, rate, span};
use crate::model::{Frame, HISTORY_S, Kind, Model, PathRow, SlotRate, StreamSum, short};
use crate::status::{Application, Certainty};

/// Size of the frame of `--once`.
const PLAIN: Rect = Rect::new(0, 0, 80, 40);

/// Rows of the chart.
const CHART_ROWS: u16 = 4;

/// Rows of paths that are shown before streams have room.
const PATH_ROWS: usize = 8;

/// Notes and events below.
const LAST_ROWS: usize = 5;

const DIM: Style = Style::new().fg(Color::DarkGray);
const HEAD: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const GOOD: Style = Style::new().fg(Color::Green);
const DOUBTFUL: Style = Style::new().fg(Color::Yellow);
const BAD: Style = Style::new().fg(Color::Red);

/// The frame as lines of plain text.
pub(super) fn as_text(model: &Model, t: f64) -> String {
    let mut buffer = Buffer::empty(PLAIN);
    // Two answers have no history.
    draw_with(0, PLAIN, &mut buffer, model, t);
    let rows = PLAIN.rows().map(|row| {
        let cells = row.positions().map(|at| buffer[at].symbol());
        cells.collect::<String>().trim_end().to_owned()
    });
    let text: Vec<String> = rows.collect();
    // Sections keep one empty line between them; what is unused at their ends goes.
    let mut lines: Vec<&str> = text.iter().map(String::as_str).collect();
    lines.dedup_by(|a, b| a.is_empty() && b.is_empty());
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Draws the frame.
pub(super) fn draw(area: Rect, buffer: &mut Buffer, model: &Model, t: f64) {
    draw_with(CHART_ROWS, area, buffer, model, t);
}

fn draw_with(chart_rows: u16, area: Rect, buffer: &mut Buffer, model: &Model, t: f64) {
    let Some(frame) = model.frame() else {
        return;
    };
    let paths = frame.paths.len().clamp(1, PATH_ROWS) as u16 + 1;
    let last = last_lines(frame, model, t);
    let [head, chart, _, path_area, _, streams, below] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(chart_rows),
        Constraint::Length(1),
        Constraint::Length(paths),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(last.len() as u16 + 1),
    ])
    .areas(area);
    header(frame, model).render(head, buffer);
    draw_chart(chart, buffer, model, t);
    draw_paths(path_area, buffer, frame, chart_rows > 0);
    draw_streams(streams, buffer, frame);
    let [_, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(below);
    Paragraph::new(last).render(below, buffer);
}

fn header(frame: &Frame, model: &Model) -> Paragraph<'static> {
    let daemon = &frame.daemon;
    let device = short(&daemon.device);
    let first = Line::from(vec![
        Span::styled(format!("mpbond {}", daemon.role), BOLD),
        Span::raw(format!("  {device}")),
        Span::styled(
            format!("  version {}, up {}", daemon.version, span(daemon.uptime_s)),
            HEAD,
        ),
    ]);
    let second = match (model.lost(), frame.total) {
        (Some(why), _) => Line::styled(why.to_owned(), BAD),
        (None, Some(total)) => Line::from(vec![
            Span::styled(format!("↓ {:<14}", rate(total.down)), BOLD),
            Span::styled(format!("↑ {:<14}", rate(total.up)), BOLD),
            // A helper knows none.
            match daemon.role.as_str() {
                "helper" => Span::raw(""),
                _ => Span::raw(open(frame)),
            },
        ]),
        (None, None) => Line::styled("no rate yet", HEAD),
    };
    Paragraph::new(vec![first, second])
}

/// How many streams are open, and wait.
fn open(frame: &Frame) -> String {
    let streams = &frame.streams;
    let open = format!("{} streams open", streams.open);
    match streams.waiting_count {
        0 => open,
        count => format!("{open}, {count} waiting"),
    }
}

/// Both directions together, over the last ten minutes.
fn draw_chart(area: Rect, buffer: &mut Buffer, model: &Model, t: f64) {
    if area.is_empty() {
        return;
    }
    let label = 12.min(area.width);
    let [bars, label] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(label)]).areas(area);
    let sums = columns(model, t, usize::from(bars.width));
    let most = sums.iter().copied().fold(0.0, f64::max);
    let heights: Vec<u64> = sums.iter().map(|rate| rate.round() as u64).collect();
    let chart = Sparkline::default()
        .data(&heights)
        .style(Style::new().fg(Color::Cyan));
    chart.max((most as u64).max(1)).render(bars, buffer);
    let width = HISTORY_S / f64::from(bars.width.max(1));
    let lines = vec![
        Line::styled(rate(most), HEAD),
        Line::styled("highest mean", HEAD),
        Line::styled(format!("of {width:.1} s"), HEAD),
    ];
    Paragraph::new(lines).right_aligned().render(label, buffer);
}

/// Mean rate in each of so many equal parts of the history.
fn columns(model: &Model, t: f64, count: usize) -> Vec<f64> {
    let mut bytes = vec![0.0; count];
    let width = HISTORY_S / count.max(1) as f64;
    for sample in model.samples() {
        let sum: f64 = sample
            .rates
            .iter()
            .map(|SlotRate(_, down, up)| down + up)
            .sum();
        // Its bytes are spread over the columns that it touches.
        let at = |age: f64| count as f64 - age / width;
        let (begin, end) = (at(t - sample.t + sample.span), at(t - sample.t));
        let mut column = begin.max(0.0).floor();
        while column < end && (column as usize) < count {
            let overlap = end.min(column + 1.0) - begin.max(column);
            bytes[column as usize] += sum * overlap * width;
            column += 1.0;
        }
    }
    bytes.iter_mut().for_each(|b| *b /= width);
    bytes
}

fn draw_paths(area: Rect, buffer: &mut Buffer, frame: &Frame, has_shares: bool) {
    let is_helper = frame.daemon.role == "helper";
    let head = [
        if is_helper { "PRIMARY" } else { "PATH" },
        "STATE",
        "↓",
        "↑",
        "RTT",
        "5 min",
        "",
    ];
    let widths = [
        Constraint::Min(12),
        Constraint::Length(18),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(8),
    ];
    let mut rows: Vec<Row> = frame.paths.iter().map(path_row).collect();
    if rows.is_empty() {
        rows.push(Row::new(["none"]));
    }
    let hidden = rows.len().saturating_sub(PATH_ROWS);
    if hidden > 0 {
        rows.truncate(PATH_ROWS - 1);
        rows.push(Row::new([format!("and {} more", hidden + 1)]));
    }
    // Without history there are no shares.
    let count = if has_shares { 7 } else { 5 };
    table(&head[..count], &widths[..count], rows).render(area, buffer);
}

fn path_row(path: &PathRow) -> Row<'static> {
    let style = match path.state.as_str() {
        "up" | "backup" | "express" => GOOD,
        "potentially-failed" | "joining" | "connecting" => DOUBTFUL,
        "down" => BAD,
        _ => DIM,
    };
    let one = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rate);
    let name = match path.name.as_str() {
        name if path.peer.is_empty() || path.kind == "primary" => name.to_owned(),
        name => format!("{name} {}", short(&path.peer)),
    };
    Row::new([
        Cell::new(name),
        Cell::new(path.state.clone()).style(style),
        Cell::new(one(path.rate.map(|r| r.down))),
        Cell::new(one(path.rate.map(|r| r.up))),
        Cell::new(path.rtt_ms.map_or_else(|| "-".to_owned(), milliseconds)),
        Cell::new(path.share.map_or_else(|| "-".to_owned(), percent)),
        Cell::new(path.share.map_or_else(String::new, bar)).style(Style::new().fg(Color::Cyan)),
    ])
}

/// A bar of at most eight columns.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 64.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn draw_streams(area: Rect, buffer: &mut Buffer, frame: &Frame) {
    let applications = &frame.streams.applications;
    if applications.is_empty() {
        if frame.streams.withheld {
            let text = "destinations are shown to root and to the user of the daemon";
            Paragraph::new(Line::styled(text, HEAD)).render(area, buffer);
        }
        return;
    }
    let is_known = applications.iter().any(|of| of.application.is_some());
    let name = if is_known {
        "APPLICATION, DESTINATION"
    } else {
        "DESTINATION"
    };
    let head = [name, "CLASS", "OPEN", "↓", "↑", "BYTES"];
    let widths = [
        Constraint::Min(20),
        Constraint::Length(11),
        Constraint::Length(5),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(8),
    ];
    let room = usize::from(area.height.saturating_sub(1));
    // Each application has the same part of the room, for its own row and the first of its streams.
    // What some do not need goes to the others, in their order.
    let part = (room / applications.len()).max(1);
    let wanted = applications
        .iter()
        .map(|of| usize::from(of.application.is_some()) + of.groups.len());
    let used: usize = wanted.clone().map(|rows| rows.min(part)).sum();
    let mut left = room.saturating_sub(used);
    let rows = applications.iter().zip(wanted).flat_map(|(of, wanted)| {
        let more = wanted.saturating_sub(part).min(left);
        left -= more;
        let own = of.application.as_ref();
        let own = own.map(|a| stream_row(application_name(a), "", &of.sum).style(BOLD));
        let indent = if is_known { "  " } else { "" };
        let groups = of.groups.iter().map(move |group| {
            let name = format!("{indent}{}", group.destination);
            let row = stream_row(name, &group.class, &group.sum);
            if group.sum.open == 0 {
                row.style(DIM)
            } else {
                row
            }
        });
        own.into_iter().chain(groups).take(part + more)
    });
    table(&head, &widths, rows.take(room).collect()).render(area, buffer);
}

fn stream_row(name: String, class: &str, sum: &StreamSum) -> Row<'static> {
    Row::new([
        name,
        class.to_owned(),
        sum.open.to_string(),
        rate(sum.rate.down),
        rate(sum.rate.up),
        bytes(sum.down_bytes.saturating_add(sum.up_bytes)),
    ])
}

/// An application with its certainty; of an unknown one its user.
fn application_name(application: &Application) -> String {
    let certainty = match application.certainty {
        Certainty::Known => "known",
        Certainty::Guessed => "guessed",
        Certainty::Unknown => "unknown",
    };
    match (&application.name, application.uid) {
        (Some(name), _) => format!("{name}, {certainty}"),
        (None, Some(uid)) => format!("{certainty}, of user {uid}"),
        (None, None) => certainty.to_owned(),
    }
}

fn table<'a>(head: &[&'a str], widths: &[Constraint], rows: Vec<Row<'a>>) -> Table<'a> {
    Table::new(rows, widths)
        .header(Row::new(head.iter().copied()).style(HEAD))
        .column_spacing(1)
}

/// Limits, notes and the last events, as far as there is room.
fn last_lines(frame: &Frame, model: &Model, t: f64) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let of_daemon = [("budget", &frame.budget), ("memory", &frame.memory)];
    let of_daemon = of_daemon.map(|(name, gauge)| (name.to_owned(), gauge));
    let caps = frame
        .paths
        .iter()
        .map(|path| (format!("cap of {}", path.name), &path.cap));
    for (name, gauge) in of_daemon.into_iter().chain(caps) {
        let Some(gauge) = gauge else { continue };
        let of = gauge
            .max_bytes
            .map_or_else(String::new, |m| format!(" of {}", bytes(m)));
        let when = match (&gauge.month, &gauge.resets) {
            (Some(month), _) => format!(" in {month}"),
            (None, Some(day)) => format!(" until {day}"),
            (None, None) => String::new(),
        };
        let used = bytes(gauge.used_bytes);
        lines.push(Line::raw(format!("{name}: {used}{of}{when}")));
    }
    if !frame.needs_restart.is_empty() {
        let keys = frame.needs_restart.join(", ");
        lines.push(Line::styled(
            format!("applies at the next start: {keys}"),
            DOUBTFUL,
        ));
    }
    for path in &frame.paths {
        if let Some(error) = &path.error {
            lines.push(Line::styled(format!("{}: {error}", path.name), BAD));
        }
    }
    let notes = frame
        .notes
        .iter()
        .map(|note| Line::styled(format!("note: {note}"), DOUBTFUL));
    lines.extend(notes);
    lines.truncate(LAST_ROWS);
    let events = model.events().into_iter().rev().map(|event| {
        let style = match event.kind {
            Kind::PathUp | Kind::HelperJoined | Kind::PrimaryJoined | Kind::DaemonBack => GOOD,
            Kind::PathDown | Kind::HelperLeft | Kind::DaemonLost => BAD,
            // Those that only the page is told are left out here.
            _ => DOUBTFUL,
        };
        let ago = format!("{:>12} ago  ", span(t - event.t));
        Line::from(vec![
            Span::styled(ago, HEAD),
            Span::styled(event.text, style),
        ])
    });
    let room = LAST_ROWS - lines.len();
    lines.extend(events.take(room));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::status::Status;

    /// A primary with many paths, streams and notes.
    fn model() -> Model {
        let mut model = Model::default();
        for second in 0..30_u64 {
            let names: Vec<String> = (0..12).map(|n| format!("path{n}")).collect();
            let state = if second > 20 {
                "potentially-failed"
            } else {
                "up"
            };
            let links = names
                .iter()
                .map(|n| json!({ "name": n, "kind": "path", "state": state }));
            let paths = names
                .iter()
                .map(|n| json!({ "name": n, "bytes_in": second * 125_000 }));
            let streams = (0..50).map(
                |n| json!({ "stream": n, "destination": format!("host{n}:443"), "state": "open" }),
            );
            let value = json!({
                "role": "primary", "uptime_s": second, "links": links.collect::<Vec<_>>(),
                "paths": paths.collect::<Vec<_>>(), "transfers": streams.collect::<Vec<_>>(),
                "notes": vec!["a note"; 9],
            });
            let status = Status::read(value.to_string().as_bytes()).unwrap();
            model.take(second as f64, status);
        }
        model
    }

    fn lines(width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(area, &mut buffer, &model(), 30.0);
        let row = |row: Rect| {
            row.positions()
                .map(|at| buffer[at].symbol())
                .collect::<String>()
        };
        area.rows().map(row).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_columns() {
        let mut model = Model::default();
        for second in 0..700_u64 {
            let value = json!({
                "role": "primary", "uptime_s": second,
                "links": [{ "name": "wifi", "kind": "path", "state": "up" }],
                "paths": [{ "name": "wifi", "bytes_in": second * 1000 }],
            });
            let status = Status::read(value.to_string().as_bytes()).unwrap();
            model.take(second as f64, status);
        }
        for count in [1, 28, 68, 188, 600, 999] {
            let columns = columns(&model, 699.0, count);
            let is_right = |rate: &f64| (rate - 1000.0).abs() < 1e-6;
            assert!(columns.iter().all(is_right), "{count}: {columns:?}");
        }
    }

    #[test]
    fn connections_that_wait_are_counted() {
        let mut model = Model::default();
        for second in 0..2_u64 {
            let value = json!({
                "role": "primary", "uptime_s": second, "waiting_count": 3,
                "links": [{ "name": "wifi", "kind": "path", "state": "up" }],
                "paths": [{ "name": "wifi", "bytes_in": second * 1000 }],
            });
            let status = Status::read(value.to_string().as_bytes()).unwrap();
            model.take(second as f64, status);
        }
        assert!(as_text(&model, 1.0).contains("0 streams open, 3 waiting"));
    }

    #[test]
    fn streams_are_listed_under_their_applications_which_share_all_of_the_room() {
        let mut model = Model::default();
        let stream = |n: u64, application: Value, bytes: u64| {
            json!({ "stream": n, "destination": format!("host{n}:443"), "class": "bulk",
                "state": "open", "bytes_in": bytes, "application": application })
        };
        let torrent = json!({ "name": "torrent.service", "certainty": "known" });
        let browser = json!({ "name": "firefox", "certainty": "guessed", "uid": 1000 });
        let mut streams: Vec<_> = (0..40).map(|n| stream(n, torrent.clone(), 5000)).collect();
        streams.push(stream(40, browser, 900));
        streams.push(stream(41, json!({ "certainty": "unknown", "uid": 33 }), 80));
        let value = json!({ "role": "primary", "transfers": streams });
        model.take(0.0, Status::read(value.to_string().as_bytes()).unwrap());
        let text = as_text(&model, 0.0);
        let lines: Vec<_> = text
            .lines()
            .filter(|l| l.contains("host") || l.contains(','))
            .collect();
        let at = |name: &str| lines.iter().position(|l| l.starts_with(name)).unwrap();
        assert!(
            lines[at("torrent.service, known ")].contains(" 40 "),
            "{text}"
        );
        assert!(lines[at("torrent.service")].contains("200 kB"), "{text}");
        assert_eq!(at("  host40:443 "), at("firefox, guessed ") + 1, "{text}");
        assert_eq!(
            at("  host41:443 "),
            at("unknown, of user 33 ") + 1,
            "{text}"
        );
        // The first one has the rows that the others do not need.
        let list = text.split_once("DESTINATION").unwrap().1;
        let rows: Vec<_> = list.lines().skip(1).collect();
        assert_eq!(rows.len(), 32, "{text}");
        assert!(rows[28].starts_with("firefox, guessed "), "{text}");
    }

    #[test]
    fn it_is_told_why_a_path_is_down() {
        let mut model = Model::default();
        let value = json!({
            "role": "primary",
            "links": [{ "name": "wifi", "kind": "path", "state": "down", "error": "no route" }],
        });
        let status = Status::read(value.to_string().as_bytes()).unwrap();
        model.take(0.0, status);
        assert!(as_text(&model, 0.0).contains("wifi: no route"));
    }

    #[test]
    fn everything_has_a_place_in_80_columns_and_24_rows() {
        let lines = lines(80, 24);
        let text = lines.join("\n");
        assert!(lines[1].contains("12.0 Mbit/s"), "{text}");
        assert!(
            lines[2..6].iter().any(|l| l.contains('█')),
            "no chart:\n{text}"
        );
        for expected in [
            "path0 ",
            "1.00 Mbit/s",
            "and 5 more",
            "host",
            "note: a note",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }

    #[test]
    fn small_screens_are_drawn_as_far_as_there_is_room() {
        for (width, height) in [
            (0, 0),
            (1, 1),
            (5, 3),
            (20, 8),
            (40, 12),
            (200, 3),
            (3, 100),
        ] {
            lines(width, height);
        }
    }
}
