//! Helpers whose radio is woken only for bursts that are worth it.

use std::time::Duration;

use super::hostile::{NOW, record, server};
use super::pair::{Pair, at, download, hop, joined, paths, pattern};
use crate::session::Read;
use crate::session::timer::Timer;
use crate::wire::Frame;
use crate::*;

const TAIL: Duration = Duration::from_secs(10);

/// Bursts of so many bytes.
fn from(bytes: u64) -> LeastBurst {
    LeastBurst {
        bytes,
        background_bytes: LeastBurst::NEVER,
        tail: TAIL,
    }
}

/// A direct subflow, and one through a helper that is woken for bursts of 1 MB, at rest for long.
fn resting() -> (Pair, SubflowId, SubflowId) {
    let (mut p, direct, helper) = joined(SessionConfig::default());
    p.client
        .set_least_bursts(helper, from(1_000_000), from(1_000_000));
    p.run(at(60_000), |_| false);
    (p, direct, helper)
}

/// Octets on a subflow, up and down.
fn octets(p: &Pair, on: SubflowId) -> [u64; 2] {
    [p.octets_up(on), p.octets_down(on)]
}

#[test]
fn a_short_burst_sends_nothing_over_a_helper_that_rests() {
    let (mut p, _, helper) = resting();
    let before = octets(&p, helper);
    let start = p.now;
    let end = download(&mut p, 900_000, 60_000);
    p.run(end + Duration::from_secs(20), |_| false);
    assert_eq!(octets(&p, helper), before, "not even feedback");
    let alone = end.since(start).as_secs_f64();
    assert!((0.9..1.1).contains(&alone), "{alone}");
}

#[test]
fn a_burst_whose_size_is_known_uses_the_helper_at_once() {
    let (mut p, _, helper) = resting();
    let before = octets(&p, helper)[1];
    download(&mut p, 4 << 20, 60_000);
    let share = octets(&p, helper)[1] - before;
    // 5 of 13 Mbit/s.
    assert!((1_400_000..2_000_000).contains(&share), "{share}");
}

#[test]
fn a_helper_that_was_in_use_just_now_is_used_again() {
    let (mut p, _, helper) = resting();
    download(&mut p, 4 << 20, 60_000);
    let mut shares = Vec::new();
    for pause in [1, 30] {
        p.run(p.now + Duration::from_secs(pause), |_| false);
        let before = octets(&p, helper)[1];
        download(&mut p, 500_000, 60_000);
        shares.push(octets(&p, helper)[1] - before);
    }
    assert!(shares[0] > 100_000 && shares[1] == 0, "{shares:?}");
}

/// A burst of which only a little is known at any time.
#[test]
fn a_burst_that_turns_out_long_wakes_the_helper_after_its_size() {
    let (mut p, direct, helper) = resting();
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.run(at(61_000), |p| p.opened().contains(&id));
    let before = [direct, helper].map(|on| octets(&p, on)[1]);
    let mut left = 40;
    let mut woken_after = None;
    p.run(at(90_000), |p| {
        if left > 0 && p.server().unscheduled_bytes() < 50_000 {
            left -= 1;
            p.server().write(id, pattern(50_000));
        }
        let carried = [direct, helper].map(|on| octets(p, on)[1]);
        if woken_after.is_none() && carried[1] > before[1] {
            woken_after = Some(carried[0] - before[0]);
        }
        p.client_got
            .get(&id)
            .is_some_and(|got| got.0.len() == 2_000_000)
    });
    let woken_after = woken_after.expect("woken");
    assert!((880_000..1_020_000).contains(&woken_after), "{woken_after}");
}

/// Downloads bytes that come to the proxy little by little, of which the client has told the end.
/// Returns the bytes that were sent before the helper was woken, if it was.
fn told(end: u64, length: u64) -> Option<u64> {
    let (mut p, direct, helper) = resting();
    let id = p.open();
    p.client.write(id, "GET /".into());
    p.client.mark_peer_chunk_end(id, end);
    p.run(at(61_000), |p| p.opened().contains(&id));
    let before = [direct, helper].map(|on| octets(&p, on)[1]);
    let mut written = 0;
    let mut woken_after = None;
    p.run(at(90_000), |p| {
        if written < length && p.server().unscheduled_bytes() < 20_000 {
            written += 20_000;
            p.server().write(id, pattern(20_000));
        }
        let carried = [direct, helper].map(|on| octets(p, on)[1]);
        if woken_after.is_none() && carried[1] > before[1] {
            woken_after = Some(carried[0] - before[0]);
        }
        let got = p.client_got.get(&id).map_or(0, |got| got.0.len() as u64);
        got >= length
    });
    assert_eq!(p.client_got[&id].0.len() as u64, length);
    woken_after
}

#[test]
fn a_burst_whose_end_was_told_wakes_the_helper_at_once_or_not_at_all() {
    assert_eq!(told(200_000, 200_000), None);
    // Of 40 MB, 2 are enough to see it. Untold, it would be woken after 1 MB.
    let woken_after = told(40_000_000, 2_000_000).expect("woken");
    assert!(woken_after < 50_000, "{woken_after}");
    // An end that no size reaches.
    let woken_after = told(u64::MAX >> 2, 100_000).expect("woken");
    assert!(woken_after < 50_000, "{woken_after}");
}

#[test]
fn an_upload_obeys_the_size_of_the_primary() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    p.client
        .set_least_bursts(helper, from(LeastBurst::NEVER), from(0));
    p.run(at(60_000), |_| false);
    let before = octets(&p, helper);
    let id = p.open();
    p.client.write(id, pattern(2_000_000));
    p.client.finish(id);
    p.run(at(70_000), |p| {
        p.server_got
            .get(&id)
            .is_some_and(|got| got.0.len() == 2_000_000)
    });
    assert_eq!(p.server_got[&id].1, Some(Read::Fin));
    assert_eq!(octets(&p, helper)[0], before[0]);
    // Its peer has no reason to spare it.
    assert!(p.server().subflows.iter().all(|s| !s.radio.rests));
}

#[test]
fn nothing_waits_for_joules_where_the_other_path_is_silent_or_gone() {
    for gone in [false, true] {
        let (mut p, direct, helper) = resting();
        let before = octets(&p, helper);
        let id = p.open();
        p.client.write(id, "GET /".into());
        p.client.finish(id);
        p.run(at(61_000), |p| p.opened().contains(&id));
        p.server().write(id, pattern(800_000));
        p.server().finish(id);
        let third = |p: &mut Pair| p.client_got.get(&id).is_some_and(|g| g.0.len() > 270_000);
        p.run(at(62_000), third);
        assert_eq!(octets(&p, helper), before);
        match gone {
            true => p.kill(direct),
            false => {
                let link = p.links.iter_mut().find(|l| l.id == direct);
                link.expect("a link").blackhole = true;
            }
        }
        let cut = p.now;
        p.run(at(80_000), |p| p.client_got[&id].1 == Some(Read::Fin));
        assert_eq!(p.client_got[&id].1, Some(Read::Fin), "gone: {gone}");
        // 530 kB at 5 Mbit/s take 0.85 s, and silence is noticed first: 1.40 s.
        let took = p.now.since(cut).as_secs_f64();
        assert!(took < 1.5, "gone: {gone}: {took}");
    }
}

#[test]
fn background_has_a_size_of_its_own() {
    let (mut p, _, helper) = resting();
    let before = octets(&p, helper)[1];
    let id = p.open();
    p.client.set_class(id, StreamClass::Background);
    p.client.write(id, "GET /".into());
    p.client.finish(id);
    p.run(at(61_000), |p| p.opened().contains(&id));
    p.server().write(id, pattern(2_000_000));
    p.server().finish(id);
    p.run(at(80_000), |p| {
        p.client_got
            .get(&id)
            .is_some_and(|got| got.1 == Some(Read::Fin))
    });
    assert_eq!(p.client_got[&id].1, Some(Read::Fin));
    assert_eq!(octets(&p, helper)[1], before);
}

#[test]
fn what_is_said_before_the_peer_knows_the_subflow_reaches_it_also_if_its_path_is_lost() {
    let mut p = Pair::new(SessionConfig::default());
    let direct = p.join(&[hop(8.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    let other = p.join(&[hop(8.0, 40)]);
    p.client.set_least_bursts(helper, from(5), from(6));
    p.run(at(1_000), |_| false);
    let at_server = |p: &mut Pair| {
        let s = p.server().subflows.by_id(helper).expect("joined");
        s.radio.least_burst
    };
    assert_eq!(at_server(&mut p), Some(from(6)));
    p.client.set_least_bursts(helper, from(5), from(7));
    p.run(at(1_001), |_| false);
    let carrier = match p
        .client
        .subflows
        .by_id(direct)
        .is_some_and(|s| !s.sent.is_empty())
    {
        true => direct,
        false => other,
    };
    p.kill(carrier);
    p.run(at(5_000), |_| false);
    assert_eq!(at_server(&mut p), Some(from(7)));
}

#[test]
fn sizes_are_taken_in_their_order_and_from_a_primary_only() {
    let (mut s, on) = server();
    let admit = |subflow, change, bytes| {
        record(&[Frame::Admit {
            subflow,
            change,
            least: from(bytes),
        }])
    };
    s.handle_record(NOW, on, admit(on, 2, 9), 1_000)
        .expect("taken");
    s.handle_record(NOW, on, admit(on, 1, 8), 1_100)
        .expect("taken");
    let size = |s: &crate::session::Session| s.subflows.by_id(on).expect("up").radio.least_burst;
    assert_eq!(size(&s), Some(from(9)));
    // Of a subflow that is gone.
    s.handle_record(NOW, on, admit(SubflowId(77), 3, 7), 1_200)
        .expect("taken");
    let (mut p, direct, _) = joined(SessionConfig::default());
    let refused = p
        .client
        .handle_record(p.now, direct, admit(direct, 1, 1), 1 << 20);
    assert_eq!(
        refused.expect_err("refused").code,
        CloseCode::UnexpectedFrame
    );
}

/// Runs until the server has the whole stream, and returns octets that went up on a subflow.
fn upload(p: &mut Pair, bytes: usize, on: SubflowId) -> u64 {
    let before = octets(p, on)[0];
    let id = p.open();
    p.client.write(id, pattern(bytes));
    p.client.finish(id);
    let arrived = |p: &mut Pair| p.server_got.get(&id).is_some_and(|got| got.1.is_some());
    p.run(p.now + Duration::from_secs(30), arrived);
    assert_eq!(p.server_got[&id].0.len(), bytes);
    octets(p, on)[0] - before
}

/// Streams whose path is gone wait, and their bytes are no part of a burst before it is back; then
/// they begin one.
#[test]
fn parked_bytes_belong_to_no_burst() {
    let mut p = Pair::new(SessionConfig::default());
    p.join_on(0, Role::Regular, &[hop(8.0, 25)]);
    let helper = p.join_on(1, Role::Regular, &[hop(5.0, 2), hop(10.0, 25)]);
    let lost = p.join_on(5, Role::Regular, &[hop(8.0, 25)]);
    p.client
        .set_least_bursts(helper, from(1_000_000), from(1_000_000));
    p.run(at(1_000), |_| false);
    p.announce_paths();
    let to = Destination::Addr("192.0.2.1:80".parse().expect("address"));
    let treatment = Treatment {
        paths: paths(&[5]),
        ..StreamClass::Bulk.into()
    };
    let parked = p.client.open(p.now, to, treatment).expect("stream");
    p.run(at(2_000), |p| p.opened().contains(&parked));
    p.kill(lost);
    p.client.write(parked, pattern(500_000));
    p.run(at(60_000), |_| false);
    assert_eq!(upload(&mut p, 700_000, helper), 0);
    p.run(at(90_000), |_| false);
    p.join_on(5, Role::Regular, &[hop(2.0, 25)]);
    p.run(at(95_000), |p| {
        p.server_got
            .get(&parked)
            .is_some_and(|got| !got.0.is_empty())
    });
    assert_eq!(upload(&mut p, 300_000, helper), 0);
    p.run(at(120_000), |_| false);
    assert_eq!(p.server_got[&parked].0.len(), 500_000);
}

#[test]
fn bytes_that_are_sent_again_count_once() {
    let mut p = Pair::new(SessionConfig::default());
    p.join(&[hop(8.0, 25)]);
    let lost = p.join(&[hop(8.0, 25)]);
    let helper = p.join(&[hop(5.0, 2), hop(10.0, 25)]);
    p.client
        .set_least_bursts(helper, from(1_000_000), from(1_000_000));
    p.run(at(60_000), |_| false);
    let before = octets(&p, helper)[0];
    let id = p.open();
    p.client.write(id, pattern(980_000));
    p.client.finish(id);
    p.run(at(60_200), |_| false);
    let owed = p.client.subflows.by_id(lost).expect("joined");
    assert!(owed.sent.data_bytes > 40_000, "{}", owed.sent.data_bytes);
    p.kill(lost);
    p.run(at(70_000), |_| false);
    assert_eq!(p.server_got[&id].0.len(), 980_000);
    // A frame about the loss.
    let carried = octets(&p, helper)[0] - before;
    assert!(carried < 100, "{carried}");
}

#[test]
fn background_behind_a_transfer_does_not_count_before_its_end() {
    let (mut p, ..) = resting();
    let [bulk, background] = [StreamClass::Bulk, StreamClass::Background].map(|class| {
        let id = p.open();
        p.client.set_class(id, class);
        id
    });
    p.run(at(61_000), |_| false);
    p.client.write(bulk, pattern(100_000));
    p.client.write(background, pattern(20_000));
    let mut seen = Vec::new();
    p.run(at(70_000), |p| {
        if p.client.unscheduled_bytes() == 0 {
            seen.push(p.client.only_background());
        }
        [(bulk, 100_000), (background, 20_000)]
            .iter()
            .all(|(id, len)| p.server_got.get(id).is_some_and(|got| got.0.len() == *len))
    });
    // One ACK is for the last bytes of both.
    seen.dedup();
    assert_eq!(seen, [false]);
}

#[test]
fn a_full_socket_is_not_polled_beside_a_helper_that_rests() {
    let (mut p, direct, helper) = resting();
    let mut full = 0;
    let id = p.open();
    p.client.write(id, pattern(900_000));
    p.client.finish(id);
    p.run(at(70_000), |p| {
        let room = p.client.subflows.by_id(direct).expect("joined").tx.room;
        if room == 0 && p.client.unscheduled_bytes() > 0 {
            full += 1;
            assert_eq!(p.client.timers.get(Timer::Schedule), None);
        }
        p.server_got.get(&id).is_some_and(|got| got.1.is_some())
    });
    assert!(full > 0);
    assert!(p.client.subflows.by_id(helper).expect("joined").tx.room > 0);
}

/// A pipe may bring for long what the helper's own link has brought before.
#[test]
fn a_report_of_the_helper_says_more_of_its_radio_than_the_pipe() {
    let shares = [None, Some(Duration::from_secs(12))].map(|quiet| {
        let (mut p, _, helper) = resting();
        download(&mut p, 4 << 20, 60_000);
        if let Some(quiet) = quiet {
            p.client.handle_helper_downlink(p.now, helper, quiet);
        }
        // The request was copied to the helper's subflow 2.5 s ago: 250 kB would be worth it.
        upload(&mut p, 200_000, helper)
    });
    assert!(shares[0] > 30_000 && shares[1] == 0, "{shares:?}");
}

#[test]
fn sizes_and_tails_are_bounded_at_both_ends() {
    let (mut p, _, helper) = joined(SessionConfig::default());
    let endless = LeastBurst {
        bytes: u64::MAX,
        background_bytes: u64::MAX,
        tail: Duration::MAX,
    };
    p.client.set_least_bursts(helper, endless, endless);
    p.run(at(2_000), |_| false);
    let bounded = LeastBurst {
        tail: LeastBurst::MAX_TAIL,
        ..from(LeastBurst::NEVER)
    };
    let at = |session: &crate::session::Session| {
        let s = session.subflows.by_id(helper).expect("joined");
        s.radio.least_burst
    };
    assert_eq!(at(&p.client), Some(bounded));
    assert_eq!(at(p.server()), Some(bounded));
}

#[test]
fn each_helper_has_its_size_and_one_that_rejoins_gets_it_anew() {
    let (mut p, _, helper) = resting();
    let hops = [hop(5.0, 2), hop(10.0, 25)];
    let other = p.join(&hops);
    p.client.set_least_bursts(other, from(100_000), from(9));
    p.run(at(90_000), |_| false);
    let before = octets(&p, helper)[0];
    assert!(upload(&mut p, 500_000, other) > 50_000);
    assert_eq!(octets(&p, helper)[0], before);
    p.kill(helper);
    let again = p.join(&hops);
    p.client.set_least_bursts(again, from(7), from(8));
    p.run(p.now + Duration::from_secs(5), |_| false);
    let sizes = [other, again].map(|on| {
        let s = p.server().subflows.by_id(on).expect("joined");
        s.radio.least_burst
    });
    assert_eq!(sizes, [Some(from(9)), Some(from(8))]);
}
