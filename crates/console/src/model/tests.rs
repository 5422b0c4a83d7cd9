//! Tests of the model: rates, restarts, gaps and events.

use serde_json::{Value, json};

use super::rates::Rate;
use super::*;
use crate::status::Certainty;

/// A primary `uptime` seconds after its start, with paths of these names, states and bytes.
fn primary(uptime: f64, paths: &[(&str, &str, u64, u64)]) -> Value {
    let links = paths.iter().map(|p| {
        let kind = if p.0.starts_with("phone") {
            "helper"
        } else {
            "path"
        };
        json!({ "name": p.0, "kind": kind, "state": p.1 })
    });
    let totals = paths
        .iter()
        .map(|p| json!({ "name": p.0, "bytes_in": p.2, "bytes_out": p.3 }));
    json!({
        "role": "primary", "process": 7, "uptime_s": uptime,
        "links": links.collect::<Vec<_>>(), "paths": totals.collect::<Vec<_>>(),
    })
}

fn status(value: &Value) -> Status {
    Status::read(value.to_string().as_bytes()).unwrap()
}

fn take(model: &mut Model, t: f64, value: &Value) -> (Option<Sample>, Vec<Event>) {
    let added = model.take(t, status(value));
    (added.sample.cloned(), added.events)
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|e| e.kind).collect()
}

#[test]
fn rates_are_differences_by_the_clock_of_the_daemon() {
    let mut model = Model::default();
    let (sample, _) = take(&mut model, 0.0, &primary(50.0, &[("wifi", "up", 1000, 10)]));
    assert_eq!(sample, None, "one answer has no rate");
    assert_eq!(model.frame().unwrap().total, None);
    // The second answer arrives late.
    let (sample, _) = take(&mut model, 1.7, &primary(51.0, &[("wifi", "up", 4000, 60)]));
    let sample = sample.unwrap();
    assert_eq!((sample.t, sample.span), (1.7, 1.0));
    assert_eq!(sample.rates, [SlotRate(0, 3000.0, 50.0)]);
    let total = model.frame().unwrap().total.unwrap();
    assert_eq!((total.down, total.up), (3000.0, 50.0));
}

#[test]
fn an_answer_that_is_repeated_adds_nothing_and_the_last_rates_stay() {
    let mut model = Model::default();
    take(&mut model, 0.0, &primary(1.0, &[("wifi", "up", 0, 0)]));
    let second = primary(2.0, &[("wifi", "up", 700, 0)]);
    assert!(take(&mut model, 1.0, &second).0.is_some());
    assert!(take(&mut model, 2.0, &second).0.is_none());
    assert_eq!(model.frame().unwrap().total.unwrap().down, 700.0);
    let (sample, _) = take(&mut model, 3.0, &primary(4.0, &[("wifi", "up", 1700, 0)]));
    assert_eq!(
        sample.unwrap().rates,
        [SlotRate(0, 500.0, 0.0)],
        "over two seconds"
    );
}

#[test]
fn a_daemon_that_was_started_again_begins_at_zero_and_gives_no_rate() {
    let mut model = Model::default();
    take(
        &mut model,
        0.0,
        &primary(100.0, &[("wifi", "up", 9_000_000, 0)]),
    );
    let mut again = primary(0.5, &[("wifi", "up", 400, 0)]);
    for process in [7, 8] {
        again["process"] = process.into();
        let (sample, events) = take(&mut model, 1.0, &again);
        assert_eq!(sample, None);
        assert_eq!(kinds(&events), [Kind::DaemonRestarted], "process {process}");
    }
    again["uptime_s"] = 1.5.into();
    again["paths"][0]["bytes_in"] = 1400.into();
    let (sample, events) = take(&mut model, 2.0, &again);
    assert_eq!(sample.unwrap().rates, [SlotRate(0, 1000.0, 0.0)]);
    assert_eq!(events, []);
}

#[test]
fn a_counter_that_jumps_back_has_no_rate_and_others_keep_theirs() {
    let mut model = Model::default();
    let both = |t, a, b| primary(t, &[("wifi", "up", a, 0), ("lte", "up", b, 0)]);
    take(&mut model, 0.0, &both(1.0, 5000, 5000));
    let (sample, _) = take(&mut model, 1.0, &both(2.0, 100, 6000));
    assert_eq!(sample.unwrap().rates, [SlotRate(1, 1000.0, 0.0)]);
    assert_eq!(model.frame().unwrap().paths[0].rate, None);
    let (sample, _) = take(&mut model, 2.0, &both(3.0, 300, 6000));
    assert_eq!(sample.unwrap().rates, [SlotRate(0, 200.0, 0.0)]);
}

#[test]
fn what_passed_while_nobody_looked_is_no_rate() {
    let mut model = Model::default();
    take(&mut model, 0.0, &primary(1.0, &[("wifi", "up", 0, 0)]));
    let (sample, _) = take(&mut model, 60.0, &primary(61.0, &[("wifi", "up", 6000, 0)]));
    assert_eq!(sample, None);
    let (sample, _) = take(&mut model, 61.0, &primary(62.0, &[("wifi", "up", 6900, 0)]));
    assert_eq!(sample.unwrap().rates, [SlotRate(0, 900.0, 0.0)]);
}

#[test]
fn history_is_ten_minutes_and_shares_are_those_of_five() {
    let mut model = Model::default();
    for second in 0..1000_u64 {
        // `lte` is used in the first minutes alone.
        let lte = second.min(650) * 3000;
        let paths = [("wifi", "up", second * 1000, 0), ("lte", "up", lte, 0)];
        take(&mut model, second as f64, &primary(second as f64, &paths));
    }
    let first = model.samples().next().unwrap();
    assert_eq!((first.t, model.samples().count()), (399.0, 601));
    let shares: Vec<_> = model
        .frame()
        .unwrap()
        .paths
        .iter()
        .map(|p| p.share)
        .collect();
    assert_eq!(shares, [Some(1.0), Some(0.0)]);
}

#[test]
fn events_tell_what_has_changed() {
    let mut model = Model::default();
    let mut t = 0.0;
    let mut change = |wifi: &str, phone: &str| {
        t += 1.0;
        let mut value = primary(t, &[("wifi", wifi, 0, 0), ("phone", phone, 0, 0)]);
        value["links"][1]["error"] = json!("no route");
        let (_, events) = take(&mut model, t, &value);
        events
            .into_iter()
            .map(|e| (e.kind, e.text))
            .collect::<Vec<_>>()
    };
    assert_eq!(change("up", "waiting"), [], "the first answer is no change");
    assert_eq!(change("backup", "connecting"), []);
    let said = |kind, text: &str| vec![(kind, text.to_owned())];
    assert_eq!(
        change("up", "up"),
        said(Kind::HelperJoined, "phone has joined")
    );
    let suspect = "potentially-failed";
    assert_eq!(
        change(suspect, "up"),
        said(Kind::PathSuspect, "wifi does not answer")
    );
    assert_eq!(change("up", "up"), said(Kind::PathUp, "wifi is up"));
    assert_eq!(change("down", "up"), said(Kind::PathDown, "wifi is down"));
    assert_eq!(
        change("down", "waiting"),
        said(Kind::HelperLeft, "phone has left: no route")
    );
    let ids: Vec<u64> = model.events().iter().map(|e| e.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
}

#[test]
fn a_daemon_that_does_not_answer_is_told_once() {
    let mut model = Model::default();
    take(&mut model, 0.0, &primary(1.0, &[]));
    assert_eq!(kinds(&model.fail(1.0, "it has ended")), [Kind::DaemonLost]);
    assert_eq!(model.fail(2.0, "there is no such socket"), []);
    assert_eq!(model.lost(), Some("there is no such socket"));
    let mut again = primary(0.2, &[]);
    again["process"] = 8.into();
    let (_, events) = take(&mut model, 3.0, &again);
    assert_eq!(kinds(&events), [Kind::DaemonBack, Kind::DaemonRestarted]);
    assert_eq!(model.lost(), None);
}

#[test]
fn events_that_the_daemon_tells_are_given_out_once_and_not_too_many() {
    let mut model = Model::default();
    take(&mut model, 0.0, &primary(1.0, &[("w", "up", 0, 0)]));
    model.add_api_event(0.5, Kind::LimitNear, "w", "cap of w");
    assert_eq!(model.events(), [], "not yet: the next answer has it");
    let (_, events) = take(&mut model, 1.0, &primary(2.0, &[("w", "down", 0, 0)]));
    assert_eq!(kinds(&events), [Kind::LimitNear, Kind::PathDown]);
    assert_eq!((events[0].t, events[0].text.as_str()), (0.5, "cap of w"));
    assert_eq!(model.events(), events);
    for _ in 0..10_000 {
        model.add_api_event(1.5, Kind::PolicyChanged, "", "x");
    }
    assert_eq!(model.fail(2.0, "it has ended").len(), 33);
    let (_, events) = take(&mut model, 3.0, &primary(3.0, &[("w", "down", 0, 0)]));
    assert_eq!(kinds(&events), [Kind::DaemonBack]);
}

#[test]
fn events_and_paths_are_bounded() {
    let mut model = Model::default();
    for t in 0..600 {
        let state = if t % 2 == 0 { "up" } else { "down" };
        let names: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
        let paths: Vec<_> = names
            .iter()
            .map(|n| (n.as_str(), state, t * 1000, 0))
            .collect();
        take(&mut model, t as f64, &primary(t as f64, &paths));
    }
    assert_eq!(model.events().len(), 256);
    let last = model.samples().next_back().unwrap();
    // 24 paths have slots; the others share one.
    assert_eq!(last.rates.len(), 25);
    assert_eq!(last.rates[24], SlotRate(24, 76_000.0, 0.0));
}

/// Names that are gone leave their slots to others.
#[test]
fn slots_are_used_again() {
    let mut model = Model::default();
    for minute in 0..60_u64 {
        let name = format!("p{minute}");
        for second in 0..60 {
            let t = (minute * 60 + second) as f64;
            let paths = [(name.as_str(), "up", second * 1000, 0)];
            take(&mut model, t, &primary(t, &paths));
        }
        let row = &model.frame().unwrap().paths[0];
        assert!(!row.shares_slot && row.share.is_some() == (minute > 0));
    }
}

#[test]
fn a_daemon_without_paths_has_rates_of_zero() {
    let mut model = Model::default();
    let idle = |t: f64| json!({ "role": "proxy", "process": 1, "uptime_s": t });
    assert_eq!(take(&mut model, 0.0, &idle(1.0)).0, None);
    assert_eq!(model.frame().unwrap().total, None);
    let (sample, _) = take(&mut model, 1.0, &idle(2.0));
    assert_eq!(sample.unwrap().rates, []);
    assert_eq!(model.frame().unwrap().total.map(Rate::sum), Some(0.0));
}

#[test]
fn shares_are_told_after_a_minute() {
    let mut model = Model::default();
    for second in 0..=60_u64 {
        let t = second as f64;
        let paths = [("wifi", "up", second * 1000, 0)];
        take(&mut model, t, &primary(t, &paths));
        let expected = (second == 60).then_some(1.0);
        assert_eq!(
            model.frame().unwrap().paths[0].share,
            expected,
            "{second} s"
        );
    }
}

#[test]
fn a_proxy_and_a_helper_have_paths_seen_from_the_primary() {
    let proxy = |t: f64, sent: u64| {
        json!({
            "role": "proxy", "process": 1, "uptime_s": t,
            "sessions": [{ "peer": "abcdef0123", "state": "up", "subflows": [
                { "name": "wifi", "kind": "direct", "state": "up", "rtt_ms": 20.0 },
                { "name": "phone", "kind": "helper", "state": "up", "rtt_ms": 0.0 },
                { "name": "phone", "kind": "helper", "state": "express", "rtt_ms": 9.0 },
            ]}],
            "paths": [{ "peer": "abcdef0123", "name": "wifi", "bytes_in": 5, "bytes_out": sent }],
            "memory": { "used_bytes": 10, "most_bytes": 40 },
        })
    };
    let mut model = Model::default();
    take(&mut model, 0.0, &proxy(1.0, 0));
    let (sample, _) = take(&mut model, 1.0, &proxy(2.0, 800));
    assert_eq!(
        sample.unwrap().rates,
        [SlotRate(0, 800.0, 0.0)],
        "it sends downloads"
    );
    let frame = model.frame().unwrap();
    let rows: Vec<_> = frame
        .paths
        .iter()
        .map(|p| (p.name.as_str(), p.rtt_ms))
        .collect();
    assert_eq!(rows, [("wifi", Some(20.0)), ("phone", None)]);
    let gone = json!({ "role": "proxy", "process": 1, "uptime_s": 3.0 });
    let (_, events) = take(&mut model, 2.0, &gone);
    let texts: Vec<_> = events.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(
        texts,
        ["wifi of abcdef0 is down", "phone of abcdef0 has left"]
    );

    let helper = |t: f64, relays: Value| {
        json!({
            "role": "helper", "process": 1, "uptime_s": t, "relays": relays,
            "relayed": [{ "primary": "abcdef0123", "bytes_down": 100, "bytes_up": 7 }],
            "budget": { "month": "2026-11", "used_bytes": 107, "max_bytes": null },
        })
    };
    let mut model = Model::default();
    take(&mut model, 0.0, &helper(1.0, json!([])));
    let relay = json!([{ "primary": "abcdef0123", "level_down_bytes": 3, "level_up_bytes": 4 }]);
    let (_, events) = take(&mut model, 1.0, &helper(2.0, relay));
    assert_eq!(kinds(&events), [Kind::PrimaryJoined]);
    let row = &model.frame().unwrap().paths[0];
    assert_eq!(
        (row.name.as_str(), row.waiting_bytes, row.down_bytes),
        ("abcdef0", 7, Some(100))
    );
    let (_, events) = take(&mut model, 2.0, &helper(3.0, json!([])));
    assert_eq!(kinds(&events), [Kind::PrimaryLeft]);
}

#[test]
fn streams_are_summed_by_destination_with_their_paths_and_rates() {
    let at = |t: f64, bytes: u64| {
        let stream = |number: u64, destination: &str, state: &str, down: u64| {
            json!({
                "session": "s", "stream": number, "destination": destination, "class": "bulk",
                "state": state, "bytes_in": down, "bytes_out": 1,
                "subflows": [{ "name": "wifi", "bytes_in": down, "bytes_out": 1 }],
            })
        };
        let mut value = primary(t, &[("wifi", "up", 0, 0)]);
        value["transfers"] = json!([
            stream(1, "old:443", "closed", 9_999),
            stream(2, "a:443", "open", bytes),
            stream(3, "b:443", "open", 5),
            stream(4, "a:443", "open", bytes),
        ]);
        value
    };
    let mut model = Model::default();
    take(&mut model, 0.0, &at(1.0, 100));
    take(&mut model, 1.0, &at(3.0, 700));
    let streams = &model.frame().unwrap().streams;
    let [of] = &streams.applications[..] else {
        panic!("{streams:?}");
    };
    assert_eq!(of.application, None, "the daemon tells none");
    let rows = of.groups.iter().map(|g| {
        (
            g.destination.as_str(),
            g.sum.open,
            g.sum.closed,
            g.sum.down_bytes,
            g.sum.rate.down,
        )
    });
    let expected = [
        ("a:443", 2, 0, 1400, 600.0),
        ("b:443", 1, 0, 5, 0.0),
        ("old:443", 0, 1, 9999, 0.0),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(of.groups[0].sum.paths, [("wifi".to_owned(), 1402)]);
    assert_eq!(of.sum.paths, [("wifi".to_owned(), 11_408)]);
}

#[test]
fn two_hundred_destinations_are_listed_and_the_others_counted() {
    let mut model = Model::default();
    let mut value = primary(1.0, &[]);
    let stream = |n| json!({ "stream": n, "destination": format!("host{n}:443"), "state": "open" });
    value["transfers"] = (0..1000).map(stream).collect();
    take(&mut model, 0.0, &value);
    let streams = &model.frame().unwrap().streams;
    let groups = &streams.applications[0].groups;
    assert_eq!((groups.len(), streams.more), (200, 800));
    assert_eq!(streams.applications[0].sum.open, 1000, "of all");
}

/// An open stream of an application.
fn stream_of(n: u64, application: Value, destination: &str, bytes: u64) -> Value {
    json!({
        "session": "s", "stream": n, "destination": destination, "class": "bulk", "state": "open",
        "bytes_in": bytes, "bytes_out": 1, "application": application,
        "subflows": [{ "name": "wifi", "bytes_in": bytes, "bytes_out": 1 }],
    })
}

#[test]
fn streams_are_grouped_by_application_class_and_rule() {
    let firefox = json!({ "name": "firefox", "certainty": "guessed", "uid": 1000 });
    let restic = json!({ "name": "restic.service", "certainty": "known", "uid": 0 });
    let mut value = primary(1.0, &[("wifi", "up", 0, 0)]);
    let mut ruled = stream_of(3, restic.clone(), "a:443", 700);
    ruled["rule"] = json!("backups");
    let mut over = stream_of(
        5,
        json!({ "name": "old", "certainty": "known" }),
        "a:443",
        9999,
    );
    over["state"] = json!("closed");
    value["transfers"] = json!([
        over,
        stream_of(1, firefox.clone(), "a:443", 100),
        stream_of(2, restic, "a:443", 50),
        ruled,
        stream_of(4, firefox, "b:443", 300),
        stream_of(6, Value::Null, "c:443", 1),
        stream_of(
            7,
            json!({ "certainty": "unknown", "uid": null }),
            "d:443",
            2
        ),
        stream_of(
            8,
            json!({ "certainty": "sworn", "name": null, "uid": 33 }),
            "d:443",
            1
        ),
    ]);
    let mut model = Model::default();
    take(&mut model, 0.0, &value);
    let streams = &model.frame().unwrap().streams;
    let rows = streams.applications.iter().map(|of| {
        let application = of.application.as_ref().unwrap();
        let groups = of.groups.iter();
        let groups = groups.map(|g| (g.destination.as_str(), g.rule.as_deref(), g.sum.down_bytes));
        (
            (application.name.as_deref(), application.uid),
            (application.certainty, of.sum.open, of.sum.down_bytes),
            groups.collect::<Vec<_>>(),
        )
    });
    let expected = [
        (
            (Some("restic.service"), Some(0)),
            (Certainty::Known, 2, 750),
            vec![("a:443", Some("backups"), 700), ("a:443", None, 50)],
        ),
        (
            (Some("firefox"), Some(1000)),
            (Certainty::Guessed, 2, 400),
            vec![("b:443", None, 300), ("a:443", None, 100)],
        ),
        (
            (None, None),
            (Certainty::Unknown, 2, 3),
            vec![("d:443", None, 2), ("c:443", None, 1)],
        ),
        (
            (None, Some(33)),
            (Certainty::Unknown, 1, 1),
            vec![("d:443", None, 1)],
        ),
        (
            (Some("old"), None),
            (Certainty::Known, 0, 9999),
            vec![("a:443", None, 9999)],
        ),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(streams.more, 0);
}

#[test]
fn an_application_with_a_thousand_destinations_leaves_room_for_those_of_others() {
    let mut value = primary(1.0, &[]);
    let application = |name: &str| json!({ "name": name, "certainty": "known" });
    let torrent = application("torrent");
    let peer = |n| stream_of(n, torrent.clone(), &format!("peer{n}:6881"), 1_000_000);
    let page = |n: u64| stream_of(2000 + n, application("firefox"), &format!("page{n}:443"), 1);
    let mut streams: Vec<_> = (0..1000).map(peer).collect();
    streams.extend((0..30).map(page));
    value["transfers"] = streams.into();
    let mut model = Model::default();
    take(&mut model, 0.0, &value);
    let streams = &model.frame().unwrap().streams;
    let counts = streams.applications.iter().map(|of| of.groups.len());
    assert_eq!(
        (counts.collect::<Vec<_>>(), streams.more),
        (vec![170, 30], 830)
    );
    assert_eq!(streams.applications[0].sum.open, 1000);
    // More applications than there is room for.
    let one = |n| stream_of(n, application(&format!("app{n}")), "a:443", n);
    value["transfers"] = (0..300).map(one).collect();
    take(&mut model, 1.0, &value);
    let streams = &model.frame().unwrap().streams;
    assert_eq!((streams.applications.len(), streams.more), (200, 100));
}
