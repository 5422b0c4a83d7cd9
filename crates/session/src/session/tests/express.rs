//! Expresses: what they carry, and what they are not.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::confirm::ask;
use super::pair::{Pair, hop, pattern};
use crate::session::{Event, Read};
use crate::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A direct subflow, one through a helper whose pipe is slow, and an express beside it or none.
fn joined(with_express: bool) -> (Pair, SubflowId, SubflowId, Option<SubflowId>) {
    let mut p = Pair::new(SessionConfig::default());
    let direct = p.join(&[hop(8.0, 25)]);
    let hops = [hop(5.0, 2), hop(10.0, 25)];
    let helper = p.join(&hops);
    p.run(at(500), |_| false);
    let express = with_express.then(|| p.join_express(helper, &hops));
    p.run(at(1_000), |_| false);
    (p, direct, helper, express)
}

/// A download whose direct path falls silent after a second, or goes on; the longest time without a
/// byte for its reader.
fn longest_gap(p: &mut Pair, silent: bool) -> Duration {
    let start = p.now;
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(4 << 20);
    let mut last = (0, p.now);
    let mut longest = Duration::ZERO;
    p.run(start + Duration::from_secs(30), |p| {
        if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        p.links[0].blackhole = silent && p.now > start + Duration::from_secs(1);
        let (got, end) = p.client_got.entry(id).or_default();
        if got.len() > last.0 {
            if last.0 > 0 {
                longest = longest.max(p.now.since(last.1));
            }
            last = (got.len(), p.now);
        }
        *end == Some(Read::Fin)
    });
    assert!(p.client_got[&id].0 == want, "{}", p.client_got[&id].0.len());
    longest
}

fn sent(p: &mut Pair, id: SubflowId) -> (u64, u64) {
    let now = p.now;
    let subflows = p.server().subflows(now);
    let s = subflows.iter().find(|s| s.id == id).expect("it is there");
    (s.bytes_out, s.redundant_bytes_out)
}

#[test]
fn what_the_reader_waits_for_passes_by_a_helpers_store() {
    let without = longest_gap(&mut joined(false).0, true);
    let (mut p, _, _, express) = joined(true);
    let with = longest_gap(&mut p, true);
    assert!(with * 3 < without, "{with:?} instead of {without:?}");
    assert!(with < Duration::from_millis(300), "{with:?}");
    let (bytes, copies) = sent(&mut p, express.unwrap());
    assert!(bytes > 0);
    assert_eq!(bytes, copies, "an express carries nothing new");
}

#[test]
fn an_express_that_nothing_needs_carries_nothing_and_rests() {
    let (mut p, _, _, express) = joined(true);
    let express = express.unwrap();
    longest_gap(&mut p, false);
    assert_eq!(sent(&mut p, express), (0, 0));
    p.client.finish(StreamId(0));
    let until = p.now + Duration::from_secs(5);
    p.run(until, |_| false);
    assert_eq!(p.client.stats().streams_open, 0);
    let octets = (p.octets_up(express), p.octets_down(express));
    let until = p.now + Duration::from_secs(300);
    p.run(until, |_| false);
    assert_eq!(sent(&mut p, express), (0, 0));
    assert_eq!((p.octets_up(express), p.octets_down(express)), octets);
}

/// A download through a helper that has gone on for 1.5 s, with an express beside it, and the bytes
/// that the server has given to the express. The pipe has 5 Mbit/s, or as much as the
/// HS-Path.
fn helper_that_runs_ahead(pipe_mbps: f64) -> (Pair, SubflowId, u64) {
    let mut p = Pair::new(SessionConfig::default());
    let hops = [hop(pipe_mbps, 2), hop(10.0, 25)];
    let helper = p.join(&hops);
    p.run(at(500), |_| false);
    let express = p.join_express(helper, &hops);
    p.run(at(1_000), |_| false);
    let transfer = p.open();
    p.client.write(transfer, "GET /".into());
    p.run(at(1_100), |_| false);
    p.server().write(transfer, pattern(4 << 20));
    p.run(at(2_600), |_| false);
    assert!(p.server().stats().bytes_out > 100_000);
    let carried = sent(&mut p, express).0;
    (p, express, carried)
}

/// A short exchange beside that download: a CONNECTED and an answer of 2 KiB. Returns octets
/// of the express until the CONNECTED has arrived, and the time that this took.
fn short_exchange(p: &mut Pair, express: SubflowId) -> (u64, Duration) {
    let id = ask(p);
    p.client.write(id, "GET /".into());
    let limit = p.now + Duration::from_secs(5);
    p.run(limit, |p| p.opened().contains(&id));
    let octets = p.octets_down(express);
    let asked = p.now;
    p.server().connected(id);
    p.run(limit, |p| {
        p.client_events
            .iter()
            .any(|e| matches!(e, Event::StreamConnected(of) if *of == id))
    });
    let took = p.now.since(asked);
    let signal = p.octets_down(express) - octets;
    p.server().write(id, pattern(2_048));
    p.server().finish(id);
    p.run(limit, |p| {
        p.client_got.get(&id).is_some_and(|g| g.1.is_some())
    });
    assert_eq!(p.client_got[&id].0, pattern(2_048));
    (signal, took)
}

#[test]
fn a_connected_and_2_kib_go_on_an_express_and_no_byte_of_a_transfer() {
    let (mut p, express, before) = helper_that_runs_ahead(5.0);
    assert_eq!(before, 0, "a transfer's bytes are not urgent");
    let (signal, took) = short_exchange(&mut p, express);
    assert!(signal > 0 && took < Duration::from_millis(200), "{took:?}");
    // The answer, once, and no byte of the transfer.
    assert_eq!(sent(&mut p, express), (2_048, 0));
    let until = p.now + Duration::from_millis(500);
    p.run(until, |_| false);
    assert_eq!(sent(&mut p, express), (2_048, 0));
}

/// An answer of so many KiB beside that download; the bytes that the express carries, and the time
/// that this takes.
fn longer_answer(kib: usize) -> (u64, Duration) {
    let (mut p, express, _) = helper_that_runs_ahead(5.0);
    let id = ask(&mut p);
    p.client.write(id, "GET /".into());
    let limit = p.now + Duration::from_secs(15);
    p.run(limit, |p| p.opened().contains(&id));
    let asked = p.now;
    p.server().write(id, pattern(kib << 10));
    p.server().finish(id);
    p.run(limit, |p| {
        p.client_got.get(&id).is_some_and(|g| g.1.is_some())
    });
    assert_eq!(p.client_got[&id].0.len(), kib << 10);
    (sent(&mut p, express).0, p.now.since(asked))
}

/// A part of a page passes what the helper holds of the download, though it is no message.
#[test]
fn a_stream_of_an_earlier_rank_goes_on_an_express_as_long_as_it_is_one() {
    let (carried, took) = longer_answer(200);
    assert_eq!(carried, 200 << 10);
    assert!(took < Duration::from_millis(600), "{took:?}");
    // A second download: its further bytes stand in line with those of the first.
    let (carried, _) = longer_answer(1 << 10);
    let rest = carried.checked_sub(256 << 10);
    assert!(rest.is_some_and(|rest| rest < 20 << 10), "{carried}");
}

/// Acknowledgements over the pipe may be late just when a message is to be sent: for as long, no
/// express passes the pipe's other subflow.
#[test]
fn what_no_express_takes_now_is_not_put_behind_what_the_helper_holds() {
    let (mut p, express, before) = helper_that_runs_ahead(5.0);
    let id = p.open();
    p.client.write(id, "GET /".into());
    let limit = p.now + Duration::from_secs(5);
    p.run(limit, |p| p.opened().contains(&id));
    p.server().subflows[0].health.probes = 1;
    let asked = p.now;
    p.server().write(id, pattern(2_048));
    p.server().finish(id);
    p.run(limit, |p| {
        p.client_got.get(&id).is_some_and(|g| g.1.is_some())
    });
    let took = p.now.since(asked);
    assert!(took < Duration::from_millis(400), "{took:?}");
    assert_eq!(sent(&mut p, express).0 - before, 2_048);
}

/// The same towards the proxy. The HS-Path is the slower hop, and the helper holds bytes of an
/// upload: without the bound of uploads as much as the window lets go.
#[test]
fn a_short_upload_passes_a_long_one_at_a_helper() {
    let took = |with_express: bool, bounded: bool| {
        let mut config = SessionConfig::default();
        if !bounded {
            config.leave_out(Mechanism::UploadBound);
        }
        let mut p = Pair::new(config);
        let hops = [hop(15.0, 2), hop(5.0, 25)];
        let helper = p.join(&hops);
        p.run(at(500), |_| false);
        let express = with_express.then(|| p.join_express(helper, &hops));
        p.run(at(1_000), |_| false);
        let (long, short) = (p.open(), p.open());
        p.client.write(long, pattern(4 << 20));
        p.run(at(3_500), |_| false);
        p.client.write(short, pattern(100 << 10));
        let limit = p.now + Duration::from_secs(20);
        let arrived = |p: &Pair| p.server_got.get(&short).map_or(0, |got| got.0.len());
        p.run(limit, |p| arrived(p) == 100 << 10);
        assert_eq!(arrived(&p), 100 << 10);
        let up = express.map_or(0, |express| p.octets_up(express));
        (p.now.since(at(3_500)), up)
    };
    let (without, (with, up)) = (took(false, false).0, took(true, false));
    assert!(
        with * 2 < without && up > 100 << 10,
        "{with:?} {up} instead of {without:?}"
    );
    // 100 KiB take 0.17 s, and what is before them 0.2 s.
    let bounded = took(false, true).0;
    assert!(bounded < Duration::from_millis(500), "{bounded:?}");
}

#[test]
fn nothing_goes_on_an_express_that_gains_less_than_100_ms() {
    let (mut p, express, _) = helper_that_runs_ahead(10.0);
    let (signal, _) = short_exchange(&mut p, express);
    assert_eq!((signal, sent(&mut p, express)), (0, (0, 0)));
}

/// Messages of 200 bytes every 20 ms beside a download through a helper and over a direct path of
/// 150 ms. They go on the express, which falls silent after 0.3 s.
#[test]
fn messages_on_an_express_that_falls_silent_wait_for_less_than_half_a_second() {
    let mut p = Pair::new(SessionConfig::default());
    let hops = [hop(5.0, 2), hop(10.0, 25)];
    let helper = p.join(&hops);
    p.join(&[hop(1.0, 150)]);
    p.run(at(500), |_| false);
    let express = p.join_express(helper, &hops);
    p.run(at(1_500), |_| false);
    let (transfer, talk) = (p.open(), p.open());
    for id in [transfer, talk] {
        p.client.write(id, "GET /".into());
    }
    p.run(at(2_000), |_| false);
    p.server().write(transfer, pattern(4 << 20));
    p.run(at(3_500), |_| false);
    let mut last = (0, p.now);
    let (mut next, mut longest) = (p.now, Duration::ZERO);
    p.run(at(6_000), |p| {
        if p.now >= next && next < at(5_000) {
            next += Duration::from_millis(20);
            p.server().write(talk, pattern(200));
        }
        let silent = p.now > at(3_800);
        for l in &mut p.links {
            l.blackhole |= silent && l.id == express;
        }
        let got = p.client_got.get(&talk).map_or(0, |(got, _)| got.len());
        if got > last.0 {
            longest = longest.max(p.now.since(last.1));
            last = (got, p.now);
        }
        got == 75 * 200
    });
    assert!(sent(&mut p, express).0 > 1_000);
    assert_eq!(last.0, 75 * 200);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

#[test]
fn an_express_whose_helper_is_silent_is_not_relied_on() {
    let (mut p, _, helper, express) = joined(true);
    let express = express.unwrap();
    let id = p.open();
    p.client.write(id, "GET /".into());
    let want = pattern(2 << 20);
    let start = p.now;
    p.run(at(60_000), |p| {
        if p.opened().contains(&id) && p.server().stats().bytes_out == 0 {
            p.server().write(id, want.clone());
            p.server().finish(id);
        }
        let silent = p.now > start + Duration::from_millis(700);
        for l in &mut p.links {
            l.blackhole |= silent && (l.id == helper || l.id == express);
        }
        p.client_got
            .get(&id)
            .is_some_and(|(_, end)| *end == Some(Read::Fin))
    });
    assert!(p.client_got[&id].0 == want);
    assert_eq!(sent(&mut p, express).0, 0);
}

#[test]
fn a_session_lives_no_longer_on_an_express_than_on_nothing() {
    let (mut p, direct, helper, express) = joined(true);
    let id = p.open();
    p.client.write(id, "over which path?".into());
    p.kill(direct);
    p.kill(helper);
    // It is a path all the same, as long as somebody may come back.
    p.run(at(3_000), |_| false);
    assert_eq!(p.server_got[&id].0, b"over which path?");
    let now = p.now;
    let stats = p.client.subflows(now);
    assert_eq!(stats.len(), 1);
    assert_eq!(stats[0].id, express.unwrap());
    assert_eq!(stats[0].state, SubflowState::Express);
    let back = p.join(&[hop(8.0, 25)]);
    p.run(at(100_000), |_| false);
    assert!(!p.client.is_lost() && !p.server().is_lost());
    p.kill(back);
    p.run(at(150_000), |_| false);
    assert!(!p.client.is_lost() && !p.server().is_lost());
    p.run(at(170_000), |_| false);
    assert!(p.client.is_lost() && p.server().is_lost());
    let lost = |e: &Event| matches!(e, Event::Lost { .. });
    assert!(p.client_events.iter().any(lost));
}
