//! Real Bluetooth logs, against facts that tshark gave (samples' README), and made ones.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use mpbond_capture::bluetooth::{BluetoothReport, ResetBy, Side, analyse};
use mpbond_capture::{Place, Reader};
use proptest::prelude::*;

fn sample(name: &str) -> Option<Vec<u8>> {
    let path = mpbond_testing::sample(&format!("btsnoop/{name}"))?;
    Some(std::fs::read(path).unwrap())
}

fn report(name: &str) -> Option<BluetoothReport> {
    Some(analyse(name, &sample(name)?[..]).unwrap())
}

fn counts(r: &BluetoothReport) -> [u64; 4] {
    [r.records, r.acl, r.rfcomm, r.completed_packets]
}

/// Times (to the ms) and modes.
fn modes(r: &BluetoothReport) -> Vec<(f64, &'static str)> {
    let round = |s: f64| (s * 1e3).round() / 1e3;
    r.mode_changes
        .iter()
        .map(|c| (round(c.time_s), c.mode))
        .collect()
}

fn near(is: f64, fact: f64) {
    assert!((is - fact).abs() <= 0.0011, "{is}, not {fact}");
}

#[test]
fn a2dp_agrees_with_tshark() {
    let Some(r) = report("a2dp_motog2013_lghbs730.btsnoop.log") else {
        return;
    };
    assert_eq!(counts(&r), [3674, 1788, 61, 1678]);
    assert_eq!((r.commands.sniff, r.commands.exit_sniff), (0, 5));
    let (s, a) = ("sniff", "active");
    assert_eq!(
        modes(&r),
        [
            (3.505, s),
            (5.499, a),
            (10.527, s),
            (10.534, a),
            (15.557, s),
            (18.498, a),
            (40.777, s),
            (40.783, a),
            (45.797, s),
            (128.999, a),
        ]
    );
    assert!(
        r.mode_changes
            .iter()
            .all(|c| c.interval_slots == if c.mode == s { 800 } else { 0 })
    );
    assert_eq!((r.sniff_asked_by.local, r.sniff_asked_by.peer), (0, 5));
    let link = r.links.iter().find(|l| l.dwell_s.sniff > 0.0).unwrap();
    near(link.dwell_s.sniff, 88.152);
    // The README counts on to the log's last record, though the link ends 1 s before.
    near(link.dwell_s.active + link.after_disconnect_s, 38.501);
    near(link.disconnected_s.unwrap(), 129.135);
    near(r.last_record_s, 130.157);
    assert_eq!(r.incomplete, None);
}

#[test]
fn earbuds_agree_with_tshark() {
    let Some(r) = report("oppo_earbuds_1.btsnoop.log") else {
        return;
    };
    let [records, acl, rfcomm, _] = counts(&r);
    assert_eq!([records, acl, rfcomm], [2981, 1706, 509]);
    assert_eq!((r.commands.sniff, r.commands.exit_sniff), (12, 12));
    let sniffs = r.mode_changes.iter().filter(|c| c.mode == "sniff");
    assert!(sniffs.clone().all(|c| c.interval_slots == 798));
    assert_eq!((sniffs.count(), r.mode_changes.len()), (12, 24));
    assert_eq!(
        modes(&r)[..3],
        [(18.927, "sniff"), (19.171, "active"), (40.409, "sniff")]
    );
    let link = r.links.iter().find(|l| l.dwell_s.sniff > 0.0).unwrap();
    near(link.dwell_s.sniff, 19.003);
    near(link.dwell_s.active, 96.206);
    near(r.last_record_s, 134.136);
}

#[test]
fn a_log_that_begins_inside_a_connection_says_so() {
    let Some(r) = report("oppo_earbuds_2.cfa") else {
        return;
    };
    assert_eq!((r.records, r.rfcomm), (1011, 0));
    assert_eq!((r.commands.sniff, r.commands.exit_sniff), (5, 6));
    let all = modes(&r);
    let active = all.iter().filter(|(_, m)| *m == "active").count();
    assert_eq!((all.len(), active, all[0].1), (11, 6, "active"));
    let link = r.links.iter().find(|l| l.dwell_s.sniff > 0.0).unwrap();
    assert_eq!(link.connected_s, None);
    assert!(link.dwell_s.unknown > 0.0 && link.dwell_s.active_before_first_change == 0.0);
    assert!(
        r.notes.iter().any(|n| n.contains("before the log began")),
        "{:?}",
        r.notes
    );
    // No channel's opening is there, but the frames' form and check sequence tell.
    assert!(r.rfcomm_by_form > 20, "{}", r.rfcomm_by_form);
}

/// No event of connection or mode: the mode is unknown, not Active.
#[test]
fn a_mode_that_no_event_gives_is_unknown() {
    let Some(r) = report("happyleaf_spp_part1.btsnoop.log") else {
        return;
    };
    assert_eq!(counts(&r), [16_547, 13_574, 6728, 2971]);
    assert_eq!(r.l2cap, 13_520);
    assert_eq!(r.links.len(), 1);
    let link = &r.links[0];
    assert_eq!((link.dwell_s.active, link.dwell_s.sniff), (0.0, 0.0));
    assert!(link.dwell_s.unknown > 429.0, "{}", link.dwell_s.unknown);
    assert!(
        r.notes.iter().any(|n| n.contains("not known")),
        "{:?}",
        r.notes
    );
}

#[test]
fn other_logs_agree_with_tshark() {
    if let Some(r) = report("chsmartbulb_spp.btsnoop.log") {
        assert_eq!((r.records, r.rfcomm, r.mode_changes.len()), (699, 71, 0));
    }
    if let Some(r) = report("btstack_hfp_test3.pklg") {
        assert_eq!(
            (r.records, r.acl, r.rfcomm, r.mode_changes.len()),
            (22_295, 59, 37, 0)
        );
    }
    if let Some(r) = report("airbily_smartwatch_ble.pcapng") {
        assert_eq!((r.records, r.mode_changes.len()), (810, 0));
    }
}

/// Cut at every byte: what was whole counts, and the place of the cut is said.
#[test]
fn logs_survive_truncation_at_every_byte() {
    for (name, step) in [
        ("chsmartbulb_spp.btsnoop.log", 1),
        ("airbily_smartwatch_ble.pcapng", 1),
        ("oppo_earbuds_2.cfa", 97),
        ("btstack_hfp_test3.pklg", 997),
    ] {
        let Some(bytes) = sample(name) else { continue };
        let mut ends = Vec::new();
        let mut reader = Reader::new("it", &bytes[..]).unwrap();
        while let Some(record) = reader.next().unwrap() {
            ends.push(record.offset as usize);
        }
        // Reading all of a file for each of its bytes would take minutes; its beginning has the
        // same forms as the rest.
        for end in (0..bytes.len().min(3_000 * step)).step_by(step) {
            let begun = ends.iter().filter(|at| **at < end).count() as u64;
            match analyse("it", &bytes[..end]) {
                Ok(r) => match &r.incomplete {
                    None => assert_eq!(r.records, begun, "{name} cut at {end}"),
                    Some(why) => {
                        assert!(r.records >= begun.saturating_sub(1) && r.records <= begun);
                        assert!(why.starts_with("it: offset "), "{why}");
                    }
                },
                Err(e) => {
                    assert!(begun <= 1, "{name} cut at {end}: {e}");
                    assert!(matches!(e.place, Place::Offset(at) if at <= end as u64));
                }
            }
        }
    }
}

/// A log, record by record.
struct Log {
    bytes: Vec<u8>,
}

impl Log {
    fn new() -> Self {
        let mut bytes = b"btsnoop\0".to_vec();
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(1002_u32.to_be_bytes());
        Self { bytes }
    }

    fn push(&mut self, at_s: f64, flags: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        for field in [length, length, flags, 0] {
            self.bytes.extend(field.to_be_bytes());
        }
        let us = 0x00e1_e63d_0000_0000_u64 + (at_s * 1e6).round() as u64;
        self.bytes.extend(us.to_be_bytes());
        self.bytes.extend(data);
    }

    fn connect(&mut self, at_s: f64, handle: u8) {
        let event = [4, 3, 11, 0, handle, 0, 1, 2, 3, 4, 5, 6, 1, 0];
        self.push(at_s, 3, &event);
    }

    fn disconnect(&mut self, at_s: f64, handle: u8) {
        self.push(at_s, 3, &[4, 5, 4, 0, handle, 0, 0x13]);
    }

    fn mode(&mut self, at_s: f64, handle: u8, mode: u8) {
        self.push(at_s, 3, &[4, 0x14, 6, 0, handle, 0, mode, 0x20, 3]);
    }

    fn ask(&mut self, at_s: f64, handle: u8, sniff: bool) {
        let opcode = if sniff { 3 } else { 4 };
        self.push(at_s, 2, &[1, opcode, 8, 2, handle, 0]);
    }

    /// A Mode Change with the error "Command Disallowed".
    fn mode_fails(&mut self, at_s: f64, handle: u8) {
        self.push(at_s, 3, &[4, 0x14, 6, 0x0c, handle, 0, 0, 0, 0]);
    }

    /// A Command Status with the same error.
    fn decline(&mut self, at_s: f64, sniff: bool) {
        self.answer(at_s, 0x0c, sniff);
    }

    /// A Command Status.
    fn answer(&mut self, at_s: f64, status: u8, sniff: bool) {
        let opcode = if sniff { 3 } else { 4 };
        self.push(at_s, 3, &[4, 0x0f, 4, status, 1, opcode, 8]);
    }

    fn data(&mut self, at_s: f64, handle: u8, received: bool) {
        let start = if received { 0x20 } else { 0 };
        let mut packet = vec![2, handle, start, 104, 0, 100, 0, 0x70, 0];
        packet.extend([0; 100]);
        self.push(at_s, u32::from(received), &packet);
    }

    fn report(&self) -> BluetoothReport {
        analyse("it", &self.bytes[..]).unwrap()
    }
}

/// The paper's Figure 3: a watch that only receives asks for Sniff every 5 s; the phone, which has
/// more to send, ends it after 0.8 s.
fn watch(sends_every_s: Option<f64>) -> BluetoothReport {
    let mut log = Log::new();
    log.connect(0.0, 5);
    let (mut reset, mut sniff_until, mut last_sent) = (0.0, None, 0.0);
    for i in 1..6000_u32 {
        let at = f64::from(i) * 0.01;
        if let Some(until) = sniff_until {
            if at >= until {
                log.mode(at, 5, 0);
                (sniff_until, reset) = (None, at);
            }
            continue;
        }
        log.data(at, 5, true);
        if sends_every_s.is_some_and(|every| at - last_sent >= every) {
            log.data(at + 0.001, 5, false);
            (last_sent, reset) = (at, at);
        }
        if at - reset >= 5.0 {
            log.ask(at + 0.002, 5, true);
            log.mode(at + 0.004, 5, 2);
            sniff_until = Some(at + 0.8);
        }
    }
    log.report()
}

#[test]
fn a_watch_that_only_receives_enters_undesired_sniff() {
    let r = watch(None);
    let link = &r.links[0];
    assert_eq!(link.undesired_sniff.len(), 10, "one each 5.8 s in a minute");
    let first = &link.undesired_sniff[0];
    assert!(
        (first.start_s - 5.004).abs() < 0.02 && (first.end_s - 5.8).abs() < 0.02,
        "{first:?}"
    );
    let timer = &link.state_machine.timers[0];
    assert_eq!((timer.side, timer.reset_by), (Side::Local, ResetBy::Sent));
    assert!((timer.timer_s.unwrap() - 5.0).abs() < 0.02, "{timer:?}");
    let received = link.throughput.iter().find(|t| t.bytes > 100_000).unwrap();
    assert_eq!(received.blackouts.count, 10);
    assert!(
        (received.blackouts.empty_bin_share - 0.12).abs() < 0.03,
        "{received:?}"
    );
    assert!(r.to_svg("a watch").contains("undesired sniff"));
}

/// The paper's mitigation: a small packet before the timer ends.
#[test]
fn a_watch_that_also_sends_stays_active() {
    let r = watch(Some(4.0));
    assert_eq!(r.links[0].undesired_sniff, []);
    assert_eq!(r.commands.sniff, 0);
}

/// An idle link goes to Sniff, as it should.
#[test]
fn sniff_of_an_idle_link_is_wanted() {
    let mut log = Log::new();
    log.connect(0.0, 5);
    log.data(1.0, 5, true);
    log.ask(6.0, 5, true);
    log.mode(6.01, 5, 2);
    log.data(20.0, 5, true);
    log.mode(20.01, 5, 0);
    let r = log.report();
    assert_eq!(r.links[0].undesired_sniff, []);
    assert!((r.links[0].dwell_s.sniff - 14.0).abs() < 1e-6);
    assert!((r.links[0].dwell_s.active_before_first_change - 6.01).abs() < 1e-6);
}

/// The host's request came to nothing: the next Sniff is the peer's.
#[test]
fn sniff_after_a_failed_or_declined_request_is_asked_by_the_peer() {
    for failed in [true, false] {
        let mut log = Log::new();
        log.connect(0.0, 5);
        log.ask(1.0, 5, true);
        if failed {
            log.mode_fails(1.1, 5);
        } else {
            log.decline(1.1, true);
        }
        log.mode(6.0, 5, 2);
        log.mode(7.0, 5, 0);
        log.ask(8.0, 5, true);
        log.mode(8.1, 5, 2);
        let r = log.report();
        let asked = (r.sniff_asked_by.local, r.sniff_asked_by.peer);
        assert_eq!((asked, failed), ((1, 1), failed));
        assert_eq!((r.mode_changes.len(), r.commands.sniff), (3, 2));
        assert_eq!(r.mode_changes[0].asked_by, Some(Side::Peer));
    }
}

/// A Command Status answers the oldest request without one; requests that were accepted stay.
#[test]
fn a_refusal_concerns_one_request_only() {
    for a_refused in [false, true] {
        let mut log = Log::new();
        log.connect(0.0, 5);
        log.connect(0.0, 6);
        log.ask(1.0, 5, true);
        log.ask(1.001, 6, true);
        log.answer(1.01, if a_refused { 0x0c } else { 0 }, true);
        log.answer(1.02, if a_refused { 0 } else { 0x0c }, true);
        log.mode(1.1, 5, 2);
        log.mode(1.2, 6, 2);
        let asked: Vec<_> = log
            .report()
            .mode_changes
            .iter()
            .map(|c| c.asked_by)
            .collect();
        let (local, peer) = (Some(Side::Local), Some(Side::Peer));
        let expected = if a_refused {
            [peer, local]
        } else {
            [local, peer]
        };
        assert_eq!(asked, expected);
    }
}

/// A second request, refused while the first is pending, leaves that one.
#[test]
fn a_refused_repetition_leaves_the_accepted_request() {
    let mut log = Log::new();
    log.connect(0.0, 5);
    log.ask(1.0, 5, true);
    log.answer(1.01, 0, true);
    log.ask(1.02, 5, true);
    log.decline(1.03, true);
    log.mode(1.1, 5, 2);
    let r = log.report();
    assert_eq!((r.sniff_asked_by.local, r.sniff_asked_by.peer), (1, 0));
}

/// Another interval is an answer too: the next entry into Sniff is the peer's.
#[test]
fn a_change_from_sniff_to_sniff_answers_the_request() {
    let mut log = Log::new();
    log.connect(0.0, 5);
    log.mode(1.0, 5, 2);
    log.ask(2.0, 5, true);
    log.answer(2.01, 0, true);
    log.mode(2.1, 5, 2);
    log.mode(3.0, 5, 0);
    log.mode(4.0, 5, 2);
    let r = log.report();
    assert_eq!((r.sniff_asked_by.local, r.sniff_asked_by.peer), (0, 2));
}

/// Link type 187 has no direction: a continuation has that of the packet it continues.
#[test]
fn continuations_in_captures_without_direction_follow_their_start() {
    let mut file = Vec::new();
    for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 187] {
        file.extend(field.to_le_bytes());
    }
    // Handle 5, boundary flag, octets. A packet of 104 octets in three parts is received, with one
    // of 54 sent in two parts in between.
    let parts: [(u8, &[u8], usize); 6] = [
        (0x20, &[100, 0, 0x70, 0], 40),
        (0x00, &[50, 0, 0x71, 0], 27),
        (0x10, &[], 27),
        (0x10, &[], 40),
        (0x10, &[], 24),
        (0x20, &[6, 0, 0x70, 0], 10),
    ];
    for (second, (boundary, header, length)) in (1_u32..).zip(parts) {
        let mut packet = vec![2, 5, boundary, length as u8, 0];
        packet.extend(header);
        packet.resize(5 + length, 0);
        for field in [second, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(packet);
    }
    let r = analyse("it", &file[..]).unwrap();
    let bytes = |i: usize| r.links[0].throughput[i].bytes;
    assert_eq!((bytes(0), bytes(1)), (54, 114), "sent, received");
    assert_eq!(r.l2cap, 3);
}

/// Another connection under the same number is another link; Sniff ends with the connection.
#[test]
fn connections_with_one_number_are_apart() {
    let mut log = Log::new();
    log.data(0.0, 5, true); // of a connection before the log
    log.connect(1.0, 5);
    log.mode(3.0, 5, 2);
    log.disconnect(8.0, 5);
    log.connect(10.0, 5);
    log.mode(11.0, 5, 2);
    log.mode(12.0, 5, 0);
    log.push(20.0, 3, &[4, 0x13, 0]);
    let r = log.report();
    let dwells: Vec<_> = r
        .links
        .iter()
        .map(|l| (l.handle, l.connection, l.dwell_s.sniff, l.dwell_s.active))
        .collect();
    assert_eq!(
        dwells,
        [(5, 0, 0.0, 0.0), (5, 1, 5.0, 0.0), (5, 2, 1.0, 8.0)]
    );
    assert_eq!(r.links[1].disconnected_s, Some(8.0));
}

proptest! {
    /// Whatever a log holds, reading it ends without a panic, and no time is negative.
    #[test]
    fn hostile_logs_are_survived(
        records in proptest::collection::vec(
            (0_u32..4, proptest::collection::vec(any::<u8>(), 0..40)),
            0..60,
        ),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut log = Log::new();
        for (i, (flags, data)) in records.iter().enumerate() {
            log.push(i as f64 * 0.1, *flags, data);
        }
        for (at, with) in flips {
            let at = at.index(log.bytes.len());
            log.bytes[at] ^= with;
        }
        if let Ok(r) = analyse("it", &log.bytes[..]) {
            for link in &r.links {
                prop_assert!(link.dwell_s.active >= 0.0 && link.dwell_s.sniff >= 0.0);
            }
            let _ = r.to_svg("it");
        }
    }
}
