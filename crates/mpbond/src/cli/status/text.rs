//! A status as tables.

use comfy_table::{CellAlignment, Table, presets};
use mpbond::status::{SessionStatus, Status, SubflowStatus, TransferStatus};

use mpbond_units::human;

/// Number of transfers shown; JSON has the older ones too.
const TRANSFERS_SHOWN: usize = 12;

/// A daemon's status as text; with an earlier one, rates of the time between.
pub(super) fn render(status: &Status, before: Option<&Status>) -> String {
    let mut text = format!(
        "{} {}  up {}\n{}\n",
        status.role,
        status.version,
        human::span(status.uptime_s),
        status.device
    );
    if let Some(sandbox) = &status.sandbox {
        text.push_str(&format!("sandbox: {}\n", sandbox.summary()));
        for problem in &sandbox.problems {
            text.push_str(&format!("note: sandbox: {problem}\n"));
        }
    }
    match status.on_proxy_loss.as_deref() {
        Some("direct") => text.push_str(
            "without a path to the proxy: new connections go direct after 1.5 s, also if somebody \
             blocks all paths on purpose (on_proxy_loss = \"direct\")\n",
        ),
        Some("fail") => text.push_str("without a path to the proxy: new connections are refused\n"),
        _ => {}
    }
    match status.kill_switch.as_deref() {
        Some("until-stop") => text.push_str("kill switch: on until the primary is told to stop\n"),
        Some(_) => text.push_str("kill switch: on, also without the primary\n"),
        None => {}
    }
    let lacks = status.proxy_lacks_note();
    for note in lacks.iter().chain(&status.notes) {
        text.push_str(&format!("note: {note}\n"));
    }
    if let Some(budget) = &status.budget {
        let cap = budget.max_bytes.map_or_else(
            || "no cap".to_owned(),
            |max| format!("of {}", human::bytes(max)),
        );
        text.push_str(&format!(
            "lent in {}: {} {cap}\n",
            budget.month,
            human::bytes(budget.used_bytes)
        ));
    }
    links(&mut text, status);
    for session in &status.sessions {
        let earlier = before.and_then(|b| {
            let span = status.uptime_s - b.uptime_s;
            let session = b.sessions.iter().find(|s| s.id == session.id)?;
            (span > 0.0).then_some((session, span))
        });
        one_session(&mut text, session, earlier);
    }
    if status.role == "proxy" && status.sessions.is_empty() {
        text.push_str("\nno session\n");
    }
    relays(&mut text, status);
    transfers(&mut text, &status.transfers);
    text
}

fn table(head: &[&str], left: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let number = index >= left;
        column.set_padding((0, 2));
        column.set_cell_alignment(if number {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn links(text: &mut String, status: &Status) {
    if status.links.is_empty() {
        return;
    }
    let rows = status.links.iter().map(|l| {
        let error = l.error.clone().unwrap_or_default();
        vec![l.name.clone(), l.kind.clone(), l.state.clone(), error]
    });
    text.push_str("\nlinks\n");
    text.push_str(&table(
        &["NAME", "KIND", "STATE", "LAST ERROR"],
        4,
        rows.collect(),
    ));
}

fn one_session(text: &mut String, s: &SessionStatus, before: Option<(&SessionStatus, f64)>) {
    let id = if s.id.is_empty() { "(new)" } else { &s.id };
    let peer: String = s.peer.chars().take_while(|c| *c != '-').collect();
    text.push_str(&format!(
        "\nsession {id} with {peer}: {}, {}, {} of {} streams open, in {}, out {}\n",
        s.state,
        s.scheduler,
        s.streams_open,
        s.streams_total,
        human::bytes(s.bytes_in),
        human::bytes(s.bytes_out),
    ));
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
    let mut head = vec!["ID", "PATH", "KIND", "STATE", "IN", "OUT"];
    if before.is_some() {
        head.extend(["IN NOW", "OUT NOW"]);
    }
    head.extend(["PAD", "B_s", "B_p", "TH", "RTT"]);
    let rows = s.subflows.iter().map(|subflow| {
        let mut row = vec![
            subflow.id.to_string(),
            subflow.name.clone(),
            subflow.kind.clone(),
            subflow.state.clone(),
            human::bytes(subflow.bytes_in),
            human::bytes(subflow.bytes_out),
        ];
        if let Some((session, span)) = before {
            let earlier = session.subflows.iter().find(|e| e.id == subflow.id);
            row.extend(rates(subflow, earlier, span));
        }
        row.extend([
            human::millis(subflow.pad_ms),
            human::bytes(subflow.b_s),
            human::bytes(subflow.b_p),
            human::rate(subflow.th_mbps),
            human::millis(subflow.rtt_ms),
        ]);
        row
    });
    text.push_str(&table(&head, 4, rows.collect()));
}

fn rates(now: &SubflowStatus, before: Option<&SubflowStatus>, span: f64) -> [String; 2] {
    let mbps = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8e-6 / span;
    match before {
        Some(b) => [
            human::rate(mbps(now.bytes_in, b.bytes_in)),
            human::rate(mbps(now.bytes_out, b.bytes_out)),
        ],
        None => [String::new(), String::new()],
    }
}

fn relays(text: &mut String, status: &Status) {
    if status.role != "helper" {
        return;
    }
    if status.relays.is_empty() {
        text.push_str("\nno relay\n");
        return;
    }
    let rows = status.relays.iter().map(|r| {
        vec![
            r.primary.chars().take_while(|c| *c != '-').collect(),
            r.proxy.clone(),
            human::bytes(r.bytes_down),
            human::bytes(r.bytes_up),
            human::bytes(r.level_down_bytes),
            human::bytes(r.level_up_bytes),
        ]
    });
    text.push_str("\nrelays\n");
    let head = [
        "PRIMARY",
        "PROXY",
        "DOWN",
        "UP",
        "WAITING DOWN",
        "WAITING UP",
    ];
    text.push_str(&table(&head, 2, rows.collect()));
}

fn transfers(text: &mut String, transfers: &[TransferStatus]) {
    if transfers.is_empty() {
        return;
    }
    let hidden = transfers.len().saturating_sub(TRANSFERS_SHOWN);
    let rows = transfers.iter().skip(hidden).map(|t| {
        let took = match t.closed_s {
            Some(end) => human::millis((end - t.opened_s) * 1e3),
            None => String::new(),
        };
        let shares: Vec<String> = t
            .subflows
            .iter()
            .filter(|s| s.bytes_in + s.bytes_out > 0)
            .map(|s| format!("{} {}", s.name, human::bytes(s.bytes_in + s.bytes_out)))
            .collect();
        vec![
            t.destination.clone(),
            t.state.clone(),
            shares.join(", "),
            human::bytes(t.bytes_in),
            human::bytes(t.bytes_out),
            took,
            human::bytes(t.redundant_bytes),
        ]
    });
    let rows = rows.collect();
    text.push_str(match hidden {
        0 => "\ntransfers\n",
        _ => "\nlast transfers\n",
    });
    let head = [
        "DESTINATION",
        "STATE",
        "CARRIED BY",
        "IN",
        "OUT",
        "TOOK",
        "TWICE",
    ];
    text.push_str(&table(&head, 3, rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpbond::status::{BudgetStatus, LinkStatus, RelayStatus, ShareStatus};

    fn primary(bytes_in: u64, uptime_s: f64) -> Status {
        Status {
            role: "primary".into(),
            device: "AAAAAAA-BBBBBBB".into(),
            version: "0.1.0".into(),
            uptime_s,
            links: vec![LinkStatus {
                name: "lte".into(),
                kind: "path".into(),
                state: "up".into(),
                error: None,
            }],
            on_proxy_loss: Some("fail".into()),
            kill_switch: Some("permanent".into()),
            notes: vec!["QUIC is refused".into()],
            sessions: vec![SessionStatus {
                id: "0011".into(),
                peer: "CCCCCCC-DDDDDDD".into(),
                state: "up".into(),
                scheduler: "pams".into(),
                subflows: vec![SubflowStatus {
                    id: 1,
                    name: "lte".into(),
                    kind: "direct".into(),
                    state: "up".into(),
                    bytes_in,
                    pad_ms: 25.0,
                    th_mbps: 8.0,
                    rtt_ms: 50.0,
                    ..SubflowStatus::default()
                }],
                ..SessionStatus::default()
            }],
            transfers: vec![TransferStatus {
                destination: "198.51.100.1:80".into(),
                state: "closed".into(),
                bytes_in: 10 << 20,
                opened_s: 1.0,
                closed_s: Some(7.5),
                subflows: vec![ShareStatus {
                    name: "lte".into(),
                    bytes_in: 10 << 20,
                    ..ShareStatus::default()
                }],
                ..TransferStatus::default()
            }],
            ..Status::default()
        }
    }

    #[test]
    fn a_primary() {
        let text = render(&primary(1 << 20, 61.0), None);
        let expected = "\
primary 0.1.0  up 1 min 1 s
AAAAAAA-BBBBBBB
without a path to the proxy: new connections are refused
kill switch: on, also without the primary
note: QUIC is refused

links
  NAME  KIND  STATE  LAST ERROR
  lte   path  up

session 0011 with CCCCCCC: up, pams, 0 of 0 streams open, in 0 B, out 0 B
  ID  PATH  KIND    STATE        IN  OUT      PAD  B_s  B_p           TH      RTT
  1   lte   direct  up     1.00 MiB  0 B  25.0 ms  0 B  0 B  8.00 Mbit/s  50.0 ms

transfers
  DESTINATION      STATE   CARRIED BY          IN  OUT    TOOK  TWICE
  198.51.100.1:80  closed  lte 10.0 MiB  10.0 MiB  0 B  6.50 s    0 B
";
        assert_eq!(text, expected);
    }

    #[test]
    fn watching_shows_the_rates_of_the_last_second() {
        let before = primary(0, 60.0);
        let text = render(&primary(1_000_000, 61.0), Some(&before));
        assert!(text.contains("IN NOW"), "{text}");
        assert!(text.contains("8.00 Mbit/s  0.00 Mbit/s  25.0 ms"), "{text}");
    }

    #[test]
    fn a_helper() {
        let status = Status {
            role: "helper".into(),
            relays: vec![RelayStatus {
                primary: "AAAAAAA-BBBBBBB".into(),
                proxy: "203.0.113.1:4433".into(),
                bytes_down: 1 << 20,
                ..RelayStatus::default()
            }],
            budget: Some(BudgetStatus {
                month: "2026-11".into(),
                used_bytes: 1 << 30,
                max_bytes: Some(2 << 30),
            }),
            ..Status::default()
        };
        let text = render(&status, None);
        assert!(
            text.contains("lent in 2026-11: 1.00 GiB of 2.00 GiB\n"),
            "{text}"
        );
        assert!(
            text.contains("  AAAAAAA  203.0.113.1:4433  1.00 MiB"),
            "{text}"
        );
    }
}
