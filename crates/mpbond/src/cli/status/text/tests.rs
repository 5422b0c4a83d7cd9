//! Tests of the texts of statuses.

use super::*;
use anstream::adapter::strip_str;
use mpbond::status::{
    BudgetStatus, ChoiceStatus, DayJoules, LimitStatus, PipeEnergy, RadioEnergy, ShareStatus,
    SubflowStatus, WaitingStatus, WokenFor,
};

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
            ..LinkStatus::default()
        }],
        on_proxy_loss: Some("fail".into()),
        kill_switch: Some("permanent".into()),
        notes: vec!["QUIC is refused".into()],
        sessions: vec![SessionStatus {
            id: "0011".into(),
            peer: "CCCCCCC-DDDDDDD".into(),
            state: "up".into(),
            scheduler: "mpbond".into(),
            subflows: vec![SubflowStatus {
                id: 1,
                name: "lte".into(),
                kind: "direct".into(),
                state: "up".into(),
                bytes_in,
                pad_ms: 25.0,
                th_mbps: Some(8.0),
                rtt_ms: 50.0,
                ..SubflowStatus::default()
            }],
            ..SessionStatus::default()
        }],
        transfers: vec![TransferStatus {
            destination: "198.51.100.1:80".into(),
            state: "closed".into(),
            bytes_in: 10_000_000,
            opened_s: 1.0,
            closed_s: Some(7.5),
            subflows: vec![ShareStatus {
                name: "lte".into(),
                bytes_in: 10_000_000,
                ..ShareStatus::default()
            }],
            ..TransferStatus::default()
        }],
        ..Status::default()
    }
}

fn plain(status: &Status, before: Option<&Status>) -> String {
    strip_str(&render(status, before, None)).to_string()
}

#[test]
fn a_primary() {
    let mut now = primary(2_000_000, 61.0);
    let session = &mut now.sessions[0];
    session.subflows.push(SubflowStatus {
        id: 2,
        name: "the second laptop".into(),
        kind: "helper".into(),
        state: "potentially-failed".into(),
        bytes_out: 500_000,
        rtt_ms: 2_400.0,
        ..SubflowStatus::default()
    });
    let by_class = [("bulk", 3), ("realtime", 1)];
    session.streams_open = 4;
    session.streams_by_class = by_class.map(|(name, n)| (name.to_owned(), n)).into();
    now.transfers.push(TransferStatus {
        destination: "no.such.name:80".into(),
        closed_s: Some(0.5),
        reason: Some("name not found".into()),
        ..TransferStatus::default()
    });
    now.links[0].state = "down".into();
    now.links[0].error = Some("wwan0 has no carrier".into());
    let text = plain(&now, Some(&primary(1_000_000, 60.0)));
    let expected = "\
primary 0.1.0  up 1 min 1 s
AAAAAAA-BBBBBBB
without a path to the proxy: new connections are refused
kill switch: on, also without the primary
note: QUIC is refused

links
  NAME  KIND  STATE
  lte   path  down
  lte: wwan0 has no carrier

session 0011 with CCCCCCC: up, mpbond, 4 of 0 streams open
  streams by class: 1 realtime, 3 bulk
  PATH           STATE        IN     OUT  IN/s  OUT/s    TH   PAD   RTT
  lte            up      2.00 MB     0 B  8.00   0.00  8.00  25.0  50.0
  the second l\u{2026}  silent      0 B  500 kB  0.00   4.00     -  0.00  2400
  total                  2.00 MB  500 kB  8.00   4.00

  IN/s, OUT/s, TH: Mbit/s, TH where load has shown it lately. PAD, RTT: ms.

transfers
  DESTINATION           IN  OUT    TOOK  CARRIED BY, REASON
  198.51.100.1:80  10.0 MB  0 B  6.50 s  100 % lte
  no.such.name:80      0 B  0 B  500 ms  name not found
";
    assert_eq!(text, expected);
}

#[test]
fn connections_that_wait_are_before_transfers_and_are_counted_for_other_users() {
    let waits = |waits_for: &str, rule: Option<&str>, left_s| WaitingStatus {
        client: "127.0.0.1:5".into(),
        destination: "example.org:443".into(),
        rule: rule.map(str::to_owned),
        waits_for: waits_for.into(),
        waited_s: 12.7,
        left_s,
    };
    let mut now = primary(0, 61.0);
    now.waiting = vec![
        waits("radio", Some("backups"), Some(587.3)),
        waits("session", None, None),
    ];
    now.waiting_count = Some(140);
    let text = plain(&now, None);
    let (_, end) = text.split_once("\n140 new").unwrap();
    let expected = " connections wait
  DESTINATION      FOR      WAITED        LEFT  RULE
  example.org:443  radio      12 s  9 min 47 s  backups
  example.org:443  session    12 s           -  -

transfers
";
    assert!(end.starts_with(expected), "{text}");
    (now.waiting, now.waiting_count) = (Vec::new(), Some(1));
    let text = plain(&now, None);
    let expected = "\n1 new connection waits\n\ntransfers\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn joules_and_sizes_are_shown_with_the_link() {
    let energy = |woken_for| LinkEnergy {
        radio: "lte-2012".into(),
        joules: 25.31,
        days: Vec::new(),
        woken_for,
    };
    let day = |day: &str, joules| DayJoules {
        day: day.into(),
        joules,
    };
    let mut now = primary(0, 1.0);
    now.links[0].energy = Some(LinkEnergy {
        days: vec![day("2026-11-26", 120.0), day("2026-11-27", 26.06)],
        ..energy(None)
    });
    now.links.push(LinkStatus {
        name: "phone".into(),
        energy: Some(energy(Some(WokenFor {
            download_bytes: Some(2_540_000),
            upload_bytes: None,
        }))),
        ..LinkStatus::default()
    });
    let text = plain(&now, None);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    for line in [
        "lte: about 25.3 J of lte-2012, today 26.1 J, 2026-11-26 120.0 J phone:",
        "phone: about 25.3 J of lte-2012; woken for downloads from 2.54 MB on, for no uploads",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn joules_of_a_pipe_are_shown_for_both_ends() {
    let mut now = primary(0, 1.0);
    let energy = |radio: &str, joules| RadioEnergy {
        radio: radio.into(),
        joules,
        days: vec![DayJoules {
            day: "2026-11-27".into(),
            joules: 2.0 * joules,
        }],
    };
    now.links[0].pipe_energy = Some(PipeEnergy {
        near: energy("watch-bt", 1.0),
        far: Some(energy("phone-bt", 2.0)),
    });
    let words = |now: &Status| {
        let text = plain(now, None);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let near = "lte: pipe here: about 1.0 J of watch-bt, today 2.0 J";
    let far = "; at the helper: about 2.0 J of phone-bt, today 4.0 J";
    let text = words(&now);
    assert!(text.contains(&format!("{near}{far}")), "{text}");
    now.links[0].pipe_energy.as_mut().unwrap().far = None;
    let text = words(&now);
    assert!(text.contains(near) && !text.contains(far), "{text}");
}

#[test]
fn the_choice_among_pipes_is_shown_with_its_reason() {
    let mut now = primary(0, 1.0);
    for (name, state, milliwatts) in [("bt", "standby", None), ("wlan", "used", Some(1_032))] {
        now.links.push(LinkStatus {
            name: name.into(),
            choice: Some(ChoiceStatus {
                state: state.into(),
                reason: "\"bt\" was too slow".into(),
                milliwatts,
            }),
            ..LinkStatus::default()
        });
    }
    let text = plain(&now, None);
    assert!(text.contains("  bt: standby\n"), "{text}");
    let used =
        "  wlan: used, since \"bt\" was too slow; its radios need 1032 mW while bytes move\n";
    assert!(text.contains(used), "{text}");
}

#[test]
fn what_is_not_known_is_a_dash() {
    let mut now = primary(0, 1.0);
    now.sessions[0].subflows[0].th_mbps = None;
    now.sessions[0].subflows[0].rtt_ms = 0.0;
    let text = plain(&now, None);
    assert!(
        text.contains("  lte   up     0 B  0 B     -      -   -    -    -\n"),
        "{text}"
    );
    assert!(!text.contains("total"), "one path is its own sum: {text}");
}

#[test]
fn states_have_colours() {
    let mut now = primary(0, 1.0);
    now.sessions[0].subflows[0].state = "down".into();
    let text = render(&now, None, None);
    assert!(text.contains("\u{1b}[32mup"), "{text:?}");
    assert!(text.contains("\u{1b}[31mdown"), "{text:?}");
}

/// Long names, addresses and sentences, and the largest numbers.
#[test]
fn every_line_fits_into_80_columns() {
    let long = "x".repeat(60);
    let mut now = primary(u64::MAX / 2, 100_061.0);
    now.on_proxy_loss = Some("direct".into());
    now.notes = vec!["word ".repeat(60)];
    now.links[0].error = Some("word ".repeat(60));
    now.links[0].name = long.clone();
    now.sessions[0].id = "0".repeat(16);
    now.sessions[0].streams_total = 1_000_000;
    let subflow = &mut now.sessions[0].subflows[0];
    subflow.name = long.clone();
    subflow.state = "potentially-failed".into();
    (subflow.pad_ms, subflow.rtt_ms) = (59_999.0, 59_999.0);
    (subflow.th_mbps, subflow.bytes_out) = (Some(99_999.0), (1023 << 30) + (900 << 20));
    let transfer = &mut now.transfers[0];
    transfer.destination = long.clone();
    (transfer.bytes_in, transfer.bytes_out) = (1023 << 20, 1023 << 20);
    transfer.subflows[0].name = long;
    let helper = Status {
        role: "helper".into(),
        relays: vec![RelayStatus {
            primary: "AAAAAAA-BBBBBBB".into(),
            proxy: "[2001:db8:1111:2222:3333:4444:5555:6666]:4433".into(),
            bytes_down: 1023 << 20,
            bytes_up: 1023 << 20,
            level_down_bytes: 1023 << 10,
            ..RelayStatus::default()
        }],
        ..Status::default()
    };
    for text in [plain(&now, None), plain(&helper, None)] {
        for line in text.lines() {
            assert!(
                line.chars().count() <= 80,
                "{}: {line}",
                line.chars().count()
            );
        }
    }
}

/// It would not be one that can be copied in two lines.
#[test]
fn a_command_is_one_line_and_quoted() {
    let status = Status {
        role: "helper".into(),
        transfers_withheld: true,
        ..Status::default()
    };
    let socket = Path::new("/srv/a folder with a very long name/my conf's/helper.sock");
    let text = render(&status, None, Some(socket));
    let command = "sudo mpbond status --socket \
                   '/srv/a folder with a very long name/my conf'\\''s/helper.sock'\n";
    assert!(text.contains(command), "{text}");
    let text = render(&status, None, None);
    assert!(text.contains(": sudo mpbond status helper\n"), "{text}");
}

#[test]
fn what_a_helper_has_told_of_itself_is_shown_with_its_link() {
    let mut now = primary(0, 1.0);
    for (charging, metered, lines) in [
        (
            Some(true),
            Some(true),
            "lte: battery at 41%, on mains\n  lte: metered\n",
        ),
        (
            Some(false),
            Some(false),
            "lte: battery at 41%\n  lte: not metered\n",
        ),
        (None, None, "lte: battery at 41%\n\n"),
    ] {
        let link = &mut now.links[0];
        (link.battery_percent, link.charging) = (Some(41), charging);
        link.metered = metered;
        let text = plain(&now, None);
        assert!(text.contains(lines), "{text}");
    }
    let link = &mut now.links[0];
    (link.metered, link.metered_guessed) = (Some(true), true);
    let text = plain(&now, None);
    assert!(text.contains("  lte: metered (guessed)\n"), "{text}");
}

#[test]
fn limits_beside_own_traffic_are_shown_at_both_ends() {
    let limits = |down: Option<f64>, up| LimitStatus {
        limit_down_mbps: down,
        limit_up_mbps: up,
    };
    let mut helper = Status {
        role: "helper".into(),
        lent: Some(LentStatus {
            interface: "wwan0".into(),
            limits: limits(Some(3.2), Some(1.0)),
        }),
        ..Status::default()
    };
    let words = |status: &Status| {
        let text = plain(status, None);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = words(&helper);
    let line = "relays are limited beside own traffic of wwan0: 3.20 Mbit/s down, 1.00 Mbit/s up";
    assert!(text.contains(line), "{text}");
    helper.lent.as_mut().unwrap().limits = limits(None, None);
    assert!(!plain(&helper, None).contains("limited"));
    let mut primary = primary(0, 1.0);
    primary.links[0].limits = limits(None, Some(0.4));
    let text = words(&primary);
    let line = "lte: limited beside own traffic there: 0.40 Mbit/s up";
    assert!(text.contains(line), "{text}");
    // In JSON they are fields of the link.
    let json = serde_json::to_string(&primary.links[0]).unwrap();
    assert!(json.ends_with("\"limit_up_mbps\":0.4}"), "{json}");
    let read: LinkStatus = serde_json::from_str(&json).unwrap();
    assert_eq!(read, primary.links[0]);
}

#[test]
fn a_helper() {
    let status = Status {
        role: "helper".into(),
        relays: vec![
            RelayStatus {
                primary: "AAAAAAA-BBBBBBB".into(),
                proxy: "203.0.113.1:4433".into(),
                bytes_down: 1_000_000,
                ..RelayStatus::default()
            };
            2
        ],
        budget: Some(BudgetStatus {
            month: "2026-11".into(),
            used_bytes: 1_000_000_000,
            max_bytes: Some(2_000_000_000),
        }),
        ..Status::default()
    };
    let text = plain(&status, None);
    assert!(
        text.contains("lent in 2026-11: 1.00 GB of 2.00 GB\n"),
        "{text}"
    );
    assert!(
        text.contains("  AAAAAAA  203.0.113.1:4433  1.00 MB"),
        "{text}"
    );
    assert!(
        text.contains("  total                      2.00 MB  0 B"),
        "{text}"
    );
}

#[test]
fn a_link_whose_cap_is_used_up_is_not_shown_as_up() {
    let mut status = primary(0, 10.0);
    status.links[0].cap = Some(mpbond::status::CapStatus {
        used_bytes: 31_000_000,
        bytes: 30_000_000,
        resets: "2026-12-01".into(),
        used_up: true,
        ..Default::default()
    });
    let text = plain(&status, None);
    assert!(text.contains("lte   path  cap used\n"), "{text}");
    assert!(
        !text
            .lines()
            .any(|l| l.starts_with("  lte ") && l.contains(" up ")),
        "{text}"
    );
    let used = "lte: 31.0 MB of 30.0 MB used until 2026-12-01: carries nothing till then";
    assert!(text.contains(used), "{text}");
}
